"""Write docs/evidence/coverage.md: how often certified boundaries keep their bound, and what they keep.

    python benchmarks/study_coverage.py [REPLICATIONS] [PROCESSES]

Each replication simulates rows, certifies boundaries for every bound and confidence, and judges them
by what the generator knows.  The page holds no timings and is the same each time.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from coverage_rows import BOUNDS, MAKERS, truth_of
from numpy.typing import NDArray

from calibkit.columns.columns import ScoreRows
from calibkit.methods.boundary.certificate.certificate import Split, deal_rows
from calibkit.methods.boundary.certificate.paths import Path as Boundaries
from calibkit.methods.boundary.certificate.paths import fit_path
from calibkit.methods.boundary.certificate.tests import Quantity, certified, sequence
from calibkit.numerics.bounds import decimal_bound
from calibkit.summaries.tally import count_rows
from calibkit_kernels.binomial import upper_tail

Floats = NDArray[np.float64]

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "coverage.md"
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
