"""Fill in coverage.md: how often certified boundaries keep their bound, and what they keep.

Each replication simulates rows, certifies boundaries by `calibkit.fit_boundary` for every bound and
confidence, and judges them by what the generator knows.  The page is the same each time.
"""

from __future__ import annotations

import math
from itertools import product

from coverage_kinds import KINDS, kept, kind_rows
from coverage_rows import BOUNDS, MAKERS, ceiling, truth_of
from pages import arguments, fill, paragraph, table
from studies import monte_carlo

from calibkit import fit_boundary
from calibkit.errors import InfeasibleError
from calibkit.summaries.binning import Levels
from calibkit_kernels.distributions import upper_tail

GENERATORS = ("posterior", "noisy")
ROWS = (2_000, 20_000, 200_000)
CONFIDENCES = ("0.9", "0.95")
#: The largest files are simulated less often.
LARGE_SHARE = 0.4
#: The significance of the test over a whole table.
SIGNIFICANCE = 0.01
#: Of rows of other kinds: how many, and the confidence.
KIND_ROWS, KIND_CONFIDENCE, JUDGED = 4_000, "0.9", 200_000


# ---------------------------------------------------------------- one replication


#: Generator, rows, bound, confidence.
Cell = tuple[str, int, str, str]
#: Recall as a share of the oracle's, whether the bound is violated, whether nothing is certified.
Outcome = tuple[float, bool, bool]

#: Every cell of the table; those that a change of the method is judged by are in a table of their own.
CELLS: list[Cell] = list(product(GENERATORS, ROWS, BOUNDS, CONFIDENCES))
REFERENCE: list[Cell] = list(product(GENERATORS[:1], ROWS[1:], BOUNDS[:2], CONFIDENCES[:1]))


def replicate(cell: Cell, seed: int) -> Outcome:
    """Certify one simulated file."""
    generator, rows, bound, confidence = cell
    columns, truth = MAKERS[generator](rows, seed), truth_of(generator)
    recall, precision, nothing = 0.0, 1.0, False
    try:
        # Seeds far apart: those next to each other deal in like ways.
        model = fit_boundary(
            **columns, precision=bound, confidence=confidence, seed=(seed + 1) << 24
        )
    except InfeasibleError:
        nothing = True
    else:
        levels = Levels(model.uncertainty_min or -math.inf, model.uncertainty_edges)
        recall, precision = truth.judge(levels, model.thresholds())
    best = truth.oracle[bound]
    return recall / best if best else math.nan, precision < float(bound), nothing


def replicate_kind(kind: str, seed: int) -> Outcome:
    """Certify one simulated file of rows of some kind."""
    given = KINDS[kind]
    frame, _ = kind_rows(KIND_ROWS, seed)
    try:
        model = fit_boundary(frame, confidence=KIND_CONFIDENCE, seed=(seed + 1) << 24, **given)
    except InfeasibleError:
        return 0.0, False, True
    return model.fit.in_sample.recall or 0.0, not kept(model, JUDGED, given), False


# ---------------------------------------------------------------- the page


Outcomes = dict[Cell, list[Outcome]]


def summary(outcomes: list[Outcome]) -> tuple[float, int, int, int]:
    """Return mean share of recall kept, violations, exits without a boundary, replications."""
    kept, violated, nothing = zip(*outcomes, strict=True)
    return math.fsum(kept) / len(kept), sum(violated), sum(nothing), len(kept)


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


def judgement(values: list[float]) -> str:
    """Return whether cells violate their bound too often."""
    rejected = holm(values, SIGNIFICANCE)
    verdict = "**coverage fails.**" if rejected else "**no cell violates its bound too often.**"
    return (
        f"Holm's procedure at {SIGNIFICANCE:.0%} over the {len(values)} cells rejects "
        f"{rejected or 'none'}: {verdict}"
    )


def coverage_table(outcomes: Outcomes) -> tuple[str, list[float]]:
    """Return the table of coverage and recall kept, and the p-values of its cells."""
    rows, values = [], []
    for (generator, size, bound, confidence), own in outcomes.items():
        kept, violated, nothing, count = summary(own)
        values.append(p_value(violated, count, confidence))
        shown = "no boundary meets it" if math.isnan(kept) else f"{kept:.1%}"
        known = ceiling(size, bound, confidence, count) if generator == "posterior" else math.nan
        rows.append(
            [
                *(generator, f"{size:,}", bound, confidence, f"{count:,}"),
                *(f"{violated / count:.1%}", f"{1 - float(confidence):.0%}"),
                *(f"{nothing / count:.1%}", shown, "" if math.isnan(known) else f"{known:.1%}"),
            ]
        )
    header = "generator|rows|precision >=|C|files|violations|allowed|none|recall kept|known path"
    return table(header, rows, "lr"), values


def coverage_parts(outcomes: Outcomes) -> dict[str, str]:
    """Return the table of all cells, and what it says."""
    shown, values = coverage_table(outcomes)
    least = f"The smallest p-value of a cell is {min(values):.2g}."
    return {"coverage": shown, "verdict": paragraph(f"{judgement(values)} {least}")}


def kind_parts(outcomes: dict[str, list[Outcome]]) -> dict[str, str]:
    """Return the table of rows of other kinds, and what it says."""
    rows, values = [], []
    for kind, own in outcomes.items():
        recall, violated, nothing, count = summary(own)
        values.append(p_value(violated, count, KIND_CONFIDENCE))
        shares = f"{violated / count:.1%}", f"{nothing / count:.1%}", f"{recall:.1%}"
        rows.append([f"`{kind}`", f"{count:,}", *shares])
    return {
        "kinds": table("options|files|violations|none|recall", rows, "lr"),
        "kinds_verdict": paragraph(
            f"{KIND_ROWS:,} rows a file, C = {KIND_CONFIDENCE}: at most "
            f"{1 - float(KIND_CONFIDENCE):.0%} may be violations. {judgement(values)}"
        ),
    }


def main() -> None:
    """Run the study and fill its page in, or one of its parts."""
    given = arguments(__doc__, replications=1000, kinds=1000, only_kinds=0, only_reference=0)
    count, parts = given.replications, {}

    def files(cell: Cell) -> int:
        return max(1, round((LARGE_SHARE if cell[1] == ROWS[-1] else 1.0) * count))

    if not given.only_kinds:
        found = monte_carlo(replicate, REFERENCE, files)
        parts["reference"] = coverage_table(found)[0]
        if not given.only_reference:
            others = [cell for cell in CELLS if cell not in found]
            found |= monte_carlo(replicate, others, files)
            parts |= coverage_parts({cell: found[cell] for cell in CELLS})
            parts["files"] = f"Written by `make coverage REPLICATIONS={count}`."
    if not given.only_reference:
        parts |= kind_parts(monte_carlo(replicate_kind, list(KINDS), given.kinds))
        parts["kinds_files"] = f"{given.kinds:,} files a cell."
    fill("coverage", some=bool(given.only_kinds or given.only_reference), **parts)


if __name__ == "__main__":
    main()
