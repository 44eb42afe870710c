"""What a boundary model consists of: objective, figures, what was seen at the fit, segments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args

import msgspec

from calibkit.errors import ModelError
from calibkit.models.model import Resolution, known
from calibkit.options.bin import Order as LevelOrder
from calibkit.options.boundary import EVERY_METHOD

if TYPE_CHECKING:
    from calibkit.arrays import Floats, Numbers

#: A threshold in JSON: a score, "-inf" (always), "inf" (only infinite scores), null (never).
Threshold = float | str | None


def threshold_value(threshold: Threshold) -> float:
    """Return a threshold as a float: NaN for never, -inf for always.

    Raises `ModelError` for another word.
    """
    if threshold is None:
        return math.nan
    if isinstance(threshold, str) and threshold not in ("-inf", "inf"):
        raise ModelError(f'a threshold is a number, null, "-inf" or "inf", not {threshold!r}')
    return float(threshold)


def threshold_values(thresholds: Sequence[Threshold]) -> Floats:
    """Return thresholds as floats, see `threshold_value`."""
    import numpy as np

    return np.array([threshold_value(threshold) for threshold in thresholds], np.float64)


def threshold_json(value: float) -> Threshold:
    """Return a float threshold as it stands in the model."""
    if math.isnan(value):
        return None
    return str(float(value)) if math.isinf(value) else float(value)


class Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A part of a model: strict, like the whole."""


#: How a boundary was found (``curved``: a path that a certificate is tested along), and how its levels
#: and score bins lie.
Method = Annotated[str, known(EVERY_METHOD)]
Order = Annotated[str, known(get_args(LevelOrder))]
Randomise = Annotated[str, known(("block", "tie"))]


class Objective(Part):
    """What was maximised (`maximize`) or minimised (`minimize`), under which bounds.

    `prevalence` is the base rate to which the classes were reweighted, if they were.  Where there is
    a column ``value``, recall is the share of its sum among the positive rows.  Of three-way decisions
    ``review`` is the share of the rows that is reviewed, precision that of block, and recall that of
    block with review; `review_cost` is what a reviewed row costs.  `max_gap` is how far a measure of
    segments may lie apart.
    """

    subject_to: dict[str, float]
    prevalence: float | msgspec.UnsetType = msgspec.UNSET
    maximize: str | msgspec.UnsetType = msgspec.UNSET
    minimize: str | msgspec.UnsetType = msgspec.UNSET
    review_cost: float | msgspec.UnsetType = msgspec.UNSET
    max_gap: dict[str, float] | msgspec.UnsetType = msgspec.UNSET


class Partition(Part):
    """The leaves of several uncertainties: inner edges of the bins of each, and the leaf of each cell.

    Cells are numbered with the bin of the last column moving fastest.
    """

    edges: list[list[float]]
    leaves: list[int]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many bins each column has."""
        return tuple(len(own) + 1 for own in self.edges)

    def check(self, levels: int, columns: int) -> None:
        """Raise `ModelError` where edges, cells and levels do not fit together."""
        if len(self.edges) != columns or math.prod(self.shape) != len(self.leaves):
            raise ModelError("'partition' has edges for each uncertainty, and a leaf for each cell")
        if any(not low < high for own in self.edges for low, high in itertools.pairwise(own)):
            raise ModelError("the edges of 'partition' rise")
        if not all(0 <= leaf < levels for leaf in self.leaves):
            raise ModelError(f"the leaves of 'partition' are levels, 0 to {levels - 1}")


class Rates(Part):
    """What every boundary is judged by; null where undefined."""

    precision: float | None
    recall: float | None
    objective_value: float | None


class Figures(Rates, kw_only=True):
    """Counts (sums of weights) and rates of a boundary on some rows; null where undefined.

    Of three-way decisions they are those of block, but for recall, which counts block with review;
    `reviewed` and `reviewed_positives` are the rows and positive rows that are reviewed.
    """

    selected: int | float
    true_positives: int | float
    false_positive_rate: float | None
    reviewed: int | float | msgspec.UnsetType = msgspec.UNSET
    reviewed_positives: int | float | msgspec.UnsetType = msgspec.UNSET


class TestFigures(Figures, kw_only=True):
    """Figures on rows that the fit did not see."""

    rows: int | float
    positives: int | float


class CrossValidated(Rates):
    """Figures of boundaries fitted without the rows they are judged on, pooled over the folds.

    `standard_error` is that of `objective_value`, from its spread over the folds.  `rows` and
    `positives` stand where it is of that many rows, drawn at random, and not of all.
    """

    standard_error: float | None
    folds: int
    rows: int | float | msgspec.UnsetType = msgspec.UNSET
    positives: int | float | msgspec.UnsetType = msgspec.UNSET


class Price(Part):
    """The objective within a gap between segments."""

    max_gap: float
    objective_value: float | None


class GapFigures(Part):
    """How far a measure of segments lies apart, and what it costs to keep them together.

    The gap is that on the fitting rows, on rows that boundaries were fitted without, and on test rows;
    `without_limit` that of the best boundary that heeds none.  `prices` has the objective on the
    fitting rows within other gaps.
    """

    in_sample: float | None
    cross_validated: float | None
    without_limit: float | None
    prices: list[Price]
    test: float | None = None


class Reference(Part):
    """The fitting data in outline, to notice later that new data differ.

    The quantiles have ranks ``floor(j N / 20)``, j = 0 … 19, counted from 0.  The counts say how many
    rows lie from a quantile up to the next, which ties move away from N / 20; where several quantiles
    are one value, the first counts the rows of this value, the last those above it, others none.
    """

    score_quantiles: list[Threshold]
    uncertainty_quantiles: list[float] | None
    rows_per_level: list[int | float]
    selected_share: float
    score_counts: list[int | float]
    score_max: Threshold
    uncertainty_counts: list[int | float] | None
    uncertainty_max: float | None

    @property
    def outlines(self) -> dict[str, tuple[Sequence[Threshold], list[int | float], Threshold]]:
        """Quantiles, the rows from each up to the next and the largest value, by role."""
        found: dict[str, Any] = {"score": (self.score_quantiles, self.score_counts, self.score_max)}
        if self.uncertainty_quantiles is None or self.uncertainty_counts is None:
            return found
        own = self.uncertainty_quantiles, self.uncertainty_counts, self.uncertainty_max
        return found | {"uncertainty": own}

    def check(self) -> None:
        """Raise `ModelError` where quantiles and counts do not fit together."""
        if not 0.0 <= self.selected_share <= 1.0:
            raise ModelError("'selected_share' is a share, between 0 and 1")
        beside = self.uncertainty_quantiles, self.uncertainty_counts, self.uncertainty_max
        if len({part is None for part in beside}) > 1:
            raise ModelError("what 'reference' says of uncertainties goes together")
        if self.score_max is None:
            raise ModelError("'score_quantiles' and 'score_max' are numbers, \"-inf\" or \"inf\"")
        for name, (quantiles, counts, largest) in self.outlines.items():
            values = [threshold_value(value) for value in (*quantiles, largest)]
            if not counts or len(quantiles) != len(counts):
                raise ModelError(f"'{name}_quantiles' and '{name}_counts' are of one size")
            if any(not low <= high for low, high in itertools.pairwise(values)):
                raise ModelError(f"'{name}_quantiles' must not decrease, up to '{name}_max'")
            if min(counts) < 0 or not sum(counts) > 0:
                raise ModelError(f"'{name}_counts' are numbers of rows, not all 0")


class Candidate(Rates):
    """What the automatic choice saw of a candidate, cross-validated.

    `gap` is how much less it is worth than the best candidate, with the standard error of that
    difference; `within_bound` says that it is not short of the bound by two standard errors.
    `recall_at_bound` (of a bound on recall: `precision_at_bound`) is what it reaches out of sample with
    its cut moved to where the bound just holds, `at_bound_standard_error` that of the difference to the
    best there.
    """

    method: Method
    uncertainty_bins: int
    within_bound: bool
    gap: float
    gap_standard_error: float
    recall_at_bound: float | msgspec.UnsetType = msgspec.UNSET
    precision_at_bound: float | msgspec.UnsetType = msgspec.UNSET
    at_bound_standard_error: float | msgspec.UnsetType = msgspec.UNSET


class Promise(Part):
    """A figure and its bound; `side` is ``lower`` (at least the bound) or ``upper`` (at most)."""

    quantity: str
    bound: float
    side: Annotated[str, known(("lower", "upper"))]

    @property
    def text(self) -> str:
        """The promise in a few words."""
        name = self.quantity.replace("_", " ")
        return f"{name} {'>=' if self.side == 'lower' else '<='} {self.bound:g}"


class Certificate(Promise):
    """What holds on new data: `quantity` is within `bound`, with probability `confidence`.

    `rows` certified it, which took no part in the fit.  Where several bounds hold together, `promises`
    has all of them; `confidence` is that of all promises and segments together.  `assumes` says what
    was taken to be limited (``max_weight``, ``max_value``, ``max_group_rows``), and from which time on
    rows certified (``certified_from``); `failed` names the segments for which nothing could be
    certified, of which no row is selected.
    """

    confidence: float
    rows: int
    promises: list[Promise] | msgspec.UnsetType = msgspec.UNSET
    assumes: dict[str, int | float | str] | msgspec.UnsetType = msgspec.UNSET
    failed: list[str] | msgspec.UnsetType = msgspec.UNSET

    @property
    def all(self) -> list[Promise]:
        """All that is promised."""
        return [self] if self.promises is msgspec.UNSET else self.promises


class BoundaryFit(Part):
    """What is known of a boundary from its fit.

    `upper_bound` is what no boundary over the same levels and score bins (for a single threshold:
    no other single threshold) can exceed on the fitting rows, or under ``minimize`` undercut;
    `optimal_in_sample` says that this boundary reaches the best that any of them can.
    `resolution` stands where the rows did not fit and were rounded; counts are exact even so.
    """

    rows: int | float
    positives: int | float
    in_sample: Figures
    upper_bound: float
    optimal_in_sample: bool
    exact_arithmetic: bool
    bound_met: bool
    cross_validated: CrossValidated | None
    score_only: Figures | None
    test: TestFigures | None
    reference: Reference | None
    certificate: Certificate | None
    candidates: list[Candidate] | msgspec.UnsetType = msgspec.UNSET
    resolution: Resolution | msgspec.UnsetType = msgspec.UNSET
    gap: GapFigures | msgspec.UnsetType = msgspec.UNSET

    @property
    def validated_on(self) -> tuple[int | float, int | float]:
        """The rows and positive rows of the cross-validation: all, or some drawn at random."""
        own = self.cross_validated
        if own is None or own.rows is msgspec.UNSET or own.positives is msgspec.UNSET:
            return self.rows, self.positives
        return own.rows, own.positives


class Steps(Part):
    """A rising step function of the score: the value of the greatest knot at or below it.

    Below all knots it is the first value; without knots there were no rows to tell.
    """

    knots: list[Threshold]
    values: list[float]

    def check(self) -> None:
        """Raise `ModelError` where knots and values do not fit together."""
        knots = [threshold_value(knot) for knot in self.knots]
        if len(knots) != len(self.values):
            raise ModelError("'isotonic' has a value for each knot")
        if any(not low < high for low, high in itertools.pairwise(knots)):
            raise ModelError("the knots of 'isotonic' rise")
        if any(not 0.0 <= value <= 1.0 for value in self.values):
            raise ModelError("the values of 'isotonic' are probabilities")

    def at(self, score: Numbers) -> Floats:
        """Return the value at each score; NaN without knots."""
        import numpy as np

        if not self.values:
            return np.full(score.size, np.nan)
        knots = threshold_values(self.knots[1:])
        return np.array(self.values)[np.searchsorted(knots, score, "right")]


class SegmentFit(Part):
    """What is known of one segment's thresholds; its recall is that within the segment."""

    rows: int | float
    positives: int | float
    in_sample: Figures | None
    bound_met: bool | None = None
    cross_validated: CrossValidated | None = None
    test: TestFigures | None = None


class Segment(Part):
    """The boundary of one value of the ``by`` column: what in the model it stands in for.

    The fields are those of `BoundaryModel`.
    """

    method: Method
    uncertainty_min: float | list[float | None] | None
    uncertainty_edges: list[float | list[float]]
    score_thresholds: list[Threshold]
    fit: SegmentFit
    order: Order = "uncertainty-score"
    randomise: Randomise | msgspec.UnsetType = msgspec.UNSET
    random_thresholds: list[Threshold] | msgspec.UnsetType = msgspec.UNSET
    tie_probability: list[float] | msgspec.UnsetType = msgspec.UNSET
    seed: int | msgspec.UnsetType = msgspec.UNSET
    coefficients: dict[str, float] | msgspec.UnsetType = msgspec.UNSET
    uncertainty_ranks: list[float] | msgspec.UnsetType = msgspec.UNSET
    cut: float | msgspec.UnsetType | None = msgspec.UNSET
    clipped: int | float | msgspec.UnsetType = msgspec.UNSET
    score_min: float | msgspec.UnsetType = msgspec.UNSET
    score_edges: list[float] | msgspec.UnsetType = msgspec.UNSET
    take: list[int] | msgspec.UnsetType = msgspec.UNSET
    isotonic: list[Steps] | msgspec.UnsetType = msgspec.UNSET


#: What a segment has of its own.
RULE = tuple(name for name in Segment.__struct_fields__ if name != "fit")
