"""``import calibkit as ck``: the command line for frames."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import re
import shutil
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.main import get_command

import calibkit as ck
from calibkit.options.alpha_cal import AlphaOptions
from calibkit.options.apply import ApplyOptions
from calibkit.options.bin import BinOptions
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.hetcal import HetcalOptions
from calibkit.options.option import Options
from calibkit.options.plot import KINDS
from calibkit.options.vad import VadOptions
from calibkit.options.validate import ValidateOptions
from calibkit.options.watch import DriftOptions, WatchOptions
from calibkit_cli.main import build_app
from tests.conftest import LOADED, ROOT, Invoke, printed

NAMES = [
    "AlphaModel", "BoundaryModel", "BundleModel", "CalibkitError", "CalibkitWarning",
    "CalibratorModel", "DataError",
    "HetcalModel", "InfeasibleError", "Metrics", "Model", "ModelError", "ResourceError", "UsageError",
    "VadModel", "__version__", "bin", "bundle", "compare", "diff", "evaluate", "export", "fit_alpha",
    "fit_boundary", "fit_calibrator", "fit_hetcal", "fit_vad", "gate", "load", "plot",
    "report", "simulate_partitions",
    "simulate_posterior", "simulate_raters", "simulate_selection", "validate", "watch",
]  # fmt: skip

#: The class of the options of each function, and its command.
CLASSES: dict[str, tuple[type[Options], str]] = {
    "bin": (BinOptions, "bin"),
    "compare": (BoundaryOptions, "boundary"),
    "evaluate": (EvaluateOptions, "evaluate"),
    "fit_alpha": (AlphaOptions, "alpha-cal"),
    "fit_boundary": (BoundaryOptions, "boundary"),
    "fit_calibrator": (CalibrateOptions, "calibrate"),
    "fit_hetcal": (HetcalOptions, "hetcal"),
    "fit_vad": (VadOptions, "vad"),
    "report": (EvaluateOptions, "evaluate"),
    "validate": (ValidateOptions, "validate"),
    "watch": (WatchOptions, "watch"),
}


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    return ck.simulate_posterior(3_000, seed=3).with_columns(
        country=pl.Series(["at", "ch", "de"] * 1_000)
    )


def test_the_public_names_are_these() -> None:
    assert sorted(ck.__all__) == dir(ck) == NAMES
    for name in NAMES:
        assert getattr(ck, name) is not None
    assert dir(ck.plot) == sorted(kind.replace("-", "_") for kind in KINDS)
    assert (Path(ck.__file__).parent / "py.typed").exists()
    with pytest.raises(AttributeError, match="no attribute 'fit'"):
        ck.fit  # noqa: B018


def test_importing_loads_nothing_heavy() -> None:
    (loaded,) = printed(f"import calibkit; {LOADED}")
    heavy = {"numpy", "polars", "numba", "pyarrow", "msgspec", "sklearn"}
    assert not heavy & set(loaded.split())


def defaults(options: type[Options]) -> dict[str, Any]:
    fields = dataclasses.fields(options)
    missing, empty = dataclasses.MISSING, inspect.Parameter.empty
    return {one.name: empty if one.default is missing else one.default for one in fields}


@pytest.mark.parametrize(
    ("method", "options"), [(ck.Model.drift, DriftOptions), (ck.BoundaryModel.apply, ApplyOptions)]
)
def test_methods_take_the_options_of_their_classes(method: Any, options: type[Options]) -> None:
    found = inspect.signature(method).parameters
    fields = {name: one for name, one in defaults(options).items() if name != "model"}
    assert list(found)[:2] == ["self", "frame"]
    assert {name: one.default for name, one in list(found.items())[2:]} == fields


@pytest.mark.parametrize("name", CLASSES)
def test_signatures_are_those_of_their_classes(name: str) -> None:
    found = inspect.signature(getattr(ck, name)).parameters
    options, command = CLASSES[name]
    fields = defaults(options)
    assert next(iter(found)) == "frame"
    assert {one: found[one].default for one in found if one != "frame"} == fields
    typed: Any = get_command(build_app([command]))
    assert fields.keys() <= {param.name for param in typed.commands[command].params}
    documented = getattr(ck, name).__doc__
    assert all(f"\n{field}\n    " in documented for field in fields)


MODULES = [
    "models.model",
    *(f"api.{path.stem}" for path in (ROOT / "calibkit" / "api").glob("[a-z]*.py")),
]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_run(module: str) -> None:
    loaded = import_module(f"calibkit.{module}")
    assert not doctest.testmod(loaded).failed
    functions = [
        one
        for _, one in inspect.getmembers(loaded, inspect.isfunction)
        if one.__module__ == loaded.__name__ and one.__name__ in NAMES
    ]
    assert module == "models.model" or all(">>>" in str(one.__doc__) for one in functions)


@pytest.mark.parametrize(
    ("page", "least"),
    [pytest.param("docs/python.md", 15, marks=pytest.mark.more), ("README.md", 3)],
)
def test_the_examples_of_pages_are_true(
    page: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    shutil.copytree(ROOT / "sample_data", tmp_path / "sample_data")
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(code, {}, page, page, 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test)
    assert runner.tries >= least
    assert not runner.failures


def test_the_page_on_python_names_every_function() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    named = set(re.findall(r"ck\.(\w+)", page)) | {"simulate_selection", "simulate_raters"}
    assert {name for name in NAMES if name.islower() and name != "__version__"} <= named | {
        "simulate_partitions"
    }


#: Functions, their options (IN: the rows themselves) and the same on the command line.
FITS: list[tuple[str, dict[str, Any], str]] = [
    ("fit_boundary", {"precision": 0.7, "uncertainty_bins": 3, "tags": {"team": "a"}, "test": "IN"},
     "--precision 0.7 --uncertainty-bins 3 --tag team=a --test IN"),
    ("fit_boundary",
     {"recall": 0.3, "method": "exact", "uncertainty_bins": "auto", "folds": 3, "seed": 4},
     "--recall 0.3 --method exact --uncertainty-bins auto --folds 3 --seed 4"),
    ("fit_boundary", {"capacity": 0.1, "method": "st", "by": "country"},
     "--capacity 0.1 --method st --by country"),
    ("fit_boundary", {"precision": 0.6, "confidence": 0.9, "method": "st"},
     "--precision 0.6 --confidence 0.9 --method st"),
    ("fit_calibrator", {"method": "venn-abers", "by": "country", "clip": 0.001},
     "--method venn-abers --by country --clip 0.001"),
    ("fit_vad", {"members": ["score", "true_*"], "by": "country"},
     "--members score,true_* --by country"),
    ("fit_hetcal", {"features": ["country", "evid*"], "max_depth": 2, "min_leaf": 200},
     "--features country,evid* --max-depth 2 --min-leaf 200"),
    ("evaluate", {"scores": ["score", "true_positivity"], "top": 0.1, "by": "country",
                  "intervals": False},
     "--score score,true_positivity --top 0.1 --by country --no-intervals"),
    ("fit_alpha", {"features": "sorted-probs", "map": "temperature"},
     "--features sorted-probs --map temperature"),
    ("fit_calibrator", {"probs": "prob_*", "counts": "count_*", "method": "vector",
                        "regularization": (0.01, 0.0)},
     "--probs prob_* --counts count_* --method vector --regularization 0.01,0"),
    ("evaluate", {"counts": "count_*"}, "--counts count_*"),
]  # fmt: skip


@pytest.mark.few(7)
@pytest.mark.parametrize(("name", "options", "typed"), FITS, ids=[typed for *_, typed in FITS])
def test_the_same_bytes_as_the_command_line(
    name: str,
    options: dict[str, Any],
    typed: str,
    rows: pl.DataFrame,
    tmp_path: Path,
    invoke: Invoke,
) -> None:
    file, output = tmp_path / "rows.parquet", tmp_path / "model.json"
    votes = ck.simulate_raters(3_000, raters=3, seed=2).select("^(prob|count)_.*$")
    whole = pl.concat([rows, votes], how="horizontal")
    whole.write_parquet(file)
    line = (CLASSES[name][1], file, typed.replace("IN", str(file)), "-q")
    printed = invoke(*line, "--json").result()
    invoke(*line, "-o", output).succeeded()
    with warnings.catch_warnings(action="ignore", category=ck.CalibkitWarning):
        for frame in (whole, str(file)):
            given = {name: frame if value == "IN" else value for name, value in options.items()}
            found = getattr(ck, name)(frame, **given)
            assert found.to_json() == output.read_bytes()
            assert found.as_dict() == printed


def test_a_comparison_is_that_of_the_command_line(
    rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    file, test = tmp_path / "rows.parquet", tmp_path / "test.parquet"
    rows.write_parquet(file)
    rows.head(1_000).write_parquet(test)
    for options, *typed in (
        ({"folds": 0}, "--folds 0"),
        ({"folds": 2, "test": test, "score_bins": 20}, "--folds 2 --score-bins 20 --test", test),
    ):
        table = ck.compare(rows, recall=0.4, uncertainty_bins=2, **options)
        line = ("boundary", file, "--recall 0.4 --uncertainty-bins 2 --compare --json -q")
        assert table.to_dicts() == invoke(*line, *typed).result()["compare"]
        assert {"st", "exact", "auto"} <= set(table["method"])
    with pytest.raises(ck.UsageError, match="leave by out"):
        ck.compare(rows, recall=0.4, by="country")


def test_edges_of_levels_are_given_as_numbers_a_model_or_a_file(
    rows: pl.DataFrame, tmp_path: Path
) -> None:
    model = ck.fit_boundary(rows.head(500), recall=0.5, method="exact", uncertainty_bins=3, folds=0)
    model.save(tmp_path / "model.json")
    for edges in (model.uncertainty_edges, model, str(tmp_path / "model.json")):
        again = ck.fit_boundary(rows, recall=0.5, method="exact", uncertainty_edges=edges, folds=0)
        assert again.uncertainty_edges == model.uncertainty_edges
        assert ck.bin(rows, uncertainty_edges=edges, score_bins=2).height == 6
        with pytest.raises(ck.UsageError, match="makes 3 levels; leave uncertainty_bins out"):
            ck.bin(rows, uncertainty_edges=edges, uncertainty_bins=2)


def test_a_grid_is_binned_and_fitted(rows: pl.DataFrame) -> None:
    grid, goal = ck.bin(rows, uncertainty_bins=3, score_bins=50), {"precision": "0.7", "folds": 0}
    assert ck.evaluate(rows, grid=grid, metrics=["ece_at:1"], intervals=False).rows == rows.height
    model = ck.fit_boundary(grid, method="exact", **goal)
    direct = ck.fit_boundary(rows, method="exact", uncertainty_bins=3, score_bins=50, **goal)
    assert model.score_thresholds == direct.score_thresholds


def test_a_model_is_saved_loaded_applied_and_judged(rows: pl.DataFrame, tmp_path: Path) -> None:
    model = ck.fit_boundary(rows, precision=0.7, method="st", folds=0)
    model.save(tmp_path / "model.json")
    loaded = ck.load(tmp_path / "model.json")
    assert isinstance(loaded, ck.BoundaryModel) and loaded.to_json() == model.to_json()
    found = ck.evaluate(rows, boundary=loaded, metrics=["precision"], intervals=False)
    assert found.metrics["boundary"]["all"]["precision"] == model.fit.in_sample.precision
    chosen = loaded.apply(rows.rename({"score": "p"}), score="p", selected=True, column="take")
    assert chosen["take"].to_list() == [1] * int(model.fit.in_sample.selected)
    with pytest.warns(ck.CalibkitWarning, match="1 of 2 rows lack a value"):
        some = loaded.apply({"score": [0.5, None]}, on_missing="null", max_missing=0.5)
    assert np.isnan(some["decision"]).tolist() == [False, True]


def test_results_are_judged_and_compared(rows: pl.DataFrame, tmp_path: Path) -> None:
    before, after = (
        ck.evaluate(some, metrics=["auc"], intervals=False)
        for some in (rows.head(1_000), rows.tail(1_000))
    )
    (tmp_path / "before.json").write_bytes(before.to_json())
    compared = ck.diff(tmp_path / "before.json", after)
    (outcome,) = ck.gate(compared, ["auc.delta<5"])
    assert outcome.failed
    with pytest.raises(ck.UsageError, match="needs fail_if"):
        ck.gate(after, [])


def test_a_float_means_its_shortest_decimal(rows: pl.DataFrame) -> None:
    as_float, as_text = (
        ck.fit_boundary(rows.head(500), precision=bound, method="st", folds=0)
        for bound in (0.55, "0.55")
    )
    assert as_float.to_json() == as_text.to_json()
    assert as_text.objective.subject_to == {"precision": 0.55}


def test_warnings_are_warnings() -> None:
    few = pl.DataFrame({"score": [0.2, 0.4, 0.9], "label": [0, 1, 1]})
    with pytest.warns(ck.CalibkitWarning, match="too few") as caught:
        ck.fit_boundary(few, precision=0.9, method="st")
    assert caught[0].filename == __file__
    text = "ck.fit_boundary(few, precision=0.9, method='st')"
    jobs = {"__name__": "calibkit_jobs.nightly", "ck": ck, "few": few}  # which is not calibkit
    with pytest.warns(ck.CalibkitWarning, match="too few") as caught:
        exec(compile(text, "nightly.py", "exec"), jobs)
    assert caught[0].filename == "nightly.py"


USAGE, DATA = ck.UsageError, ck.DataError
#: Function, options, and the error.
BAD: list[tuple[str, dict[str, Any], type[ck.CalibkitError], str]] = [
    ("fit_boundary", {}, USAGE, "exactly one objective"),
    ("fit_boundary", {"precision": 0.9, "method": "exakt"}, USAGE, "no method 'exakt'"),
    ("fit_boundary", {"precision": 0.9, "strategy": "x"}, USAGE, "^strategy='x' is not known"),
    ("fit_boundary", {"precision": 0.9, "strategy": 3}, USAGE,
     "^strategy=3 is not known; use one of equal-mass"),
    ("fit_boundary", {"precision": 0.9, "uncertainty_bins": 0}, USAGE, "^uncertainty_bins is 0"),
    ("fit_boundary", {"precision": 0.9, "method": "exact", "uncertainty_bins": "auto", "folds": 0},
     USAGE, "give it folds"),
    ("fit_boundary", {"precision": 0.9, "groups": 3}, USAGE, "^groups is 3; expected the name"),
    ("fit_boundary", {"precision": 1.5}, USAGE, "expected a number from 0 to 1"),
    ("fit_boundary", {"precision": 0.9, "folds": 2.5}, USAGE, "^folds is 2.5; expected a whole number"),
    ("fit_boundary", {"precision": 1, "method": "st", "score": "evidence", "scale": "raw"},
     ck.InfeasibleError, "no boundary"),
    ("fit_calibrator", {"score": "scores"}, USAGE, "did you mean 'score'"),
    ("fit_calibrator", {"provenance": "x"}, USAGE, "^provenance='x'"),
    ("fit_calibrator", {"scale": "x"}, USAGE, "^scale='x' is not known"),
    ("fit_calibrator", {"probs": "prob_*", "bins": 3}, USAGE, "^bins is for scores"),
    ("fit_calibrator", {"probs": "prob_*", "regularization": -1.0}, USAGE, "^regularization is"),
    ("fit_calibrator", {"interpolate": "yes"}, USAGE,
     "^interpolate is 'yes'; expected True or False"),
    ("fit_calibrator", {"tags": {"a": 1}}, USAGE, "not a pair of strings"),
    ("fit_calibrator", {"threads": 0}, USAGE, "^threads is 0"),
    ("fit_alpha", {"probs": ["a", "b"]}, USAGE, "one pattern"),
    ("evaluate", {"scores": "evidence"}, DATA, "frame: column 'evidence'"),
    ("bin", {"score_bins": 0}, USAGE, "^score_bins is 0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "kind", "message"), BAD)
def test_errors_name_the_keyword(
    name: str, options: dict[str, Any], kind: type, message: str, rows: pl.DataFrame
) -> None:
    with pytest.raises(kind, match=message):
        getattr(ck, name)(rows.head(200), **options)


CALLS: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda rows: ck.fit_vad(object()), USAGE, "polars cannot read"),  # type: ignore[arg-type]
    (lambda rows: ck.bin(rows, rows), USAGE, "takes a frame, and all else by keyword"),
    (lambda rows: ck.bin(rows.head(0)), DATA, "0 rows"),
    (lambda rows: ck.load("nowhere.json"), USAGE, "no such file"),
    (lambda rows: ck.fit_calibrator(rows, method="platt").apply(rows, slected=True), USAGE,
     "Model.apply: no option 'slected' .did you mean 'selected'"),
    (lambda rows: ck.fit_calibrator(rows, method="platt").apply(rows, on_missing="x"), USAGE,
     "^on_missing='x'"),
    (lambda rows: ck.simulate_posterior(), TypeError, "simulate_posterior: missing .* 'rows'"),
    (lambda rows: ck.export("boundary.json"), TypeError, "export: missing .* 'to'"),
    (lambda rows: ck.watch(rows, model="boundary.json"), TypeError, "watch: missing .* 'state'"),
    (lambda rows: ck.gate(rows, "auc<0.5"), TypeError, "os.PathLike object, not DataFrame"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), CALLS)
def test_what_is_wrong_is_said_of_the_function(
    call: Callable[[Any], object], kind: type[Exception], message: str, rows: pl.DataFrame
) -> None:
    with pytest.raises(kind, match=message):
        call(rows)


def test_findings_and_summaries_speak_python(rows: pl.DataFrame) -> None:
    odd = rows.with_columns(label=pl.col("label") * 2, score=pl.col("score") - 3)
    report = ck.validate(odd)
    assert "positive=VALUE" in report.findings[0].message + report.findings[1].message
    assert "scale='logit'" in report.summary()
    drift = ck.fit_boundary(rows, recall=0.5, method="st").drift(rows, estimate=True)
    for result in (report, drift):
        assert not re.search("--[a-z]", result.summary() + result._repr_html_())


def test_arrays_of_class_probabilities_give_the_first_column() -> None:
    draw = np.random.default_rng(2)
    share = draw.dirichlet([1.0, 1.0, 2.0], 80)
    votes = np.array([draw.multinomial(3, row) for row in share])
    names = ("c2", "c10", "c1")
    table = {f"prob_{name}": share[:, place] for place, name in enumerate(names)}
    table |= {f"count_{name}": votes[:, place] for place, name in enumerate(names)}
    frame = pl.DataFrame(table)
    model = ck.fit_alpha(frame)
    assert model.classes == ["c1", "c2", "c10"]  # by number
    assert f"alpha0 = {np.exp(model.log_alpha0):.4g}, 3 classes, 80 rows" in repr(model)
    whole = model.apply(frame)
    added = [name for name in whole.columns if name not in frame.columns]
    found = model.apply(np.ascontiguousarray(share[:, [2, 0, 1]]))
    assert found.tolist() == pytest.approx(whole[added[0]].to_list())


def test_given_edges_cut_uncertainties_where_they_say(rows: pl.DataFrame) -> None:
    spread = rows["uncertainty"].to_numpy()
    edges = (np.quantile(spread, [0.1, 0.2]) + 0.01).tolist()  # nowhere near the terciles
    table = ck.bin(rows, uncertainty_edges=edges, score_bins=4)
    counts = table.group_by("uncertainty_bin").agg(pl.col("count").sum()).sort("uncertainty_bin")
    levels = np.searchsorted(edges, spread, side="right")
    assert counts["count"].to_list() == np.bincount(levels, minlength=3).tolist()
