"""The objective of a fit as the user typed it; with the rows' totals it becomes a goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calibkit.boundary.goals import GOALS, Goal, Totals
from calibkit.boundary.measures import KINDS, Measure, parse_measure
from calibkit.bounds import Bound, decimal_bound
from calibkit.errors import UsageError

#: The options that state an objective, in the order of the help.
OPTIONS = ("precision", "recall", "fpr", "capacity", "maximize", "minimize")

#: How a bound is written: at least, or at most.
_SIGNS = {"precision": ">=", "recall": ">=", "fpr": "<=", "capacity": "<="}


@dataclass(frozen=True)
class Target:
    """What to reach: a figure within a bound, or the best value of a measure.

    Attributes
    ----------
    option
        One of `OPTIONS`.
    bound
        The bound of a bounded figure, else None.
    measure, parameters
        The measure that is maximised or minimised, else ``""``.
    """

    option: str
    bound: Bound | None = None
    measure: str = ""
    parameters: tuple[Bound, ...] = ()

    def goal(self, totals: Totals) -> Goal:
        """Return the goal for rows with some totals."""
        if self.bound is None:
            return Measure(self.measure, self.parameters, totals)
        return GOALS[self.option](self.bound, totals)

    @property
    def value(self) -> str:
        """The value of the option in its shortest form."""
        if self.bound is not None:
            return self.bound.text
        return ":".join([self.measure, ",".join(map(str, self.parameters))]).rstrip(":")

    @property
    def text(self) -> str:
        """The objective in a few words, such as ``precision >= 0.9`` or ``maximize f1``."""
        if self.bound is not None:
            return f"{self.option} {_SIGNS[self.option]} {self.bound}"
        return f"{self.option} {self.value}"

    @property
    def needs(self) -> str:
        """The classes without which the objective means nothing: some of ``pn``."""
        if self.bound is not None:
            return "pn" if self.option == "fpr" else "p"
        return KINDS[self.measure].needs


def read_target(given: Mapping[str, str | float | None]) -> Target:
    """Return the one objective that was given.

    Parameters
    ----------
    given
        The value of each option, None where it was left out.

    Raises
    ------
    UsageError
        None or several were given, or the value is impossible.
    """
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) != 1:
        options = ", ".join(f"--{name}" for name in given)
        seen = " and ".join(f"--{name}" for name in named) or "none"
        raise UsageError(f"give exactly one objective of {options}; got {seen}.")
    ((name, value),) = named.items()
    if name in ("maximize", "minimize"):
        measure, parameters = parse_measure(str(value), f"--{name}")
        return Target(name, None, measure, parameters)
    bound = decimal_bound(value, f"--{name}", most=None if name == "capacity" else 1)
    if name == "capacity" and (bound.numerator == 0 or (bound.numerator > bound.denominator > 1)):
        raise UsageError(
            f"--capacity is {value}; expected a whole number of rows, or a share below 1."
        )
    return Target(name, bound)
