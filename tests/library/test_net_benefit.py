"""Decision curves, expected cost and risk by coverage: row by row, and bands by simulation."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.measures.decisions import COST, NET_BENEFIT, THRESHOLDS, Flagged, curve
from calibkit.options.plot import CostCurveOptions, DecisionCurveOptions, RiskCoverageOptions
from calibkit.reports import plots
from calibkit.reports.curves import aurc
from tests.library.pictures import points_of, scored, source_of


def rows_of(name: str = "score") -> list[tuple[float, int]]:
    return list(scored().select(name, "label").iter_rows())


@pytest.mark.parametrize("name", ["score", "other"])
def test_every_threshold_is_counted_out(name: str) -> None:
    rows = rows_of(name)
    benefit, cost = (
        points_of(kind).table.filter(model=name) for kind in ("decision-curve", "cost-curve")
    )
    assert benefit["threshold"].to_list() == [k / 100 for k in range(1, 100)]
    for place, t in enumerate(benefit["threshold"].to_list()):
        hits = sum(label for score, label in rows if score >= t)
        alarms = sum(1 - label for score, label in rows if score >= t)
        missed = sum(label for score, label in rows if score < t)
        expected = (hits - alarms * t / (1 - t)) / len(rows)
        assert benefit["net_benefit"][place] == pytest.approx(expected, abs=1e-12)
        expected = (t * alarms + (1 - t) * missed) / len(rows)
        assert cost["cost"][place] == pytest.approx(expected, abs=1e-12)


def test_flagging_all_and_none() -> None:
    rate = np.mean([label for _, label in rows_of()])
    benefit, cost = (points_of(kind).table for kind in ("decision-curve", "cost-curve"))
    for t in (0.01, 0.3, 0.99):
        own = {
            (name, model): table.filter(model=model, threshold=t)[name][0]
            for table, name in ((benefit, "net_benefit"), (cost, "cost"))
            for model in ("all", "none")
        }
        assert own["net_benefit", "all"] == pytest.approx(rate - (1 - rate) * t / (1 - t))
        assert own["net_benefit", "none"] == 0.0
        assert own["cost", "all"] == pytest.approx(t * (1 - rate))
        assert own["cost", "none"] == pytest.approx((1 - t) * rate)
    for table in (benefit, cost):
        low, value, high = (table[name] for name in ("low", table.columns[2], "high"))
        assert ((low <= value + 1e-12) & (value <= high + 1e-12)).all()


def test_weights_are_rows_and_intervals_can_be_left_out() -> None:
    frame = scored().with_columns(weight=pl.int_range(pl.len()) % 3)
    options = DecisionCurveOptions()
    weighted = plots.points(source_of(frame), replace(options, weight="weight")).table
    often = frame.filter(pl.col("weight") > 0).with_columns(
        pl.col("label").repeat_by("weight"), pl.col("score").repeat_by("weight")
    )
    repeated = plots.points(source_of(often.explode("label", "score")), options).table
    assert weighted["net_benefit"].to_list() == pytest.approx(repeated["net_benefit"].to_list())
    assert weighted["low"].to_list() == pytest.approx(repeated["low"].to_list())
    bare = plots.points(source_of(frame), CostCurveOptions(intervals=False)).table
    assert bare["low"].null_count() == bare.height


@pytest.mark.few(1)
@pytest.mark.parametrize("worth", [NET_BENEFIT, COST], ids=["benefit", "cost"])
def test_bands_hold_the_whole_curve(worth: object) -> None:
    """Of 80 files of 1,000 rows: the curve of all rows lies within the band everywhere."""
    draw = np.random.default_rng(7)
    share = draw.dirichlet(np.ones(100)) * 0.9 + 0.001
    share /= share.sum()
    rate = np.linspace(0.02, 0.95, 100)
    exact = np.round(share * 1e9).astype(np.int64)
    hits = (exact * rate).astype(np.int64)
    whole = Flagged(name="all", negatives=exact - hits, positives=hits)
    truth = curve(whole, worth, None, 0)["net_benefit"].to_numpy()  # type: ignore[arg-type]
    held = []
    for seed in range(80):
        counts = draw.multinomial(1000, exact / exact.sum())
        positives = draw.binomial(counts, rate)
        own = Flagged(name="s", negatives=counts - positives, positives=positives)
        found = curve(own, worth, 0.9, seed)  # type: ignore[arg-type]
        inside = (found["low"].to_numpy() <= truth) & (truth <= found["high"].to_numpy())
        held.append(inside.all())
    assert 0.80 <= np.mean(held) <= 0.99  # 90 % and three standard errors; not all
    assert THRESHOLDS.size == 99


@given(
    st.lists(
        st.integers(1, 4).flatmap(lambda m: st.tuples(st.just(m), st.integers(0, m))), min_size=1,
        max_size=4,
    ).filter(lambda groups: sum(m for m, _ in groups) <= 7)
)  # fmt: skip
def test_the_mean_risk_is_that_over_every_order_of_ties(groups: list[tuple[int, int]]) -> None:
    rows, errors = (np.array(column) for column in zip(*groups, strict=True))
    orders = [
        set(itertools.permutations([1] * wrong + [0] * (size - wrong))) for size, wrong in groups
    ]
    risks = []
    for order in itertools.product(*orders):
        wrong = np.concatenate(order)
        risks.append(np.mean(np.cumsum(wrong) / np.arange(1, wrong.size + 1)))
    assert aurc(rows, errors) == pytest.approx(np.mean(risks), rel=1e-12)


def test_long_files_have_the_same_mean_risk() -> None:
    wrong = (np.random.default_rng(8).random(30_000) < np.linspace(0, 0.5, 30_000)).astype(int)
    expected = np.mean(np.cumsum(wrong) / np.arange(1, wrong.size + 1))
    assert aurc(np.ones_like(wrong), wrong) == pytest.approx(expected, rel=1e-12)


def test_risk_is_that_of_the_surest_rows() -> None:
    table = plots.points(source_of(scored()), RiskCoverageOptions()).table
    rows = rows_of()
    for row in table.iter_rows(named=True):
        kept = [(p, y) for p, y in rows if round(max(p, 1 - p), 15) >= row["confidence"]]
        assert row["coverage"] == pytest.approx(len(kept) / len(rows))
        wrong = sum((p >= 0.5) != bool(y) for p, y in kept)
        assert row["risk"] == pytest.approx(wrong / len(kept))
    assert table["coverage"][-1] == 1.0
