"""``import calibkit as ck``: the command line for frames."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import json
import re
import shutil
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from typer.main import get_command

import calibkit as ck
from calibkit.options.alpha_cal import AlphaOptions
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

#: The class of the options of each function.
CLASSES: dict[str, type[Options]] = {
    "bin": BinOptions,
    "compare": BoundaryOptions,
    "evaluate": EvaluateOptions,
    "fit_alpha": AlphaOptions,
    "fit_boundary": BoundaryOptions,
    "fit_calibrator": CalibrateOptions,
    "fit_hetcal": HetcalOptions,
    "fit_vad": VadOptions,
    "report": EvaluateOptions,
    "validate": ValidateOptions,
    "watch": WatchOptions,
}
COMMAND_OF = {
    "compare": "boundary",
    "fit_alpha": "alpha-cal",
    "fit_boundary": "boundary",
    "fit_calibrator": "calibrate",
    "fit_hetcal": "hetcal",
    "fit_vad": "vad",
    "report": "evaluate",
}


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    return ck.simulate_posterior(3_000, seed=3).with_columns(
        country=pl.Series(["at", "ch", "de"] * 1_000)
    )


def test_the_public_names_are_these() -> None:
    assert sorted(ck.__all__) == NAMES
    for name in NAMES:
        assert getattr(ck, name) is not None
    assert dir(ck) == NAMES
    assert (Path(ck.__file__).parent / "py.typed").exists()
    with pytest.raises(AttributeError, match="no attribute 'fit'"):
        ck.fit  # noqa: B018


def test_pictures_are_all_that_plot_shows() -> None:
    assert dir(ck.plot) == sorted(kind.replace("-", "_") for kind in KINDS)


def test_importing_loads_nothing_heavy() -> None:
    (loaded,) = printed(f"import calibkit; {LOADED}")
    heavy = {"numpy", "polars", "numba", "pyarrow", "msgspec", "sklearn"}
    assert not heavy & set(loaded.split())


@pytest.mark.parametrize("name", CLASSES)
def test_signatures_are_those_of_their_classes(name: str) -> None:
    found = inspect.signature(getattr(ck, name)).parameters
    assert next(iter(found)) == "frame"
    fields = {field.name: field.default for field in dataclasses.fields(CLASSES[name])}
    needed = {one for one, default in fields.items() if default is dataclasses.MISSING}
    fields |= dict.fromkeys(needed, inspect.Parameter.empty)
    assert {one: found[one].default for one in found if one != "frame"} == fields
    name_typed = COMMAND_OF.get(name, name)
    typed: Any = get_command(build_app([name_typed]))
    assert fields.keys() <= {param.name for param in typed.commands[name_typed].params}
    documented = getattr(ck, name).__doc__
    assert all(f"\n{field}\n    " in documented for field in fields)


def test_drift_takes_the_options_of_its_class() -> None:
    found = inspect.signature(ck.Model.drift).parameters
    fields = {field.name: field.default for field in dataclasses.fields(DriftOptions)}
    assert {name: one.default for name, one in found.items() if name in fields} == {
        name: default for name, default in fields.items() if name != "model"
    }
    assert found.keys() - fields.keys() == {"self", "frame"}


MODULES = [
    "models.model",
    *(f"api.{path.stem}" for path in (ROOT / "calibkit" / "api").glob("[a-z]*.py")),
]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_run(module: str) -> None:
    found = doctest.testmod(import_module(f"calibkit.{module}"))
    assert not found.failed
    functions = [
        one
        for one in vars(import_module(f"calibkit.{module}")).values()
        if inspect.isfunction(one)
        and one.__module__ == f"calibkit.{module}"
        and one.__name__ in NAMES
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


def frames(rows: pl.DataFrame) -> dict[str, Any]:
    import duckdb

    some_rows = rows.to_arrow()
    return {
        "polars": rows,
        "lazy": rows.lazy(),
        "pyarrow": some_rows,
        "pandas": rows.to_pandas(),
        "duckdb": duckdb.sql("SELECT * FROM some_rows"),
    }


@pytest.mark.parametrize("kind", ["polars", "lazy", "pyarrow", "pandas", "duckdb"])
def test_frames_of_every_kind_give_one_model(kind: str, rows: pl.DataFrame) -> None:
    few = rows.select("score", "label", "uncertainty").head(500)
    frame = frames(few)[kind]
    model = ck.fit_boundary(frame, precision=0.7, method="exact", folds=0)
    assert model.to_json() == ck.fit_boundary(few, precision=0.7, method="exact", folds=0).to_json()
    applied = model.apply(frame)
    assert type(applied) is (pa.Table if kind == "duckdb" else type(frame))
    whole = applied.collect() if kind == "lazy" else pl.DataFrame(applied)
    assert whole.equals(model.apply(few))


#: A fit in Python, and the same on the command line.
FITS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "boundary": (
        lambda frame: ck.fit_boundary(
            frame, precision=0.7, uncertainty_bins=3, tags={"team": "a"}, test=frame
        ),
        ["boundary", "IN", "--precision", "0.7", "--uncertainty-bins", "3", "--tag", "team=a",
         "--test", "IN"],
    ),
    "levels": (
        lambda frame: ck.fit_boundary(
            frame, recall=0.3, method="exact", uncertainty_bins="auto", folds=3, seed=4
        ),
        ["boundary", "IN", "--recall", "0.3", "--method", "exact", "--uncertainty-bins", "auto",
         "--folds", "3", "--seed", "4"],
    ),
    "segments": (
        lambda frame: ck.fit_boundary(frame, capacity=0.1, method="st", by="country"),
        ["boundary", "IN", "--capacity", "0.1", "--method", "st", "--by", "country"],
    ),
    "certified": (
        lambda frame: ck.fit_boundary(frame, precision=0.6, confidence=0.9, method="st"),
        ["boundary", "IN", "--precision", "0.6", "--confidence", "0.9", "--method", "st"],
    ),
    "calibrator": (
        lambda frame: ck.fit_calibrator(frame, method="venn-abers", by="country", clip=0.001),
        ["calibrate", "IN", "--method", "venn-abers", "--by", "country", "--clip", "0.001"],
    ),
    "vad": (
        lambda frame: ck.fit_vad(frame, members=["score", "true_*"], by="country"),
        ["vad", "IN", "--members", "score,true_*", "--by", "country"],
    ),
    "hetcal": (
        lambda frame: ck.fit_hetcal(frame, features=["country", "evid*"], max_depth=2, min_leaf=200),
        ["hetcal", "IN", "--features", "country,evid*", "--max-depth", "2", "--min-leaf", "200"],
    ),
    "evaluate": (
        lambda frame: ck.evaluate(
            frame, scores=["score", "true_positivity"], top=0.1, by="country", intervals=False
        ),
        ["evaluate", "IN", "--score", "score,true_positivity", "--top", "0.1", "--by", "country",
         "--no-intervals"],
    ),
}  # fmt: skip


@pytest.mark.few(5)
@pytest.mark.parametrize("name", FITS)
def test_the_same_bytes_as_the_command_line(
    name: str, rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    function, arguments = FITS[name]
    file = tmp_path / "rows.parquet"
    rows.write_parquet(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ck.CalibkitWarning)
        found = function(rows)
    done = invoke(*[str(file) if one == "IN" else one for one in arguments], "--json", "-q")
    assert done.code == 0, done.stderr
    assert found.as_dict() == json.loads(done.stdout)
    output = tmp_path / "model.json"
    invoke(*[str(file) if one == "IN" else one for one in arguments], "-o", output, "-q")
    assert found.to_json() == output.read_bytes()
    assert function(str(file)).to_json() == output.read_bytes()


def test_classes_and_votes_as_the_command_line(tmp_path: Path, invoke: Invoke) -> None:
    votes = ck.simulate_raters(800, raters=3, seed=2)
    file = tmp_path / "votes.parquet"
    votes.write_parquet(file)
    pairs = [
        (ck.fit_alpha(votes, features="sorted-probs", map="temperature"),
         ["alpha-cal", file, "--features", "sorted-probs", "--map", "temperature"]),
        (ck.fit_calibrator(votes, probs="prob_*", counts="count_*", method="vector",
                           regularization=(0.01, 0.0)),
         ["calibrate", file, "--probs", "prob_*", "--counts", "count_*", "--method", "vector",
          "--regularization", "0.01,0"]),
        (ck.evaluate(votes, counts="count_*"), ["evaluate", file, "--counts", "count_*"]),
    ]  # fmt: skip
    for model, arguments in pairs:
        assert model.as_dict() == invoke(*arguments, "--json", "-q").result()


def test_a_comparison_is_that_of_the_command_line(
    rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    file = tmp_path / "rows.parquet"
    rows.write_parquet(file)
    for options in ({"folds": 0}, {"folds": 2, "test": rows.head(1_000), "score_bins": 20}):
        table = ck.compare(rows, recall=0.4, uncertainty_bins=2, **options)
        typed = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        if "test" in options:
            rows.head(1_000).write_parquet(tmp_path / "test.parquet")
            typed[1] = f"--test={tmp_path / 'test.parquet'}"
        done = invoke("boundary", file, "--recall=0.4", "--uncertainty-bins=2", *typed,
                      "--compare", "--json", "-q")  # fmt: skip
        assert table.to_dicts() == json.loads(done.stdout)["compare"]
        assert {"st", "exact", "auto"} <= set(table["method"])
    with pytest.raises(ck.UsageError, match="leave by out"):
        ck.compare(rows, recall=0.4, by="country")


@pytest.mark.parametrize("given", ["numbers", "model", "file"])
def test_edges_of_levels_are_given_as_numbers_a_model_or_a_file(
    given: str, rows: pl.DataFrame, tmp_path: Path
) -> None:
    model = ck.fit_boundary(rows.head(500), recall=0.5, method="exact", uncertainty_bins=3, folds=0)
    model.save(tmp_path / "model.json")
    edges: Any = {
        "numbers": model.uncertainty_edges,
        "model": model,
        "file": str(tmp_path / "model.json"),
    }[given]
    again = ck.fit_boundary(rows, recall=0.5, method="exact", uncertainty_edges=edges, folds=0)
    assert again.uncertainty_edges == model.uncertainty_edges
    assert ck.bin(rows, uncertainty_edges=edges, score_bins=2).height == 6
    with pytest.raises(ck.UsageError, match="makes 3 levels; leave uncertainty_bins out"):
        ck.bin(rows, uncertainty_edges=edges, uncertainty_bins=2)


def test_a_grid_is_binned_and_fitted(rows: pl.DataFrame) -> None:
    grid = ck.bin(rows, uncertainty_bins=3, score_bins=50)
    assert ck.evaluate(rows, grid=grid, metrics=["ece_at:1"], intervals=False).rows == rows.height
    model = ck.fit_boundary(grid, precision="0.7", method="exact", folds=0)
    direct = ck.fit_boundary(
        rows, precision=0.7, method="exact", uncertainty_bins=3, score_bins=50, folds=0
    )
    assert model.score_thresholds == direct.score_thresholds


def test_a_model_is_saved_loaded_applied_and_judged(rows: pl.DataFrame, tmp_path: Path) -> None:
    model = ck.fit_boundary(rows, precision=0.7, method="st", folds=0)
    model.save(tmp_path / "model.json")
    loaded = ck.load(tmp_path / "model.json")
    assert loaded.to_json() == model.to_json()
    assert isinstance(loaded, ck.BoundaryModel)
    found = ck.evaluate(rows, boundary=loaded, metrics=["precision"], intervals=False)
    assert found.metrics["boundary"]["all"]["precision"] == model.fit.in_sample.precision
    chosen = loaded.apply(rows.rename({"score": "p"}), score="p", selected=True, column="take")
    assert chosen.height == model.fit.in_sample.selected
    assert set(chosen["take"]) == {1}
    with pytest.warns(ck.CalibkitWarning, match="1 of 2 rows lack a value"):
        some = loaded.apply({"score": [0.5, None]}, on_missing="null", max_missing=0.5)
    assert np.isnan(some["decision"]).tolist() == [False, True]


def test_results_are_judged_and_compared(rows: pl.DataFrame, tmp_path: Path) -> None:
    before = ck.evaluate(rows.head(1_000), metrics=["auc"], intervals=False)
    after = ck.evaluate(rows.tail(1_000), metrics=["auc"], intervals=False)
    (tmp_path / "before.json").write_bytes(before.to_json())
    compared = ck.diff(tmp_path / "before.json", after)
    (outcome,) = ck.gate(compared, ["auc.delta<5"])
    assert outcome.failed
    with pytest.raises(ck.UsageError, match="needs fail_if"):
        ck.gate(after, [])


def test_a_float_means_its_shortest_decimal(rows: pl.DataFrame) -> None:
    few = rows.head(500)
    as_text = ck.fit_boundary(few, precision="0.55", method="st", folds=0)
    assert ck.fit_boundary(few, precision=0.55, method="st", folds=0).to_json() == as_text.to_json()
    assert as_text.objective.subject_to == {"precision": "0.55"} or "0.55" in str(as_text.objective)


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


BAD: dict[str, tuple[type[ck.CalibkitError], str, Callable[[pl.DataFrame], object]]] = {
    "objective": (ck.UsageError, "exactly one objective", lambda f: ck.fit_boundary(f)),
    "column": (ck.UsageError, "did you mean 'score'",
               lambda f: ck.fit_calibrator(f, score="scores")),
    "keyword": (ck.UsageError, "Model.apply: no option 'slected' .did you mean 'selected'",
                lambda f: ck.fit_calibrator(f, method="platt").apply(f, slected=True)),
    "method": (ck.UsageError, "no method 'exakt'",
               lambda f: ck.fit_boundary(f, precision=0.9, method="exakt")),
    "strategy": (ck.UsageError, "^strategy='x' is not known",
                 lambda f: ck.fit_boundary(f, precision=0.9, strategy="x")),  # type: ignore[arg-type]
    "no strategy": (ck.UsageError, "^strategy=3 is not known; use one of equal-mass",
                    lambda f: ck.fit_boundary(f, precision=0.9, strategy=3)),  # type: ignore[arg-type]
    "folds": (ck.UsageError, "^folds is 2.5", lambda f: ck.fit_boundary(f, precision=0.9, folds=2.5)),  # type: ignore[arg-type]
    "levels": (ck.UsageError, "^uncertainty_bins is 0",
               lambda f: ck.fit_boundary(f, precision=0.9, uncertainty_bins=0)),
    "auto": (ck.UsageError, "give it folds",
             lambda f: ck.fit_boundary(f, precision=0.9, method="exact", uncertainty_bins="auto",
                                       folds=0)),
    "provenance": (ck.UsageError, "^provenance='x'",
                   lambda f: ck.fit_calibrator(f, provenance="x")),  # type: ignore[arg-type]
    "scale": (ck.UsageError, "^scale='x' is not known",
              lambda f: ck.fit_calibrator(f, scale="x")),  # type: ignore[arg-type]
    "bound": (ck.UsageError, "expected a number from 0 to 1",
              lambda f: ck.fit_boundary(f, precision=1.5)),
    "infeasible": (ck.InfeasibleError, "no boundary",
                   lambda f: ck.fit_boundary(f, precision=1, method="st", score="evidence",
                                             scale="raw")),
    "range": (ck.DataError, "frame: column 'evidence'", lambda f: ck.evaluate(f, scores="evidence")),
    "classes": (ck.UsageError, "^bins is for scores",
                lambda f: ck.fit_calibrator(f, probs="prob_*", bins=3)),
    "penalty": (ck.UsageError, "^regularization is",
                lambda f: ck.fit_calibrator(f, probs="prob_*", regularization=-1.0)),
    "patterns": (ck.UsageError, "one pattern", lambda f: ck.fit_alpha(f, probs=["a", "b"])),  # type: ignore[arg-type]
    "frame": (ck.UsageError, "polars cannot read", lambda f: ck.fit_vad(object())),  # type: ignore[arg-type]
    "frames": (ck.UsageError, "takes a frame, and all else by keyword", lambda f: ck.bin(f, f)),
    "no text": (ck.UsageError, "^groups is 3; expected a string",
                lambda f: ck.fit_boundary(f, precision=0.9, groups=3)),  # type: ignore[arg-type]
    "no flag": (ck.UsageError, "^interpolate is 'yes'; expected True or False",
                lambda f: ck.fit_calibrator(f, interpolate="yes")),  # type: ignore[arg-type]
    "empty": (ck.DataError, "0 rows", lambda f: ck.bin(f.head(0))),
    "bins": (ck.UsageError, "^score_bins is 0", lambda f: ck.bin(f, score_bins=0)),
    "tags": (ck.UsageError, "not a pair of strings",
             lambda f: ck.fit_calibrator(f, tags={"a": 1})),  # type: ignore[dict-item]
    "threads": (ck.UsageError, "^threads is 0", lambda f: ck.fit_calibrator(f, threads=0)),
    "model": (ck.UsageError, "no such file", lambda f: ck.load("nowhere.json")),
    "missing": (ck.UsageError, "^on_missing='x'",
                lambda f: ck.fit_calibrator(f, method="platt").apply(f, on_missing="x")),
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rows: ck.simulate_posterior(), "simulate_posterior: missing .* 'rows'"),
        (lambda rows: ck.export("boundary.json"), "export: missing .* 'to'"),
        (lambda rows: ck.watch(rows, model="boundary.json"), "watch: missing .* 'state'"),
        (lambda rows: ck.gate(rows, "auc<0.5"), "os.PathLike object, not DataFrame"),
    ],
)
def test_what_is_missing_is_said_of_the_function(
    call: Callable[[pl.DataFrame], object], message: str, rows: pl.DataFrame
) -> None:
    with pytest.raises(TypeError, match=message):
        call(rows)


def test_findings_and_summaries_speak_python(rows: pl.DataFrame) -> None:
    odd = rows.with_columns(label=pl.col("label") * 2, score=pl.col("score") - 3)
    report = ck.validate(odd)
    assert "positive=VALUE" in report.findings[0].message + report.findings[1].message
    assert "scale='logit'" in report.summary()
    drift = ck.fit_boundary(rows, recall=0.5, method="st").drift(rows, estimate=True)
    for result in (report, drift):
        assert not re.search("--[a-z]", result.summary() + result._repr_html_())


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_command_line(name: str, rows: pl.DataFrame) -> None:
    kind, message, call = BAD[name]
    with pytest.raises(kind, match=message):
        call(rows.head(200))


def test_arrays_of_class_probabilities_give_the_first_column() -> None:
    draw = np.random.default_rng(2)
    share = draw.dirichlet([1.0, 1.0, 2.0], 80)
    votes = np.array([draw.multinomial(3, row) for row in share])
    table = {f"prob_c{k}": share[:, place] for place, k in enumerate((2, 10, 1))}
    frame = pl.DataFrame(
        table | {f"count_c{k}": votes[:, place] for place, k in enumerate((2, 10, 1))}
    )
    model = ck.fit_alpha(frame)
    assert model.classes == ["c1", "c2", "c10"]  # by number
    assert f"alpha0 = {np.exp(model.log_alpha0):.4g}, 3 classes, 80 rows" in repr(model)
    whole = model.apply(frame)
    added = [name for name in whole.columns if name not in frame.columns]
    found = model.apply(np.ascontiguousarray(share[:, [2, 0, 1]]))
    assert found.tolist() == pytest.approx(whole[added[0]].to_list())


def test_given_edges_cut_uncertainties_where_they_say() -> None:
    draw = np.random.default_rng(6)
    frame = pl.DataFrame(
        {
            "score": draw.uniform(size=300),
            "uncertainty": draw.exponential(size=300),
            "label": draw.integers(0, 2, 300),
        }
    )
    edges = [0.05, 0.4]  # nowhere near the quantiles
    table = ck.bin(frame, uncertainty_edges=edges, score_bins=4)
    counts = table.group_by("uncertainty_bin").agg(pl.col("count").sum()).sort("uncertainty_bin")
    levels = np.searchsorted(edges, frame["uncertainty"].to_numpy(), side="right")
    assert counts["count"].to_list() == np.bincount(levels, minlength=3).tolist()
