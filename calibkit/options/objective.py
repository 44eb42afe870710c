"""The objective of a boundary as the user typed it.

With the totals of the rows it becomes a goal: `calibkit.methods.boundary.solvers.summary`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from calibkit.errors import UsageError, nearest
from calibkit.numerics.bounds import Bound, decimal_bound, is_decimal
from calibkit.options.option import inside

#: The options that state an objective, in the order of the help.
OPTIONS = ("precision", "recall", "fpr", "capacity", "maximize", "minimize")

#: The objective of three-way decisions, which several options state, and those that are of it alone.
REVIEW = "review"
OF_REVIEW = ("review_capacity", "review_cost")

#: How a bound is written: at least, or at most.
_SIGNS = {"precision": ">=", "recall": ">=", "fpr": "<=", "capacity": "<="}

#: The measures in which segments may be kept alike.
GAPS = ("recall", "fpr")


class Gap(Struct, frozen=True):
    """How far a measure of segments, ``recall`` or ``fpr``, may lie apart."""

    measure: str
    most: Bound


class Review(Struct, frozen=True):
    """Three-way decisions: precision binds what is blocked, recall that with what is reviewed."""

    #: ``precision``, ``recall`` and ``review_capacity`` (below 1 a share of the rows): two or all.
    bounds: Mapping[str, Bound] = {}
    costs: tuple[Bound, ...] = ()  # instead: what a false positive, a miss and a review cost

    @property
    def objective(self) -> str:
        """What is minimised (``review`` or costs) or maximised."""
        if self.costs:
            return f"cost:{self.costs[0]},{self.costs[1]}"
        if "recall" not in self.bounds:
            return "recall"
        return REVIEW if "precision" in self.bounds else "precision"

    @property
    def said(self) -> dict[str, str]:
        """The options that state it, in their shortest form."""
        if self.costs:
            return {"minimize": self.objective, "review_cost": str(self.costs[2])}
        return {name: bound.text for name, bound in self.bounds.items()}

    @property
    def text(self) -> str:
        """The objective in a few words."""
        if self.costs:
            least = f"the least {self.objective}, a review costing {self.costs[2]}"
            return f"block, review or pass with {least}"
        words = {"precision": "precision of block >=", "recall": "recall of block and review >="}
        words["review_capacity"] = "rows to review <="
        bounds = ", ".join(f"{words[name]} {bound}" for name, bound in self.bounds.items())
        return f"block, review or pass with {bounds}"


class Target(Struct, frozen=True):
    """What to reach: a figure within a bound, or the best value of a measure."""

    option: str  # one of `OPTIONS`, or `REVIEW`
    bound: Bound | None = None  # of a figure that has one
    measure: str = ""  # what is maximised or minimised, else
    parameters: tuple[Bound, ...] = ()
    #: What a false positive and a false negative cost, where one of the two is a column.
    costs: tuple[Bound | str, ...] = ()
    value_column: str | None = None  # of whose sum the recall is a share, if it does not count rows
    prevalence: Bound | None = None  # the base rate of reweighted classes, if not that of the rows
    review: Review | None = None  # what there is to review beside, for three-way decisions
    beside: tuple[tuple[str, Bound], ...] = ()  # further figures that are bounded
    gap: Gap | None = None  # how far segments may lie apart, where that is limited

    @property
    def each(self) -> tuple[Target, ...]:
        """The same with one bound, for each of them in the order of `OPTIONS`; of a review none."""
        if self.review is not None:
            return ()
        pairs = [(self.option, self.bound), *self.beside]
        pairs.sort(key=lambda pair: OPTIONS.index(pair[0]))
        return tuple(replace(self, option=name, bound=bound, beside=()) for name, bound in pairs)

    @property
    def said(self) -> dict[str, str]:
        """The options that state the objective, in their shortest form."""
        if self.review is not None:
            return self.review.said
        return {one.option: one.value for one in self.each}

    @property
    def flags(self) -> str:
        """The options that state the objective, as typed."""
        said = self.said.items()
        return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in said)

    @property
    def minimised(self) -> bool:
        """Whether the objective is to be small."""
        if self.review is not None:
            return self.review.objective == REVIEW or bool(self.review.costs)
        return self.option == "minimize"

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
        if self.review is not None:
            return self.review.text
        said = " and ".join(one._said for one in self.each)
        if self.gap is not None:
            said += f" and a gap in {self.gap.measure} of at most {self.gap.most}"
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
        if self.review is not None:
            return "" if self.review.costs else "p"
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
    """Return the objective that was given: the value of each option, None where it was left out.

    `given` has `OPTIONS` and `OF_REVIEW`.  Where `several` bounds may be given recall is maximised
    within them; the other ones come first, for they are what limits it.
    """
    named = {name: text for name, text in given.items() if text is not None}
    bounded = named.keys() <= _SIGNS.keys()
    if named.keys() & {*OF_REVIEW} or (named.keys() == {"precision", "recall"} and not several):
        return _three_way(named, value, prevalence)
    if not named or (len(named) > 1 and not (several and bounded)):
        options = ", ".join(f"--{name}" for name in OPTIONS)
        seen = " and ".join(f"--{name}" for name in named) or "none"
        more = "; --confidence allows several bounds" if bounded else ""
        raise UsageError(f"give exactly one objective of {options}; got {seen}{more}.")
    base_rate = None
    if prevalence is not None:
        base_rate = inside(prevalence, "--prevalence", "a share above 0 and below 1")
    if not bounded:
        ((name, text),) = named.items()
        return _unbounded(name, str(text), value, base_rate)
    first, *beside = [
        (name, (_rows if name == "capacity" else decimal_bound)(text, f"--{name}"))
        for name, text in sorted(named.items(), key=lambda pair: pair[0] == "recall")
    ]
    return Target(*first, value_column=value, prevalence=base_rate, beside=tuple(beside))


def _rows(text: str | float, option: str, least: int = 1) -> Bound:
    """Return a number of rows, or a share of them."""
    number = not isinstance(text, str) or is_decimal(text)
    bound = decimal_bound(text, option, most=None) if number else None
    if bound is None or bound.numerator < least or bound.numerator > bound.denominator > 1:
        raise UsageError(
            f"{option} is {text}; expected a whole number of rows, or a share below 1."
        )
    return bound


def _three_way(
    named: Mapping[str, str | float], value: str | None, prevalence: str | float | None
) -> Target:
    """Return the target of three-way decisions."""
    if value is not None or prevalence is not None:
        raise UsageError(
            "three-way decisions count rows as they are; leave --value and --prevalence out."
        )
    if "review_cost" in named:
        if named.keys() != {"minimize", "review_cost"}:
            raise UsageError(
                "--review-cost goes with --minimize cost:FP,FN, and with no bound: leave --precision, "
                "--recall, --review-capacity and other objectives out."
            )
        measure, parameters, columns = _parsed(str(named["minimize"]), "--minimize")
        if measure != "cost" or columns:
            raise UsageError("--review-cost goes with --minimize cost:FP,FN, both of them numbers.")
        cost = decimal_bound(named["review_cost"], "--review-cost", most=10**9)
        return Target(REVIEW, review=Review(costs=(*parameters, cost)))
    rates = named.keys() - {"review_capacity"}
    if not rates or rates - {"precision", "recall"}:
        raise UsageError(
            "--review-capacity goes with --precision, which binds what is blocked, with --recall, "
            "which binds what is blocked or reviewed, or with both; and with no other objective."
        )
    bounds = {
        name: decimal_bound(text, f"--{name}") for name, text in named.items() if name in rates
    }
    if "review_capacity" in named:
        bounds["review_capacity"] = _rows(named["review_capacity"], "--review-capacity", 0)
    return Target(REVIEW, review=Review(bounds))


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
        if not all(texts):
            raise UsageError(f"{option}: a cost is a number or the name of a column, not nothing.")
        costs = (
            decimal_bound(one, f"{option} cost", most=10**9) if is_decimal(one) else one
            for one in texts
        )
        return name, (), tuple(costs)
    return name, OBJECTIVES[name].read(name, rest, option), ()


def read_gap(text: str | None) -> Gap | None:
    """Return the largest gap between segments from ``MEASURE:EPS``; None where none was given."""
    if text is None:
        return None
    measure, _, most = text.partition(":")
    if measure not in GAPS:
        raise UsageError(
            f"--max-gap is {text}; expected a measure and the largest gap, such as recall:0.05; "
            f"measures: {', '.join(GAPS)}."
        )
    return Gap(measure, decimal_bound(most, f"--max-gap {measure}:"))
