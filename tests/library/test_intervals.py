"""Intervals: DeLong by its definition, weights, groups and order of rows, edge cases, outputs."""

from __future__ import annotations

import csv
import io
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import special, stats

from calibkit.evaluation.findings import Evaluated
from calibkit.evaluation.outputs import content
from calibkit.evaluation.rows import at_base_rate
from calibkit.measures import decisions
from calibkit.measures import metrics as registry
from calibkit.measures.decisions import Confusion, confusion_of
from calibkit.measures.influence import (
    Level,
    independent,
    on_scale,
    sampled_rows,
    variance,
    wilson,
)
from calibkit.measures.metrics import IntervalOptions, differences, intervals, method
from calibkit.measures.result import Difference, Interval, Metrics
from calibkit.measures.views import Sample, Scale, View, view_of
from calibkit.numerics.bounds import decimal_bound
from calibkit.options.metrics import Settings
from tests.naive import intervals as naive
from tests.naive import metrics as naive_metrics

Z = 1.959963984540054
SHARE = Fraction(1, 5)
OPTIONS = IntervalOptions(replicates=60)
SETTINGS = Settings(precisions=(decimal_bound("0.5"),), recalls=(decimal_bound("0.5"),))
COMPARED = ["auc", "average_precision", "log_loss", "brier", "mean_score", "calibration_bias"]

rows_of_both = st.lists(
    st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.7, 0.9]), st.integers(0, 1)),
    min_size=4,
    max_size=25,
).filter(lambda rows: 2 <= sum(y for _, y in rows) <= len(rows) - 2)


def simulate(rows: int = 300, seed: int = 1, ties: bool = False) -> Sample:
    rng = np.random.default_rng(seed)
    score = rng.beta(1, 2, rows)
    if ties:
        score = score.round(1)
    return Sample(score=score, label=(rng.random(rows) < score**1.3).astype(np.uint8))


def view(sample: Sample, **more: object) -> View:
    return view_of(sample, "s", "all", replace(SETTINGS, **more))


def judged(data: View) -> dict[str, float | None]:
    return registry.compute(data, registry.names(data.settings))


def bounds(data: View, options: IntervalOptions = OPTIONS) -> dict[str, Interval]:
    return intervals(judged(data), data, options)


def width(found: Interval) -> float:
    return found.high - found.low


#: Metrics of isotonic regression.
CORP = {"miscalibration", "discrimination"}


def close(one: dict[str, Interval], two: dict[str, Interval], rel: float = 1e-9) -> None:
    assert one.keys() == two.keys()
    for name in one:
        assert (one[name].low, one[name].high) == pytest.approx(
            (two[name].low, two[name].high), rel=rel, abs=1e-12
        ), name


@given(rows_of_both, st.integers(0, 2**32))
def test_differences_of_auc_are_paired_delong(rows: list[tuple[float, int]], seed: int) -> None:
    score, label = np.array(rows).T
    other = np.random.default_rng(seed).choice([0.1, 0.4, 0.8], score.size)
    one, two = (
        view(Sample(score=own.copy(), label=label.astype(np.uint8))) for own in (score, other)
    )
    gap = registry.compute(two, ["auc"])["auc"] - registry.compute(one, ["auc"])["auc"]
    found = differences({"auc": gap}, one, two, OPTIONS)["auc"]
    variance = naive.paired_delong(rows, list(zip(other.tolist(), label.tolist(), strict=True)))
    reach = Z * math.sqrt(variance)
    assert (found.low, found.high) == pytest.approx((gap - reach, gap + reach), abs=1e-7)


def test_influence_agrees_with_the_jackknife() -> None:
    sample = simulate(200)
    data = view(sample)
    found, own = bounds(data), registry.compute(data, COMPARED)
    left_out = [
        registry.compute(view(sample.rows_of(np.delete(np.arange(200), i))), COMPARED)
        for i in range(200)
    ]
    for name in COMPARED:
        error = math.sqrt(199) * np.std([one[name] for one in left_out])
        ends, value = np.array([found[name].low, found[name].high]), own[name]
        if name in ("log_loss", "brier"):
            reach = np.diff(np.log(ends)) * value
        elif name == "calibration_bias":
            reach = np.diff(np.log1p(ends)) * (1 + value)
        elif name == "average_precision":
            reach = np.diff(special.logit(ends)) * value * (1 - value)
        else:
            reach = np.diff(ends)
        assert reach / (2 * Z) == pytest.approx(error, rel=0.05), name


@pytest.mark.parametrize("ties", [False, True])
def test_a_weight_is_so_many_rows(ties: bool) -> None:
    sample = simulate(ties=ties)
    weight = np.random.default_rng(3).integers(0, 4, 300)
    for own in (sample, replace(sample, group=np.arange(300) // 3)):
        written_out = own.rows_of(np.repeat(np.arange(300), weight))
        weighted = replace(own, weight=weight.astype(float))
        close(bounds(view(weighted, weighted=True)), bounds(view(written_out)))
        inside = weight > 1  # of fixed classes rows outside a slice contribute
        every = (at_base_rate(weighted, SHARE), at_base_rate(written_out, SHARE))
        slices = (every[0].rows_of(inside), every[1].rows_of(np.repeat(inside, weight)))
        for pair in (every, slices):
            found = [bounds(view(one, prevalence="0.2", weighted=True)) for one in pair]
            # Classes weigh fractions: pools of equal rates may part by rounding, and count as noise.
            pools = [{name: one.pop(name) for name in CORP & one.keys()} for one in found]
            close(*found)
            close(*pools, rel=0.02)


def test_rows_of_weight_0_do_not_show_in_differences() -> None:
    sample, weight = simulate(ties=True), np.arange(300) % 3 * 1.0
    other = replace(sample, score=np.random.default_rng(9).random(300).round(1))
    names = [*COMPARED, "ece", "ace", "miscalibration", "smooth_ece"]
    found = []
    for rows in (np.arange(300), np.flatnonzero(weight)):
        pair = [
            view(replace(own, weight=weight).rows_of(rows), weighted=True)
            for own in (sample, other)
        ]
        found.append(differences(dict.fromkeys(names, 0.01), *pair, OPTIONS))
    close(*found)


def designs() -> list[tuple[Sample, dict[str, object]]]:
    sample, rng = simulate(ties=True), np.random.default_rng(4)
    weight, group = rng.choice([0.5, 1.0, 2.5, 7.0], 300), rng.integers(0, 60, 300)
    sampling = {"weighted": True, "weight_kind": "sampling"}
    return [
        (sample, {}),
        (replace(sample, weight=weight), {"weighted": True}),
        (replace(sample, weight=weight), sampling),
        (replace(sample, group=group), {}),
        (replace(sample, weight=weight, group=group), sampling),
        (
            at_base_rate(replace(sample, weight=weight), SHARE, sampled=True),
            {**sampling, "prevalence": "0.2"},
        ),
    ]


@pytest.mark.few(4)
@pytest.mark.parametrize("place", range(6))
def test_no_order_of_rows_and_no_thread_shows(place: int) -> None:
    sample, more = designs()[place]
    first = bounds(view(sample, **more))
    order = np.random.default_rng(5).permutation(300)
    other = bounds(view(sample.rows_of(order), **more))
    close(other, first)
    if sample.weight is None or sample.group is None:
        assert other == first  # else sums of weights in a replicate are rounded in another order
    assert bounds(view(sample, **more, threads=3), replace(OPTIONS, threads=3)) == first
    other = replace(sample, score=np.sqrt(sample.score))
    pairs = []
    for rows in (np.arange(300), order):
        one, two = (view(own.rows_of(rows), **more) for own in (sample, other))
        gaps = dict.fromkeys([*COMPARED, "ece", "ace", "mce", "miscalibration", "smooth_ece"], 0.01)
        pairs.append(differences(gaps, one, two, OPTIONS))
    close(*pairs)
    assert set(pairs[0]) == set(gaps)


@pytest.mark.parametrize("place", range(6))
def test_values_lie_in_their_intervals(place: int) -> None:
    sample, more = designs()[place]
    data = view(sample, **more)
    values, found = judged(data), bounds(data)
    given = {"base_rate", "brier_uncertainty"} if data.settings.prevalence is not None else set()
    none = {"count", "positives", "lift", "log_loss_reduction"}
    assert set(values) - set(found) == none | given
    for name, interval in found.items():
        assert interval.low <= values[name] <= interval.high, name
        if name != "calibration_bias":
            assert interval.low >= 0
        if name != "log_loss":
            assert interval.high <= 1
    for name, value in values.items():
        assert (method(name, data, OPTIONS) is not None) >= (name in found), value


def test_each_difference_has_the_interval_that_it_has_alone() -> None:
    sample = simulate()
    one, two = view(sample), view(replace(sample, score=np.sqrt(sample.score)))
    names = ["auc", "brier", "ece", "mce", "smooth_ece"]
    values = [registry.compute(data, names) for data in (one, two)]
    gaps = {name: values[1][name] - values[0][name] for name in names} | {"log_loss": 9.0}
    together = differences(gaps, one, two, OPTIONS)
    alone = [differences({name: gaps[name]}, one, two, OPTIONS) for name in gaps]
    close(together, {name: found for own in alone for name, found in own.items()})
    assert set(together) == set(gaps)


def test_the_reduction_of_log_loss_has_the_spread_of_its_bootstrap() -> None:
    sample = simulate(600)
    other = replace(sample, score=0.2 + 0.6 * sample.score)

    def reduction(rows: np.ndarray) -> tuple[View, float]:
        base = view(sample.rows_of(rows))
        own = view_of(other.rows_of(rows), "t", "all", SETTINGS, baseline=base)
        return own, registry.compute(own, ["log_loss_reduction"])["log_loss_reduction"]

    draw = np.random.default_rng(5)
    data, value = reduction(np.arange(600))
    found = intervals({"log_loss_reduction": value}, data, OPTIONS)["log_loss_reduction"]
    low, high = np.quantile(
        [reduction(draw.integers(0, 600, 600))[1] for _ in range(400)], (0.025, 0.975)
    )
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.1 * (high - low))


def test_the_interval_of_the_smooth_error_is_about_what_is_behind_the_rows() -> None:
    draw = np.random.default_rng(8)
    score = draw.random(20_000)
    label = (draw.random(score.size) < 0.25 + score / 2).astype(np.uint8)  # wrong both ways
    data = view(Sample(score=score, label=label))
    value = registry.compute(data, ["smooth_ece"])
    found = intervals(value, data, OPTIONS)["smooth_ece"]
    assert found.low < value["smooth_ece"] < found.high < found.low + 0.04


def test_groups_and_sampling_weights_widen_what_they_should() -> None:
    sample = simulate(ties=True)
    grouped = replace(sample, group=np.arange(300))
    twice = grouped.rows_of(np.repeat(np.arange(300), 2))
    alone, every, doubled = (bounds(view(own)) for own in (sample, grouped, twice))
    equal = replace(sample, weight=np.full(300, 3.0))
    same = bounds(view(equal, weighted=True, weight_kind="sampling"))
    rows = bounds(view(replace(twice, group=None)))
    smooth = ("auc", "average_precision", "log_loss", "brier", "base_rate", "calibration_bias")
    drawn = ("ece", "ace", "miscalibration", "discrimination", "smooth_ece")
    for names, rel in ((smooth, 0.02), (drawn, 0.5)):
        for name, found in itertools.product(names, (every, same, doubled)):
            assert width(found[name]) == pytest.approx(width(alone[name]), rel=rel), name
    assert all(doubled[name].high > rows[name].high for name in smooth)


def test_a_group_that_weighs_nothing_is_not_drawn() -> None:
    sample = replace(simulate(ties=True), weight=np.ones(300), group=np.arange(300) // 6)
    more = sample.rows_of(np.append(0, np.arange(300)))
    more = replace(more, weight=(np.arange(301) > 0) * 1.0, group=np.append(50, sample.group))
    assert bounds(view(more, weighted=True)) == bounds(view(sample, weighted=True))


@pytest.mark.few(4)
@pytest.mark.parametrize("name", ["brier", "base_rate", "mean_score"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fixed_prevalence_leaves_the_doubt_of_a_jackknife(
    name: str, grouped: bool, weighted: bool
) -> None:
    sample, draw = simulate(90), np.random.default_rng(2)
    unit = draw.integers(0, 24, 90) if grouped else np.arange(90)
    weight = draw.choice([0.5, 1.0, 3.0], 90) if weighted else np.ones(90)
    sample = replace(sample, weight=weight, group=unit if grouped else None)
    for inside in (unit % 3 == 0, draw.random(90) < 0.9, np.ones(90, bool)):

        def metric(more: np.ndarray, inside: np.ndarray = inside) -> tuple[View, float]:
            rows = at_base_rate(replace(sample, weight=weight * more), SHARE, sampled=True)
            rows = rows.rows_of(inside)
            data = view(rows, weighted=True, weight_kind="sampling", prevalence="0.2")
            return data, registry.compute(data, [name])[name]

        slopes = []
        for one in np.unique(unit):  # of the metric of the slice, by the weight of each unit of all
            up, down = (metric(1 + step * (unit == one))[1] for step in (1e-4, -1e-4))
            slopes.append((up - down) / 2e-4)
        data, _ = metric(np.ones(90))
        units = data.sample.units
        error = math.sqrt(math.fsum(s * s for s in slopes) * units / (units - 1))
        assert math.sqrt(variance(name, data)) == pytest.approx(error, rel=1e-3, abs=1e-8)


def test_a_fixed_prevalence_is_no_news_but_in_slices() -> None:
    data = view(at_base_rate(simulate(), SHARE), weighted=True, prevalence="0.2")
    assert {"base_rate", "brier_uncertainty", "lift"}.isdisjoint(bounds(data))
    found = bounds(replace(data, part="segment:a", base_rate=0.25))
    assert found["lift"].high == pytest.approx(found["base_rate"].high / 0.25)


def test_a_seed_and_its_replicates() -> None:
    data = view(simulate())
    first, again, other = (
        bounds(data, IntervalOptions(replicates=100, seed=seed)) for seed in (0, 0, 1)
    )
    assert again == first
    assert other["ece"] != first["ece"]
    assert other["auc"] == first["auc"]
    assert other["ece"].low == pytest.approx(first["ece"].low, abs=0.02)


@pytest.mark.more
def test_the_area_of_random_ties_varies_as_in_a_bootstrap_of_rows() -> None:
    sample, rng = simulate(200, ties=True), np.random.default_rng(7)
    drawn = []
    for _ in range(200):
        rows = rng.integers(0, 200, 200)
        taken = list(zip(sample.score[rows], sample.label[rows].tolist(), strict=True))
        drawn.append(naive_metrics.precision_integral(taken) / int(sample.label[rows].sum()))
    data = view(sample)
    value = registry.compute(data, ["pr_auc"])
    found = intervals(value, data, IntervalOptions(replicates=1_000))["pr_auc"]
    reach = np.diff(special.logit([found.low, found.high]))[0] / (2 * Z)
    area = value["pr_auc"]
    # Of 200 and 1,000 draws, deviations are known to 5 and 2 percent.
    assert reach * area * (1 - area) == pytest.approx(np.std(drawn), rel=0.15)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("score", "label"),
    [
        ([0.5], [1]),
        ([0.2, 0.7], [1, 1]),
        ([0.2, 0.7], [0, 0]),
        ([0.5] * 6, [0, 1, 0, 1, 1, 1]),
        ([0.0, 1.0, 0.0, 1.0], [0, 1, 0, 1]),
        ([0.0, 1.0, 0.0, 1.0], [1, 0, 1, 0]),
        ([0.1, 0.2, 0.9], [0, 0, 1]),
        ([], []),
    ],
)
def test_small_and_degenerate_rows(score: list[float], label: list[int]) -> None:
    sample = Sample(score=np.array(score, float), label=np.array(label, np.uint8))
    data = view(sample)
    values = judged(data)
    for group in (None, np.arange(len(score)), np.zeros(len(score), np.int64)):
        own = view(replace(sample, group=group))
        for name, found in intervals(values, own, OPTIONS).items():
            assert values[name] is not None
            assert math.isfinite(found.low) and math.isfinite(found.high)
            assert found.low <= values[name] + 1e-12 and values[name] <= found.high + 1e-12
    taken_ = replace(sample, score=(sample.score > 0.4).astype(np.uint8))
    confusion = confusion_of(taken_, "d", "all", SETTINGS)
    values = decisions.compute(confusion, list(decisions.DEFAULT))
    for name, found in intervals(values, confusion, OPTIONS).items():
        assert found.low + (name == "mcc") >= 0 and found.high <= 1
        assert found.low - 1e-12 <= values[name] <= found.high + 1e-12


def test_perfect_ranking_leaves_doubt() -> None:
    score = np.linspace(0, 1, 40)
    data = view(Sample(score=score, label=(score > 0.5).astype(np.uint8)))
    found = bounds(data)
    assert found["auc"] == wilson(1.0, 20, Level(0.95))
    assert found["average_precision"].low < 0.9


def test_scores_that_are_no_probabilities() -> None:
    sample = simulate()
    logits = np.log(sample.score / (1 - sample.score))
    raw = bounds(view(replace(sample, score=logits), scale="raw"))
    assert set(raw) >= {"auc", "average_precision", "mean_score", "recall_at_precision:0.5"}
    assert not set(raw) & {"ece", "brier", "miscalibration"}
    as_logits = bounds(view(replace(sample, score=logits), scale="logit"))
    close(as_logits, bounds(view(sample)), rel=1e-6)
    logits[0] = np.inf
    infinite = bounds(view(replace(sample, score=logits), scale="raw"))
    assert "mean_score" not in infinite and "auc" in infinite


# Rates -----------------------------------------------------------------------------------------


@given(st.integers(0, 50), st.integers(1, 50), st.floats(0.5, 0.999))
def test_wilson_solves_its_quadratic(hits: int, rows: int, confidence: float) -> None:
    rate = min(hits, rows) / rows
    found = wilson(rate, rows, Level(confidence))
    z = stats.norm.ppf(0.5 + confidence / 2)
    for end in (found.low, found.high):
        if 0 < end < 1:
            assert (rate - end) ** 2 == pytest.approx(z * z * end * (1 - end) / rows, abs=1e-9)
    assert 0 <= found.low <= rate <= found.high <= 1


@pytest.mark.parametrize("units", [4, 10, 40, 1000])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_few_groups_have_students_quantile(units: int, confidence: float) -> None:
    exact = stats.t(units - 1).ppf(0.5 + confidence / 2)
    close = 0.05 if units < 10 else 1e-3
    assert Level(confidence, units).reach == pytest.approx(exact, rel=close)
    assert Level(confidence).reach == pytest.approx(stats.norm.ppf(0.5 + confidence / 2))


def confusion(rows: int = 400, **more: object) -> Confusion:
    sample = simulate(rows)
    taken_ = replace(sample, score=(sample.score > 0.4).astype(np.uint8), **more)
    settings = Settings(weight_kind="sampling") if "weight" in more else Settings()
    return confusion_of(taken_, "d", "all", settings)


def test_rates_of_decisions() -> None:
    found = confusion()
    values = decisions.compute(found, list(decisions.DEFAULT))
    own = intervals(values, found, OPTIONS)
    assert set(values) - set(own) == {"tp", "fp", "fn", "tn", "selected"}
    tp, fp, fn = found.cells.tp, found.cells.fp, found.cells.fn
    assert own["precision"] == wilson(values["precision"], tp + fp, Level(0.95))
    assert own["recall"] == wilson(values["recall"], tp + fn, Level(0.95))
    assert own["fpr"].low == pytest.approx(1 - own["specificity"].high)
    jaccard = wilson(values["f1"] / (2 - values["f1"]), tp + fp + fn, Level(0.95))
    assert own["f1"].low == pytest.approx(2 * jaccard.low / (1 + jaccard.low))
    for data in (confusion(group=np.arange(400)), confusion(weight=np.full(400, 2.0))):
        close(intervals(values, data, OPTIONS), own, rel=0.02)


# Outputs ---------------------------------------------------------------------------------------


def written() -> Metrics:
    return Metrics(
        signature={"auc": "auc|v:1"},
        rows=1200,
        metrics={
            'a"b\\': {"all": {"auc": 0.8, "ece": None, "recall_at_precision:0.9": 0.25}},
            "x": {"country:a|b": {"count": 7, "class_squared_loss[3]": 0.1 + 0.2}},
        },
        intervals={'a"b\\': {"all": {"auc": Interval(0.75, 0.85)}}},
        differences={'x-a"b\\': {"all": {"auc": Difference(-0.1, -0.2, 0.0)}}},
    )


def test_prometheus_text() -> None:
    lines = content(Evaluated(metrics=written()), "m.prom").decode().splitlines()
    assert 'calibkit_auc{score="a\\"b\\\\",slice="all"} 0.8' in lines
    assert 'calibkit_auc_low{score="a\\"b\\\\",slice="all"} 0.75' in lines
    assert 'calibkit_recall_at_precision{score="a\\"b\\\\",slice="all",at="0.9"} 0.25' in lines
    assert (
        'calibkit_class_squared_loss{score="x",slice="country:a|b",class="3"} 0.30000000000000004'
        in lines
    )
    assert 'calibkit_auc_difference{score="x-a\\"b\\\\",slice="all"} -0.1' in lines
    assert "calibkit_rows 1200" in lines
    assert not any("ece" in line or "None" in line for line in lines)
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    assert all(line.split("{")[0].split()[0] in families for line in lines if line[0] != "#")


def test_csv_and_markdown() -> None:
    text = content(Evaluated(metrics=written()), "m.csv").decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0].items()) == [
        ("score", 'a"b\\'), ("slice", "all"), ("metric", "auc"), ("value", "0.8"),
        ("low", "0.75"), ("high", "0.85"),
    ]  # fmt: skip
    assert rows[1]["value"] == ""
    assert (rows[-1]["metric"], rows[-1]["value"]) == ("auc.delta", "-0.1")
    text = content(Evaluated(metrics=written()), "m.md").decode()
    assert "country:a\\|b" in text
    assert len({line.replace("\\|", "").count("|") for line in text.splitlines()[2:]}) == 1


def test_latex_has_a_row_a_score_and_a_column_a_metric() -> None:
    found = Metrics(
        signature={},
        rows=7,
        metrics={
            "a_*": {
                "all": {"count": 7, "brier": 0.123456, "loss[3]": 1.0},
                "by:50%": {"count": 2, "brier": None},
            },
            "b\\^<|>": {"all": {"count": 7, "brier": -2.5e-9, "loss[3]": 1.0}},
            "other": {"all": {"auc": 1.0}},
            "judged by nothing": {"all": {}},
        },
        intervals={"a_*": {"all": {"brier": Interval(-0.25, 0.5)}}},
    )
    assert content(Evaluated(metrics=found), "m.tex").decode() == (
        "\\begin{tabular}{lrr}\n\\toprule\n & count & brier \\\\\n"
        "\\midrule\na\\_* & 7 & 0.1235 \\\\\n &  & {\\scriptsize[$-$0.25, 0.5]} \\\\\n"
        "b\\textbackslash{}\\textasciicircum{}\\textless{}\\textbar{}\\textgreater{}"
        " & 7 & $-$2.5$\\cdot10^{-9}$ \\\\\n"
        "\\midrule\na\\_*, by:50\\% & 2 & -- \\\\\n\\bottomrule\n\\end{tabular}\n\n"
        "\\begin{tabular}{lr}\n\\toprule\n & auc \\\\\n\\midrule\nother & 1 \\\\\n"
        "\\bottomrule\n\\end{tabular}\n"
    )


def test_agreement_without_positive_rows_is_as_open_as_a_rate_of_as_many_rows() -> None:
    """Kappa is 0 then whatever the decisions: its slopes are what rounding leaves of nothing."""
    flagged = (np.arange(50) < 30).astype(np.float64)
    data = confusion_of(Sample(score=flagged, label=np.zeros(50, np.uint8)), "s", "all", SETTINGS)
    found = intervals({"kappa": 0.0}, data, OPTIONS)["kappa"]
    half = Z / math.sqrt(50 + Z**2)  # of Wilson's interval of one half, on the scale from -1 to 1
    assert (found.low, found.high) == pytest.approx((-half, half))


def test_two_groups_have_an_interval_and_one_has_none() -> None:
    for groups in (1, 2):
        sample = replace(simulate(100), group=np.arange(100) % groups)
        assert (OPTIONS.level(view(sample)) is None) == (groups == 1)


@pytest.mark.parametrize("scale", ["logit", "log", "log1p"])
def test_intervals_that_reach_beyond_all_floats_have_ends(scale: Scale) -> None:
    """Two groups at a confidence of .9999: the factor of Student's law is 6,366."""
    low, high = on_scale(1e-9, 1.0 if scale != "log1p" else 1e4, scale)
    assert -1.0 <= low < 1e-9 < high < math.inf


def test_debiased_errors_know_how_unequal_sampling_weights_are() -> None:
    random, found = np.random.default_rng(5), []
    for _ in range(100):
        score, heavy = random.random(600), random.random(600) < 0.1
        label = (random.random(600) < score).astype(np.uint8)
        sample = Sample(score=score, label=label, weight=np.where(heavy, 10.0, 1.0))
        data = view(sample, weighted=True, weight_kind="sampling", bins=5)
        found.append(registry.compute(data, ["ece_debiased"])["ece_debiased"] or 0.0)
    grouped = replace(sample, weight=np.ones(600), group=np.arange(600) // 3)
    alone = view(replace(sample, weight=None), bins=5)
    equal = view(grouped, weighted=True, weight_kind="sampling", bins=5)
    one, other = (registry.compute(own, ["ece_debiased"]) for own in (alone, equal))
    assert one["ece_debiased"] == pytest.approx(other["ece_debiased"])
    # Calibrated scores have none in about half of all files; by equal weights nine in ten had some.
    assert np.mean(np.array(found) > 0.0) < 0.65


@pytest.mark.parametrize(
    ("last", "error"), [([3.0], 0.0), ([0.4, 0.4], math.sqrt(0.8 * 0.9**2 / 20.8))]
)
def test_debiased_errors_leave_out_bins_of_one_row_whatever_its_weight(
    last: list[float], error: float
) -> None:
    score = np.append(np.full(20, 0.5), np.full(len(last), 0.9))
    label = np.append(np.tile([0, 1], 10), np.zeros(len(last))).astype(np.uint8)
    sample = Sample(score=score, label=label, weight=np.append(np.ones(20), last))
    data = view(sample, weighted=True, weight_kind="sampling", bins=5)
    found = registry.compute(data, ["ece_debiased"])["ece_debiased"]
    # In intervals too a bin has as many rows as there are, light or heavy.
    ends = np.array([1, 2])
    mass, rows = sampled_rows(data, ends)
    assert rows == pytest.approx([len(last), 20])
    assert independent(data, ends) * mass == pytest.approx(rows)
    # Half of twenty rows are positive: their gap is 0, less its noise.
    noise = 20 * 0.25 / 19 / (20 + sum(last))
    assert found == pytest.approx(math.sqrt(max(0.0, error**2 - noise)))
