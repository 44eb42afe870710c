"""The points of each kind of picture, counted again row by row."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

import calibkit as ck
from calibkit.columns.columns import read_score_rows
from calibkit.errors import DataError, UsageError
from calibkit.evaluation.evaluate import evaluate
from calibkit.files.sources import Source, open_source
from calibkit.measures import cells
from calibkit.methods.boundary.result.fit import fit_boundary
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.plot import (
    AucLiftOptions,
    BiasOptions,
    DisagreementOptions,
    DispersionOptions,
    EceAtOptions,
    HeatmapOptions,
    PositivityOptions,
    RecallGainOptions,
    RegionsOptions,
    ReliabilityOptions,
    RocOptions,
    ThresholdOptions,
)
from calibkit.options.shared import ColumnOptions
from calibkit.reports import plots
from calibkit.reports.curves import MOST_POINTS, visible
from calibkit.reports.grids import level_names
from calibkit.reports.heatmap import outline
from tests.cli.score_files import decisions
from tests.conftest import make
from tests.library.pictures import (
    BOTH,
    JUDGED,
    SHOWN,
    faults,
    leaves,
    many,
    points_of,
    scored,
    source_of,
    voted,
)
from tests.naive import metrics as naive
from tests.naive import raters as naive_raters
from tests.naive.boundaries import naive_quantile_bins

Row = dict[str, Any]


def rows_of(name: str = "score") -> list[tuple[float, int]]:
    return list(scored().select(name, "label").iter_rows())


def cells_of(
    score: list[float], uncertainty: list[float], levels: int, bins: int
) -> list[tuple[int, int]]:
    """Return the quantile level of each row, and its quantile score bin within the level."""
    level = naive_quantile_bins(uncertainty, levels, uncertainty)
    own = [[s for s, at in zip(score, level, strict=True) if at == i] for i in range(levels)]
    return [
        (i, naive_quantile_bins(own[i], bins, [s])[0]) for s, i in zip(score, level, strict=True)
    ]


def fit(path: Path, method: str, **more: Any) -> Path:
    """Write a boundary of the rows; return its file."""
    options = BoundaryOptions(precision="0.7", method=method, folds=0, provenance="none", **more)
    rows = read_score_rows(source_of(scored()), ColumnOptions())
    path.write_bytes(fit_boundary(rows, options).model.to_json())
    return path


def grid_of(folder: Path) -> Source:
    """Return a table of the rows, which are written beside it."""
    scored().write_parquet(folder / "rows.parquet")
    grid = make(folder / "grid.csv", "bin", folder / "rows.parquet", "--score-bins 4")
    return open_source([str(grid)])


# ---------------------------------------------------------------- reliability


def test_reliability_counts_bins_and_pools() -> None:
    table = points_of("reliability").table
    for name in ("score", "other"):
        bins = table.filter(score=name, curve="bins")
        own = naive.binned(rows_of(name), 15, "equal-width")
        assert bins["count"].to_list() == [len(one) for one in own]
        for one, row in zip(own, bins.iter_rows(named=True), strict=True):
            if one:
                assert row["mean_score"] == pytest.approx(sum(s for s, _ in one) / len(one))
                assert row["mean_label"] == pytest.approx(sum(y for _, y in one) / len(one))
        pools = table.filter(score=name, curve="corp")
        counts = [(count, hits) for count, hits, _ in naive.pool_rates(naive.tally(rows_of(name)))]
        assert list(pools.select("count", "positives").iter_rows())[::-1] == counts


def test_reliability_of_several_classes_is_that_of_the_predicted_one() -> None:
    frame = voted().with_columns(label=pl.Series(np.arange(voted().height) % 3))
    shown = plots.points(source_of(frame), ReliabilityOptions(probs="a_*"))
    chosen = frame.select(pl.concat_list("a_0", "a_1", "a_2").alias("a"), "label").to_dicts()
    right = sum(max(row["a"]) == row["a"][row["label"]] for row in chosen)
    assert shown.table.filter(curve="bins")["positives"].sum() == right
    assert shown.words["x"] == "probability of the predicted class"


def test_raw_scores_have_no_reliability() -> None:
    with pytest.raises(DataError, match="needs scores that are probabilities"):
        plots.points(source_of(scored()), ReliabilityOptions(scale="raw"))


# ---------------------------------------------------------------- precision, recall, ROC


@pytest.mark.parametrize("kind", ["precision-recall", "roc"])
def test_curves_hold_the_rates_of_every_threshold(kind: str) -> None:
    table = points_of(kind).table
    for name in ("score", "other"):
        rows = rows_of(name)
        positives = sum(label for _, label in rows)
        own = table.filter(name=name, curve="thresholds")
        assert own["threshold"].to_list() == sorted({score for score, _ in rows}, reverse=True)
        for row in own.iter_rows(named=True):
            taken = [label for score, label in rows if score >= row["threshold"]]
            hits = sum(taken)
            assert row["recall"] == pytest.approx(hits / positives)
            assert row["precision"] == pytest.approx(hits / len(taken))
            assert row["selected_share"] == pytest.approx(len(taken) / len(rows))
            assert row["fpr"] == pytest.approx((len(taken) - hits) / (len(rows) - positives))
        x, y = own["recall"].to_list(), own["precision"].to_list()
        if kind == "precision-recall":
            area = sum(
                (b - a) * p for (a, b), p in zip(itertools.pairwise([0.0, *x]), y, strict=True)
            )
            assert own["area"][0] == pytest.approx(naive.average_precision(rows))
        else:
            area = np.trapezoid([0.0, *x], [0.0, *own["fpr"].to_list()])
            assert own["area"][0] == pytest.approx(naive.auc(rows))
        assert own["area"][0] == pytest.approx(area)  # the area that is drawn
    base = table.filter(curve="base_rate")["precision"][0]
    assert base == pytest.approx(sum(y for _, y in rows_of()) / 240)


def test_operating_points_are_the_rates_of_the_decisions(tmp_path: Path) -> None:
    paths = [fit(tmp_path / f"{name}.json", name) for name in ("st", "exact")]
    options = RocOptions(boundary=paths)
    table = plots.points(source_of(scored()), options).table.filter(curve="decisions")
    labels = scored()["label"].to_list()
    for path, row in zip(paths, table.iter_rows(named=True), strict=True):
        taken = decisions(msgspec.json.decode(path.read_bytes()), scored())
        hits = sum(d * y for d, y in zip(taken, labels, strict=True))
        assert row["name"] == str(path)
        assert row["precision"] == pytest.approx(hits / sum(taken))
        assert row["recall"] == pytest.approx(hits / sum(labels))
        assert row["fpr"] == pytest.approx((sum(taken) - hits) / (240 - sum(labels)))
        for rate in ("precision", "recall", "fpr"):
            assert row[f"{rate}_low"] <= row[rate] <= row[f"{rate}_high"]


def test_intervals_along_a_curve_are_exact_ones_of_each_threshold() -> None:
    from scipy.stats import beta

    table = points_of("threshold").table
    rows = rows_of("score")
    positives = sum(label for _, label in rows)
    own = table.filter(curve="thresholds")
    for row in own.iter_rows(named=True):
        taken = [label for score, label in rows if score >= row["threshold"]]
        hits, alerts = sum(taken), len(taken)
        for name, some, of in (
            ("precision", hits, alerts),
            ("recall", hits, positives),
            ("fpr", alerts - hits, len(rows) - positives),
        ):
            low = beta.ppf(0.025, some, of - some + 1) if some else 0.0
            high = beta.ppf(0.975, some + 1, of - some) if some < of else 1.0
            assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx((low, high), abs=1e-9)
    weighted = RocOptions(weight="weight")
    frame = scored().with_columns(weight=pl.lit(2.0))
    shown = plots.points(source_of(frame), weighted).table.filter(curve="thresholds")
    assert shown["recall_low"].null_count() == shown.height


def test_a_chosen_threshold_is_judged_where_it_stands(tmp_path: Path) -> None:
    path = fit(tmp_path / "st.json", "st")
    (threshold,) = msgspec.json.decode(path.read_bytes())["score_thresholds"]
    options = ThresholdOptions(threshold=[0.4, threshold], boundary=path)
    shown = plots.points(source_of(scored()), options).table.filter(curve="decisions")
    assert shown["threshold"].to_list() == [0.4, threshold, threshold]
    rates = ["precision", "recall", "fpr", "selected_share", "recall_low"]
    assert shown.select(rates).row(1) == shown.select(rates).row(2)
    several = fit(tmp_path / "exact.json", "exact")
    with pytest.raises(UsageError, match="does not have one threshold"):
        plots.points(source_of(scored()), ThresholdOptions(boundary=several))
    with pytest.raises(UsageError, match="plot threshold draws one score"):
        ThresholdOptions(scores=["score", "other"])


def test_long_curves_are_thinned_evenly() -> None:
    x = np.linspace(0, 1, 100_000)
    kept = visible(x, x**2)
    assert kept.size <= MOST_POINTS + 1
    assert (kept[0], kept[-1]) == (0, x.size - 1)
    steps = np.diff(x[kept]) + np.diff(x[kept] ** 2)
    assert steps.max() < 2.1 / MOST_POINTS
    assert visible(x[:7], x[:7]).tolist() == list(range(7))
    assert visible(np.zeros(1000), np.zeros(1000)).tolist() == [0, 999]


def test_a_curve_keeps_the_same_thresholds_in_any_unit() -> None:
    random = np.random.default_rng(4)
    score = random.random(9000)
    label = (random.random(9000) < score).astype(int)
    kept = []
    for unit in (1.0, 1024.0):
        frame = pl.DataFrame({"score": unit * score, "label": label})
        shown = plots.points(source_of(frame), ThresholdOptions(scale="raw", intervals=False))
        kept.append((shown.table["threshold"] / unit).to_list())
    assert kept[0] == kept[1] and 100 < len(kept[0]) < 9000


def test_curves_need_both_classes() -> None:
    frame = scored().with_columns(label=pl.lit(1))
    with pytest.raises(DataError, match="all rows are positive"):
        plots.points(source_of(frame), SHOWN["roc"][1])


# ---------------------------------------------------------------- grids


def test_positivity_counts_the_cells_of_quantile_levels() -> None:
    table = points_of("positivity").table
    frame = scored()
    rows = list(frame.select("uncertainty", "score", "label").iter_rows())
    cells = cells_of([s for _, s, _ in rows], [u for u, _, _ in rows], 3, 4)
    held: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for cell, (_, score, label) in zip(cells, rows, strict=True):
        held.setdefault(cell, []).append((score, label))
    assert table["count"].sum() == 240
    for row in table.filter(pl.col("count") > 0).iter_rows(named=True):
        own = held[row["uncertainty_bin"], row["score_bin"]]
        hits = sum(label for _, label in own)
        assert row["mean_score"] == pytest.approx(sum(score for score, _ in own) / len(own))
        assert row["positivity"] == pytest.approx(hits / len(own))
        exact = stats.binomtest(hits, len(own)).proportion_ci(0.95)
        assert (row["low"], row["high"]) == pytest.approx((exact.low, exact.high))


def test_positivity_of_a_table_is_that_of_its_rows(tmp_path: Path) -> None:
    source = grid_of(tmp_path)
    for kind in (PositivityOptions, HeatmapOptions):
        options = kind(uncertainty_bins=3, score_bins=4)
        shown = plots.points(source, options)
        one = shown.table
        assert shown.words["uncertainty"] == "uncertainty"
        two = plots.points(source_of(scored()), options).table
        assert one.equals(two.cast(one.schema))


def test_a_table_in_the_other_order_is_refused(tmp_path: Path) -> None:
    rows = tmp_path / "rows.parquet"
    scored().write_parquet(rows)
    given = "--score-bins 4 --order score-uncertainty"
    grid = make(tmp_path / "grid.csv", "bin", rows, given)
    with pytest.raises(UsageError, match="bins the uncertainties within each score bin"):
        plots.points(open_source([str(grid)]), PositivityOptions())


def test_heights_of_levels_are_shares_of_rows() -> None:
    table = points_of("heatmap").table
    spread = scored()["uncertainty"].to_list()
    for row in table.iter_rows(named=True):
        assert row["rank_low"] == sum(u < row["uncertainty_low"] for u in spread) / 240
        assert row["rank_high"] == sum(u < row["uncertainty_high"] for u in spread) / 240


def test_weighted_heights_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    weight = np.random.default_rng(8).random(240)
    frame = scored().with_columns(weight=weight)
    path = fit(tmp_path / "boundary.json", "exact", uncertainty_bins=3)
    options = HeatmapOptions(weight="weight", score_bins=5, boundary=path)
    table = plots.points(source_of(frame), options).table
    other = plots.points(source_of(frame.sample(fraction=1, shuffle=True, seed=1)), options)
    assert other.table.equals(table)
    for row in table.iter_rows(named=True):
        below = sum(
            w
            for w, u in zip(weight, frame["uncertainty"], strict=True)
            if u < row["uncertainty_low"]
        )
        assert row["rank_low"] == pytest.approx(below / weight.sum())


@pytest.mark.parametrize("recall", [None, 0.8])
def test_cells_of_two_uncertainties_count_what_is_decided(recall: float | None) -> None:
    model, drawn = leaves(recall), ["run", "uncertainty"]
    options = RegionsOptions(boundary=model, uncertainty=drawn)
    table = plots.points(source_of(many()), options).table
    words = {0: "pass", 1: "selected"} if recall is None else {}
    decided = model.apply(many()).with_columns(
        pl.col("decision").replace_strict(words) if words else pl.col("decision")
    )
    sides = {"x": "run", "y": "uncertainty"}
    for row in table.iter_rows(named=True):
        inside = [
            all(
                row[f"{axis}_low"] <= own[name] < row[f"{axis}_high"]
                for axis, name in sides.items()
            )
            for own in decided.iter_rows(named=True)
        ]
        cell = decided.filter(pl.Series(inside))
        taken = cell.filter(pl.col("decision") == row["decision"])
        assert (row["count"], row["decided"]) == (cell.height, taken.height)
        if cell.height:
            assert row["share"] == pytest.approx(taken.height / cell.height)
        for axis, name in sides.items():
            below = decided.filter(pl.col(name) < row[f"{axis}_low"]).height
            assert row[f"{axis}_rank_low"] == pytest.approx(below / 4000)
        lowest = taken["score"].min()
        if row["decision"] != "review" and isinstance(lowest, float):
            assert row["threshold_low"] <= lowest
        highest = cell.filter(decision="pass")["score"].max()
        if row["decision"] != "block" and isinstance(highest, float):
            assert highest < row["threshold_high"]
    assert table["decided"].sum() == decided.filter(pl.col("decision") != "pass").height
    assert set(table["decision"]) == ({"selected"} if recall is None else {"block", "review"})


def test_of_more_uncertainties_the_first_two_are_drawn() -> None:
    frame = many().with_columns(third=pl.col("score") * pl.col("run"))
    names = ["run", "uncertainty", "third"]
    model = ck.fit_boundary(frame, uncertainty=names, method="exact", precision=0.6, folds=0)
    shown = [
        plots.points(source_of(frame), RegionsOptions(boundary=model, uncertainty=own)).table
        for own in (None, names[:2])
    ]
    assert shown[0].equals(shown[1])


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("st", {}),
        ("exact", {"uncertainty_bins": 4}),
        ("logistic", {}),
        ("exact", {"order": "score-uncertainty", "score_bins": 6, "uncertainty_bins": 3}),
    ],
)
def test_regions_hold_the_rows_that_a_boundary_selects(
    method: str, more: Row, tmp_path: Path
) -> None:
    path = fit(tmp_path / "boundary.json", method, **more)
    options = HeatmapOptions(uncertainty_bins=4, score_bins=5, boundary=path)
    table = plots.points(source_of(scored()), options).table.filter(kind="boundary")
    found = decisions(msgspec.json.decode(path.read_bytes()), scored())
    for taken, (score, spread) in zip(
        found, scored().select("score", "uncertainty").iter_rows(), strict=True
    ):
        inside = [
            row
            for row in table.iter_rows(named=True)
            if row["uncertainty_low"] <= spread < row["uncertainty_high"]
            and row["score_low"] <= score < row["score_high"]
        ]
        assert len(inside) == taken
    assert set(table["name"]) == {str(path)}


def test_what_a_stochastic_boundary_leaves_to_chance_is_apart(tmp_path: Path) -> None:
    path = fit(tmp_path / "boundary.json", "stochastic", uncertainty_bins=3)
    options = HeatmapOptions(boundary=path)
    table = plots.points(source_of(scored()), options).table.filter(kind="boundary")
    model = msgspec.json.decode(path.read_bytes())
    chance = [low for low in model["random_thresholds"] if low is not None]
    assert table.filter(name=f"{path}, by chance")["score_low"].to_list() == chance


def test_boundaries_that_cannot_be_drawn(tmp_path: Path) -> None:
    rows, grid = source_of(scored()), grid_of(tmp_path)
    given = "--precision 0.6 --by run --method exact --folds 0"
    path = make(tmp_path / "segments.json", "boundary", tmp_path / "rows.parquet", given)
    with pytest.raises(UsageError, match="thresholds for each 'run'"):
        plots.points(rows, HeatmapOptions(boundary=path))
    other = fit(tmp_path / "other.json", "exact", uncertainty_bins=2)
    with pytest.raises(UsageError, match="draw it over the rows themselves"):
        plots.points(grid, HeatmapOptions(boundary=other))
    moved = scored().rename({"score": "s"}).with_columns(score=scored()["score"])
    options = HeatmapOptions(boundary=other, score="s")
    assert "decides by the score 'score'" in plots.points(source_of(moved), options).warnings[0]


def test_no_boundary_is_none() -> None:
    assert HeatmapOptions(boundary=None).boundaries == HeatmapOptions().boundaries == []


def test_the_outline_of_stairs_is_one_line() -> None:
    lines = outline(
        np.array([0.5, 0.7]),
        np.array([1.0, 1.0]),
        np.array([0.0, 0.4]),
        np.array([0.4, 1.0]),
        frame=(0.0, 1.0),
    )
    assert len(lines) == 1
    stairs = [(0.5, 0.0), (0.5, 0.4), (0.7, 0.4), (0.7, 1.0)]
    assert lines[0] in (stairs, stairs[::-1])
    # A rectangle in the middle is a closed line, a full frame has none.
    hole = outline(*(np.array([x]) for x in (0.2, 0.4, 0.3, 0.6)), frame=(0.0, 1.0))
    assert [len(line) for line in hole] == [5]
    assert outline(*(np.array([x]) for x in (0.0, 1.0, 0.0, 1.0)), frame=(0.0, 1.0)) == []


@given(
    st.lists(
        st.tuples(*(st.integers(0, 6) for _ in range(4))).filter(
            lambda r: r[0] < r[1] and r[2] < r[3]
        ),
        min_size=1,
        max_size=5,
    )
)
def test_an_outline_is_where_neighbours_differ(rectangles: list[tuple[int, int, int, int]]) -> None:
    left, right, bottom, top = (np.array(ends, float) for ends in zip(*rectangles, strict=True))
    lines = outline(left, right, bottom / 6, top / 6, frame=(0.0, 6.0))
    drawn = sum(
        abs(a[0] - b[0]) + 6 * abs(a[1] - b[1])
        for line in lines
        for a, b in itertools.pairwise(line)
    )
    inside = [
        [any(a <= x < b and c <= y < d for a, b, c, d in rectangles) for y in range(6)]
        for x in range(6)
    ]
    across = sum(inside[x][y] != inside[x + 1][y] for x in range(5) for y in range(6))
    along = sum(inside[x][y] != inside[x][y + 1] for x in range(6) for y in range(5))
    assert drawn == pytest.approx(across + along)


def test_level_names() -> None:
    edges = [-math.inf, -2.0, 0.5, math.inf]
    frame = pl.DataFrame(
        {"uncertainty_bin": [0, 1, 2], "uncertainty_low": edges[:3], "uncertainty_high": edges[1:]}
    )
    assert level_names(frame) == ["below -2", "-2 to 0.5", "0.5 and more"]


def test_ece_at_each_score_bin() -> None:
    table = points_of("ece-at").table
    frame = scored()
    cells = cells_of(frame["score"].to_list(), frame["uncertainty"].to_list(), 3, 4)
    for name in ("score", "other"):
        gaps = {}
        for cell in set(cells):
            own = [row for at, row in zip(cells, rows_of(name), strict=True) if at == cell]
            gaps[cell] = abs(sum(s - y for s, y in own)) / len(own)
        for row in table.filter(score=name).iter_rows(named=True):
            at = [gap for (_, j), gap in gaps.items() if j == row["score_bin"]]
            up = [gap for (_, j), gap in gaps.items() if j >= row["score_bin"]]
            assert row["ece_at"] == pytest.approx(sum(at) / len(at))
            assert row["cumulative_ece_at"] == pytest.approx(sum(up) / len(up))
            for kind in ("ece_at", "cumulative_ece_at"):
                assert 0.0 <= row[f"{kind}_low"] <= row[kind] <= row[f"{kind}_high"] <= 1.0
    (_, below) = plots.draw(plots.points(source_of(frame), EceAtOptions(score_bins=4))).axes
    assert all(float(tick).is_integer() for tick in below.get_xticks())
    for without in ({"intervals": False}, {"weight": "weight"}):
        options = EceAtOptions(score_bins=4, **without)  # type: ignore[arg-type]
        plain = plots.points(source_of(frame.with_columns(weight=1.5)), options)
        assert plain.table["ece_at_low"].count() == 0 and "interval" not in plain.words


@pytest.mark.parametrize("scale", ["logit", "percent"])
def test_ece_over_a_grid_of_scores_on_another_scale(scale: str, tmp_path: Path) -> None:
    odds = 4.0 * pl.col("score") - 2.0 if scale == "logit" else 100.0 * pl.col("score")
    rows, grid = tmp_path / "rows.parquet", tmp_path / "grid.parquet"
    scored().with_columns(other=odds).write_parquet(rows)
    make(grid, "bin", rows, f"--score other --scale {scale} --score-bins 4")
    shown = plots.points(open_source([str(rows)]), EceAtOptions(grid=str(grid)))
    plain = plots.points(source_of(scored()), EceAtOptions(score_bins=4))
    assert shown.table.equals(plain.table) and shown.words["grid"] == "other"


def test_thresholds_of_percentages_stand_where_these_do() -> None:
    frame = scored().with_columns(100.0 * pl.col("score"))
    shown = plots.points(source_of(frame), ThresholdOptions(scale="percent", threshold="50"))
    assert shown.table.filter(curve="decisions")["threshold"].to_list() == [0.5]
    (axes,) = plots.draw(shown).axes
    assert axes.get_xlabel() == "threshold of score / 100"


@pytest.mark.parametrize("kept", [0, 1])
def test_scores_may_all_be_infinite(kept: int) -> None:
    end = pl.when(pl.col("label") == 1).then(math.inf).otherwise(-math.inf)
    row = pl.int_range(pl.len()) + 0.0
    frame = many().with_columns(score=pl.when((row > 9) & (kept == 1)).then(row).otherwise(end))
    for kind in (ThresholdOptions, RocOptions):
        shown = plots.points(source_of(frame), kind(scale="raw"))
        curve = shown.table.filter(curve="thresholds")
        assert curve.height > 1 and not curve["recall"].is_nan().any()
        plots.draw(shown)


@pytest.mark.parametrize("levels", [1, 3, 20])
@pytest.mark.parametrize("off", [0.0, 0.05])
def test_the_interval_of_ece_at_holds_the_true_error(levels: int, off: float) -> None:
    random, rows, runs = np.random.default_rng(3), 200, 300
    truth = np.linspace(0.2, 0.5, levels)
    said = truth + off * np.where(np.arange(levels) % 2, 1.0, -1.0)
    held = 0
    for _ in range(runs):
        hits = random.binomial(rows, truth)
        share = (hits + 2.0) / (rows + 4.0)
        ends = cells.interval(np.abs(said - hits / rows), share * (1.0 - share) / rows, 0.9)
        assert ends[0] is not None
        held += ends[0] <= off <= ends[1]
    assert held / runs > 0.9 - 3.0 * math.sqrt(0.09 / runs)
    assert cells.interval(np.empty(0), np.empty(0), 0.9) == (None, None)


@example(table=[(0.205, 0.01), (0.3, 0.0005)])  # the first comes down to 0 for nearly all there is
@given(st.lists(st.tuples(st.floats(0.001, 0.4), st.floats(1e-5, 1e-2)), min_size=2, max_size=9))
def test_the_low_end_of_ece_at_is_the_least_mean_that_is_near_enough(
    table: list[tuple[float, float]],
) -> None:
    gaps, variances = np.array(table).T
    low, _ = cells.interval(gaps, variances, 0.9)
    spread = 2.0 / (9.0 * gaps.size)
    near = gaps.size * (1.0 - spread + stats.norm.ppf(0.9) * math.sqrt(spread)) ** 3
    few, many = 0.0, float((gaps / variances).max())  # by how much of its variance each gap falls
    for _ in range(200):
        share = (few + many) / 2
        inside = (np.minimum(gaps, share * variances) ** 2 / variances).sum() <= near
        few, many = (share, many) if inside else (few, share)
    assert low == pytest.approx(np.maximum(gaps - few * variances, 0.0).mean(), abs=1e-9)


# ---------------------------------------------------------------- recall gain, bias, AUC lift


def test_the_gain_is_that_of_the_recall_on_test_rows() -> None:
    test = scored().with_columns(pl.col("label").shift(7, fill_value=1))
    options = RecallGainOptions(method=["exact", "mist"], precision=[0.5, 0.7], test=test)
    shown = plots.points(source_of(scored()), options)
    table = shown.table
    assert shown.words["rows"] == "test rows"
    rows, labels = read_score_rows(source_of(scored()), ColumnOptions()), test["label"].to_list()
    for row in table.iter_rows(named=True):
        found, drawn, alerts = [], [], []
        for method in ("st", row["method"]):
            options = BoundaryOptions(precision=row["bound"], method=method, folds=0)
            model = fit_boundary(rows, options).model
            taken = decisions(msgspec.json.decode(model.to_json()), test)
            hits = sum(d * y for d, y in zip(taken, labels, strict=True))
            found.append((hits / sum(taken), hits / sum(labels)))
            drawn.append([d * y for d, y in zip(taken, labels, strict=True)])
            alerts.append(sum(taken))
        assert (row["baseline_precision"], row["baseline_recall"]) == pytest.approx(found[0])
        assert (row["precision"], row["recall"]) == pytest.approx(found[1])
        assert row["gain"] == pytest.approx(found[1][1] / found[0][1] - 1)
        for prefix, hit, taken in zip(("baseline_", ""), drawn, alerts, strict=True):
            ends = stats.binomtest(sum(hit), taken).proportion_ci(0.95)
            wanted = (row[f"{prefix}precision_low"], row[f"{prefix}precision_high"])
            assert wanted == pytest.approx((ends.low, ends.high))
        # Of 2,000 bootstrap samples of the test rows, their ratios of recalls.
        one, base = (np.array(hit) for hit in reversed(drawn))
        picked = np.random.default_rng(0).integers(0, one.size, (2000, one.size))
        ratios = np.log(one[picked].sum(axis=1) / base[picked].sum(axis=1))
        ends = np.log1p([row["gain_low"], row["gain_high"]])
        assert np.diff(ends) / (2 * 1.96) == pytest.approx(ratios.std(), rel=0.15)


def test_without_test_rows_the_gain_has_no_interval() -> None:
    shown = points_of("recall-gain").table
    assert shown["gain"].count() and shown["precision_low"].count()
    assert shown["gain_low"].count() == 0
    options = RecallGainOptions(method="exact", precision="0.6", intervals=False)
    assert plots.points(source_of(scored()), options).table["precision_low"].count() == 0


def test_a_gain_where_nothing_is_found_has_no_interval() -> None:
    taken = [
        ck.fit_boundary(scored(), precision=0.7, method=method, folds=0).apply(scored())["decision"]
        for method in ("st", "exact")
    ]
    test = scored().filter((taken[0] == 1) & (taken[1] == 0)).with_columns(label=1)
    assert test.height  # rows that only the single threshold selects
    options = RecallGainOptions(method=["exact"], precision=[0.7], test=test)
    table = plots.points(source_of(scored()), options).table
    (row,) = table.select("baseline_recall", "recall", "gain", "gain_low", "gain_high").rows()
    assert row == (1.0, 0.0, -1.0, None, None)


def test_bounds_that_no_boundary_meets_are_null() -> None:
    frame = scored().with_columns(label=pl.Series(np.arange(240) % 2))
    options = RecallGainOptions(method="mist", precision="1,0.5")
    table = plots.points(source_of(frame.with_columns(score=0.5)), options).table
    assert table["bound"].to_list() == [0.5, 1.0]
    assert table["gain"].to_list()[1] is None
    assert plots.picture(plots.points(source_of(frame), options))
    for name in ("st", "nothing"):
        with pytest.raises(UsageError, match="cannot be compared"):
            plots.points(source_of(frame), RecallGainOptions(method=name))


def test_bias_among_the_highest_scores() -> None:
    table = points_of("bias").table
    assert table["top"].to_list() == [0.1, 0.3, 1.0] * 2
    rows = list(scored().select("score", "other", "label").iter_rows())
    for row in table.iter_rows(named=True):
        cut = sorted((r[0] for r in rows), reverse=True)[
            math.ceil(Fraction(str(row["top"])) * 240) - 1
        ]
        own = [r for r in rows if r[0] >= cut]
        place = 0 if row["score"] == "score" else 1
        bias = sum(r[place] for r in own) / sum(r[2] for r in own) - 1
        assert row["count"] == len(own)
        assert row["calibration_bias"] == pytest.approx(bias)
        pairs = [(r[place], r[2]) for r in own]
        assert row["ece"] == pytest.approx(
            naive.expected_calibration_error(pairs, 15, "equal-width")
        )


def test_biases_stand_beside_each_other_at_their_share() -> None:
    options = BiasOptions(scores=BOTH, top=[0.03, 0.1, 1], intervals=False)
    for panel in plots.draw(plots.points(source_of(scored()), options)).axes:
        drawn = [line.get_xdata() for line in panel.lines if len(line.get_xdata()) == 3]
        assert len(drawn) == 2
        assert (np.array(drawn[0]) < np.array(drawn[1])).all()
        for xs in drawn:
            assert list(xs) == pytest.approx([0.03, 0.1, 1.0], rel=0.05)


def test_auc_lift_of_each_run() -> None:
    table = points_of("auc-lift").table
    assert table["slice"].to_list() == ["all", *(f"run:{k}" for k in range(6))]
    for row in table.iter_rows(named=True):
        own = scored() if row["slice"] == "all" else scored().filter(run=int(row["slice"][-1]))
        base, other = (
            naive.auc(list(own.select(n, "label").iter_rows())) for n in ("score", "other")
        )
        assert base and other
        assert row["lift"] == pytest.approx(other / base - 1)
        assert row["rows"] == own.height


def test_a_lift_on_all_rows_has_the_interval_of_the_difference() -> None:
    shown = plots.points(source_of(scored()), AucLiftOptions(scores=BOTH))
    row = shown.table.row(0, named=True)
    options = EvaluateOptions(scores=BOTH, metrics="auc")
    paired = evaluate(options, source_of(scored())).metrics.differences["other-score"]["all"]["auc"]
    assert row["lift"] == pytest.approx(paired.value / row["auc_baseline"])
    assert (row["low"], row["high"]) == pytest.approx(
        (paired.low / row["auc_baseline"], paired.high / row["auc_baseline"])
    )
    (panel,) = plots.draw(shown).axes
    assert [line.get_ydata()[0] for line in panel.lines if len(line.get_ydata()) == 1] == [
        row["lift"]
    ]
    (whisker,) = (one for one in panel.collections[0].get_segments())
    assert whisker[:, 1].tolist() == pytest.approx([row["low"], row["high"]])
    with pytest.raises(UsageError, match="compares scores"):
        plots.points(source_of(scored()), AucLiftOptions())


# ---------------------------------------------------------------- votes


def check_vote_bins(own: pl.DataFrame, held: dict[int, list[tuple[float, float]]]) -> None:
    """Check the 15 bins of a predictor against the (prediction, share of raters) in each of them."""
    assert own.height == 15
    for found in own.iter_rows(named=True):
        pairs = held.get(found["bin"], [])
        assert found["count"] == len(pairs)
        if not pairs:
            assert found["mean_label"] is found["low"] is None
            continue
        shares = [share for _, share in pairs]
        assert found["mean_score"] == pytest.approx(sum(phi for phi, _ in pairs) / len(pairs))
        assert found["mean_label"] == pytest.approx(sum(shares) / len(shares))
        if len(shares) > 1:
            half = 1.959964 * np.std(shares, ddof=1) / math.sqrt(len(shares))
            low = max(0.0, found["mean_label"] - half)
            assert found["low"] == pytest.approx(low, abs=1e-6)


def test_disagreement_in_bins_of_the_prediction() -> None:
    table = points_of("disagreement").table
    for prefix, strong in itertools.product("ab", (True, False)):
        held: dict[int, list[tuple[float, float]]] = {}
        for row in voted().iter_rows(named=True):
            votes = [row[f"count_{k}"] for k in range(3)]
            if sum(votes) >= 2:
                same = sum(row[f"{prefix}_{k}"] ** 2 for k in range(3))
                phi = (row["alpha0"] / (row["alpha0"] + 1) if strong else 1) * (1 - same)
                share = float(naive_raters.disagreement(votes)[0])
                held.setdefault(naive_raters.bin_place(phi, 15), []).append((phi, share))
        check_vote_bins(table.filter(score=f"{prefix}_*{' with alpha0' if strong else ''}"), held)


def test_reliability_by_votes_has_all_classes_in_bins_of_their_probability() -> None:
    options = ReliabilityOptions(probs=("a_*", "b_*"), counts="count_*")
    shown = plots.points(source_of(voted()), options)
    assert shown.kind == "reliability" and set(shown.table["curve"]) == {"classes"}
    for prefix in "ab":
        held: dict[int, list[tuple[float, float]]] = {}
        for row, k in itertools.product(voted().iter_rows(named=True), range(3)):
            share = row[f"count_{k}"] / sum(row[f"count_{c}"] for c in range(3))
            phi = row[f"{prefix}_{k}"]
            held.setdefault(naive_raters.bin_place(phi, 15), []).append((phi, share))
        check_vote_bins(shown.table.filter(score=f"{prefix}_*"), held)
    assert faults(plots.draw(shown)) == []
    with pytest.raises(UsageError, match="15 bins of equal width"):
        ReliabilityOptions(probs="a_*", counts="count_*", bins=10)


def test_the_map_shows_the_losses_of_evaluate() -> None:
    table = points_of("dispersion").table
    found = evaluate(DispersionOptions(**JUDGED).judged, source_of(voted())).metrics
    assert table["name"].to_list() == ["a_*", "b_*"]
    for row in table.iter_rows(named=True):
        for name in ("calibration_loss", "dispersion_loss", "epistemic_loss"):
            assert row[name] == found.metrics[row["name"]]["all"][name]
            limits = found.intervals[row["name"]]["all"][name]
            assert (row[f"{name}_low"], row[f"{name}_high"]) == (limits.low, limits.high)


def test_votes_are_needed() -> None:
    frame = voted().with_columns(
        pl.lit(k == 0).cast(pl.Int64).alias(f"count_{k}") for k in range(3)
    )
    for kind in (DispersionOptions, DisagreementOptions):
        with pytest.raises(DataError, match="no row has two votes"):
            plots.points(source_of(frame), kind(**JUDGED))
        with pytest.raises(UsageError, match="name --counts"):
            kind(probs="a_*", counts=None)
