"""The tests of a certificate: exact binomial tests in a fixed sequence along a path.

The hypothesis about a boundary is that it violates the bound on new data.  Given how many rows take
part (selected ones for precision, positives for recall, negatives for the false positive rate, all
for a share of rows), the number of hits among them is binomial, whatever the model and the data, so
its tail is an exact p-value.  Along a sequence that was fixed without the rows that test, one goes on
while each test rejects at level ``1 - confidence``.  Some boundary that violates the bound can be
certified only if the *first* such one is rejected, which happens with probability ``1 - confidence``
at most: no correction for the number of tests is needed.

Source: A. N. Angelopoulos, S. Bates, E. J. Candes, M. I. Jordan, L. Lei, "Learn then test:
calibrating predictive algorithms to achieve risk control", section on fixed sequence testing;
P. Bauer, "Multiple testing in clinical trials", Statistics in Medicine 10 (1991).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from calibkit.numerics.bounds import Bound
from calibkit.numerics.normal import normal_quantile
from calibkit_kernels.binomial import lower_tail, upper_tail

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: Trials without a signal that are added: what few rows promise is not believed.
_CAUTION = 10.0
#: The power that the advice on more rows aims at.
_POWER = 0.9


@dataclass(frozen=True)
class Quantity:
    """A figure that can be certified against a bound.

    Attributes
    ----------
    name
        ``precision``, ``recall``, ``fpr`` or ``capacity``.
    bound
        What it must reach, or stay within.
    """

    name: str
    bound: Bound

    @property
    def at_least(self) -> bool:
        """Whether the figure is bounded from below."""
        return self.name in ("precision", "recall")

    @property
    def strict_first(self) -> bool:
        """Whether tests go from boundaries that select few rows to those that select many."""
        return self.name != "recall"

    @property
    def impossible(self) -> bool:
        """Whether no number of rows can show that the bound is met."""
        return self.bound.numerator == (self.bound.denominator if self.at_least else 0)

    def hits_and_trials(self, counts: Floats, rows: float, positives: float) -> Floats:
        """Return hits and trials, shape (boundaries, 2), of selected rows and positives."""
        selected, hits = counts[:, 0], counts[:, 1]
        if self.name == "precision":
            return np.column_stack((hits, selected))
        if self.name == "recall":
            return np.column_stack((hits, np.full_like(hits, positives)))
        if self.name == "fpr":
            return np.column_stack((selected - hits, np.full_like(hits, rows - positives)))
        return np.column_stack((selected, np.full_like(hits, rows)))

    def size(self, hits: Floats, rows: Floats) -> float:
        """Return how many rows a boundary is expected to select, given expected positives."""
        found = self.hits_and_trials(np.column_stack((rows, hits)), rows[-1], hits[-1])
        slack = found[:, 0] - float(self.bound) * found[:, 1]
        met = np.flatnonzero(slack >= 0.0 if self.at_least else slack <= 0.0)
        if met.size == 0:
            return 0.0
        return float(rows[met[-1] if self.strict_first else met[0]])

    def signals(self, hits_and_trials: Floats) -> Floats:
        """Return by how many standard errors each boundary is expected to keep the bound."""
        bound = float(self.bound)
        hits, trials = hits_and_trials[:, 0], hits_and_trials[:, 1]
        spread = np.sqrt(max(bound * (1.0 - bound), 1e-12) * (trials + _CAUTION))
        found: Floats = (hits - bound * trials) / spread
        return found if self.at_least else -found

    def p_value(self, hits: int, trials: int) -> float:
        """Return the largest probability, over all violations, of so good a count."""
        bound = float(self.bound)
        rest = (self.bound.denominator - self.bound.numerator) / self.bound.denominator
        if trials == 0:
            return 1.0
        if self.at_least:
            return upper_tail(hits, trials, bound, rest)
        return lower_tail(hits, trials, bound, rest)


@dataclass(frozen=True)
class Sequence:
    """The order in which the boundaries of a path are tested.

    `signal` is that of the first one, in standard errors; `largest` the expected figure there.
    """

    places: Int64s
    signal: float


def sequence(
    quantity: Quantity, expected: Floats, totals: tuple[int, int], ratio: float
) -> Sequence:
    """Return the sequence of tests, from what the fitting part expects.

    Parameters
    ----------
    quantity
        What is certified.
    expected
        Expected rows and positives of each boundary, on the fitting part.
    totals
        Rows and positives of the fitting part.
    ratio
        How many times larger the certification part is.
    """
    found = quantity.signals(quantity.hits_and_trials(expected, *totals) * ratio)
    first = int(np.argmax(found))
    if quantity.strict_first:
        places = np.arange(first, found.size)
    else:
        first = found.size - 1 - int(np.argmax(found[::-1]))
        places = np.arange(first, -1, -1)
    return Sequence(places, float(found[first]))


def certified(quantity: Quantity, tests: Sequence, hits_and_trials: Int64s, level: float) -> int:
    """Return the last boundary before the first test that does not reject; -1 if the first fails."""
    last = -1
    for place in tests.places.tolist():
        hits, trials = hits_and_trials[place].tolist()
        if quantity.p_value(hits, trials) > level:
            break
        last = place
    return last


def rows_needed(signal: float, level: float, rows: int) -> int | None:
    """Return about how many rows would do, nine times in ten; None where no number would."""
    if signal <= 0.0:
        return None
    wanted = -normal_quantile(level) + normal_quantile(_POWER)
    return max(rows + 1, ceil(rows * (wanted / signal) ** 2))
