"""A boundary as a program: the threshold of a row, then decision and margin."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from calibkit.boundary.decide import OTHER, level_thresholds
from calibkit.boundary.model import BoundaryModel
from calibkit.boundary.parts import threshold_value
from calibkit.errors import UsageError
from calibkit.exports.nodes import (
    NEVER,
    NO,
    ONE,
    YES,
    ZERO,
    Binary,
    Case,
    Code,
    Compare,
    Draw,
    Every,
    IsNever,
    Log,
    Missing,
    Node,
    Number,
    Ref,
    Words,
    chosen,
    divide,
    numbers,
    steps,
    subtract,
    when,
)
from calibkit.exports.program import Program, Rising
from calibkit.exports.request import Request
from calibkit.exports.scales import at_least, bind_input, near_knots


def translate(program: Program, model: BoundaryModel, request: Request) -> dict[str, Node]:
    """Return `decision`, `margin` and, where chance plays a part, `decision_probability`."""
    random = model.randomise is not msgspec.UNSET
    if random and request.key is None:
        raise UsageError(
            "a stochastic boundary decides some rows by the hash of a key: name a column of the "
            "table that identifies a row (integers or text) by --key."
        )
    if not random and (request.key is not None or request.seed is not None):
        raise UsageError("this model decides without chance; leave --key and --seed out.")
    rows = _Rows.read(program, model, request)
    cuts = [level_thresholds(rule).tolist() for rule in rows.rules]
    cut = rows.level_value("threshold", cuts)
    probability = model.columns["score"].scale in (None, "probability")
    decision: Node = when(rows.reaches(cut, cuts), YES, NO)
    if cut == NEVER:
        decision = NO
    needed = [rows.score, *([rows.uncertainty] if rows.uncertainty else [])]
    found = {"decision": decision, "margin": _margin(program, rows.score, cut, cuts, probability)}
    if random:
        assert request.key is not None
        key = program.bind("key", Words(request.key))
        chance = _chance(rows, cut, cuts)
        seed = model.seed if request.seed is None else request.seed
        assert isinstance(seed, int)  # the model was checked
        draw = program.bind("draw", Draw(key, seed))
        found["decision"] = when(Compare("<", draw, chance), YES, NO)
        found["decision_probability"] = chance
        needed.append(key)
    return {name: program.result(needed, value) for name, value in found.items()}


@dataclass(frozen=True)
class _Rows:
    """What a row has, and the boundary of each segment, the last one of all others.

    Attributes
    ----------
    rises
        How the score rises with another one, where an earlier part of a bundle made it.
    """

    program: Program
    model: BoundaryModel
    score: Ref
    uncertainty: Ref | None
    segment: Ref | None
    rules: list[BoundaryModel]
    rises: Rising | None

    @classmethod
    def read(cls, program: Program, model: BoundaryModel, request: Request) -> _Rows:
        """Bind the columns."""
        bound: dict[str, Ref] = {}
        for role in ("score", "uncertainty"):
            name = request.column(model, role)
            if name is not None:
                described = model.columns[role]
                bound[role] = bind_input(program, role, name, described, finite=role != "score")
        rises = None
        if model.order == "uncertainty-score" and model.columns["score"].dtype != "float32":
            rises = program.inverses.get(str(request.column(model, "score")))
        rules, segment = _rules(model), _segment(program, model)
        return cls(program, model, bound["score"], bound.get("uncertainty"), segment, rules, rises)

    def level_value(self, name: str, values: Sequence[Sequence[float]]) -> Node:
        """Return the value of a row's rule and level."""
        found = [
            _by_level(self.program, rule, self.score, self.uncertainty, numbers(_one_nan(own)))
            for rule, own in zip(self.rules, values, strict=True)
        ]
        value = found[0] if self.segment is None else chosen(self.segment, found)
        return value if isinstance(value, Number) else self.program.bind(name, value)

    def reaches(self, cut: Node, values: Sequence[Sequence[float]]) -> Node:
        """Return whether the score reaches its threshold.

        Of a score that another one rises with, the latter is compared, with what stands for the
        threshold there: a logarithm may not be the same everywhere, a comparison is.
        """
        if self.rises is None:
            return at_least(self.program, self.score, cut)
        limits = [value for own in values for value in own if math.isfinite(value)]
        found = []
        for inverse in self.rises.inverses:
            inverse.learn(limits)
            moved = [[inverse.known.get(value, value) for value in own] for own in values]
            found.append(self.level_value("limit", moved))
        limit = found[0] if self.rises.segment is None else chosen(self.rises.segment, found)
        return Compare(">=", self.rises.inverses[0].x, limit)


def _rules(model: BoundaryModel) -> list[BoundaryModel]:
    """Return the boundary of each group, then that of rows of no known group."""
    if model.groups is msgspec.UNSET:
        return [model]
    rules = [model.of_group(name) for name in model.groups]
    other = model.of_group(OTHER) if OTHER in model.groups else model.with_rule(model)
    return [*rules, other]


def _segment(program: Program, model: BoundaryModel) -> Ref | None:
    if model.groups is msgspec.UNSET:
        return None
    words = program.words(model.columns["by"].name, whole=True)
    return program.bind("segment", Code(words, tuple(model.groups)))


def _one_nan(values: Iterable[float]) -> list[float]:
    """Return numbers among which NaN equals itself."""
    return [NEVER.value if math.isnan(value) else float(value) for value in values]


def _by_level(
    program: Program,
    model: BoundaryModel,
    score: Node,
    uncertainty: Node | None,
    values: list[Node],
) -> Node:
    """Return the value of the row's uncertainty level."""
    if model.order == "score-uncertainty":
        return _score_first(program, model, score, uncertainty, values)
    if len(values) == 1 or uncertainty is None:
        return values[0]
    assert isinstance(model.uncertainty_min, float)
    edges = [edge for edge in model.uncertainty_edges if isinstance(edge, float)]
    return _levels(program, uncertainty, model.uncertainty_min, edges, values)


def _levels(
    program: Program,
    uncertainty: Node,
    least: float,
    edges: Sequence[float],
    values: Sequence[Node],
) -> Node:
    """Return the value of a level; what lies below `least` counts as it."""
    below = sum(edge <= least for edge in edges)
    return steps(uncertainty, near_knots(program, uncertainty, edges[below:]), values[below:])


def _score_first(
    program: Program,
    model: BoundaryModel,
    score: Node,
    uncertainty: Node | None,
    values: list[Node],
) -> Node:
    """Return the value of a level where each score bin has levels of its own."""
    assert model.score_edges is not msgspec.UNSET and model.score_min is not msgspec.UNSET
    assert isinstance(model.uncertainty_min, list)
    found: list[Node] = []
    for least, edges in zip(model.uncertainty_min, model.uncertainty_edges, strict=True):
        if least is None or uncertainty is None or not isinstance(edges, list) or not edges:
            found.append(values[0])
        else:
            found.append(_levels(program, uncertainty, least, edges, values))
    below = sum(edge <= model.score_min for edge in model.score_edges)
    return steps(score, model.score_edges[below:], found[below:])


def _margin(
    program: Program, score: Ref, cut: Node, levels: Sequence[Sequence[float]], probability: bool
) -> Node:
    """Return how far a score lies beyond its threshold, in logits for probabilities.

    Which special cases are written down depends on the thresholds that there are.
    """
    cuts = {cut.value} if isinstance(cut, Number) else {value for own in levels for value in own}
    branches: list[tuple[Node, Node]] = []
    if any(map(math.isnan, cuts)):
        branches.append((IsNever(cut), Missing()))
    if -math.inf in cuts:
        branches.append((Compare("=", cut, Number(-math.inf)), Missing()))
    cuts = {value for value in cuts if value > -math.inf}
    if not cuts:
        return Missing()
    branches.append((Compare("=", score, cut), ZERO))
    if not probability:
        return Case(tuple(branches), subtract(score, cut))
    low, high = Number(-math.inf), Number(math.inf)
    at_zero, at_one = Compare("<=", cut, ZERO), Compare(">=", cut, ONE)
    if min(cuts) < 0.0:  # beyond what a fit gives: both logits may be infinite
        branches.append((Every((Compare("<=", score, ZERO), at_zero)), Missing()))
    if max(cuts) > 1.0:
        branches.append((Every((Compare(">=", score, ONE), at_one)), Missing()))
    branches += [(Compare("<=", score, ZERO), low), (Compare(">=", score, ONE), high)]
    if min(cuts) <= 0.0:
        branches.append((at_zero, high))
    if max(cuts) >= 1.0:
        branches.append((at_one, low))
    if not any(0.0 < value < 1.0 for value in cuts):
        return Case(tuple(branches), Missing())
    gap = program.bind("gap", _gap(score, cut))
    program.optional.add(gap.name)
    near = divide(subtract(score, cut), Binary("*", cut, subtract(ONE, cut)))
    branches.append((Compare("=", gap, ZERO), near))
    return Case(tuple(branches), gap)


def _gap(score: Node, cut: Node) -> Node:
    """Return the difference of two logits, missing where one is infinite."""
    between = [Compare(">", score, ZERO), Compare("<", score, ONE)]
    if isinstance(cut, Number):
        level: Node = Number(math.log(cut.value / (1.0 - cut.value)))
    else:
        level = Log(divide(cut, subtract(ONE, cut)))
        between += [Compare(">", cut, ZERO), Compare("<", cut, ONE)]
    own = Log(divide(score, subtract(ONE, score)))
    return when(Every(tuple(between)), subtract(own, level), Missing())


def _chance(rows: _Rows, cut: Node, cuts: Sequence[Sequence[float]]) -> Node:
    """Return the probability with which a row is positive."""
    shares = [list(rule.tie_probability or []) for rule in rows.rules]
    share = rows.level_value("share", shares)
    reached = rows.reaches(cut, cuts)
    if rows.model.randomise == "tie":
        above = [[math.nextafter(value, math.inf) for value in own] for own in cuts]
        beyond = rows.reaches(rows.level_value("beyond", above), above)
        return rows.program.bind("chance", when(beyond, ONE, when(reached, share, ZERO)))
    lower = [
        [threshold_value(value) for value in rule.random_thresholds or []] for rule in rows.rules
    ]
    wide = rows.reaches(rows.level_value("random_threshold", lower), lower)
    return rows.program.bind("chance", when(reached, ONE, when(wide, share, ZERO)))
