"""Decision curves, expected cost and risk by coverage: row by row, and bands by simulation."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.measures.decisions import COST, NET_BENEFIT, THRESHOLDS, Flagged, curve
from calibkit.reports.curves import aurc
from tests.library.pictures import points, points_of, rows_of, scored


@pytest.mark.parametrize("name", ["score", "other"])
def test_every_threshold_is_counted_out(name: str) -> None:
    rows = rows_of(name)
    benefit, cost = (
        points_of(kind).table.filter(model=name) for kind in ("decision-curve", "cost-curve")
    )
    assert benefit["threshold"].to_list() == [k / 100 for k in range(1, 100)]
    for t, gain, lost in zip(
        benefit["threshold"], benefit["net_benefit"], cost["cost"], strict=True
    ):
        hits = sum(label for score, label in rows if score >= t)
        alarms = sum(1 - label for score, label in rows if score >= t)
        missed = sum(label for score, label in rows if score < t)
        assert gain == pytest.approx((hits - alarms * t / (1 - t)) / len(rows), abs=1e-12)
        assert lost == pytest.approx((t * alarms + (1 - t) * missed) / len(rows), abs=1e-12)


def test_flagging_all_and_none() -> None:
    rate = np.mean([label for _, label in rows_of()])
    benefit, cost = (points_of(kind).table for kind in ("decision-curve", "cost-curve"))
    t = np.arange(1, 100) / 100
    for table, name, model, expected in (
        (benefit, "net_benefit", "all", rate - (1 - rate) * t / (1 - t)),
        (benefit, "net_benefit", "none", 0.0 * t),
        (cost, "cost", "all", t * (1 - rate)),
        (cost, "cost", "none", (1 - t) * rate),
    ):
        assert table.filter(model=model)[name].to_numpy() == pytest.approx(expected)
        low, value, high = (table[column] for column in ("low", name, "high"))
        assert ((low <= value + 1e-12) & (value <= high + 1e-12)).all()


def test_weights_are_rows_and_intervals_can_be_left_out() -> None:
    frame = scored().with_columns(weight=pl.int_range(pl.len()) % 3)
    weighted = points("decision-curve", frame, weight="weight").table
    often = frame.filter(pl.col("weight") > 0).select(pl.all().repeat_by("weight").explode())
    repeated = points("decision-curve", often).table
    for name in ("net_benefit", "low"):
        assert weighted[name].to_list() == pytest.approx(repeated[name].to_list())
    bare = points("cost-curve", frame, intervals=False).table
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
    table = points("risk-coverage").table
    rows = rows_of()
    for row in table.iter_rows(named=True):
        kept = [(p, y) for p, y in rows if round(max(p, 1 - p), 15) >= row["confidence"]]
        assert row["coverage"] == pytest.approx(len(kept) / len(rows))
        wrong = sum((p >= 0.5) != bool(y) for p, y in kept)
        assert row["risk"] == pytest.approx(wrong / len(kept))
    assert table["coverage"][-1] == 1.0
