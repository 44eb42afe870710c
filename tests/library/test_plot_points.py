"""The points of each kind of picture, counted again row by row."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
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
from calibkit.errors import DataError, UsageError
from calibkit.files.sources import Source, open_source
from calibkit.measures import cells
from calibkit.options.plot import DispersionOptions, HeatmapOptions
from calibkit.reports import plots
from calibkit.reports.curves import MOST_POINTS, visible
from calibkit.reports.heatmap import outline
from tests.cli.score_files import decisions
from tests.conftest import make
from tests.library.pictures import (
    BOTH,
    JUDGED,
    faults,
    leaves,
    many,
    points,
    points_of,
    rows_of,
    scored,
    voted,
)
from tests.naive import metrics as naive
from tests.naive import raters as naive_raters
from tests.naive.boundaries import naive_quantile_bins

Pairs = list[tuple[float, float]]


def cells_of(name: str, levels: int, bins: int) -> dict[tuple[int, int], Pairs]:
    """Return score and label of the rows of each quantile level and quantile score bin within it."""
    score, uncertainty = scored()["score"].to_list(), scored()["uncertainty"].to_list()
    level = naive_quantile_bins(uncertainty, levels, uncertainty)
    own = [[s for s, at in zip(score, level, strict=True) if at == i] for i in range(levels)]
    held: dict[tuple[int, int], Pairs] = defaultdict(list)
    for s, i, row in zip(score, level, rows_of(name), strict=True):
        held[i, naive_quantile_bins(own[i], bins, [s])[0]].append(row)
    return held


def rates(rows: Iterable[tuple[float, int]]) -> Iterator[dict[str, float]]:
    """Return the rates of each threshold, highest first."""
    rows = list(rows)
    positives = sum(label for _, label in rows)
    for threshold in sorted({score for score, _ in rows}, reverse=True):
        taken = [label for score, label in rows if score >= threshold]
        yield {
            "threshold": threshold,
            "recall": sum(taken) / positives,
            "precision": sum(taken) / len(taken),
            "selected_share": len(taken) / len(rows),
            "fpr": (len(taken) - sum(taken)) / (len(rows) - positives),
        }


def fit(path: Path, method: str, **more: Any) -> Path:
    """Write a boundary of the rows; return its file."""
    ck.fit_boundary(scored(), precision=0.7, method=method, folds=0, **more).save(path)
    return path


def found_by(path: Path, rows: pl.DataFrame) -> list[int]:
    return decisions(msgspec.json.decode(path.read_bytes()), rows)


def grid_of(folder: Path, *more: str) -> Source:
    """Return a table of the rows, which are written beside it."""
    scored().write_parquet(folder / "rows.parquet")
    grid = make(folder / "grid.csv", "bin", folder / "rows.parquet", "--score-bins 4", *more)
    return open_source([str(grid)])


# ---------------------------------------------------------------- reliability


def test_reliability_counts_bins_and_pools() -> None:
    table = points_of("reliability").table
    for name in BOTH:
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
    shown = points("reliability", frame, probs="a_*")
    chosen = frame.select(pl.concat_list("a_0", "a_1", "a_2").alias("a"), "label").to_dicts()
    right = sum(max(row["a"]) == row["a"][row["label"]] for row in chosen)
    assert shown.table.filter(curve="bins")["positives"].sum() == right
    assert shown.words["x"] == "probability of the predicted class"


# ---------------------------------------------------------------- precision, recall, ROC


@pytest.mark.parametrize("kind", ["precision-recall", "roc"])
def test_curves_hold_the_rates_of_every_threshold(kind: str) -> None:
    table = points_of(kind).table
    for name in BOTH:
        own = table.filter(name=name, curve="thresholds")
        for row, known in zip(own.iter_rows(named=True), rates(rows_of(name)), strict=True):
            assert {rate: row[rate] for rate in known} == pytest.approx(known)
            assert row["threshold"] == known["threshold"]
        x, y = own["recall"].to_list(), own["precision"].to_list()
        if kind == "precision-recall":
            steps = np.diff([0.0, *x])
            area, expected = np.dot(steps, y), naive.average_precision(rows_of(name))
        else:
            area = np.trapezoid([0.0, *x], [0.0, *own["fpr"].to_list()])
            expected = naive.auc(rows_of(name))
        assert own["area"][0] == pytest.approx(expected) == pytest.approx(area)  # as drawn
    base = table.filter(curve="base_rate")["precision"][0]
    assert base == pytest.approx(sum(y for _, y in rows_of()) / 240)


def test_operating_points_are_the_rates_of_the_decisions(tmp_path: Path) -> None:
    paths = [fit(tmp_path / f"{name}.json", name) for name in ("st", "exact")]
    table = points("roc", boundary=paths).table.filter(curve="decisions")
    labels = scored()["label"].to_list()
    for path, row in zip(paths, table.iter_rows(named=True), strict=True):
        taken = found_by(path, scored())
        known = next(rates(zip(taken, labels, strict=True)))
        assert row["name"] == str(path)
        for rate in ("precision", "recall", "fpr"):
            assert row[rate] == pytest.approx(known[rate])
            assert row[f"{rate}_low"] <= row[rate] <= row[f"{rate}_high"]


def test_intervals_along_a_curve_are_exact_ones_of_each_threshold() -> None:
    rows = rows_of()
    positives = sum(label for _, label in rows)
    for row in points_of("threshold").table.filter(curve="thresholds").iter_rows(named=True):
        taken = [label for score, label in rows if score >= row["threshold"]]
        hits, alerts = sum(taken), len(taken)
        for name, some, of in (
            ("precision", hits, alerts),
            ("recall", hits, positives),
            ("fpr", alerts - hits, len(rows) - positives),
        ):
            ends = stats.binomtest(some, of).proportion_ci(0.95)
            found = row[f"{name}_low"], row[f"{name}_high"]
            assert found == pytest.approx((ends.low, ends.high), abs=1e-9)
    frame = scored().with_columns(weight=pl.lit(2.0))
    shown = points("roc", frame, weight="weight").table.filter(curve="thresholds")
    assert shown["recall_low"].null_count() == shown.height


def test_a_chosen_threshold_is_judged_where_it_stands(tmp_path: Path) -> None:
    path = fit(tmp_path / "st.json", "st")
    (threshold,) = msgspec.json.decode(path.read_bytes())["score_thresholds"]
    shown = points("threshold", threshold=[0.4, threshold], boundary=path).table
    shown = shown.filter(curve="decisions")
    assert shown["threshold"].to_list() == [0.4, threshold, threshold]
    rates = ["precision", "recall", "fpr", "selected_share", "recall_low"]
    assert shown.select(rates).row(1) == shown.select(rates).row(2)
    with pytest.raises(UsageError, match="does not have one threshold"):
        points("threshold", boundary=fit(tmp_path / "exact.json", "exact"))
    with pytest.raises(UsageError, match="plot threshold draws one score"):
        points("threshold", scores=BOTH)


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
        shown = points("threshold", frame, scale="raw", intervals=False)
        kept.append((shown.table["threshold"] / unit).to_list())
    assert kept[0] == kept[1] and 100 < len(kept[0]) < 9000


@pytest.mark.parametrize("kept", [0, 1])
def test_scores_may_all_be_infinite(kept: int) -> None:
    end = pl.when(pl.col("label") == 1).then(math.inf).otherwise(-math.inf)
    row = pl.int_range(pl.len()) + 0.0
    frame = many().with_columns(score=pl.when((row > 9) & (kept == 1)).then(row).otherwise(end))
    for kind in ("threshold", "roc"):
        shown = points(kind, frame, scale="raw")
        curve = shown.table.filter(curve="thresholds")
        assert curve.height > 1 and not curve["recall"].is_nan().any()
        plots.draw(shown)


def test_thresholds_of_percentages_stand_where_these_do() -> None:
    frame = scored().with_columns(100.0 * pl.col("score"))
    shown = points("threshold", frame, scale="percent", threshold="50")
    assert shown.table.filter(curve="decisions")["threshold"].to_list() == [0.5]
    (axes,) = plots.draw(shown).axes
    assert axes.get_xlabel() == "threshold of score / 100"


# ---------------------------------------------------------------- grids


def test_positivity_counts_the_cells_of_quantile_levels() -> None:
    table, held = points_of("positivity").table, cells_of("score", 3, 4)
    assert table["count"].sum() == 240
    for row in table.filter(pl.col("count") > 0).iter_rows(named=True):
        own = held[row["uncertainty_bin"], row["score_bin"]]
        hits = sum(int(label) for _, label in own)
        assert row["mean_score"] == pytest.approx(sum(score for score, _ in own) / len(own))
        assert row["positivity"] == pytest.approx(hits / len(own))
        exact = stats.binomtest(hits, len(own)).proportion_ci(0.95)
        assert (row["low"], row["high"]) == pytest.approx((exact.low, exact.high))


def test_a_table_is_drawn_as_its_rows_are(tmp_path: Path) -> None:
    source = grid_of(tmp_path)
    for kind in ("positivity", "heatmap"):
        shown = points(kind, source, uncertainty_bins=3, score_bins=4)
        assert shown.words["uncertainty"] == "uncertainty"
        rows = points(kind, uncertainty_bins=3, score_bins=4).table
        assert shown.table.equals(rows.cast(shown.table.schema))
    with pytest.raises(UsageError, match="bins the uncertainties within each score bin"):
        points("positivity", grid_of(tmp_path, "--order score-uncertainty"))


@pytest.mark.parametrize("weighted", [False, True])
def test_heights_of_levels_are_shares_of_rows_in_any_order(weighted: bool, tmp_path: Path) -> None:
    weight = np.random.default_rng(8).random(240) if weighted else np.ones(240)
    frame = scored().with_columns(weight=weight)
    path = fit(tmp_path / "boundary.json", "exact", uncertainty_bins=3)
    options = {"weight": "weight" if weighted else None, "score_bins": 5, "boundary": path}
    table = points("heatmap", frame, **options).table
    other = points("heatmap", frame.sample(fraction=1, shuffle=True, seed=1), **options)
    assert other.table.equals(table)
    spread = frame["uncertainty"].to_numpy()
    for row in table.iter_rows(named=True):
        for end in ("low", "high"):
            below = weight[spread < row[f"uncertainty_{end}"]].sum()
            assert row[f"rank_{end}"] == pytest.approx(below / weight.sum())


@pytest.mark.parametrize("recall", [None, 0.8])
def test_cells_of_two_uncertainties_count_what_is_decided(recall: float | None) -> None:
    model, drawn = leaves(recall), ["run", "uncertainty"]
    table = points("regions", many(), boundary=model, uncertainty=drawn).table
    decided = model.apply(many())
    if recall is None:
        words = {0: "pass", 1: "selected"}
        decided = decided.with_columns(pl.col("decision").replace_strict(words))
    for row in table.iter_rows(named=True):
        cell = decided
        for axis, name in zip("xy", drawn, strict=True):
            side = pl.col(name)
            cell = cell.filter(row[f"{axis}_low"] <= side, side < row[f"{axis}_high"])
            below = decided.filter(side < row[f"{axis}_low"]).height
            assert row[f"{axis}_rank_low"] == pytest.approx(below / 4000)
        taken = cell.filter(decision=row["decision"])
        assert (row["count"], row["decided"]) == (cell.height, taken.height)
        if cell.height:
            assert row["share"] == pytest.approx(taken.height / cell.height)
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
    shown, two = (
        points("regions", frame, boundary=model, uncertainty=own).table for own in (None, names[:2])
    )
    assert shown.equals(two)


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
    method: str, more: dict[str, Any], tmp_path: Path
) -> None:
    path = fit(tmp_path / "boundary.json", method, **more)
    shown = points("heatmap", uncertainty_bins=4, score_bins=5, boundary=path)
    table = shown.table.filter(kind="boundary")
    rows = scored().select("score", "uncertainty").rows()
    for taken, (score, spread) in zip(found_by(path, scored()), rows, strict=True):
        inside = table.filter(
            pl.lit(spread).is_between("uncertainty_low", "uncertainty_high", closed="left"),
            pl.lit(score).is_between("score_low", "score_high", closed="left"),
        )
        assert inside.height == taken
    assert set(table["name"]) == {str(path)}


def test_what_a_stochastic_boundary_leaves_to_chance_is_apart(tmp_path: Path) -> None:
    path = fit(tmp_path / "boundary.json", "stochastic", uncertainty_bins=3)
    table = points("heatmap", boundary=path).table.filter(kind="boundary")
    model = msgspec.json.decode(path.read_bytes())
    chance = [low for low in model["random_thresholds"] if low is not None]
    assert table.filter(name=f"{path}, by chance")["score_low"].to_list() == chance


def test_boundaries_that_cannot_be_drawn(tmp_path: Path) -> None:
    assert HeatmapOptions(boundary=None).boundaries == []
    path = fit(tmp_path / "segments.json", "exact", by="run")
    with pytest.raises(UsageError, match="thresholds for each 'run'"):
        points("heatmap", boundary=path)
    other = fit(tmp_path / "other.json", "exact", uncertainty_bins=2)
    with pytest.raises(UsageError, match="draw it over the rows themselves"):
        points("heatmap", grid_of(tmp_path), boundary=other)
    moved = scored().rename({"score": "s"}).with_columns(score=scored()["score"])
    (said, *_) = points("heatmap", moved, boundary=other, score="s").warnings
    assert "decides by the score 'score'" in said


def test_the_outline_of_stairs_is_one_line() -> None:
    ends = ([0.5, 0.7], [1.0, 1.0], [0.0, 0.4], [0.4, 1.0])
    lines = outline(*map(np.array, ends), frame=(0.0, 1.0))
    assert len(lines) == 1
    stairs = [(0.5, 0.0), (0.5, 0.4), (0.7, 0.4), (0.7, 1.0)]
    assert lines[0] in (stairs, stairs[::-1])
    # A rectangle in the middle is a closed line, a full frame has none.
    hole = outline(*(np.array([x]) for x in (0.2, 0.4, 0.3, 0.6)), frame=(0.0, 1.0))
    assert [len(line) for line in hole] == [5]
    assert outline(*(np.array([x]) for x in (0.0, 1.0, 0.0, 1.0)), frame=(0.0, 1.0)) == []


sides = st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda ends: ends[0] < ends[1])


@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=5))
def test_an_outline_is_where_neighbours_differ(
    rectangles: list[tuple[tuple[int, int], tuple[int, int]]],
) -> None:
    (left, right), (bottom, top) = np.array(rectangles, float).transpose(1, 2, 0)
    lines = outline(left, right, bottom / 6, top / 6, frame=(0.0, 6.0))
    drawn = sum(
        abs(a[0] - b[0]) + 6 * abs(a[1] - b[1])
        for line in lines
        for a, b in itertools.pairwise(line)
    )
    inside = np.zeros((6, 6), bool)
    for (a, b), (c, d) in rectangles:
        inside[a:b, c:d] = True
    edges = (inside[1:] != inside[:-1]).sum() + (inside[:, 1:] != inside[:, :-1]).sum()
    assert drawn == pytest.approx(edges)


def test_ece_at_each_score_bin() -> None:
    table = points_of("ece-at").table
    for name in BOTH:
        gaps = {
            cell: abs(sum(s - y for s, y in own)) / len(own)
            for cell, own in cells_of(name, 3, 4).items()
        }
        for row in table.filter(score=name).iter_rows(named=True):
            at = [gap for (_, j), gap in gaps.items() if j == row["score_bin"]]
            up = [gap for (_, j), gap in gaps.items() if j >= row["score_bin"]]
            assert row["ece_at"] == pytest.approx(sum(at) / len(at))
            assert row["cumulative_ece_at"] == pytest.approx(sum(up) / len(up))
            for kind in ("ece_at", "cumulative_ece_at"):
                assert 0.0 <= row[f"{kind}_low"] <= row[kind] <= row[f"{kind}_high"] <= 1.0
    (_, below) = plots.draw(points("ece-at", score_bins=4)).axes
    assert all(float(tick).is_integer() for tick in below.get_xticks())
    frame = scored().with_columns(weight=1.5)
    for without in ({"intervals": False}, {"weight": "weight"}):
        plain = points("ece-at", frame, score_bins=4, **without)
        assert plain.table["ece_at_low"].count() == 0 and "interval" not in plain.words


@pytest.mark.parametrize("scale", ["logit", "percent"])
def test_ece_over_a_grid_of_scores_on_another_scale(scale: str, tmp_path: Path) -> None:
    odds = 4.0 * pl.col("score") - 2.0 if scale == "logit" else 100.0 * pl.col("score")
    rows, grid = tmp_path / "rows.parquet", tmp_path / "grid.parquet"
    scored().with_columns(other=odds).write_parquet(rows)
    make(grid, "bin", rows, f"--score other --scale {scale} --score-bins 4")
    shown = points("ece-at", open_source([str(rows)]), grid=str(grid))
    assert shown.table.equals(points("ece-at", score_bins=4).table)
    assert shown.words["grid"] == "other"


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
    shown = points("recall-gain", method=["exact", "mist"], precision=[0.5, 0.7], test=test)
    assert shown.words["rows"] == "test rows"
    labels = test["label"].to_numpy()
    for row in shown.table.iter_rows(named=True):
        drawn = []
        for prefix, method in (("baseline_", "st"), ("", row["method"])):
            model = ck.fit_boundary(scored(), precision=row["bound"], method=method, folds=0)
            taken = np.array(decisions(msgspec.json.decode(model.to_json()), test))
            hits, alerts = int((taken * labels).sum()), int(taken.sum())
            drawn.append(taken * labels)
            assert row[f"{prefix}precision"] == pytest.approx(hits / alerts)
            assert row[f"{prefix}recall"] == pytest.approx(hits / labels.sum())
            ends = stats.binomtest(hits, alerts).proportion_ci(0.95)
            wanted = (row[f"{prefix}precision_low"], row[f"{prefix}precision_high"])
            assert wanted == pytest.approx((ends.low, ends.high))
        base, one = drawn
        assert row["gain"] == pytest.approx(one.sum() / base.sum() - 1)
        # Of 2,000 bootstrap samples of the test rows, their ratios of recalls.
        picked = np.random.default_rng(0).integers(0, one.size, (2000, one.size))
        ratios = np.log(one[picked].sum(axis=1) / base[picked].sum(axis=1))
        ends = np.log1p([row["gain_low"], row["gain_high"]])
        assert np.diff(ends) / (2 * 1.96) == pytest.approx(ratios.std(), rel=0.15)


def test_gains_that_have_no_interval() -> None:
    shown = points_of("recall-gain").table  # without test rows
    assert shown["gain"].count() and shown["precision_low"].count()
    assert shown["gain_low"].count() == 0
    none = points("recall-gain", method="exact", precision="0.6", intervals=False).table
    assert none["precision_low"].count() == 0
    taken = [
        ck.fit_boundary(scored(), precision=0.7, method=method, folds=0).apply(scored())["decision"]
        for method in ("st", "exact")
    ]
    test = scored().filter((taken[0] == 1) & (taken[1] == 0)).with_columns(label=1)
    assert test.height  # rows that only the single threshold selects
    table = points("recall-gain", method=["exact"], precision=[0.7], test=test).table
    (row,) = table.select("baseline_recall", "recall", "gain", "gain_low", "gain_high").rows()
    assert row == (1.0, 0.0, -1.0, None, None)


def test_bounds_that_no_boundary_meets_are_null() -> None:
    frame = scored().with_columns(label=pl.Series(np.arange(240) % 2), score=0.5)
    shown = points("recall-gain", frame, method="mist", precision="1,0.5")
    assert shown.table["bound"].to_list() == [0.5, 1.0]
    assert shown.table["gain"].to_list()[1] is None
    assert plots.picture(shown)


def test_bias_among_the_highest_scores() -> None:
    table = points_of("bias").table
    assert table["top"].to_list() == [0.1, 0.3, 1.0] * 2
    rows = scored().select("score", "other", "label").rows()
    scores = sorted((row[0] for row in rows), reverse=True)
    for row in table.iter_rows(named=True):
        cut = scores[math.ceil(Fraction(str(row["top"])) * 240) - 1]
        place = BOTH.index(row["score"])
        pairs = [(r[place], r[2]) for r in rows if r[0] >= cut]
        bias = sum(score for score, _ in pairs) / sum(label for _, label in pairs) - 1
        assert row["count"] == len(pairs)
        assert row["calibration_bias"] == pytest.approx(bias)
        error = naive.expected_calibration_error(pairs, 15, "equal-width")
        assert row["ece"] == pytest.approx(error)
    shown = points("bias", scores=BOTH, top=[0.03, 0.1, 1], intervals=False)
    for panel in plots.draw(shown).axes:  # beside each other at their share
        one, two = (line.get_xdata() for line in panel.lines if len(line.get_xdata()) == 3)
        assert (np.array(one) < np.array(two)).all()
        for xs in (one, two):
            assert list(xs) == pytest.approx([0.03, 0.1, 1.0], rel=0.05)


def test_auc_lift_of_each_run() -> None:
    table = points_of("auc-lift").table
    assert table["slice"].to_list() == ["all", *(f"run:{k}" for k in range(6))]
    for row in table.iter_rows(named=True):
        own = scored() if row["slice"] == "all" else scored().filter(run=int(row["slice"][-1]))
        base, other = (naive.auc(list(own.select(name, "label").iter_rows())) for name in BOTH)
        assert base and other
        assert row["lift"] == pytest.approx(other / base - 1)
        assert row["rows"] == own.height


def test_a_lift_on_all_rows_has_the_interval_of_the_difference() -> None:
    shown = points("auc-lift", scores=BOTH)
    row = shown.table.row(0, named=True)
    paired = ck.evaluate(scored(), scores=BOTH, metrics="auc").differences
    found = paired["other-score"]["all"]["auc"]
    base = row["auc_baseline"]
    assert row["lift"] == pytest.approx(found.value / base)
    assert (row["low"], row["high"]) == pytest.approx((found.low / base, found.high / base))


# ---------------------------------------------------------------- votes


def check_vote_bins(own: pl.DataFrame, held: dict[int, Pairs]) -> None:
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
        held: dict[int, Pairs] = defaultdict(list)
        for row in voted().iter_rows(named=True):
            votes = [row[f"count_{k}"] for k in range(3)]
            if sum(votes) >= 2:
                same = sum(row[f"{prefix}_{k}"] ** 2 for k in range(3))
                phi = (row["alpha0"] / (row["alpha0"] + 1) if strong else 1) * (1 - same)
                share = float(naive_raters.disagreement(votes)[0])
                held[naive_raters.bin_place(phi, 15)].append((phi, share))
        check_vote_bins(table.filter(score=f"{prefix}_*{' with alpha0' if strong else ''}"), held)


def test_reliability_by_votes_has_all_classes_in_bins_of_their_probability() -> None:
    shown = points("reliability", voted(), probs=("a_*", "b_*"), counts="count_*")
    assert shown.kind == "reliability" and set(shown.table["curve"]) == {"classes"}
    for prefix in "ab":
        held: dict[int, Pairs] = defaultdict(list)
        for row, k in itertools.product(voted().iter_rows(named=True), range(3)):
            share = row[f"count_{k}"] / sum(row[f"count_{c}"] for c in range(3))
            phi = row[f"{prefix}_{k}"]
            held[naive_raters.bin_place(phi, 15)].append((phi, share))
        check_vote_bins(shown.table.filter(score=f"{prefix}_*"), held)
    assert faults(plots.draw(shown)) == []


def test_the_map_shows_the_losses_of_evaluate() -> None:
    table = points_of("dispersion").table
    asked = DispersionOptions(**JUDGED).judged.given()
    found = ck.evaluate(voted(), **asked)
    assert table["name"].to_list() == ["a_*", "b_*"]
    for row in table.iter_rows(named=True):
        for name in ("calibration_loss", "dispersion_loss", "epistemic_loss"):
            assert row[name] == found.metrics[row["name"]]["all"][name]
            limits = found.intervals[row["name"]]["all"][name]
            assert (row[f"{name}_low"], row[f"{name}_high"]) == (limits.low, limits.high)


COUNTED = {"probs": "a_*", "counts": "count_*"}
ONE_VOTE = voted().with_columns(pl.lit(k == 0).cast(pl.Int64).alias(f"count_{k}") for k in range(3))


@pytest.mark.parametrize(
    ("kind", "rows", "options", "error", "words"),
    [
        ("roc", scored().with_columns(label=1), {}, DataError, "all rows are positive"),
        ("cost-curve", scored().with_columns(label=1), {}, DataError, "all rows are positive"),
        ("decision-curve", scored().with_columns(label=0), {}, DataError, "all rows are negative"),
        ("auc-lift", scored(), {}, UsageError, "compares scores"),
        ("recall-gain", scored(), {"method": "st"}, UsageError, "cannot be compared"),
        ("recall-gain", scored(), {"method": "nothing"}, UsageError, "cannot be compared"),
        ("dispersion", ONE_VOTE, JUDGED, DataError, "no row has two votes"),
        ("disagreement", ONE_VOTE, JUDGED, DataError, "no row has two votes"),
        ("dispersion", voted(), {"probs": "a_*", "counts": None}, UsageError, "name --counts"),
        ("disagreement", voted(), {"probs": "a_*", "counts": None}, UsageError, "name --counts"),
        ("reliability", voted(), {**COUNTED, "bins": 10}, UsageError, "15 bins of equal width"),
    ],
)
def test_what_cannot_be_drawn(
    kind: str, rows: pl.DataFrame, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        points(kind, rows, **options)
