"""``show``: what a model does and what to expect of it; its JSON, and the JSON Schemas of all files."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import polars as pl
import pyarrow as pa
import pytest
from msgspec.structs import replace

import calibkit as ck
from calibkit.methods.boundary import view as boundary
from calibkit.methods.boundary.result.parts import Candidate
from calibkit.methods.hetcal import view as hetcal
from calibkit.models.model import SCALES, load
from calibkit.models.page import Page, Table
from calibkit.options.shared import Rows
from calibkit.registry.methods import KINDS, schemas
from calibkit.registry.states import read_state
from calibkit.summaries.states import KEY
from docs.write_schemas import FOLDER, texts
from tests.cli.score_files import scores, simulate, write
from tests.conftest import ROOT, Invoke, make
from tests.json_schema import problems


@pytest.fixture
def fit() -> Callable[..., Path]:
    def call(*options: object, frame: pl.DataFrame | None = None) -> Path:
        path = write(simulate() if frame is None else frame, "fit.parquet")
        goal = "--precision 0.75 --method exact"
        return make("model.json", "boundary", path, goal, *options)

    return call


Fit = Callable[..., Path]


def test_levels_that_select_nothing_and_all(fit: Fit, invoke: Invoke) -> None:
    model = fit()
    content = json.loads(model.read_text())
    model.write_text(json.dumps({**content, "score_thresholds": [None, "-inf", 0.5]}))
    text = invoke("show", model).stdout.decode()
    for word in ("never", "always", "score >= 0.5"):
        assert word in text


def test_json_is_the_model_whatever_its_layout(
    fit: Fit, invoke: Invoke, command: Callable[..., Any]
) -> None:
    model = fit()
    canonical = model.read_bytes()
    assert invoke("show", model, "--json").stdout == canonical
    assert command("show", "-", "--json", input=canonical).stdout == canonical
    content = json.loads(canonical)
    model.write_text(json.dumps(dict(reversed(content.items())), indent=None))
    assert invoke("show", model, "--json").stdout == canonical
    whole = {**content, "score_thresholds": [1, 0, 1], "uncertainty_min": 0}
    model.write_text(json.dumps(whole))
    assert invoke("show", model).code == 0


def _models() -> dict[str, Callable[[], ck.Model]]:
    rows = ck.simulate_posterior(1_800, seed=3).with_columns(
        country=pl.Series([f"country_{place}" for place in range(10)] * 180),
        kind=pl.Series([f"a rather long name of a category, number {k}" for k in range(6)] * 300),
    )
    votes = ck.simulate_raters(600, raters=3, seed=2)
    many = pl.DataFrame({f"prob_{k}": [1 / 30] * 60 for k in range(30)}).with_columns(
        pl.Series(f"count_{k}", [2 + (row + k) % 3 for row in range(60)]) for k in range(30)
    )

    def boundary(**options: Any) -> ck.BoundaryModel:
        return ck.fit_boundary(rows, precision=0.6, **options)

    return {
        "auto": boundary,
        "exact": lambda: boundary(method="exact", uncertainty_bins=11, test=rows),
        "certified": lambda: boundary(confidence=0.9),
        "segments": lambda: boundary(method="st", by="country"),
        "segments of levels": lambda: boundary(method="exact", by="country"),
        "beta": lambda: ck.fit_calibrator(rows, method="beta"),
        "isotonic": lambda: ck.fit_calibrator(rows, method="isotonic", by="country"),
        "classes": lambda: ck.fit_calibrator(
            many, probs="prob_*", counts="count_*", method="vector"
        ),
        "vad": lambda: ck.fit_vad(rows, members=["score", "true_*"], by="country"),
        "hetcal": lambda: ck.fit_hetcal(
            rows, features=["kind", "evidence", "country"], max_depth=6, min_leaf=40, shrinkage=0.0
        ),
        "forest": lambda: ck.fit_hetcal(
            rows, features=["kind"], partition="forest", trees=3, max_depth=3, min_leaf=50
        ),
        "alpha": lambda: ck.fit_alpha(
            many,
            features="probs",
            map="vector",
            map_regularization=1.0,
            disagreement_map="isotonic",
        ),
        "constant alpha": lambda: ck.fit_alpha(votes),
    }


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ck.CalibkitWarning)
        for name, fit in _models().items():
            fit().save(folder / f"{name}.json")
    return folder


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibkit_cli.console._is_terminal", lambda stream: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.usefixtures("terminal")
def test_every_kind_fits_one_screen(
    columns: int, models: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for path in sorted(models.glob("*.json")):
        done = invoke("show", path)
        assert (done.code, done.stderr) == (0, ""), path.stem
        lines = done.stdout.decode().splitlines()
        assert len(lines) <= 24, (path.stem, "\n".join(lines))
        assert max(map(len, lines)) <= columns, (path.stem, "\n".join(lines))
        assert "\x1b" not in done.stdout.decode()
        if columns == 80:
            whole = invoke("show", path, "--all")
            assert whole.code == 0
            assert len(whole.stdout) >= len(done.stdout)


def test_a_rule_is_cut_where_it_does_not_fit(models: Path) -> None:
    model = load(str(models / "hetcal.json"))

    def rules(width: int) -> list[str]:
        page = Page(short=True, width=width)
        hetcal.view(model, page)
        tables = [part for part in page.parts if isinstance(part, Table)]
        (leaves,) = [table for table in tables if table.header[0] == "leaf"]
        return [str(row[-1]) for row in leaves.rows]

    whole = rules(1_000)
    longest = max(map(len, whole))
    assert len(whole) == 4 and "…" not in "".join(whole)
    assert rules(longest + 34) == whole
    cut = [f"{rule[: longest - 2]}…" if len(rule) == longest else rule for rule in whole]
    assert rules(longest + 33) == cut


@pytest.mark.parametrize(("candidates", "most"), [(0, 5), (2, 3)])
def test_levels_give_way_to_candidates(candidates: int, most: int, models: Path) -> None:
    model, page = load(str(models / "exact.json")), Page(short=True)
    assert isinstance(model, ck.BoundaryModel) and model.levels > most
    rates = {"precision": 0.6, "recall": 0.5, "objective_value": 0.5}
    gap = {"within_bound": True, "gap": 0.0, "gap_standard_error": 0.0}
    tried = Candidate(method="exact", uncertainty_bins=model.levels, **rates, **gap)
    fit = replace(model.fit, candidates=[tried] * candidates)
    boundary.view(replace(model, fit=fit), page)
    levels = next(one for one in page.parts if isinstance(one, Table) and one.header[0] == "level")
    assert len(levels.rows) == most


@pytest.mark.parametrize(("method", "most"), [("isotonic", 3), ("platt", 5)])
@pytest.mark.usefixtures("terminal")
def test_of_many_segments_some_are_shown_fewer_beside_steps(
    method: str, most: int, invoke: Invoke
) -> None:
    sites = pl.Series([f"site-{place}" for place in range(8)] * 100)
    rows = write(simulate(800).with_columns(site=sites), "rows.parquet")
    model = make("m.json", "calibrate", rows, "--by site --method", method)
    for more, shown in ((), most), (("--all",), 8):
        lines = invoke("show", model, *more).stdout.decode().splitlines()
        assert sum("site-" in line for line in lines) == shown


def test_a_pipe_and_a_summary_have_all(invoke: Invoke) -> None:
    rows = write(simulate(600), "rows.parquet")
    model = make("m.json", "calibrate", rows, "--method histogram --bins 60")
    shown = invoke("show", model).stdout.decode()
    assert len(shown.splitlines()) > 40
    for text in (shown, load(model).summary()):
        assert "more steps" not in text


def uniform(rows: int, delta: float) -> float:
    """Return how far any threshold's rates may lie from those of the fitting rows."""
    return math.sqrt(8 / rows * math.log(32 * (2 * rows + 1) / delta))


def test_uniform_bounds_hold_for_the_rows_of_the_fit(fit: Fit, invoke: Invoke) -> None:
    model = fit()
    shown = invoke("show", model, "--bounds").stdout.decode()
    rows = json.loads(model.read_bytes())["fit"]["rows"]
    for delta in (0.1, 0.05, 0.01):
        assert f"{uniform(rows, delta):.4g}"[:5] in shown
    assert f"{rows:,} rows" in shown


def test_the_regret_of_a_measure_follows_from_its_slope(invoke: Invoke) -> None:
    calib = write(simulate(), "fit.parquet")
    fit = invoke("boundary", calib, "--maximize fbeta:2 --method st -o best.json").result()["fit"]
    rows, seen, positives = fit["rows"], fit["in_sample"], fit["positives"]
    tp, selected = seen["true_positives"] / rows, seen["selected"] / rows
    wide = 4 * positives / rows + selected  # fbeta:2 = 5 tp / wide
    # By tp and by fp; fn moves 4 times as much.
    inner, outer = 5 / wide - 25 * tp / wide**2, 5 * tp / wide**2
    slope = abs(inner) + outer + 4 * outer
    shown = invoke("show", "best.json", "--bounds").stdout.decode()
    assert f"{2 * slope * uniform(rows, 0.05):.6g}" in shown
    assert "regret of fbeta:2" in shown  # with a bound, and with several thresholds
    for goal in ("--precision 0.6", "--maximize fbeta:2 --by weight"):
        make("other.json", "boundary", calib, goal, "--method st")
        assert "regret" not in invoke("show", "other.json", "--bounds").stdout.decode()


def test_uniform_bounds_are_refused_where_they_do_not_hold(
    fit: Fit, models: Path, invoke: Invoke
) -> None:
    weighted = fit("--weight", "weight")
    for words, said in (
        ((weighted, "--bounds"), "unweighted rows"),
        ((models / "vad.json", "--bounds"), "--bounds is for boundaries"),
        ((weighted, "--bounds", "--schema", "boundary"), "--bounds goes with"),
    ):
        done = invoke("show", *words)
        assert (done.code, done.stdout, said in done.stderr) == (2, b"", True), done.stderr


KNOWN = {name: json.loads(json.dumps(schema())) for name, schema in schemas().items()}
STORED = sorted((ROOT / "tests" / "compat").rglob("*.json"))


def content(path: Path) -> Any:
    return json.loads(path.read_bytes())


def alike(text: str) -> Any:
    """Return a schema with its alternatives in one order: that of msgspec depends on its version."""

    def ordered(found: dict[str, Any]) -> dict[str, Any]:
        if "anyOf" in found:
            found["anyOf"].sort(key=lambda one: json.dumps(one, sort_keys=True))
        return found

    return json.loads(text, object_hook=ordered)


def test_schemas_are_published_as_they_are() -> None:
    published = {path.name: alike(path.read_text(encoding="utf-8")) for path in FOLDER.iterdir()}
    assert published == {name: alike(text) for name, text in texts().items()}, "make docs"


@pytest.mark.parametrize("name", KNOWN)
def test_a_schema_is_shown(name: str, invoke: Invoke) -> None:
    shown = invoke("show", "--schema", name)
    assert (shown.code, json.loads(shown.stdout)) == (0, KNOWN[name])


def test_every_stored_file_meets_its_schema_and_no_other() -> None:
    met = set()
    for path in STORED:
        found = content(path)
        if "kind" in found or "signature" in found:
            own = found.get("kind", "metrics")
            assert problems(found, KNOWN[own]) == [], path
            others = (name for name in KNOWN if name not in (own, "drift"))
            assert all(problems(found, KNOWN[name]) for name in others), path
            met.add(own)
    assert met == {*KINDS, "metrics"}


@pytest.mark.parametrize(
    ("path", "value"),
    [("kind", "vad"), ("version", 99), ("method", "teapot"), ("more", 1), ("fit", None)],
)
def test_a_damaged_model_does_not_meet_it(path: str, value: object) -> None:
    model = content(ROOT / "tests" / "compat" / "0.1.0" / "boundary_exact.json")
    assert problems({**model, path: value}, KNOWN["boundary"])
    assert problems({key: one for key, one in model.items() if key != "fit"}, KNOWN["boundary"])


def test_models_know_every_scale() -> None:
    assert get_args(get_type_hints(Rows)["scale"]) == SCALES


def test_what_other_commands_write(invoke: Invoke) -> None:
    rows = write(scores(), "a.parquet")
    model, out, state = (Path(name) for name in ("m.json", "out.json", "a.state"))
    assert invoke("boundary", rows, "--precision", "0.5", "--method", "st", "-o", model).code == 0
    assert invoke("drift", model, rows, "--label", "label", "-q", "-o", out).code == 0
    assert problems(content(out), KNOWN["drift"]) == []
    assert invoke("watch", model, rows, "--state", state, "-q", "-o", out).code == 0
    assert problems(content(out), KNOWN["watch"]) == []
    assert problems(content(state), KNOWN["watch-state"]) == []
    options = ("--no-intervals", "--partial", "-q", "-o", state)
    assert invoke("evaluate", rows, *options).code == 0
    with pa.ipc.open_file(state) as file:
        header = json.loads(file.schema.metadata[KEY.encode()])
    assert problems(header, KNOWN["state"]) == []
    assert read_state(str(state)).header.kind == header["kind"]
