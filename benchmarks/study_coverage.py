"""Write docs/evidence/coverage.md: how often certified boundaries keep their bound, and what they keep.

    python benchmarks/study_coverage.py [REPLICATIONS] [PROCESSES]

Each replication simulates rows, certifies boundaries for every bound and confidence, and judges them
by what the generator knows.  The page holds no timings and is the same each time.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibkit.bins.binning import Levels
from calibkit.boundary import exact
from calibkit.boundary.certificate import Split, deal_rows
from calibkit.boundary.certificate_paths import Path as Boundaries
from calibkit.boundary.certificate_paths import fit_path
from calibkit.boundary.certificate_tests import Quantity, certified, sequence
from calibkit.boundary.goals import RecallAtPrecision, Totals
from calibkit.maths.bounds import decimal_bound
from calibkit.rows.columns import ColumnOptions, ScoreRows
from calibkit.simulate.posterior import simulate_posterior
from calibkit.summaries.tally import count_rows
from calibkit_kernels.binomial import upper_tail

Floats = NDArray[np.float64]

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "coverage.md"
GENERATORS = ("posterior", "noisy")
ROWS = (2_000, 20_000, 200_000)
BOUNDS = ("0.6", "0.7", "0.8", "0.9")
CONFIDENCES = ("0.9", "0.95")
#: Of the part about ideas: rows, bounds, and how many replications of the posterior generator.
IDEA_ROWS, IDEA_BOUNDS, IDEA_CONFIDENCE = (20_000, 200_000), ("0.6", "0.7"), "0.9"
IDEA_FILES = 100
#: Recall kept by halves and the optimum over 7 levels as measured before, for the same cells.
KNOWN = (0.62, 0.09, 0.90, 0.68)
#: The largest files are simulated less often.
LARGE_SHARE = 0.4
#: Rows of the noisy generator on which its boundaries are judged, and its oracle's levels.
JUDGED, ORACLE_LEVELS = 1_000_000, 20
#: The significance of the test over the whole table.
SIGNIFICANCE = 0.01


@dataclass(frozen=True)
class Idea:
    """A way to certify: which part fits, which path, which boundaries of it, where tests begin."""

    name: str
    share: float | None = None
    method: str = "curved"
    levels: int | None = None
    step: float = 0.0
    counted: bool = False


SHIPPED = Idea("+ the smaller part fits (as shipped)")
IDEAS = (
    Idea("halves, the optimum over 7 levels, steps of 5 %", 0.5, "exact", 7, 0.05, True),
    Idea("+ a test at every boundary of the path", 0.5, "exact", 7, 0.0, True),
    Idea("+ a curved surface fitted near the boundary", 0.5, counted=True),
    Idea("+ start where the surface, not a count, expects most power", 0.5),
    SHIPPED,
    Idea("instead of the curved surface: the logistic one", method="logistic"),
    Idea("instead of the curved surface: a single threshold", method="st"),
)


# ---------------------------------------------------------------- generators and their truth


def posterior_rows(rows: int, seed: int) -> ScoreRows:
    """Return rows of ``calibkit simulate posterior`` with prior Beta(1, 3), tau 3, evidence 2..60."""
    frame = simulate_posterior(
        rows,
        seed=seed,
        true_prior=(1, 3),
        tau=3.0,
        evidence=(2, 60),
        keep=["label", "score", "uncertainty"],
    )
    score, uncertainty, label = (
        frame[name].to_numpy() for name in ("score", "uncertainty", "label")
    )
    return _score_rows(score, uncertainty, label)


def noisy_rows(rows: int, seed: int) -> ScoreRows:
    """Return rows whose logit score is a shifted true logit with noise of the uncertainty's size."""
    stream = np.random.default_rng([seed, 1])
    score, uncertainty, truth = _noisy(rows, stream)
    return _score_rows(score, uncertainty, stream.random(rows) < truth)


def _noisy(rows: int, stream: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    logit = -1.6 + 1.6 * stream.standard_normal(rows)
    uncertainty = np.exp(0.7 * stream.standard_normal(rows))
    seen = 1.3 * logit + 0.5 + uncertainty * stream.standard_normal(rows)
    return 1 / (1 + np.exp(-seen)), uncertainty, 1 / (1 + np.exp(-logit))


def _score_rows(score: Floats, uncertainty: Floats, label: NDArray[np.generic]) -> ScoreRows:
    return ScoreRows(
        score=score,
        uncertainty=uncertainty.astype(np.float64),
        label=label.astype(np.uint8),
        weight=None,
        options=ColumnOptions(uncertainty="uncertainty"),
        rows_read=score.size,
        dropped=0,
        warnings=(),
    )


@dataclass(frozen=True)
class Truth:
    """What a generator knows: places with their mass and positive mass, by rising uncertainty."""

    score: Floats
    uncertainty: Floats
    mass: Floats
    positive: Floats
    oracle: dict[str, float]

    def judge(self, levels: Levels, thresholds: Floats) -> tuple[float, float]:
        """Return recall and precision of a boundary."""
        inner = np.searchsorted(self.uncertainty, levels.edges)
        limits = [0, *inner.tolist(), self.score.size]
        mass = hits = 0.0
        for threshold, low, high in zip(thresholds, limits[:-1], limits[1:], strict=True):
            chosen = self.score[low:high] >= threshold
            mass += float(self.mass[low:high][chosen].sum())
            hits += float(self.positive[low:high][chosen].sum())
        return hits / float(self.positive.sum()), hits / mass if mass else 1.0


@cache
def truth_of(generator: str) -> Truth:
    """Return the truth of a generator."""
    return _posterior_truth() if generator == "posterior" else _noisy_truth()


def _posterior_truth() -> Truth:
    """All pairs of evidence and positives with their probabilities, by quadrature over S."""
    nodes, widths = np.polynomial.legendre.leggauss(400)
    true, width = (nodes + 1) / 2, widths / 2
    density = 3 * (1 - true) ** 2 * width
    seen = 3 * true / (2 * true + 1)
    places = []
    for n in range(60, 1, -1):  # by rising uncertainty
        chance = math.log((n + 1) / n) / math.log(61 / 2)
        for k in range(n + 1):
            likelihood = math.comb(n, k) * seen**k * (1 - seen) ** (n - k) * density
            mass = float(likelihood.sum()) * chance
            places.append(
                (
                    (0.05 + k) / (0.1 + n),
                    -(0.1 + n),
                    mass,
                    float((likelihood * true).sum()) * chance,
                )
            )
    score, uncertainty, mass, positive = np.array(places).T
    order = np.argsort(-positive / mass, kind="stable")
    hits, rows = np.cumsum(positive[order]), np.cumsum(mass[order])
    oracle = {
        bound: float(hits[hits >= float(bound) * rows].max(initial=0.0) / hits[-1])
        for bound in BOUNDS
    }
    return Truth(score, uncertainty, mass, positive, oracle)


def _noisy_truth() -> Truth:
    stream = np.random.default_rng([0, 2])
    score, uncertainty, truth = _noisy(JUDGED, stream)
    order = np.argsort(uncertainty, kind="stable")
    score, uncertainty, truth = score[order], uncertainty[order], truth[order]
    label = (stream.random(JUDGED) < truth).astype(np.uint8)
    level = (np.arange(JUDGED) * ORACLE_LEVELS // JUDGED).astype(np.uint16)
    points = count_rows(score, level, label, ORACLE_LEVELS).points()
    totals = Totals(JUDGED, int(label.sum()))
    oracle = {
        bound: exact.solve(points, RecallAtPrecision(decimal_bound(bound), totals), cap=1).ceiling
        for bound in BOUNDS
    }
    return Truth(score, uncertainty, np.ones(JUDGED), truth, oracle)


MAKERS: dict[str, Callable[[int, int], ScoreRows]] = {
    "posterior": posterior_rows,
    "noisy": noisy_rows,
}


# ---------------------------------------------------------------- one replication


@dataclass(frozen=True)
class Task:
    """A replication: what to simulate, and what to certify on it."""

    generator: str
    rows: int
    seed: int
    bounds: tuple[str, ...]
    confidences: tuple[str, ...]
    ideas: tuple[Idea, ...]


#: Generator, rows, bound, confidence, name of the idea.
Cell = tuple[str, int, str, str, str]
#: Recall as a share of the oracle's, whether the bound is violated, whether nothing is certified.
Outcome = tuple[float, bool, bool]


def replicate(task: Task) -> list[tuple[Cell, Outcome]]:
    """Certify one simulated file in every way asked for."""
    rows = MAKERS[task.generator](task.rows, task.seed)
    truth = truth_of(task.generator)
    found: list[tuple[Cell, Outcome]] = []
    for idea in task.ideas:
        # Seeds far apart: those of `deal_rows` next to each other deal in like ways.
        split = deal_rows(rows, (task.seed + 1) << 24, idea.share)
        for bound in task.bounds:
            quantity = Quantity("precision", decimal_bound(bound))
            path = fit_path(split.fitting, idea.method, idea.levels, quantity.sizes)
            for confidence, place in _places(path, split, quantity, idea, task.confidences):
                recall, precision = 0.0, 1.0
                if place >= 0:
                    recall, precision = truth.judge(path.levels, path.thresholds[place])
                best = truth.oracle[bound]
                kept = recall / best if best else math.nan
                cell = (task.generator, task.rows, bound, confidence, idea.name)
                found.append((cell, (kept, precision < float(bound), place < 0)))
    return found


def _places(
    path: Boundaries, split: Split, quantity: Quantity, idea: Idea, confidences: tuple[str, ...]
) -> Iterator[tuple[str, int]]:
    """Yield each confidence with the place that is certified."""
    fitting, certifying = (_counts(path, part) for part in (split.fitting, split.certifying))
    expected = fitting[0].astype(np.float64) if idea.counted else path.expected
    ratio = certifying[1] / fitting[1]
    tests = sequence(quantity, expected, path.totals, ratio)
    tests = replace(tests, places=_thinned(tests.places, path.expected[:, 0], idea.step))
    counts = certifying[0].astype(np.float64)
    found = quantity.hits_and_trials(counts, certifying[1], certifying[2]).astype(np.int64)
    for confidence in confidences:
        bound = decimal_bound(confidence)
        level = (bound.denominator - bound.numerator) / bound.denominator
        yield confidence, certified(quantity, tests, found, level)


def _counts(path: Boundaries, rows: ScoreRows) -> tuple[NDArray[np.int64], int, int]:
    assert rows.label is not None
    level = path.levels.of(rows.uncertainty, rows.score.size)
    tally = count_rows(rows.score, level, rows.label, path.levels.count)
    return path.counts(tally), rows.score.size, int(rows.label.sum())


def _thinned(places: NDArray[np.int64], rows: Floats, step: float) -> NDArray[np.int64]:
    """Leave out places that select hardly more than the one before."""
    kept, reached = [], 0.0
    for place in places.tolist():
        if rows[place] >= reached:
            kept.append(place)
            reached = rows[place] * (1 + step)
    return np.array(kept, np.int64)


# ---------------------------------------------------------------- the page


@dataclass(frozen=True)
class Cells:
    """The outcomes of all replications, by cell."""

    outcomes: dict[Cell, list[Outcome]]

    def summary(self, cell: Cell) -> tuple[float, int, int, int]:
        """Return mean share of recall kept, violations, exits without a boundary, replications."""
        kept, violated, nothing = zip(*self.outcomes[cell], strict=True)
        return math.fsum(kept) / len(kept), sum(violated), sum(nothing), len(kept)


def run(tasks: list[Task], processes: int) -> Cells:
    """Do all replications; each result depends on its own task alone."""
    outcomes: dict[Cell, list[Outcome]] = defaultdict(list)
    with ProcessPoolExecutor(processes) as pool:
        for found in pool.map(replicate, tasks, chunksize=4):
            for cell, outcome in found:
                outcomes[cell].append(outcome)
    return Cells(outcomes)


def p_value(violations: int, replications: int, confidence: str) -> float:
    """Return how probable so many violations are where they have probability 1 - confidence."""
    allowed = 1.0 - float(confidence)
    return upper_tail(violations, replications, allowed, float(confidence))


def holm(values: list[float], significance: float) -> int:
    """Return how many hypotheses Holm's procedure rejects."""
    for rejected, value in enumerate(sorted(values)):
        if value > significance / (len(values) - rejected):
            return rejected
    return len(values)


def coverage_lines(cells: Cells) -> list[str]:
    """Return the table of coverage and recall kept."""
    lines = [
        "| generator | rows | precision >= | C | files | violations | allowed | none | recall kept |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    values = []
    for generator, rows, bound, confidence, name in cells.outcomes:
        kept, violated, nothing, count = cells.summary((generator, rows, bound, confidence, name))
        values.append(p_value(violated, count, confidence))
        shown = "no boundary meets it" if math.isnan(kept) else f"{kept:.1%}"
        lines.append(
            f"| {generator} | {rows:,} | {bound} | {confidence} | {count:,} | {violated / count:.1%} | "
            f"{1 - float(confidence):.0%} | {nothing / count:.1%} | {shown} |"
        )
    rejected = holm(values, SIGNIFICANCE)
    verdict = (
        f"Holm's procedure at {SIGNIFICANCE:.0%} over the {len(values)} cells rejects "
        f"{rejected or 'none'}: "
        + ("**no cell violates its bound too often.**" if not rejected else "**coverage fails.**")
    )
    smallest = min(values)
    return [
        *lines,
        "",
        f"{verdict} The smallest p-value of a cell is {smallest:.2g}.",
    ]


def idea_lines(cells: Cells) -> list[str]:
    """Return the table of what each idea brought."""
    columns = [(rows, bound) for rows in IDEA_ROWS for bound in IDEA_BOUNDS]
    lines = [
        "| | " + " | ".join(f"{rows:,}, {bound}" for rows, bound in columns) + " |",
        "| --- |" + " ---: |" * len(columns),
    ]
    for idea in IDEAS:
        shown = []
        for rows, bound in columns:
            kept, _, _, _ = cells.summary(("posterior", rows, bound, IDEA_CONFIDENCE, idea.name))
            shown.append(f"{kept:.1%}")
        lines.append(f"| {idea.name} | " + " | ".join(shown) + " |")
    before = " | ".join(f"{kept:.0%}" for kept in KNOWN)
    return [
        f"{IDEA_FILES} files a cell.",
        "",
        *lines,
        f"| halves and the optimum over 7 levels, as measured before | {before} |",
    ]


HEAD = """# Certified boundaries: coverage, and what they keep

<!-- Written by `make coverage`; edit benchmarks/study_coverage.py. -->

`calibkit boundary --precision P --confidence C` promises that the boundary violates the bound on new
data with probability 1 - C at most. Here files are simulated over and over, a boundary is certified
on each, and judged by what the generator knows. **Violations** are files whose certified boundary
has a true precision below the bound; a file on which nothing is certified (exit 4) violates
nothing. **Recall kept** is the mean of the certified boundary's true recall over that of the best
boundary the oracle knows, 0 where nothing is certified.

* **posterior**: `calibkit simulate posterior` with the true prior Beta(1, 3), tau 3 and evidence
  from 2 to 60. Truth and oracle are exact: all pairs of evidence and positives by quadrature.
* **noisy**: the true logit is normal, mean -1.6 and spread 1.6; the logit of the score is 1.3 times
  that plus 0.5, plus noise whose spread is the uncertainty (log-normal, spread 0.7). Judged by the
  true probabilities of a million other rows; the oracle's boundary is the bound on the optimum
  over 20 levels of these rows."""

IDEAS_HEAD = """## Which idea brought how much

The share of recall kept at C = 0.9 on the posterior generator, by rows and bound. Each line adds to
the one before; the two after the shipped way replace its path."""


def page(coverage: Cells, ideas: Cells, replications: int) -> str:
    """Return the page."""
    command = f"Written by `make coverage REPLICATIONS={replications}`."
    parts = [HEAD, "", command, "", "## Coverage", "", *coverage_lines(coverage), ""]
    return "\n".join([*parts, IDEAS_HEAD, "", *idea_lines(ideas), ""])


def _share(share: float, replications: int) -> int:
    return max(1, round(share * replications))


def main(replications: int = 1000, processes: int = 2) -> None:
    """Run the study and write its page."""
    coverage = [
        Task(generator, rows, seed, BOUNDS, CONFIDENCES, (SHIPPED,))
        for generator in GENERATORS
        for rows in ROWS
        for seed in range(_share(LARGE_SHARE if rows == ROWS[-1] else 1.0, replications))
    ]
    ideas = [
        Task("posterior", rows, seed, IDEA_BOUNDS, (IDEA_CONFIDENCE,), IDEAS)
        for rows in IDEA_ROWS
        for seed in range(10**6, 10**6 + IDEA_FILES)
    ]
    found = page(run(coverage, processes), run(ideas, processes), replications)
    PAGE.write_text(found, encoding="utf-8")
    print(f"{PAGE} written")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
