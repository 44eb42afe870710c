"""A boundary as a program: the threshold of a row, then decision and margin."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from calibkit.boundary.decide import OTHER, level_thresholds
from calibkit.boundary.model import BoundaryModel, threshold_value
from calibkit.errors import UsageError
from calibkit.export.nodes import (
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
    Lacks,
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
from calibkit.export.program import Program
from calibkit.export.request import Request
from calibkit.export.scales import bind_input


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
    columns = {role: request.column(model, role) for role in ("score", "uncertainty")}
    needed = [
        bind_input(program, role, name, model.columns[role], finite=role != "score")
        for role, name in columns.items()
        if name is not None
    ]
    score, uncertainty = needed[0], needed[1] if len(needed) > 1 else None
    rules = _rules(model)
    segment = _segment(program, model)
    cut = _of_rules(program, "threshold", rules, score, uncertainty, segment)
    probability = model.columns["score"].scale in (None, "probability")
    decision: Node = when(Compare(">=", score, cut), YES, NO)
    if cut == NEVER:
        decision = NO
    found = {"decision": decision, "margin": _margin(program, score, cut, rules, probability)}
    if random:
        found["decision_probability"] = _chance(program, model, score, uncertainty, segment, cut)
        found["decision"] = _drawn(program, model, request, found["decision_probability"])
    return {name: program.result(needed, value) for name, value in found.items()}


def _rules(model: BoundaryModel) -> list[BoundaryModel]:
    """Return the boundary of each group, then that of rows of no known group."""
    if model.groups is msgspec.UNSET:
        return [model]
    rules = [model.of_group(name) for name in model.groups]
    other = model.of_group(OTHER) if OTHER in model.groups else model.with_rule(model)
    return [*rules, other]


def _segment(program: Program, model: BoundaryModel) -> Node | None:
    if model.groups is msgspec.UNSET:
        return None
    words = program.words(model.columns["by"].name, whole=True)
    return program.bind("segment", Code(words, tuple(model.groups)))


def _of_rules(
    program: Program,
    name: str,
    rules: Sequence[BoundaryModel],
    score: Node,
    uncertainty: Node | None,
    segment: Node | None,
    values: Sequence[Sequence[float]] | None = None,
) -> Node:
    """Return what a row's rule and level say: its threshold, or one of `values`."""
    found = []
    for place, rule in enumerate(rules):
        own: Iterable[float] = level_thresholds(rule) if values is None else values[place]
        found.append(_by_level(program, rule, score, uncertainty, numbers(_always_nan(own))))
    value = found[0] if segment is None else chosen(segment, found)
    return value if isinstance(value, Number) else program.bind(name, value)


def _always_nan(values: Iterable[float]) -> list[float]:
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
    return _levels(uncertainty, model.uncertainty_min, edges, values)


def _levels(
    uncertainty: Node, least: float, edges: Sequence[float], values: Sequence[Node]
) -> Node:
    """Return the value of a level; what lies below `least` counts as it."""
    below = sum(edge <= least for edge in edges)
    return steps(uncertainty, edges[below:], values[below:])


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
            found.append(_levels(uncertainty, least, edges, values))
    below = sum(edge <= model.score_min for edge in model.score_edges)
    return steps(score, model.score_edges[below:], found[below:])


def _margin(
    program: Program, score: Ref, cut: Node, rules: Sequence[BoundaryModel], probability: bool
) -> Node:
    """Return how far a score lies beyond its threshold, in logits for probabilities.

    Which special cases are written down depends on the thresholds that there are.
    """
    cuts = {float(value) for rule in rules for value in level_thresholds(rule)}
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


def _chance(
    program: Program,
    model: BoundaryModel,
    score: Node,
    uncertainty: Node | None,
    segment: Node | None,
    cut: Node,
) -> Node:
    """Return the probability with which a row is positive."""
    rules = _rules(model)
    shares = [list(rule.tie_probability or []) for rule in rules]
    share = _of_rules(program, "share", rules, score, uncertainty, segment, shares)
    if model.randomise == "tie":
        tied: Node = Compare("=", score, cut)
        certain = when(Compare(">=", score, cut), ONE, ZERO)
        return program.bind("chance", when(tied, share, certain))
    lower = [[threshold_value(value) for value in rule.random_thresholds or []] for rule in rules]
    wide = _of_rules(program, "random_threshold", rules, score, uncertainty, segment, lower)
    reached = when(Compare(">=", score, wide), share, ZERO)
    return program.bind("chance", when(Compare(">=", score, cut), ONE, reached))


def _drawn(program: Program, model: BoundaryModel, request: Request, chance: Node) -> Node:
    """Return the decision of a stochastic boundary."""
    seed = model.seed if request.seed is None else request.seed
    assert isinstance(seed, int) and request.key is not None  # checked
    key = program.bind("key", Words(request.key))
    draw = program.bind("draw", Draw(key, seed))
    decided = when(Compare("<", draw, chance), YES, NO)
    return when(Lacks((key.name,)), Missing(), decided)
