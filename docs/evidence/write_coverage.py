"""Fill in coverage.md: how often certified boundaries keep their bound, and what they keep.

Each replication simulates rows, certifies boundaries for every bound and confidence, and judges them
by what the generator knows.  The page is the same each time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from coverage_rows import BOUNDS, MAKERS, truth_of
from numpy.typing import NDArray
from pages import arguments, fill, paragraph, sections, table
from studies import monte_carlo

from calibkit.columns.columns import ScoreRows
from calibkit.methods.boundary.certificate.certificate import Split, deal_rows
from calibkit.methods.boundary.certificate.paths import Path as Boundaries
from calibkit.methods.boundary.certificate.paths import fit_path
from calibkit.methods.boundary.certificate.tests import Quantity, certified, sequence
from calibkit.numerics.bounds import decimal_bound
from calibkit.summaries.tally import count_rows
from calibkit_kernels.binomial import upper_tail

Floats = NDArray[np.float64]

GENERATORS = ("posterior", "noisy")
ROWS = (2_000, 20_000, 200_000)
CONFIDENCES = ("0.9", "0.95")
#: Of the part about ideas: rows, bounds, and how many replications of the posterior generator.
IDEA_ROWS, IDEA_BOUNDS, IDEA_CONFIDENCE = (20_000, 200_000), ("0.6", "0.7"), "0.9"
IDEA_FILES = 100
#: Recall kept by halves and the optimum over 7 levels as measured before, for the same cells.
KNOWN = (0.62, 0.09, 0.90, 0.68)
#: The largest files are simulated less often.
LARGE_SHARE = 0.4
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


# ---------------------------------------------------------------- one replication


@dataclass(frozen=True)
class Task:
    """What to simulate, and what to certify on it."""

    generator: str
    rows: int
    bounds: tuple[str, ...]
    confidences: tuple[str, ...]
    ideas: tuple[Idea, ...]


#: Generator, rows, bound, confidence, name of the idea.
Cell = tuple[str, int, str, str, str]
#: Recall as a share of the oracle's, whether the bound is violated, whether nothing is certified.
Outcome = tuple[float, bool, bool]


def replicate(task: Task, seed: int) -> list[tuple[Cell, Outcome]]:
    """Certify one simulated file in every way asked for."""
    rows = MAKERS[task.generator](task.rows, seed)
    truth = truth_of(task.generator)
    found: list[tuple[Cell, Outcome]] = []
    for idea in task.ideas:
        # Seeds far apart: those of `deal_rows` next to each other deal in like ways.
        split = deal_rows(rows, (seed + 1) << 24, idea.share)
        for bound in task.bounds:
            quantity = Quantity("precision", decimal_bound(bound))
            path = fit_path(split.fitting, idea.method, idea.levels, quantity.size)
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


Outcomes = dict[Cell, list[Outcome]]


def summary(outcomes: list[Outcome]) -> tuple[float, int, int, int]:
    """Return mean share of recall kept, violations, exits without a boundary, replications."""
    kept, violated, nothing = zip(*outcomes, strict=True)
    return math.fsum(kept) / len(kept), sum(violated), sum(nothing), len(kept)


def by_cell(found: dict[Task, list[list[tuple[Cell, Outcome]]]]) -> Outcomes:
    """Return the outcomes of all replications, by cell."""
    outcomes: Outcomes = defaultdict(list)
    for replications in found.values():
        for one in replications:
            for cell, outcome in one:
                outcomes[cell].append(outcome)
    return outcomes


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


def coverage_parts(outcomes: Outcomes) -> dict[str, str]:
    """Return the table of coverage and recall kept, and what it says."""
    rows, values = [], []
    for (generator, size, bound, confidence, _), own in outcomes.items():
        kept, violated, nothing, count = summary(own)
        values.append(p_value(violated, count, confidence))
        shown = "no boundary meets it" if math.isnan(kept) else f"{kept:.1%}"
        rows.append(
            [
                *(
                    generator,
                    f"{size:,}",
                    bound,
                    confidence,
                    f"{count:,}",
                    f"{violated / count:.1%}",
                ),
                *(f"{1 - float(confidence):.0%}", f"{nothing / count:.1%}", shown),
            ]
        )
    rejected = holm(values, SIGNIFICANCE)
    verdict = "**coverage fails.**" if rejected else "**no cell violates its bound too often.**"
    header = "generator|rows|precision >=|C|files|violations|allowed|none|recall kept"
    return {
        "coverage": table(header, rows, "lr"),
        "verdict": paragraph(
            f"Holm's procedure at {SIGNIFICANCE:.0%} over the {len(values)} cells rejects "
            f"{rejected or 'none'}: {verdict} The smallest p-value of a cell is {min(values):.2g}."
        ),
    }


def idea_table(outcomes: Outcomes) -> str:
    """Return the table of what each idea brought."""
    columns = [(rows, bound) for rows in IDEA_ROWS for bound in IDEA_BOUNDS]
    lines = []
    for idea in IDEAS:
        cells = [("posterior", rows, bound, IDEA_CONFIDENCE, idea.name) for rows, bound in columns]
        lines.append([idea.name, *(f"{summary(outcomes[cell])[0]:.1%}" for cell in cells)])
    before = [f"{kept:.0%}" for kept in KNOWN]
    lines.append(["halves and the optimum over 7 levels, as measured before", *before])
    header = ["", *(f"{rows:,}, {bound}" for rows, bound in columns)]
    return sections(f"{IDEA_FILES} files a cell.", table(header, lines, "lr"))


def main() -> None:
    """Run the study and fill its page in."""
    count = arguments(__doc__, replications=1000).replications
    coverage = [
        Task(generator, rows, BOUNDS, CONFIDENCES, (SHIPPED,))
        for generator in GENERATORS
        for rows in ROWS
    ]
    ideas = [Task("posterior", rows, IDEA_BOUNDS, (IDEA_CONFIDENCE,), IDEAS) for rows in IDEA_ROWS]

    def files(task: Task) -> int:
        return max(1, round((LARGE_SHARE if task.rows == ROWS[-1] else 1.0) * count))

    covered = by_cell(monte_carlo(replicate, coverage, files))
    brought = by_cell(monte_carlo(replicate, ideas, IDEA_FILES, first=10**6))
    fill(
        "coverage",
        files=f"Written by `make coverage REPLICATIONS={count}`.",
        **coverage_parts(covered),
        ideas=idea_table(brought),
    )


if __name__ == "__main__":
    main()
