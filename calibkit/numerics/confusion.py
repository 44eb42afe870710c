"""The measures of a confusion matrix: one table for `evaluate`, `boundary`, `gate` and reports.

A measure is added here, in one entry: its formula, its bounds, the classes it needs, a sentence for
readers.  Its interval follows: of a share of rows (`Share`), or of a function of one, it is Wilson's;
of every other measure it comes from the formula's slopes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Floats
from calibkit.errors import UsageError
from calibkit.numerics.bounds import Bound, decimal_bound

#: Parameters, such as costs, are at most this large.
_MOST = 10**9

#: Imaginary step of the slopes, as a share of all rows: its square is lost beside 1.
_STEP = 1e-20


class Cells(Struct, frozen=True):
    """Counts of a confusion matrix: whole numbers of one, or arrays of floats of several.

    `empty` is what 0 / 0 is: 0 where the best of several is sought, NaN where one is reported.
    """

    tp: Any
    fp: Any
    fn: Any
    tn: Any
    empty: float = 0.0

    @property
    def rows(self) -> Any:
        """All rows."""
        return self.tp + self.fp + self.fn + self.tn

    @property
    def precision(self) -> Any:
        """The share of positives among the selected rows."""
        return self.ratio(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> Any:
        """The share of the positives that is selected."""
        return self.ratio(self.tp, self.tp + self.fn)

    @property
    def specificity(self) -> Any:
        """The share of the negatives that is not selected."""
        return self.ratio(self.tn, self.tn + self.fp)

    def sum(self, names: str) -> Any:
        """Return the rows in some cells, named with spaces between."""
        first, *others = (getattr(self, name) for name in names.split())
        return sum(others, first)

    def ratio(self, part: Any, whole: Any) -> Any:
        """Return ``part / whole``, `empty` of nothing."""
        if not isinstance(whole, np.ndarray):
            return part / whole if whole else self.empty
        shape, kind = np.broadcast(part, whole).shape, np.result_type(part, whole, np.float64)
        return np.divide(part, whole, out=np.full(shape, self.empty, kind), where=whole != 0)


def slopes(formula: Callable[[Cells], Any], cells: Sequence[float] | Floats) -> Floats:
    """Return the derivatives of a formula by true and false positives, false and true negatives.

    They are exact but for rounding: a formula of ``x + i h`` has the slope times h as its
    imaginary part (Squire, Trapp, Using complex variables to estimate derivatives, 1998).
    """
    step = _STEP * math.fsum(cells)
    found: Floats = formula(Cells(*np.array(cells)[:, None] + 1j * step * np.eye(4))).imag / step
    return found


def _root(*factors: Any) -> Any:
    """Return the root of a product: of whole numbers of the exact one, of arrays without overflow."""
    if isinstance(factors[0], np.ndarray):
        return math.prod(np.sqrt(factor) for factor in factors)
    return math.sqrt(math.prod(factors))


def _fbeta(c: Cells, beta: float) -> Any:
    square = beta**2
    return c.ratio((1 + square) * c.tp, (1 + square) * c.tp + c.fp + square * c.fn)


def _matthews(c: Cells) -> Any:
    sides = _root(c.tp + c.fp, c.tp + c.fn, c.tn + c.fp, c.tn + c.fn)
    return c.ratio(c.tp * c.tn - c.fp * c.fn, sides)


def _kappa(c: Cells) -> Any:
    rows = c.rows
    agree = c.ratio(c.tp + c.tn, rows)
    chance = c.ratio((c.tp + c.fp) * (c.tp + c.fn) + (c.tn + c.fn) * (c.tn + c.fp), rows * rows)
    return c.ratio(agree - chance, 1 - chance)


class Share(Struct, frozen=True):
    """A share of rows: the cells above and below the line, and what a measure makes of the share."""

    above: str
    below: str
    value: Callable[[float], float] = float


class ConfusionMeasure(Struct, frozen=True, kw_only=True):
    """A measure of a confusion matrix."""

    meaning: str  # what it says, in a sentence for readers who do not know its name
    formula: Callable[..., Any]  # from cells, and the parameters, to values
    bounds: tuple[float, float] = (0.0, 1.0)  # within what it lies
    share: Share | None = None  # the share of rows that it is a rising function of, if it is one
    needs: str = ""  # the classes without which it means nothing: ``p``, ``pn`` or neither
    parameters: tuple[str, ...] = ()  # their names
    #: The option of `boundary` that takes it, ``maximize`` or ``minimize``; "" where no boundary is
    #: the best one, as all rows or none are.
    goal: str = "maximize"
    #: `possible, expected`: whether parameters make sense, and what is said where they do not.
    possible: Callable[..., bool] = lambda *_: True
    expected: str = ""

    @property
    def sign(self) -> float:
        """-1.0 where it is to be small."""
        return -1.0 if self.goal == "minimize" else 1.0

    @property
    def interval(self) -> str:
        """How its interval is found, as signatures have it."""
        return "delta" if self.share is None else "wilson"

    def slopes(self, cells: tuple[float, ...], *parameters: float) -> Floats:
        """Return the derivatives by true and false positives, false and true negatives."""
        return slopes(lambda moved: self.formula(moved, *parameters), cells)

    def read(self, name: str, text: str, option: str) -> tuple[Bound, ...]:
        """Return the parameters in the text that follows a measure's name and a colon.

        Raises `UsageError` for the wrong number of parameters, or impossible ones.
        """
        texts = text.split(",") if text else []
        if len(texts) != len(self.parameters):
            wanted = name
            if self.parameters:
                wanted += f":{','.join(self.parameters)}, each of them a number"
            typed = f"{name}:{text}" if text else name
            raise UsageError(f"{option} {typed} is not of the form {wanted}.")
        values = tuple(
            decimal_bound(part, f"{option} {name}, {parameter}", least=-_MOST, most=_MOST)
            for part, parameter in zip(texts, self.parameters, strict=True)
        )
        if not self.possible(*map(float, values)):
            raise UsageError(f"{option} {name}:{text}: {self.expected}")
        return values


def _share(meaning: str, above: str, below: str, **more: Any) -> ConfusionMeasure:
    return ConfusionMeasure(
        meaning=meaning,
        formula=lambda c: c.ratio(c.sum(above), c.sum(below)),
        share=Share(above, below),
        **more,
    )


_YOUDEN = ConfusionMeasure(
    meaning="recall + specificity − 1; 0 is chance, 1 is perfect",
    formula=lambda c: c.recall + c.specificity - 1,
    bounds=(-1.0, 1.0),
    needs="pn",
)

#: All measures, by their names in metrics.json; `boundary` writes these with hyphens.
MEASURES: Final = {
    "selected_share": _share("share of rows that were selected", "fp tp", "tp fp fn tn", goal=""),
    "accuracy": _share(
        "share of rows, or of votes, that agree with the decision or the most probable class",
        "tp tn",
        "tp fp fn tn",
    ),
    "weighted_accuracy": ConfusionMeasure(
        meaning="accuracy in which a negative row counts W and a positive one 1 − W",
        formula=lambda c, w: c.ratio((1 - w) * c.tp + w * c.tn, c.rows),
        parameters=("W",),
        possible=lambda w: 0 < w < 1,
        expected="the weight lies between 0 and 1.",
    ),
    "balanced_accuracy": ConfusionMeasure(
        meaning="mean of recall and specificity; 0.5 is chance, 1 is perfect",
        formula=lambda c: (c.recall + c.specificity) / 2,
        needs="pn",
    ),
    "precision": _share("share of the selected rows that are positive", "tp", "tp fp", needs="p"),
    "recall": _share("share of the positive rows that were selected", "tp", "tp fn", goal=""),
    "specificity": _share(
        "share of the negative rows that were not selected", "tn", "tn fp", goal=""
    ),
    "fpr": _share("share of the negative rows that were selected", "fp", "tn fp", goal=""),
    "npv": _share("share of the rows not selected that are negative", "tn", "tn fn", goal=""),
    "f1": ConfusionMeasure(
        meaning="harmonic mean of precision and recall",
        formula=lambda c: c.ratio(2 * c.tp, 2 * c.tp + c.fp + c.fn),
        share=Share("tp", "tp fp fn", lambda jaccard: 2.0 * jaccard / (1.0 + jaccard)),
        needs="p",
    ),
    "fbeta": ConfusionMeasure(
        meaning="harmonic mean of precision and recall, in which recall weighs B² times as much",
        formula=_fbeta,
        needs="p",
        parameters=("B",),
        possible=lambda beta: beta > 0,
        expected="beta is positive.",
    ),
    "jaccard": _share(
        "share of positives selected among the rows that are positive or selected",
        "tp",
        "tp fp fn",
        needs="p",
    ),
    "mcc": ConfusionMeasure(
        meaning="correlation of decision and label; 0 is chance, 1 is perfect",
        formula=_matthews,
        bounds=(-1.0, 1.0),
        needs="pn",
    ),
    "kappa": ConfusionMeasure(
        meaning="agreement of decision and label beyond chance; 0 is chance, 1 is perfect",
        formula=_kappa,
        bounds=(-1.0, 1.0),
        needs="pn",
    ),
    "gmean": ConfusionMeasure(
        meaning="geometric mean of recall and specificity",
        formula=lambda c: _root(c.recall * c.specificity),
        needs="pn",
    ),
    "fowlkes_mallows": ConfusionMeasure(
        meaning="geometric mean of precision and recall",
        formula=lambda c: _root(c.precision * c.recall),
        needs="p",
    ),
    "youden": _YOUDEN,
    "informedness": replace(_YOUDEN, goal=""),
    "lift": ConfusionMeasure(
        meaning="share of positives, of a slice or among the selected, over that of all rows",
        formula=lambda c: c.ratio(c.precision, c.ratio(c.tp + c.fn, c.rows)),
        bounds=(0.0, math.inf),
        needs="p",
    ),
    "utility": ConfusionMeasure(
        meaning="mean of what each row is worth, by decision and label",
        formula=lambda c, tp, fp, fn, tn: c.ratio(
            tp * c.tp + fp * c.fp + fn * c.fn + tn * c.tn, c.rows
        ),
        bounds=(-math.inf, math.inf),
        parameters=("TP", "FP", "FN", "TN"),
        possible=lambda tp, fp, fn, tn: tp >= fn and tn >= fp,
        expected="a true positive is worth at least a false negative, a true negative at "
        "least a false positive; else a threshold is no sensible rule.",
    ),
    "cost": ConfusionMeasure(
        meaning="mean of what wrong decisions cost; lower is better",
        formula=lambda c, fp, fn: c.ratio(fp * c.fp + fn * c.fn, c.rows),
        bounds=(0.0, math.inf),
        parameters=("FP", "FN"),
        goal="minimize",
        possible=lambda fp, fn: min(fp, fn) >= 0 and max(fp, fn) > 0,
        expected="costs are not negative, and one of them is positive.",
    ),
}

#: Those that `boundary` may maximise or minimise, by the names it takes.
OBJECTIVES: Final = {name.replace("_", "-"): one for name, one in MEASURES.items() if one.goal}
