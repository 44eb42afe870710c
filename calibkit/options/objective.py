"""The objective of a boundary as the user typed it.

With the totals of the rows it becomes a goal: `calibkit.methods.boundary.problem.target`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from calibkit.errors import UsageError, nearest
from calibkit.numerics.bounds import Bound, decimal_bound, is_decimal

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
    costs
        What a false positive and a false negative cost, where one of the two is a column.
    value_column
        The column of whose sum the recall is a share, if it does not count rows.
    prevalence
        The base rate to which the classes are reweighted, if not that of the rows.
    beside
        Further figures that are bounded, with their bounds.
    """

    option: str
    bound: Bound | None = None
    measure: str = ""
    parameters: tuple[Bound, ...] = ()
    costs: tuple[Bound | str, ...] = ()
    value_column: str | None = None
    prevalence: Bound | None = None
    beside: tuple[tuple[str, Bound], ...] = ()

    @property
    def each(self) -> tuple[Target, ...]:
        """The same with one bound, for each of them in the order of `OPTIONS`."""
        pairs = [(self.option, self.bound), *self.beside]
        pairs.sort(key=lambda pair: OPTIONS.index(pair[0]))
        return tuple(replace(self, option=name, bound=bound, beside=()) for name, bound in pairs)

    @property
    def value_columns(self) -> dict[str, str]:
        """The columns that say what rows are worth, by role: ``value``, ``cost_fp``, ``cost_fn``."""
        if self.value_column is not None:
            return {"value": self.value_column}
        pairs = zip(("cost_fp", "cost_fn"), self.costs, strict=False)
        return {role: cost for role, cost in pairs if isinstance(cost, str)}

    @property
    def worths(self) -> str:
        """The option by which rows differ in worth, if one does."""
        if self.value_column is not None:
            return "--value"
        return "costs from columns" if self.costs else ""

    @property
    def value(self) -> str:
        """The value of the option in its shortest form."""
        if self.bound is not None:
            return self.bound.text
        parameters = self.costs or self.parameters
        return ":".join([self.measure, ",".join(map(str, parameters))]).rstrip(":")

    @property
    def text(self) -> str:
        """The objective in a few words, such as ``precision >= 0.9`` or ``maximize f1``."""
        said = " and ".join(one._said for one in self.each)
        return f"{said} at prevalence {self.prevalence}" if self.prevalence else said

    @property
    def _said(self) -> str:
        if self.bound is None:
            return f"{self.option} {self.value}"
        of = f" of {self.value_column}" if self.value_column and self.option == "recall" else ""
        return f"{self.option}{of} {_SIGNS[self.option]} {self.bound}"

    @property
    def needs(self) -> str:
        """The classes without which the objective means nothing: some of ``pn``."""
        if self.prevalence is not None:
            return "pn"
        if self.bound is not None:
            return "pn" if "fpr" in (self.option, *dict(self.beside)) else "p"
        from calibkit.numerics.confusion import OBJECTIVES

        return OBJECTIVES[self.measure].needs


def read_target(
    given: Mapping[str, str | float | None],
    *,
    value: str | None = None,
    prevalence: str | float | None = None,
    several: bool = False,
) -> Target:
    """Return the objective that was given.

    Parameters
    ----------
    given
        The value of each option, None where it was left out.
    value
        The column of whose sum the recall is to be a share.
    prevalence
        The base rate to which the classes are reweighted.
    several
        Whether several bounds may be given.  Recall is then maximised within them; the other ones
        come first, for they are what limits it.

    Raises
    ------
    UsageError
        None or several were given, or the value is impossible.
    """
    named = {name: text for name, text in given.items() if text is not None}
    if len(named) > 1 and several and named.keys() <= _SIGNS.keys():
        bounds = [
            read_target({name: text}, value=value, prevalence=prevalence)
            for name, text in sorted(named.items(), key=lambda pair: pair[0] == "recall")
        ]
        pairs = [(one.option, one.bound) for one in bounds if one.bound is not None]
        return replace(bounds[0], beside=tuple(pairs[1:]))
    if len(named) != 1:
        options = ", ".join(f"--{name}" for name in given)
        seen = " and ".join(f"--{name}" for name in named) or "none"
        more = "; several bounds go with --confidence" if named.keys() <= _SIGNS.keys() else ""
        raise UsageError(f"give exactly one objective of {options}; got {seen}{more}.")
    ((name, text),) = named.items()
    base_rate = _base_rate(prevalence)
    if name in ("maximize", "minimize"):
        return _unbounded(name, str(text), value, base_rate)
    bound = decimal_bound(text, f"--{name}", most=None if name == "capacity" else 1)
    if name == "capacity" and (bound.numerator == 0 or (bound.numerator > bound.denominator > 1)):
        raise UsageError(
            f"--capacity is {text}; expected a whole number of rows, or a share below 1."
        )
    return Target(name, bound, value_column=value, prevalence=base_rate)


def _unbounded(name: str, text: str, value: str | None, base_rate: Bound | None) -> Target:
    """Return the target of a measure, or of costs that differ from row to row."""
    if value is not None:
        raise UsageError(
            f"--value goes with {', '.join('--' + option for option in _SIGNS)}; to weigh rows in "
            "another objective give --minimize cost:FP,FN columns of costs."
        )
    measure, parameters, costs = _parsed(text, f"--{name}")
    if costs and base_rate is not None:
        raise UsageError(
            "--prevalence goes with costs that are numbers; multiply the columns of costs by the "
            "ratio of the base rates of their class instead."
        )
    return Target(name, None, measure, parameters, costs, prevalence=base_rate)


def _parsed(text: str, option: str) -> tuple[str, tuple[Bound, ...], tuple[Bound | str, ...]]:
    """Return name and parameters of a measure, from ``NAME`` or ``NAME:A,B``.

    Where a cost is the name of a column there are no parameters; both costs come third then.

    Raises
    ------
    UsageError
        An unknown measure, the wrong number of parameters, or impossible ones.
    """
    from calibkit.numerics.confusion import OBJECTIVES

    name, _, rest = text.partition(":")
    goal = option.removeprefix("--")
    known = [key for key, one in OBJECTIVES.items() if one.goal == goal]
    if name not in known:
        raise UsageError(
            f"{option} does not know {name!r}{nearest(name, known)}; it takes {', '.join(known)}."
        )
    texts = rest.split(",") if rest else []
    if name == "cost" and len(texts) == 2 and not all(map(is_decimal, texts)):
        return name, (), tuple(_cost_or_column(part, option) for part in texts)
    return name, OBJECTIVES[name].read(name, rest, option), ()


def _cost_or_column(text: str, option: str) -> Bound | str:
    if is_decimal(text):
        return decimal_bound(text, f"{option} cost", most=10**9)
    if not text:
        raise UsageError(f"{option}: a cost is a number or the name of a column, not nothing.")
    return text


def _base_rate(prevalence: str | float | None) -> Bound | None:
    if prevalence is None:
        return None
    found = decimal_bound(prevalence, "--prevalence")
    if not 0 < found.numerator < found.denominator:
        raise UsageError(f"--prevalence is {prevalence}; expected a share above 0 and below 1.")
    return found


def read_confidence(value: str | float | None) -> Bound | None:
    """Return a confidence from the text typed; None where none was.

    Raises
    ------
    UsageError
        For anything but a number above 0 and below 1.
    """
    if value is None:
        return None
    bound = decimal_bound(value, "--confidence")
    if not 0 < bound.numerator < bound.denominator:
        raise UsageError(f"--confidence is {value}; expected a number above 0 and below 1.")
    return bound
