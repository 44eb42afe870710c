"""Fill in intervals.md: how often intervals of nominal 95 % hold the true value, by simulation.

Rows are drawn from populations whose metrics are known to many digits: a fine grid of scores with
their exact rates is itself evaluated.  Scores are probabilities that are wrong in slope and level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from msgspec.structs import replace
from pages import arguments, fill, paragraph, table
from studies import monte_carlo

from calibkit.measures import decisions
from calibkit.measures import metrics as registry
from calibkit.measures.decisions import Confusion, confusion_of
from calibkit.measures.metrics import IntervalOptions, differences, intervals
from calibkit.measures.result import Difference, Interval
from calibkit.measures.views import Sample, View, view_of
from calibkit.numerics.bounds import decimal_bound
from calibkit.numerics.confusion import MEASURES, Cells
from calibkit.options.metrics import Settings

ROWS, GROUP, REPLICATES = 2000, 10, 200
GRID = 100_001


@dataclass(frozen=True)
class Population:
    """Where rows come from: log-odds of a label `level + 1.6 x + spread u`, x and u normal."""

    name: str
    level: float
    design: str = "rows"
    rows: int = ROWS

    @property
    def spread(self) -> float:
        """How much the rows of a group have in common."""
        return 0.8 if self.design == "groups" else 0.0

    def rate(self, x: np.ndarray) -> np.ndarray:
        """Return the probability of a label, the spread averaged out."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(31)
        odds = self.level + 1.6 * x[:, None] + self.spread * nodes
        return (1 / (1 + np.exp(-odds))) @ (weights / weights.sum())

    def scores(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the score under study, and a baseline that sees x less well."""
        odds = 0.3 + 1.5 * (self.level + 1.6 * x)
        return 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(-0.8 * odds - 0.2))

    @property
    def settings(self) -> Settings:
        """What metrics are computed with."""
        kind = "sampling" if self.design == "sampling" else "frequency"
        return Settings(
            precisions=(decimal_bound("0.6" if self.level > -2 else "0.3"),),
            recalls=(decimal_bound("0.5"),),
            weighted=kind == "sampling",
            weight_kind=kind,
        )


POPULATIONS = [
    Population(f"base rate {rate}, {design}", level, design)
    for design in ("rows", "groups", "sampling")
    for rate, level in ((".5", 0.0), (".05", -4.05))
]


def draw(population: Population, seed: int) -> tuple[Sample, np.ndarray]:
    """Return rows with the score under study, and their baseline scores."""
    rng, rows = np.random.default_rng([seed, 20]), population.rows
    group = weight = None
    if population.design == "groups":
        group = np.repeat(np.arange(rows // GROUP), GROUP)
        shared = rng.normal(size=rows // GROUP)[group]
        x = math.sqrt(0.5) * rng.normal(size=rows // GROUP)[group] + math.sqrt(0.5) * rng.normal(
            size=rows
        )
        odds = population.level + 1.6 * x + population.spread * shared
    else:
        x = rng.normal(size=rows)
        if population.design == "sampling":
            x = rng.normal(size=6 * rows)
            kept = 0.25 + 0.75 / (1 + np.exp(-x))
            x = x[rng.random(x.size) < kept][:rows]
            weight = 1 / (0.25 + 0.75 / (1 + np.exp(-x)))
        odds = population.level + 1.6 * x
    label = (rng.random(x.size) < 1 / (1 + np.exp(-odds))).astype(np.uint8)
    noise = rng.normal(size=x.size)
    score, _ = population.scores(x)
    _, baseline = population.scores(0.9 * x + math.sqrt(1 - 0.81) * noise)
    return Sample(score=score, label=label, weight=weight, group=group), baseline


@cache
def truth(population: Population) -> dict[str, float]:
    """Return the metrics of the population: those of a fine grid with exact rates."""
    edges = np.linspace(-6.5, 6.5, GRID)
    x = 0.5 * (edges[1:] + edges[:-1])
    mass = np.exp(-0.5 * x * x)
    count = np.maximum(1, np.rint(1e12 * mass / mass.sum())).astype(np.int64)
    rate = population.rate(x)
    positive = np.rint(count * rate).astype(np.int64)
    score, _ = population.scores(x)
    # The grid stands for so many rows that its own bias is nil.
    empty = Sample(score=score, label=np.zeros(x.size, np.uint8))
    view = View(
        name="s", part="all", score=score[::-1].copy(), count=count[::-1].copy(),
        positive=positive[::-1].copy(), sample=empty, settings=population.settings,
    )  # fmt: skip
    found = registry.compute(view, names(population))
    cut = threshold(population)
    taken = score >= cut
    tp, selected = int(positive[taken].sum()), int(count[taken].sum())
    positives, total = int(positive.sum()), int(count.sum())
    confusion = Confusion(
        name="d", part="all", sample=empty,
        cells=Cells(tp, selected - tp, positives - tp, total - selected - positives + tp, math.nan),
    )  # fmt: skip
    found |= decisions.compute(confusion, DECISIONS)
    return {name: float(value) for name, value in found.items() if value is not None}


_PARAMETERS = {"weighted_accuracy": "0.7", "fbeta": "2", "utility": "1,-1,-2,0", "cost": "1,5"}
DECISIONS = [
    f"{name}:{_PARAMETERS[name]}" if name in _PARAMETERS else name
    for name in MEASURES
    if name != "informedness"  # which is youden
]
COMPARED = ["auc", "average_precision", "log_loss", "brier", "ece", "miscalibration", "smooth_ece"]


def names(population: Population) -> list[str]:
    """Return the metrics that have an interval."""
    return [
        name for name in registry.names(population.settings)
        if name not in ("count", "positives", "lift", "log_loss_reduction")
    ]  # fmt: skip


def threshold(population: Population) -> float:
    """Return the threshold of the decisions under study."""
    return float(population.scores(np.array([0.5 if population.level > -2 else 1.5]))[0][0])


@cache
def true_differences(population: Population) -> dict[str, float]:
    """Return the differences from the baseline, from a million and a half rows drawn.

    All rows are drawn alike: there are none of a sampling design.
    """
    sums: dict[str, list[float]] = {name: [] for name in COMPARED}
    rng = np.random.default_rng(5)
    x, noise, shared = rng.normal(size=(3, 1_500_000))
    odds = population.level + 1.6 * x + population.spread * shared
    label = (rng.random(x.size) < 1 / (1 + np.exp(-odds))).astype(np.uint8)
    score, _ = population.scores(x)
    _, baseline = population.scores(0.9 * x + math.sqrt(1 - 0.81) * noise)
    for own in (score, baseline):
        view = view_of(Sample(score=own, label=label), "s", "all", population.settings)
        for name, value in registry.compute(view, COMPARED).items():
            sums[name].append(float(value or 0.0))
    return {name: one - two for name, (one, two) in sums.items()}


def held(population: Population, seed: int) -> dict[str, bool]:
    """Return whether each interval of one sample holds the truth."""
    sample, baseline = draw(population, seed)
    options = IntervalOptions(seed=seed, replicates=REPLICATES)
    settings = population.settings
    view = view_of(sample, "s", "all", settings)
    found = intervals(registry.compute(view, names(population)), view, options)
    taken = replace(sample, score=(sample.score >= threshold(population)).astype(np.uint8))
    confusion = confusion_of(taken, "d", "all", settings)
    found |= intervals(decisions.compute(confusion, DECISIONS), confusion, options)
    held = holding(found, truth(population))
    if population.design != "sampling":
        other = view_of(replace(sample, score=baseline), "b", "all", settings)
        values = [registry.compute(one, COMPARED) for one in (other, view)]
        gaps = {
            name: values[1][name] - values[0][name]
            for name in COMPARED
            if values[0][name] is not None and values[1][name] is not None
        }
        apart = differences(gaps, other, view, options)
        true = true_differences(population)
        held |= {f"difference of {name}": holds for name, holds in holding(apart, true).items()}
    return held


def holding(found: Mapping[str, Interval | Difference], true: dict[str, float]) -> dict[str, bool]:
    """Return whether each interval that there is holds the true value."""
    return {
        name: interval.low <= true[name] <= interval.high
        for name, interval in found.items()
        if interval.low is not None and interval.high is not None
    }


def page(results: dict[Population, list[dict[str, bool]]]) -> dict[str, str]:
    """Return the parts of the page: one line a metric, one column a population."""
    draws = max(map(len, results.values()))
    error = 100 * math.sqrt(0.05 * 0.95 / draws)
    order: dict[str, list[str]] = {}
    for place, samples in enumerate(results.values()):
        for name in samples[0]:
            tries = [one[name] for one in samples if name in one]
            share = 100 * sum(tries) / len(tries)
            text = f"{share:.1f}" if 93 <= share <= 97 else f"**{share:.1f}**"
            row = order.setdefault(name.partition(":")[0], [""] * len(results))
            row[place] = text
    rare = next(one for one in results if "base rate .05, rows" in one.name)
    true = {**truth(rare), **{f"difference of {n}": v for n, v in true_differences(rare).items()}}
    plain = {name.partition(":")[0]: value for name, value in true.items()}
    names = (one.name.removeprefix("base rate ") for one in results)
    return {
        "samples": paragraph(
            "How often the interval of nominal 95 % held the true value, in per cent, over "
            f"{draws:,} samples of {ROWS:,} rows from each population (Monte Carlo error {error:.1f}). "
            "Scores are probabilities wrong in slope and level."
        ),
        "shares": table(
            ["metric", *names, "true, .05"],
            [[name, *row, f"{plain[name]:.4f}"] for name, row in order.items()],
            "lr",
        ),
    }


def main() -> None:
    """Run the study and fill its page in."""
    draws = arguments(__doc__, draws=2000).draws
    fill("intervals", **page(monte_carlo(held, POPULATIONS, draws)))


if __name__ == "__main__":
    main()
