"""Rows that do not fit: the same models where the summary is exact, within what is stated else."""

from __future__ import annotations

import gzip
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.bins import grid_rows
from calibkit.errors import CalibkitError, DataError
from calibkit.evaluation.evaluate import evaluate
from calibkit.files.formats import Dialect, Opening
from calibkit.files.sources import Source, open_source
from calibkit.measures.result import Coarse, Metrics
from calibkit.methods.boundary import run
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.run import read_boundary_rows
from calibkit.methods.calibrators.run import fit_calibrator, score_reading
from calibkit.models.model import Resolution, canonical_text
from calibkit.options.bin import BinOptions
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.shared import ColumnOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries import score_batches
from calibkit.summaries.binning import fit_grid, grid_frame, grid_metadata
from calibkit.summaries.counted import SCORE, Counter, Role
from calibkit.summaries.counted import Room as Limits
from calibkit.summaries.score_batches import level_edges, rows_within
from calibkit.summaries.score_rows import ScoreRows, read_score_rows
from calibkit.summaries.states import merge_states
from tests.cli.score_files import changed, simulate, write

OPTIONS, WEIGHTED = ColumnOptions(), ColumnOptions(weight="weight")


class Room(Memory):
    """A budget in entries; in bytes they are few."""

    @property
    def entries(self) -> int:
        return self.bytes

    def rows_of(self, columns: int) -> int:
        return self.bytes


def source_of(frame: pl.DataFrame, folder: Path) -> Source:
    """Return rows as a Parquet file and a CSV file, which has the larger part."""
    third = frame.height // 3
    frame[:third].write_parquet(folder / "a.parquet")
    frame[third:].write_csv(folder / "b.csv")
    return open_source([str(folder / "a.parquet"), str(folder / "b.csv")])


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Source:
    frame = simulate(3000, ties=True).with_columns(pl.col("weight") + 1)
    frame = frame.with_columns(other=(1 - pl.col("score")).round(1), segment=pl.col("id") % 2)
    return source_of(frame, tmp_path_factory.mktemp("tied"))


@pytest.fixture(scope="module")
def distinct(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return source_of(simulate(6000, seed=5), tmp_path_factory.mktemp("distinct"))


def within(source: Source, memory: Memory | None) -> Source:
    """Return a source that is read within some memory."""
    own = copy(source)
    own.memory = memory
    return own


def boundary(source: Source, memory: Memory | None, **options: Any) -> BoundaryModel:
    columns = vars(options.pop("columns", OPTIONS))
    target = options.pop("target", {"precision": "0.7"})
    asked = BoundaryOptions(**{"method": "exact", **columns, **target, **options})
    return run.fit(asked, within(source, memory)).model


def calibration_rows(
    source: Source, options: CalibrateOptions, memory: Memory | None = None
) -> ScoreRows:
    return rows_within(source, score_reading(source, options), memory)


def calibrator(source: Source, memory: Memory | None, **options: Any) -> bytes:
    asked = CalibrateOptions(**options)
    return fit_calibrator(calibration_rows(source, asked, memory), asked).model.to_json()


def metrics(source: Source, memory: Memory | None, **options: Any) -> Metrics:
    source.memory = memory
    return evaluate(EvaluateOptions(**options), source).metrics


def grid(source: Source, memory: Memory | None, **options: Any) -> str:
    asked = BinOptions(score_bins=7, **options)
    rows = grid_rows(asked, within(source, memory))
    found = fit_grid(rows, 3, 7, strategy=asked.strategy, order=asked.order)
    return grid_frame(found).write_csv() + canonical_text(grid_metadata(found, rows, "x"))


#: What no fit of tests/cli/test_one_program.py asks for.
RESULTS = {
    "boundary, equal width": partial(boundary, strategy="equal-width"),
    "calibrator, isotonic, segments": partial(calibrator, method="isotonic", by="segment"),
    "calibrator, thirds": partial(calibrator, method="scaling-binning", split="thirds"),
    "metrics, groups": partial(metrics, groups="segment", intervals=False),
    "grid": grid,
    "grid, equal width": partial(grid, strategy="equal-width"),
    "grid, score first": partial(grid, order="score-uncertainty"),
}
#: What needs every row, whether they fit or not.
SAMPLED = ColumnOptions(weight="share", weight_kind="sampling", on_missing="drop")
DROPS = ColumnOptions(on_missing="drop")
EACH = {
    "groups of text": partial(boundary, groups="user", columns=DROPS),
    "segments, weights": partial(
        boundary, by="flag", columns=replace(SAMPLED, weight_kind="frequency")
    ),
    "categories": partial(boundary, by="kind", columns=DROPS),
    "edges, groups": partial(boundary, groups="user", uncertainty_edges=(1.0, 2.5), columns=DROPS),
    "metrics, groups of text": partial(metrics, groups="user", intervals=False, on_missing="drop"),
    "metrics, sampling weights": partial(
        metrics, weight="share", weight_kind="sampling", on_missing="drop"
    ),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Source:
    frame = simulate(1500, seed=7).with_columns(
        pl.col("uncertainty").cast(pl.Float32),
        score=pl.when(pl.col("id") % 50 == 0).then(None).otherwise(pl.col("score").round(2)),
        user=pl.format("user {}", pl.col("id") % 90),
        flag=pl.col("id") % 3 == 0,
        kind=pl.col("weight").cast(pl.String).cast(pl.Categorical),
        share=pl.col("weight") / 7 + 0.1,
    )
    path = tmp_path_factory.mktemp("odd") / "rows.parquet"
    frame.write_parquet(path)
    return open_source([str(path)])


def content(result: object) -> object:
    return result.to_json() if isinstance(result, BoundaryModel | Metrics) else result


@pytest.mark.parametrize("name", RESULTS)
def test_small_budgets_change_nothing_where_the_summary_is_exact(name: str, tied: Source) -> None:
    assert content(RESULTS[name](tied, Room(2500))) == content(RESULTS[name](tied, None))


@pytest.mark.few(4)
@pytest.mark.parametrize("name", EACH)
def test_rows_that_are_needed_one_by_one_wait_in_a_store(name: str, odd: Source) -> None:
    assert content(EACH[name](odd, Room(400))) == content(EACH[name](odd, None))


@pytest.mark.parametrize("method", ["exact", "st"])
def test_a_coarse_boundary_is_counted_exactly_and_its_optimum_lies_where_it_says(
    method: str, distinct: Source
) -> None:
    exact = boundary(distinct, None, method=method, folds=0)
    coarse = boundary(distinct, Room(1000), method=method, folds=0)
    assert exact.provenance is not None
    assert coarse.provenance == exact.provenance
    said = coarse.fit.resolution
    assert isinstance(said, Resolution)
    assert said.score_bits is not None
    assert said.optimum is not None
    edges = tuple(float(edge) for edge in coarse.uncertainty_edges)
    same = boundary(distinct, None, method=method, folds=0, uncertainty_edges=edges or None)
    recall = same.fit.in_sample.recall
    assert recall is not None
    assert said.optimum.low <= recall <= said.optimum.high == coarse.fit.upper_bound
    assert said.optimum.low == coarse.fit.in_sample.recall
    rows = read_boundary_rows(BoundaryOptions(recall="1"), distinct)
    assert isinstance(rows, ScoreRows)
    level = np.searchsorted(coarse.uncertainty_edges, rows.uncertainty, side="right")
    thresholds = np.array([np.inf if t is None else float(t) for t in coarse.score_thresholds])
    taken = rows.score >= thresholds[level]
    assert int(taken.sum()) == coarse.fit.in_sample.selected
    assert int(rows.label[taken].sum()) == coarse.fit.in_sample.true_positives


def test_levels_of_merged_coarse_states_miss_their_quantiles_by_no_more_than_is_said(
    distinct: Source,
) -> None:
    options = BoundaryOptions(precision="0.7", method="exact", folds=0)
    states = [run.state(options, within(part, Room(1500))) for part in distinct.split()]
    model = run.finish(merge_states(states, 2), Room(1500), 1).model
    said = model.fit.resolution
    assert isinstance(said, Resolution)
    assert said.uncertainty_bits is not None
    assert said.level_error is not None
    assert 0 < said.level_error < 0.5
    spread = distinct.read(["uncertainty"]).to_series().to_numpy()
    for edge, share in zip(model.uncertainty_edges, (1 / 3, 2 / 3), strict=True):
        assert abs(float((spread < edge).mean()) - share) <= said.level_error + 1e-3


def test_metrics_of_coarse_scores_lie_where_they_say(distinct: Source) -> None:
    exact, coarse = metrics(distinct, None), metrics(distinct, Room(500))
    assert isinstance(coarse.resolution, Coarse)
    assert coarse.rows == exact.rows
    values = exact.metrics["score"]["all"]
    for name, found in coarse.resolution.ranges["score"]["all"].items():
        value, rough = values[name], coarse.metrics["score"]["all"][name]
        assert value is not None
        assert rough is not None
        assert found.low <= value <= found.high
        assert found.low <= rough <= found.high
        assert found.high - found.low < 0.05
    for name in ("brier", "log_loss", "mean_score"):
        assert coarse.metrics["score"]["all"][name] == pytest.approx(values[name], rel=0.05)


def failure(action: Any) -> tuple[type, dict[str, object]]:
    with pytest.raises(CalibkitError) as caught:
        action()
    return type(caught.value), caught.value.as_dict()


@pytest.mark.parametrize(
    "broken",
    [
        {"score": {5: None, 31: None, 399: None}},
        {"score": {399: 1.5}},
        {"label": {7: 3, 377: 3}},
        {"label": {300: 2}, "score": {350: float("nan")}},
        {"uncertainty": {380: float("inf")}},
    ],
)
def test_windows_report_what_all_rows_together_report(
    broken: dict[str, dict[int, Any]], tmp_path: Path
) -> None:
    frame = changed(simulate(400), **broken)
    frame[:200].write_parquet(tmp_path / "a.parquet")
    frame[200:].write_parquet(tmp_path / "b.parquet")
    source = open_source([str(tmp_path)])
    whole = failure(lambda: boundary(source, None))
    assert failure(lambda: boundary(source, Room(40))) == whole
    assert issubclass(whole[0], DataError)


def in_file(frame: pl.DataFrame, folder: Path) -> Source:
    return open_source([str(write(frame, folder / "rows.parquet"))])


def test_dropped_rows_are_counted_over_all_windows(tmp_path: Path) -> None:
    place = pl.col("id")
    frame = simulate(400).with_columns(
        score=pl.when(place % 7 == 0).then(None).otherwise("score"),
        label=pl.when(place < 100).then(None).otherwise("label"),
    )
    options = CalibrateOptions(on_missing="drop", unlabelled="drop")
    source = in_file(frame, tmp_path)
    whole = calibration_rows(source, options)
    found = calibration_rows(source, options, Room(60))
    assert found.warnings == whole.warnings
    assert (found.rows_read, found.rows) == (whole.rows_read, whole.rows) == (400, 257)
    source = in_file(frame.with_columns(score=pl.lit(None, pl.Float64)), tmp_path)
    whole_error = failure(lambda: calibration_rows(source, options))
    assert failure(lambda: calibration_rows(source, options, Room(60))) == whole_error


def test_what_only_all_rows_show(tmp_path: Path) -> None:
    frame = simulate(300).with_columns(weight=pl.lit(0.0), label=pl.lit("no"))
    source = in_file(frame, tmp_path)
    with pytest.raises(DataError, match="weight 0"):
        calibration_rows(source, CalibrateOptions(weight="weight", positive="no"), Room(60))
    with pytest.raises(DataError, match="no row has the positive class 'yes'"):
        calibration_rows(source, CalibrateOptions(positive="yes"), Room(60))
    source = in_file(simulate(300).with_columns(weight=pl.lit(0.0)), tmp_path)
    options = BinOptions(weight="weight", score_bins=5)
    for memory in (None, Room(60)):
        with pytest.raises(DataError, match=r"weight 0 in (all )?300 rows") as caught:
            grid_rows(options, within(source, memory))
        assert (caught.value.column, caught.value.rows) == ("weight", 300)
        with pytest.raises(DataError, match=r"weight 0 in (all )?300 rows"):
            boundary(source, memory, columns=WEIGHTED)


def test_levels_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    same, other = simulate(10, seed=8), simulate(200, seed=9)
    frame = pl.concat([*[same] * 20, other])  # in this order the first rows are condensed to ten
    one, two, three = (
        boundary(in_file(rows, tmp_path), Room(150), precision="0.4", folds=0).to_json()
        for rows in (frame, frame.reverse(), frame.sample(fraction=1, shuffle=True, seed=3))
    )
    assert one == two == three


@pytest.mark.parametrize(
    ("suffix", "dtype"), [("csv", "float64"), ("ndjson", "float64"), ("ndjson", "float32")]
)
def test_large_text_files_are_parsed_in_batches(suffix: str, dtype: str, tmp_path: Path) -> None:
    path, dialect = write(simulate(3000), tmp_path / f"a.{suffix}"), Dialect(dtype=dtype)
    if suffix == "ndjson":  # a key that first comes at the end
        path.write_text(path.read_text() + '\n\n{"late": 1.5}\n')
    held = open_source([str(path)], Opening(dialect=dialect))
    parsed = open_source([str(path)], Opening(dialect=dialect, memory=Room(8)))
    assert parsed.schema == held.schema
    assert parsed.rows == held.rows == 3000 + (suffix == "ndjson")
    assert parsed.read().equals(held.read())
    names = ["score", "id"]
    batches = [window.read(names) for window in parsed.windows(names, rows=700)]
    if suffix == "csv":
        assert [batch.height for batch in batches] == [700, 700, 700, 700, 200]
    assert pl.concat(batches).equals(held.read(names))


def test_late_values_that_large_text_files_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = simulate(3000).with_columns(pl.col("score").cast(pl.String))
    late = pl.concat([frame, frame[:1].with_columns(score=pl.lit("nought"))])
    path = write(late, tmp_path / "late.csv")
    assert open_source([str(path)], Opening(memory=Room(8))).schema["score"] == pl.String
    path = write(frame, tmp_path / "late.ndjson")
    path.write_text(path.read_text() + "[1, 2]\n")
    whole = failure(lambda: open_source([str(path)]))
    assert whole[0] is DataError
    # To say what is wrong takes no more memory either.
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda own: None if own == path else read(own))
    assert failure(lambda: open_source([str(path)], Opening(memory=Room(8)))) == whole


@pytest.mark.parametrize("strategy", ["equal-mass", "equal-width"])
def test_rows_that_are_counted_beside_their_reading_are_counted_alike(
    strategy: str, distinct: Source
) -> None:
    alone = boundary(distinct, Room(1000), strategy=strategy, threads=1)
    beside = boundary(distinct, Room(1000), strategy=strategy, threads=2)
    assert alone.to_json() == beside.to_json()


def test_a_boundary_without_uncertainties_is_read_once(tmp_path: Path) -> None:
    source = in_file(simulate(3000).drop("uncertainty"), tmp_path)
    exact, coarse = boundary(source, None), boundary(source, Room(500))
    assert isinstance(coarse.fit.resolution, Resolution)
    assert coarse.fit.resolution.uncertainty_bits is None
    assert exact.provenance == coarse.provenance
    assert exact.fit.in_sample.recall == pytest.approx(coarse.fit.in_sample.recall, abs=0.02)


@pytest.mark.parametrize("name", ["marked.ndjson", "a[1]*.ndjson"])
def test_large_json_files_that_polars_cannot_scan(name: str, tmp_path: Path) -> None:
    mark = "\ufeff" if name == "marked.ndjson" else ""
    (tmp_path / name).write_text(mark + '{"a": 1}\n{"a": 2.5}\n')
    (tmp_path / "a1.ndjson").write_text('{"a": 7}\n')  # what the name would be a pattern for
    source = open_source([str(tmp_path / name)], Opening(memory=Room(8)))
    assert source.read().to_dict(as_series=False) == {"a": [1.0, 2.5]}


@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_large_text_of_another_kind_is_read_as_a_small_one(suffix: str, tmp_path: Path) -> None:
    text = {"csv": "a\n1\n2.5\n", "ndjson": '{"a": 1}\n{"a": 2.5}\n'}[suffix]
    packed, wide = tmp_path / f"a.{suffix}.gz", tmp_path / f"b.{suffix}"
    packed.write_bytes(gzip.compress(text.encode()))
    found = open_source([str(packed)], Opening(memory=Room(8))).read()
    assert found.to_dict(as_series=False) == {"a": [1.0, 2.5]}
    wide.write_text(text, encoding="utf-16")
    for memory in (None, Room(8)):
        assert open_source([str(wide)], Opening(memory=memory)).read().equals(found)


@pytest.mark.parametrize("levels", [255, 256, 257])
def test_uncertainties_are_moved_down_to_edges_that_were_given(levels: int) -> None:
    edges = np.linspace(0.1, 0.9, levels - 1)
    spread = np.linspace(0.05, 0.95, 2000, dtype=np.float32)
    frame = pl.DataFrame({"score": 0.5, "uncertainty": spread, "label": 1})
    reading = score_batches.Reading(
        columns={name: name for name in frame.columns},
        read=partial(read_score_rows, options=OPTIONS, uncertainty=True),
        edges=tuple(edges.tolist()),
    )
    rows = score_batches.rows_within(Source.from_frame(frame), reading, Room(1000))
    assert rows.uncertainty is not None and rows.times is not None
    level, times = np.searchsorted(edges, rows.uncertainty, "right"), rows.times
    expected = np.bincount(np.searchsorted(edges, spread, "right"), minlength=levels)
    assert np.bincount(level, times, minlength=levels).tolist() == expected.tolist()
    assert rows.uncertainty.dtype == np.float32 and float(rows.uncertainty.min()) == spread[0]


def test_levels_begin_at_a_row_with_weight() -> None:
    weight = pl.when(pl.col("uncertainty") < 0.5).then(0.0).otherwise(1.0)
    frame = simulate(3000).with_columns(weight=weight)
    held = frame.filter(weight > 0)["uncertainty"].min()
    coarse = boundary(Source.from_frame(frame), Room(1000), columns=WEIGHTED, folds=0)
    assert frame["uncertainty"].min() < held == coarse.uncertainty_min


@pytest.mark.parametrize("entries", [2, 100])
def test_edges_of_levels_are_among_rows_with_weight(entries: int) -> None:
    counter = Counter((Role("uncertainty", SCORE), Role("weight")), Limits(entries, 2**20))
    for _ in range(3):
        counter.add(
            pl.DataFrame({"uncertainty": [0.0, 1.0, 2.0, 9.0], "weight": [0.0, 1.0, 1.0, 0.0]})
        )
    found = level_edges(counter.finish(), [4], "equal-width")
    assert found is not None
    assert (found[0][0], found[0][-1]) == (1.0, 1.75)
    assert found[1] == (0.5 if entries == 2 else 0.0)
    counter.add(pl.DataFrame({"uncertainty": [1.0] * 6, "weight": [1.0] * 6}))
    found = level_edges(counter.finish(), [2])  # nine rows, beside three
    assert found is not None and found[0] == [1.0]


def test_rows_that_have_no_room_only_at_the_end() -> None:
    rows = simulate(1400)
    frame = pl.concat([rows[:900], rows[:600], rows[900:]])  # in windows of 500 rows
    found = boundary(Source.from_frame(frame), Room(1000), folds=0)
    exact = boundary(Source.from_frame(frame), None, folds=0)
    assert found.provenance == exact.provenance and found.fit.resolution is not None
