"""Certified boundaries: they keep their bound as often as they say, and the parts they stand on."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from scipy import stats

import calibkit as ck
from calibkit.errors import DataError, InfeasibleError
from calibkit.methods.boundary.certificate.certificate import certify_boundary
from calibkit.methods.boundary.certificate.evidence import deal_rows, fitting_share
from calibkit.methods.boundary.certificate.paths import CURVED, Path, fit_curved, fit_path, joined
from calibkit.methods.boundary.certificate.tests import (
    Bets,
    Binomials,
    Chain,
    Quantity,
    TwoBinomials,
    Units,
    at_base_rate,
    walk_all,
)
from calibkit.methods.boundary.certificate.uniform_bounds import confusion_deviation, regret_bound
from calibkit.methods.boundary.result.application import decide
from calibkit.numerics.bounds import decimal_bound
from calibkit.options.boundary import BoundaryOptions
from calibkit.summaries.binning import Levels
from calibkit.summaries.score_rows import ScoreRows
from calibkit.summaries.tally import count_rows
from docs.evidence.coverage_kinds import KINDS, kept, kind_rows
from tests.conftest import ROOT
from tests.library.samples import golden, score_rows

METHODS = ("st", "logistic", "exact", CURVED)


@pytest.mark.parametrize("unit", [1, 2**54 + 1])
def test_what_a_path_selects_is_counted_exactly(unit: int) -> None:
    random = np.random.default_rng(0)
    score, level = random.integers(0, 9, 400) / 8, random.integers(0, 2, 400).astype(np.uint16)
    tally = count_rows(score, level, random.integers(0, 2, 400).astype(np.uint8), 2)
    units = np.int64(unit)
    tally = replace(tally, count=tally.count * units, positive=tally.positive * units)
    thresholds = np.array([[np.nan, 0.9], [0.7, 0.8], [0.7, 0.25], [-np.inf, 0.0]])
    path = Path("exact", Levels(0.0, np.array([0.5])), thresholds, np.zeros((4, 2)), (1, 1))
    assert path.counts(tally).tolist() == [list(tally.selected(own)) for own in thresholds]


def draw(rows: int, seed: int) -> tuple[ScoreRows, np.ndarray]:
    """Return rows whose noise grows with the uncertainty, and the true probability of each."""
    stream = np.random.default_rng(seed)
    logit = -1.0 + 1.5 * stream.standard_normal(rows)
    uncertainty = np.exp(0.5 * stream.standard_normal(rows))
    score = 1 / (1 + np.exp(-logit - uncertainty * stream.standard_normal(rows)))
    truth = 1 / (1 + np.exp(-logit))
    label = (stream.random(rows) < truth).astype(np.uint8)
    return score_rows(score, label, uncertainty, scale="probability"), truth


def asked(confidence: str = "0.9", method: str = "auto", **target: Any) -> BoundaryOptions:
    return BoundaryOptions(confidence=confidence, method=method, **target)


def quantity(name: str, bound: str) -> Quantity:
    return Quantity(name, decimal_bound(bound))


# ---------------------------------------------------------------- the promise


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("method", "option", "bound"),
    [
        ("auto", "precision", "0.6"),
        ("exact", "precision", "0.6"),
        ("st", "precision", "0.6"),
        ("auto", "recall", "0.4"),
        ("auto", "fpr", "0.05"),
        ("auto", "capacity", "0.1"),
    ],
)
def test_the_bound_is_violated_no_more_often_than_promised(
    method: str, option: str, bound: str
) -> None:
    fresh, truth = draw(200_000, 10**6)
    violated, certified, runs = 0, 0, 60
    for seed in range(runs):
        rows, _ = draw(3000, seed)
        try:
            model = certify_boundary(rows, asked("0.8", method, **{option: bound})).model
        except InfeasibleError:
            continue
        certified += 1
        chosen = decide(model, fresh.score, fresh.uncertainty)[0] == 1
        value = {
            "precision": truth[chosen].mean(),
            "recall": truth[chosen].sum() / truth.sum(),
            "fpr": (1 - truth[chosen]).sum() / (1 - truth).sum(),
            "capacity": chosen.mean(),
        }[option]
        lower = option in ("precision", "recall")
        violated += bool(value < float(bound) if lower else value > float(bound))
    assert certified > runs // 4
    assert stats.binom.sf(violated - 1, runs, 0.2) > 1e-3


@pytest.mark.few(2)
@pytest.mark.filterwarnings("ignore:segment")
@pytest.mark.parametrize("kind", KINDS)
def test_promises_on_rows_of_every_kind_are_broken_no_more_often_than_said(kind: str) -> None:
    broken, certified, runs = 0, 0, 20
    for seed in range(runs):
        frame, _ = kind_rows(1800, seed)
        try:
            model = ck.fit_boundary(frame, confidence=0.8, seed=seed << 24, **KINDS[kind])
        except InfeasibleError:
            continue
        certified += 1
        broken += not kept(model, 60_000, KINDS[kind])
    assert certified > runs // 3
    assert stats.binom.sf(broken - 1, runs, 0.2) > 1e-3


def test_a_fixed_sequence_of_true_hypotheses_rejects_with_its_level() -> None:
    """At the bound itself: whatever the sequence, the first test decides."""
    stream, chosen = np.random.default_rng(3), quantity("precision", "0.7")
    size = np.arange(50, 450, 8)
    errors, runs = 0, 400
    for _ in range(runs):
        # The rows that fit, which settle where the sequence begins, are others than those that test.
        fitting, testing = np.cumsum(stream.random((2, 500)) < 0.7, axis=1)[:, size - 1]
        expected, found = (np.column_stack((hits, size)) for hits in (fitting, testing))
        tests = [Binomials(chosen, expected.astype(float), found, 0.1)]
        chain = Chain(tests, strict_first=True, selected=size.astype(float))
        chain.walk(0.1)
        errors += chain.place >= 0
    assert stats.binom.sf(errors - 1, runs, 0.1) > 1e-3


@pytest.mark.parametrize(
    ("name", "bound", "expected"),
    [
        ("precision", "0.7", stats.binom.sf(29, 35, 0.7)),
        ("recall", "0.7", stats.binom.sf(29, 40, 0.7)),
        ("fpr", "0.1", stats.binom.cdf(5, 60, 0.1)),
        ("capacity", "0.4", stats.binom.cdf(35, 100, 0.4)),
    ],
)
def test_p_values_are_exact_tails(name: str, bound: str, expected: float) -> None:
    """35 rows selected of 100, 30 of 40 positives among them; nothing selected certifies nothing."""
    chosen = quantity(name, bound)
    found = chosen.hits_and_trials(np.array([[35.0, 30.0]]), 100, 40)[0].astype(int)
    assert chosen.p_value(*found.tolist()) == pytest.approx(expected, rel=1e-12)
    assert chosen.p_value(0, 0) == 1.0


def selected(*pays: float) -> Units:
    """Return units of a row each that are all selected, and what they pay; -1 is the largest loss."""
    size = len(pays)
    return Units(np.zeros(size, np.int64), np.zeros(size), np.array(pays), np.arange(size + 1))


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_a_bound_that_is_just_reached_is_seldom_taken_for_exceeded(level: float) -> None:
    random, won, wins, runs = np.random.default_rng(5), 0, 0, 2000

    def units(rate: float) -> Units:
        """Return rows that are positive at a rate, where precision has the bound .6."""
        return selected(*np.where(random.random(300) < rate, 0.4, -0.6) / 0.6)

    for _ in range(runs):
        fitting = units(0.75)  # what is staked follows from rows where the boundary looks good
        won += Bets(fitting, units(0.6), 1, level).rejects(0, level)
        wins += Bets(fitting, units(0.75), 1, level).rejects(0, level)
    assert stats.binom.sf(won - 1, runs, level) > 1e-4
    assert won > 0.3 * level * runs  # nor is the test so cautious that it says nothing
    assert wins > 0.95 * runs


def test_a_boundary_is_expected_to_pay_a_unit_the_mean_of_the_units_that_fit() -> None:
    """Three units pay 1, -.5 and .25: a mean of .25, and squares of 1.3125, with 1 more to be sure."""
    bets = Bets(selected(1.0, -0.5, 0.25), selected(1.0, 1.0, 1.0), 1, 0.5)
    assert bets.hopes[0].tolist() == pytest.approx([0.25 * np.sqrt(3 / (2.3125 / 3))])


# ---------------------------------------------------------------- paths


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("option", ["precision", "recall", "fpr", "capacity"])
def test_a_path_only_grows_and_its_counts_are_those_of_its_thresholds(
    method: str, option: str
) -> None:
    rows, _ = draw(700, 5)
    path = fit_path(rows, method, None, quantity(option, "0.4").size)
    other, _ = draw(500, 6)
    level = path.levels.of(other.uncertainty, other.score.size)
    assert other.label is not None
    tally = count_rows(other.score, level, other.label, path.levels.count)
    counts = path.counts(tally)
    for place in range(0, counts.shape[0], 7):
        assert tuple(counts[place]) == tally.selected(path.thresholds[place])
    lowest = np.where(np.isnan(path.thresholds), np.inf, path.thresholds)
    assert (lowest[1:] <= lowest[:-1]).all()
    assert counts[-1].tolist() == [500, int(other.label.sum())]  # the last one selects everything
    assert (np.diff(path.expected, axis=0) >= 0).all()


def test_a_boundary_of_the_plain_surface_selects_what_lies_above_its_cut() -> None:
    path = fit_path(draw(700, 5)[0], "logistic", None, quantity("precision", "0.4").size)
    other, _ = draw(500, 6)
    level = path.levels.of(other.uncertainty, other.score.size)
    assert path.surface is not None and path.cuts is not None
    lines = path.surface.lines()[level]
    values = lines[:, 0] + lines[:, 1] * np.log(other.score / (1 - other.score))
    taken = path.first(other.score, level)[:, None] <= np.arange(len(path.thresholds))
    assert np.array_equal(taken, values[:, None] >= path.cuts)


@pytest.mark.parametrize("method", ["exact", CURVED])
def test_a_path_over_log_odds_expects_what_one_over_their_probabilities_does(method: str) -> None:
    rows, _ = draw(700, 5)
    logits = np.log(rows.score / (1 - rows.score))
    plain = score_rows(logits, rows.label, rows.uncertainty, scale="logit")
    size = quantity("precision", "0.4").size
    one, other = (fit_path(own, method, None, size) for own in (rows, plain))
    assert one.expected == pytest.approx(other.expected, rel=1e-6)


def test_the_curved_surface_rises_with_the_score_and_is_calibrated_in_its_window() -> None:
    rows, _ = draw(4000, 9)
    assert rows.label is not None and rows.uncertainty is not None
    level = (np.argsort(np.argsort(rows.uncertainty)) * 20 // 4000).astype(np.uint16)
    tally = count_rows(rows.score, level, rows.label, 20)
    surface = fit_curved(tally, quantity("precision", "0.8").size)
    worth = surface.worth(np.linspace(-8, 8, 60))
    assert (np.diff(worth, axis=1) >= 0).all()
    assert worth.max() > 1.0
    found = float((surface.probabilities(tally.logits(), tally.level) * tally.count).sum())
    assert found == pytest.approx(rows.label.sum(), rel=0.1)


def test_infinite_scores_are_ordered_and_no_more() -> None:
    rows, _ = draw(4000, 11)
    logit = np.log(rows.score / (1 - rows.score))
    logit[np.argsort(-logit)[:40]] = np.inf
    plain = score_rows(logit, rows.label, rows.uncertainty, scale="logit")
    model = certify_boundary(plain, asked(precision="0.5")).model
    assert model.fit.certificate is not None
    assert model.method == "st"


# ---------------------------------------------------------------- parts


def test_parts_are_random_and_do_not_depend_on_the_order_of_rows() -> None:
    rows, _ = draw(5000, 12)
    mixed = rows.only(np.random.default_rng(0).permutation(5000))
    split, again, other = (
        deal_rows(own, asked(precision="0.6", seed=seed))
        for own, seed in ((rows, 1), (mixed, 1), (rows, 2**20))
    )
    scores = np.sort(split.fitting.score)
    assert np.array_equal(scores, np.sort(again.fitting.score))
    assert not np.array_equal(scores, np.sort(other.fitting.score))
    assert scores.size + split.certifying.score.size == 5000
    assert scores.size == pytest.approx(5000 * fitting_share(5000), rel=0.1)
    assert (fitting_share(1), fitting_share(10**8)) == (0.4, 0.1)
    # Rows that are all alike go to both parts.
    split = deal_rows(score_rows([0.5] * 1000, [0, 1] * 500, [1.0] * 1000), asked(precision="0.6"))
    assert split.fitting.label is not None
    assert split.fitting.score.size == pytest.approx(1000 * fitting_share(1000), abs=80)
    assert split.fitting.label.mean() == pytest.approx(0.5, abs=0.15)


def test_weighted_rows_give_the_boundary_of_rows_written_out() -> None:
    rows, _ = draw(3000, 13)
    assert rows.label is not None
    times = np.random.default_rng(1).integers(0, 4, 3000)
    columns = (rows.score, rows.label, rows.uncertainty)
    weighted = score_rows(*columns, times.astype(float), scale="probability")
    written = rows.only(np.repeat(np.arange(3000), times))
    found, expected = (
        certify_boundary(data, asked(precision="0.6")).model for data in (weighted, written)
    )
    assert found.score_thresholds == expected.score_thresholds
    assert found.fit.certificate == expected.fit.certificate
    assert found.fit.in_sample.selected == expected.fit.in_sample.selected
    halves = score_rows(*columns, times / 2, scale="probability")
    with pytest.raises(DataError, match="not whole numbers"):
        certify_boundary(halves, asked(precision="0.6", prevalence="0.1"))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("bound", [{"precision": "1"}, {"recall": "1"}, {"fpr": "0"}])
def test_a_bound_without_room_can_never_be_certified(bound: dict[str, str]) -> None:
    with pytest.raises(InfeasibleError, match="leaves no room"):
        certify_boundary(draw(500, 1)[0], asked(**bound))


def test_what_would_be_needed_is_said() -> None:
    rows, _ = draw(400, 15)
    about = r"about \d[\d,]{2,3}\d?,000 rows"  # three digits say enough
    with pytest.raises(InfeasibleError, match=rf"{about} like these .* \(there are 400\)"):
        certify_boundary(rows, asked("0.999999", precision="0.6"))


def test_the_sequence_starts_where_most_power_is_expected() -> None:
    def chain(counts: np.ndarray, *asked_for: tuple[str, str], strict: bool = True) -> Chain:
        found, tests = np.zeros((4, 2), int), []
        for one in itertools.starmap(quantity, asked_for):
            expected = one.hits_and_trials(counts, 5000, 2000)
            tests.append(Binomials(one, expected, found, 0.1))
        return Chain(tests, strict, counts[:, 0])

    expected = np.array([[10.0, 10], [100, 90], [1000, 700], [2000, 1100]])
    strict, lax = ("precision", "0.6"), ("recall", "0.3")
    # 100 above 60 % of 1,000: 6.5 standard errors
    assert chain(expected, strict).places.tolist() == [2, 3]
    assert chain(expected, lax, strict=False).places.tolist() == [3, 2, 1, 0]
    assert chain(expected, strict, lax).places.tolist() == [2, 3]  # both, and the weaker decides
    # Of boundaries alike in power it is the last: 6.42 and 6.39 standard errors, 3.7 at 1,100 rows.
    alike = chain(np.array([[100.0, 90], [1000, 700], [1010, 706], [1100, 720]]), strict)
    assert alike.places.tolist() == [2, 3]
    assert alike.power == stats.norm.cdf(np.subtract(*alike.tests[0].hopes)[1])


def test_a_chain_at_its_end_passes_its_error_probability_on() -> None:
    """Of two chains, the second needs the level of both; alone it would get half."""
    one = quantity("precision", "0.5")
    easy, hard = (np.array([[hits, 10], [hits + 5, 20]]) for hits in (10, 8))
    for chosen, places in (((easy, hard), [1, 0]), ((hard, hard), [-1, -1])):
        chains = [
            Chain([Binomials(one, own.astype(float), own, 0.03)], True, own[:, 1]) for own in chosen
        ]
        for chain in chains:
            chain.places = np.arange(2)
        walk_all(chains, 0.06)  # P(at least 8 of 10) is .0547
        assert [chain.place for chain in chains] == places


def test_two_binomials_reject_where_both_ends_meet_the_bound() -> None:
    """At base rate .2: (.2 x .5) / (.2 x .5 + .8 x .05) is .71, and .14 are selected."""
    found = np.array([[500.0, 50.0], [60.0, 50.0]])

    def tests(name: str, bound: str) -> TwoBinomials:
        at = at_base_rate(quantity(name, bound), decimal_bound("0.2"))
        return TwoBinomials(*at, found, found, (1000, 1000), 0.1)

    precision = tests("precision", "0.6")
    place = int(precision._shared[1][0])
    share = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98][place]
    low = stats.beta.ppf(share * 0.1, 500, 501)
    high = stats.beta.ppf(1 - (1 - share) * 0.1, 51, 950)
    assert 0.2 * low / (0.2 * low + 0.8 * high) > 0.6
    assert precision.rejects(0, 0.1)
    assert not precision.rejects(1, 0.1)
    assert tests("capacity", "0.3").rejects(0, 0.1)
    assert not tests("capacity", "0.15").rejects(0, 0.1)


def test_the_moments_of_units_are_those_of_what_each_boundary_pays() -> None:
    stream = np.random.default_rng(2)
    first = stream.integers(0, 7, 40)
    outside, inside = stream.normal(size=40), stream.normal(size=40)
    starts = np.array([0, 1, 5, 6, 30, 40])
    sums, squares = Units(first, outside, inside, starts).moments(6)
    for place in range(6):
        row = np.where(first <= place, inside, outside)
        unit = [row[low:high].sum() for low, high in itertools.pairwise(starts)]
        assert sums[place] == pytest.approx(sum(unit))
        assert squares[place] == pytest.approx(sum(one * one for one in unit))


def test_a_path_over_segments_takes_steps_by_falling_rate() -> None:
    steep = np.array([[100.0, 90], [200, 150], [1000, 200]])
    flat = np.array([[100.0, 70], [300, 180]])
    assert joined([steep, flat]).tolist() == [[0, -1], [0, 0], [1, 0], [1, 1], [2, 1]]
    assert joined([flat]).tolist() == [[0], [1]]


# ---------------------------------------------------------------- bounds for every threshold


def test_golden_uniform_bounds() -> None:
    case = golden("p28_bounds")
    expected, given = case["expected"], case["params"]
    rows = pl.read_parquet(ROOT / "tests/golden/p28_bounds/rows.parquet").rows(named=True)
    tight = [confusion_deviation(int(r["n"]), r["delta"]) for r in rows]
    assert tight == pytest.approx(expected["lemma6_tight"], rel=1e-12)
    plugged = given["margin_C"] * given["sup_err"] ** given["margin_beta"]
    # The regret of weighted accuracy.
    found = [plugged + regret_bound(1.0, int(r["n"]), r["delta"]) for r in rows]
    assert found == pytest.approx(expected["regret_weighted_accuracy"], rel=1e-12)


def test_the_deviation_of_every_threshold_stays_within_the_bound() -> None:
    rng, rows = np.random.default_rng(0), 2_000
    bound = confusion_deviation(rows, 0.05)
    grid = np.linspace(0, 1, 101)
    for _ in range(200):
        score = rng.random(rows)
        label = rng.random(rows) < score
        tp = np.array([(label & (score > t)).mean() for t in grid])
        assert abs(tp - (1 - grid**2) / 2).max() <= bound
