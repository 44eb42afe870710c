"""The mathematics of `watch`: against row by row sums, and by simulation where it is about chance."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import calibkit as ck
from calibkit.errors import ModelError
from calibkit.methods.watch import bets, bins
from calibkit.methods.watch.bets import FRACTIONS, Promise, estimate, evidence
from calibkit.methods.watch.state import Night, Shard, merge_states, period_at, read_state
from calibkit.methods.watch.watch import HISTORY, judge
from tests.library.pictures import new_state, watched
from tests.naive import watch as naive

CHANCES, LABELS = st.sampled_from([0.0, 0.25, 1.0]), st.integers(0, 1)
ROWS = st.lists(st.tuples(CHANCES, LABELS), max_size=8)
WEIGHTED = st.lists(st.tuples(CHANCES, LABELS, st.sampled_from([0.5, 1.0, 4.0])), max_size=8)
PROMISES = st.sampled_from(["precision", "recall", "fpr"])


def cells(rows: list[tuple[Any, ...]]) -> dict[tuple[float, float], tuple[int, int]]:
    """Return rows (chance, label, weight if it is not 1) as they are counted."""
    full = [(chance, label, *(weight or [1.0])) for chance, label, *weight in rows]
    return {
        (chance, weight): (full.count((chance, 0, weight)), full.count((chance, 1, weight)))
        for chance, _, weight in full
    }


@given(
    most=st.sampled_from([1.0, 4.0, 7.5]),
    name=PROMISES,
    bound=st.sampled_from([0.05, 0.5, 0.9]),
    data=st.data(),
)
def test_evidence_is_that_of_every_row_and_every_start(
    most: float, name: str, bound: float, data: st.DataObject
) -> None:
    nights = data.draw(st.lists(ROWS if most == 1.0 else WEIGHTED, max_size=6))
    found = evidence(Promise(name, bound, most), [cells(night) for night in nights])
    expected = naive.e_values(name, bound, nights, FRACTIONS.tolist(), most)
    np.testing.assert_allclose(np.exp(found.logs), expected, rtol=1e-10)


@given(name=PROMISES, bound=st.sampled_from([0.01, 0.5, 0.99]), rows=WEIGHTED)
def test_no_bet_loses_more_than_there_is_or_gains_where_the_promise_is_kept(
    name: str, bound: float, rows: list[tuple[float, int, float]]
) -> None:
    promise = Promise(name, bound, 4.0)
    pays = promise.payoffs(cells(rows))
    assert all(1.0 + stake * pay > 0.0 for pay, _ in pays for stake in promise.stakes)
    kept = {(0.0, 4.0): (10**6, 0), (1.0, 4.0): (0, 10**6)}  # no error at all
    assert evidence(promise, [kept] * 3).e_value < 1.0


@pytest.mark.more
@settings(max_examples=20)
@given(name=PROMISES, rows=WEIGHTED.filter(bool))
def test_confidence_sequence(name: str, rows: list[tuple[float, int, float]]) -> None:
    found = estimate(Promise(name, 0.5, 4.0), [cells(rows)], 0.1)
    pairs = naive.weighted_values(name, rows)
    assert found.rows == len(pairs)
    if not pairs:
        assert found.value is None
        return
    low, high = naive.interval([(w / 4.0, v) for w, v in pairs], bets._RATES.tolist(), 0.1)
    assert found.value == pytest.approx(sum(w * v for w, v in pairs) / sum(w for w, _ in pairs))
    assert found.low == pytest.approx(low, abs=2e-4)
    assert found.high == pytest.approx(high, abs=2e-4)


def sampled(draw: np.random.Generator, recall: float, nights: int) -> list[Any]:
    """Return nights of which all alerts are labelled, and one in 20 of the other rows."""
    found, rows = [], 3_000
    for _ in range(nights):
        positives = draw.binomial(rows, 0.05)
        hits = draw.binomial(positives, recall)
        missed = draw.binomial(positives - hits, 0.05)
        alarms = draw.binomial(rows - positives, 0.02)
        quiet = draw.binomial(rows - positives - alarms, 0.05)
        found.append({(1.0, 1.0): (alarms, hits), (0.0, 20.0): (quiet, missed)})
    return found


def test_recall_of_sampled_rows_alarms_seldom_on_its_bound_and_soon_below_it() -> None:
    """One positive in twenty that is missed gets a label: its weight says so."""
    draw = np.random.Generator(np.random.Philox(key=6))
    promise, alarms, covered = Promise("recall", 0.6, 20.0), 0, 0
    for _ in range(200):
        nights = sampled(draw, 0.6, 60)
        alarms += evidence(promise, nights).passed(20.0) is not None
        found = estimate(promise, nights, 0.05)
        assert found.low is not None and found.high is not None
        covered += found.low <= 0.6 <= found.high
    assert alarms <= 19  # 5 % and three standard errors
    assert covered >= 181
    # Labelled rows taken each for one would say .97 where recall is .6: no fall would be seen.
    delays = [evidence(promise, sampled(draw, 0.4, 120)).passed(20.0) for _ in range(30)]
    assert all(at is not None for at in delays)
    assert np.median([at for at in delays if at is not None]) <= 40


def first_alarms(hits: NDArray[np.int64], rows: int, bound: float, alpha: float) -> list[float]:
    """Return the night of each stream's first alarm, counted from 1; infinity where there is none."""
    found = []
    for stream in hits:
        nights = [{(1.0, 1.0): (rows - hit, hit)} for hit in stream.tolist()]
        at = evidence(Promise("precision", bound), nights).passed(1.0 / alpha)
        found.append(np.inf if at is None else at + 1.0)
    return found


@pytest.mark.more
def test_false_alarms_stay_rare_at_precision_exactly_on_the_bound() -> None:
    """At most 5 % of years; 41 % of months where a fixed interval is looked at every night."""
    draw = np.random.Generator(np.random.Philox(key=1))
    years = first_alarms(draw.binomial(128, 0.7, (200, 365)), 128, 0.7, 0.05)
    assert np.isfinite(years).mean() <= 0.05
    small = first_alarms(draw.binomial(3, 0.9, (200, 365)), 3, 0.9, 0.05)
    assert np.isfinite(small).mean() <= 0.05


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("precision", "before", "nights"), [(0.6, 0, 3), (0.65, 0, 8), (0.6, 200, 8), (0.65, 200, 25)]
)
def test_falls_are_found_soon_a_good_past_or_not(
    precision: float, before: int, nights: int
) -> None:
    draw = np.random.Generator(np.random.Philox(key=2))
    past, then = draw.binomial(128, 0.75, (100, before)), draw.binomial(128, precision, (100, 60))
    alarms = first_alarms(np.concatenate([past, then], axis=1), 128, 0.7, 0.05)
    assert np.median(alarms) - before <= nights


def test_confidence_sequences_hold_at_all_times_together() -> None:
    draw = np.random.Generator(np.random.Philox(key=3))
    missed = 0
    for _ in range(100):
        rates = draw.uniform(0.5, 0.9, 60)  # the precision moves from night to night
        nights = [{(1.0, 1.0): (20 - hit, hit)} for hit in draw.binomial(20, rates).tolist()]
        means = np.cumsum(rates) / np.arange(1, 61)
        for last in (1, 3, 10, 30, 60):
            found = estimate(Promise("precision", 0.7), nights[:last], 0.1)
            assert found.low is not None and found.high is not None
            if not found.low <= means[last - 1] <= found.high:
                missed += 1
                break
    assert missed <= 10


def night(period: int, rows: list[tuple[Any, ...]], mark: int = 0) -> Night:
    counts = sorted(cells(rows).items())
    table = tuple((chance, *own) for (chance, _), own in counts)
    weights = tuple(weight for (_, weight), _ in counts)
    shards = (Shard(f"{period * 100 + mark:016x}", len(rows)),)
    return Night(period, table, shards, weights=weights)


@given(
    parts=st.lists(st.tuples(st.integers(1, 3), WEIGHTED), min_size=1, max_size=6), data=st.data()
)
def test_states_merge_in_any_order(
    parts: list[tuple[int, list[tuple[float, int, float]]]], data: st.DataObject
) -> None:
    empty = new_state("m", [Promise("precision", 0.7)], 0.95, calendar="integer", max_weight=4.0)
    states = [
        (f"{k}.state", msgspec.structs.replace(empty, nights=(night(period, rows, k),)))
        for k, (period, rows) in enumerate(parts)
    ]
    whole = merge_states(states)
    shuffled = data.draw(st.permutations(states))
    assert merge_states(shuffled).to_json() == whole.to_json()
    assert read_state(whole.to_json()) == whole
    assert judge(merge_states(shuffled)).to_json() == judge(whole).to_json()
    with pytest.raises(ModelError, match="count twice"):
        merge_states([*states, states[0]])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"magic": "x"}, "not a state of"),
        ({"version": 99}, "version 99 .* update calibkit"),
        ({"promises": {}, "calibration": False}, "its promises are none"),
        ({"promises": {"precision": 1.0}}, "its promises are none"),
        ({"promises": {"auc": 0.5}}, "its promises are none"),
        ({"confidence": 1.0}, "its confidence is no probability"),
        ({"calendar": "date"}, "its nights are of two kinds"),
        ({"nights": [1, 0]}, "its nights are not in order"),
        ({"nights": [0, 0]}, "its nights are not in order"),
        ({"max_weight": 0.0}, "its largest weight is none"),
        ({"max_weight": 2.0}, "night 1"),
        ({"hits": 9}, "night 1"),
        ({"drift": {"score": [1]}}, "its fitting rows"),
        ({"drift": {"score": [0] * 20}}, "its fitting rows"),
    ],
)
def test_states_that_contradict_themselves(change: dict[str, Any], said: str) -> None:
    state = new_state("m", [Promise("precision", 0.7)], 0.95, calendar="integer", calibration=True)
    scores = ((1, 0, 0), (1, 1, 0), *[(0, 0, 0)] * 3)
    nights = [night(place, [(0.0, 0), (1.0, 1)]) for place in (1, 2)]
    plain = tuple(msgspec.structs.replace(one, weights=(), scores=scores) for one in nights)
    state = msgspec.structs.replace(state, nights=plain)
    assert read_state(state.to_json()) == state
    content = json.loads(state.to_json())
    content["nights"][0][3][0][1] = change.get("hits", 0)
    change = {"nights": range(2), **change}
    changed = {**content, **change, "nights": [content["nights"][k] for k in change["nights"]]}
    changed.pop("hits", None)
    with pytest.raises(ModelError, match=said) as refused:
        read_state(json.dumps(changed).encode(), "old.state")
    assert refused.value.file == "old.state"


def test_in_python(tmp_path: Path) -> None:
    model = ck.fit_boundary(
        ck.simulate_posterior(2_000, seed=1), precision=0.6, method="st", folds=0
    )
    state = str(tmp_path / "watch.state")
    given: dict[str, Any] = {"model": model, "state": state, "precision": 0.3}
    for night in (1, 2):
        fresh = ck.simulate_posterior(1_000, seed=10 + night).with_columns(day=pl.lit(night))
        found = ck.watch(fresh, **given, period="day")
        assert (found.alarm, found.period, found.rows) == (False, night, 1_000 * night)
    assert read_state(Path(state).read_bytes()) == found.state
    assert repr(found) == "<Watched: precision, 2 nights, no alarm>"
    assert found.summary().startswith("Every promise is kept")
    assert "<th>e-value</th>" in found._repr_html_()
    arrays = {name: fresh[name].to_numpy() for name in ("score", "label")}
    again = ck.watch(**arrays, model=model, state=str(tmp_path / "other.state"), confidence=0.9)
    assert again.tests[0].bound == 0.6
    assert again.tests[0].alpha == pytest.approx(0.1)
    with pytest.raises(ModelError, match="another confidence"):
        ck.watch(fresh, **given, period="day", confidence=0.9)


def drawn(
    draw: np.random.Generator, rows: int, *, wrong: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities, and labels that are `wrong` by so much on the logit above a half."""
    score = draw.beta(0.6, 1.2, rows)
    logit = np.log(score / (1 - score)) + np.where(score > 0.5, wrong, 0.0)
    return score, (draw.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.uint8)


EDGES = np.array([0.15, 0.4, 0.65, 0.85])


def counted(score: np.ndarray, label: np.ndarray) -> list[Any]:
    return [tuple(one) for one in bins.calibration_counts(score, label, EDGES).tolist()]


def test_capital_against_probabilities_is_at_most_that_of_each_row() -> None:
    """Row by row no bet has less than what the bins say, and none gains on average."""
    score, label = drawn(np.random.default_rng(1), 400)
    found = bins.calibration_logs(counted(score, label))
    assert found is not None
    flips = [[-1.0] * k + [1.0] * (5 - k) for k in range(1, 5)]
    sides = np.concatenate([np.eye(5), np.ones((1, 5)), flips])
    place = np.searchsorted(EDGES, score, side="right")
    expected = []
    for side in [*sides, *-sides]:
        for rate in np.exp2(1.0 - np.arange(7.0)):
            own = rate * side[place]
            mean = score * np.exp(own) + 1 - score
            assert score * np.exp(own) / mean + (1 - score) / mean == pytest.approx(1.0, rel=1e-12)
            expected.append(float(np.log(np.exp(own * label) / mean).sum()))
    assert (found <= np.array(expected) + 1e-9).all()
    assert (found >= np.array(expected) - 12.0).all()  # what Jensen and rounding take


@pytest.mark.more
def test_years_of_honest_probabilities_have_no_alarm_and_wrong_ones_are_found() -> None:
    """400 years of 60 nights: at most 5 % alarm; bent above a half: found within 12 nights."""
    draw = np.random.default_rng(2)

    def alarm(wrong: float, begin: int) -> int | None:
        drawn_nights = (drawn(draw, 100, wrong=wrong * (night >= begin)) for night in range(60))
        return bins.calibration_evidence([counted(*one) for one in drawn_nights]).passed(20.0)

    assert sum(alarm(0.0, 0) is not None for _ in range(400)) <= 32  # 5 % and three standard errors
    found = [alarm(wrong, 20) for wrong in (-0.8, 0.8) * 15]
    assert np.median([np.inf if at is None else at - 19 for at in found]) <= 12


def test_bins_are_even_where_nothing_is_known_of_the_fitting_rows() -> None:
    edges = bins.edges_of(SimpleNamespace(fit=SimpleNamespace(reference=None)))
    score = np.array([0.0, 0.19, 0.21, 0.39, 0.41, 0.59, 0.61, 0.79, 0.81, 1.0])
    counts = bins.calibration_counts(score, np.ones(10, np.uint8), edges)
    assert counts[:, 0].tolist() == [2] * 5
    # Four rows between 0 and one unit are said to be in the middle.
    assert bins.calibration_estimate([[(4, 0, 0)]], 0.05).value == -bins.UNIT / 2
    assert bins.calibration_estimate([], 0.05).value is None
    assert bins.calibration_logs([(0, 0, 0)] * 5) is None


def test_a_year_of_nights_with_all_that_is_counted_stays_small() -> None:
    draw = np.random.default_rng(5)
    given = {"calibration": True, "drift": dict.fromkeys("ab", (8000, 6000, 3000, 2000, 1000))}
    state = new_state("0" * 16, [Promise("precision", 0.7)], 0.95, calendar="date", **given)
    for night in range(365):
        own = [tuple(20 * k for k in one) for one in counted(*drawn(draw, 5_000))]
        rows, hits = (sum(one[k] for one in own) for k in (0, 1))
        cells = ((0.0, rows - hits - 3_000, hits - 7_000), (1.0, 3_000, 7_000))
        shard = Shard(f"{draw.integers(2**60):016x}", rows)
        moved = (tuple(one[0] for one in own), (40_000, 30_000, 15_000, 10_000, 5_000))
        fresh = Night(period_at(night, "date"), cells, (shard,), tuple(own), (), moved)
        state = state.add([fresh])[0]
    state.check()
    assert len(state.to_json()) < 100_000
    assert [test.name for test in judge(state).tests] == ["precision", "calibration"]


def test_history_is_what_each_night_would_have_said() -> None:
    promises = [Promise("precision", 0.7), Promise("fpr", 0.2)]
    empty = new_state("m", promises, 0.9, calendar="integer")
    nights = [night(k, [(1.0, k % 2), (1.0, 1), (0.0, 0), (0.25, 1)], k) for k in range(1, 6)]
    whole = judge(empty.add(nights)[0]).history()
    assert (whole.height, whole.schema) == (10, HISTORY)
    for row in whole.iter_rows(named=True):
        place = row["night"] - 1
        both = (
            judge(empty.add(own)[0]) for own in (nights[place : place + 1], nights[: place + 1])
        )
        own, test = (
            next(one for one in judged.tests if one.text == row["promise"]) for judged in both
        )
        assert (row["period"], row["rate"]) == (str(place + 1), own.estimate)
        for name in ("estimate", "low", "high", "rows", "e_value", "threshold", "bound"):
            assert row[name] == getattr(test, name)
        assert row["refuted"] == (test.refuted is not None)
    assert judge(empty).history().height == 0
    precision = watched().filter(pl.col("promise") == "precision >= 0.7")
    refuted = precision.filter("refuted")["period"].to_list()
    assert "2026-12-01" < refuted[0] < "2026-12-06"  # it fell on 1 December
    assert len(refuted) == 41 - int(precision.filter("refuted")["night"][0])


@pytest.mark.parametrize(
    ("shift", "bend", "said"),
    [
        (-1.0, 0.0, "shift it (calibrate --method prior-shift --negatives-kept 0.3"),
        (1.0, 0.0, "the base rate has moved, the odds of every score by a factor 2."),
        (0.0, -1.0, "the scores are no longer probabilities; recalibrate"),
    ],
)
def test_a_new_base_rate_is_told_from_bent_probabilities(
    shift: float, bend: float, said: str
) -> None:
    draw = np.random.default_rng(9)
    state = new_state("m", [], 0.95, calendar="integer", calibration=True)
    for place in range(1, 31):
        score, label = drawn(draw, 500)
        if place > 10:
            logit = np.log(score / (1 - score)) + shift + np.where(score > 0.5, bend, 0.0)
            label = (draw.random(500) < 1 / (1 + np.exp(-logit))).astype(np.uint8)
        hits = int(label.sum())
        shard = (Shard(f"{place:016x}", 500),)
        fresh = Night(place, ((0.0, 500 - hits, hits),), shard, tuple(counted(score, label)))
        state = state.add([fresh])[0]
    assert said in judge(state).advice


def test_odds_that_have_moved_are_found_where_both_labels_occur() -> None:
    score, _ = drawn(np.random.default_rng(10), 4_000)
    for one in (0, 1):
        assert bins.moved_odds([counted(score, np.full(4_000, one, np.uint8))], 20.0) is None
    # All but one of 10,000 rows are positive, each with a probability below 2^-16.
    least = [[(10_000, 9_999, 0), *[(0, 0, 0)] * 4]]
    assert bins.moved_odds(least, 20.0) == pytest.approx(9_999 * 65_535, rel=1e-9)


@settings(max_examples=30)
@given(
    fitted=st.lists(st.integers(1, 9), min_size=5, max_size=5),
    nights=st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), max_size=4),
)
@example(fitted=[1] * 5, nights=[[0] * 5, [0, 0, 0, 0, 1], [0] * 5, [0, 0, 0, 0, 1]])
def test_evidence_of_drift_is_that_of_every_row_drawn_from_an_urn(
    fitted: list[int], nights: list[list[int]]
) -> None:
    found = bins.drift_evidence(fitted, nights)
    bets_on = (bins._FIRST.tolist(), bins._KEPT.tolist())
    expected = naive.drift_e_values(fitted, nights, *bets_on)
    np.testing.assert_allclose(np.exp(found.logs), expected, rtol=1e-9)


def as_in_the_fit(
    draw: np.random.Generator, fitting: int, rows: int, nights: int, *, step: float = 0.0
) -> tuple[list[int], list[list[int]]]:
    """Return the fitting rows of each bin and new rows of their distribution; `step` rounds both."""

    def some(number: int) -> NDArray[np.float64]:
        values = draw.normal(size=number)
        return np.round(values / step) if step else values

    values = np.sort(some(fitting))
    edges = values[[place * fitting // 20 for place in bins.QUANTILES]]
    counts = [
        bins.drift_counts(own, edges).tolist() for own in (values, *map(some, [rows] * nights))
    ]
    return counts[0], counts[1:]


@pytest.mark.few(1)
@pytest.mark.parametrize("step", [0.0, 0.5])
def test_a_small_reference_does_not_pass_for_drift(step: float) -> None:
    """300 fitting rows have shares that are off by tenths: 200 new rows a night would soon tell."""
    draw = np.random.default_rng(11)
    alarms = 0
    for _ in range(200):
        fitted, nights = as_in_the_fit(draw, 300, 200, 60, step=step)
        alarms += bins.drift_evidence(fitted, nights).passed(20.0) is not None
    assert alarms <= 19  # 5 % and three standard errors


def test_drift_is_found_soon_a_good_past_or_not() -> None:
    draw = np.random.default_rng(12)
    for before, most in ((0, 3), (100, 5)):
        delays = []
        for _ in range(20):
            fitted, nights = as_in_the_fit(draw, 10_000, 500, before + 20)
            moved = [[rows[0] - 60, *rows[1:4], rows[4] + 60] for rows in nights[before:]]
            found = bins.drift_evidence(fitted, nights[:before] + moved)
            at = found.passed(20.0)
            delays.append(np.inf if at is None else at - before + 1)
        assert np.median(delays) <= most
        assert bins.drifted(fitted, moved) == pytest.approx(0.12, abs=0.03)
    assert bins.drifted(fitted, []) is None


def test_scores_that_most_rows_share_are_no_drift() -> None:
    """Quantiles that are equal have nothing between them; what lies below all is with the lowest."""
    for fitted in ((0, 0, 0, 0, 500), (0, 0, 300, 100, 100)):
        night = [300 * rows // 500 for rows in fitted]
        assert bins.drift_evidence(fitted, [night] * 300).highest < 2.0
    assert bins.drift_evidence(fitted, [[20, 0, *night[2:]]]).e_value < 2.0
    assert bins.drift_evidence(fitted, [[20, 0, *night[3:], night[2]]]).e_value > 1e6


def test_it_says_when_labels_will_be_enough() -> None:
    """The night foreseen is about the night on which the interval clears the bound."""
    state = new_state("m", [Promise("precision", 0.7)], 0.95, calendar="integer")
    said = []
    for place in range(1, 60):
        state = state.add([Night(place, ((1.0, 20, 80),), (Shard(f"{place:016x}", 100),))])[0]
        found = judge(state)
        if "too few labels" not in found.advice:
            break
        said.append(int(found.advice.split("before about night ")[1].split()[0]))
    assert found.advice.startswith("Every promise is kept")
    assert all(place / 2 <= one <= 2 * place for one in said)
