"""A boundary as a program: the threshold of a row, then decision and margin."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from calibkit.errors import UsageError
from calibkit.expressions import nodes
from calibkit.expressions.nodes import MISSING, NAN, NO, ONE, YES, ZERO, Node, Number, Ref, when
from calibkit.expressions.program import Program, Rising
from calibkit.methods.boundary.result.application import OTHER, level_thresholds
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_value
from calibkit.models.kinds import ACTIONS, Request


def translate(program: Program, model: BoundaryModel, request: Request) -> dict[str, Node]:
    """Return `decision`, `margin` and, where chance plays a part, `decision_probability`."""
    random = model.randomise is not msgspec.UNSET
    if random and request.key is None:
        raise UsageError(
            "a stochastic boundary decides some rows by the hash of a key: name a column of the "
            "table that identifies a row (integers or text) by --key."
        )
    if not random:
        request.refuse_key("this model")
    rows = _Rows(program, model, request)
    cuts = [level_thresholds(rule).tolist() for rule in rows.rules]
    cut = rows.level_value("threshold", cuts)
    decision: Node = NO if cut == NAN else when(rows.reaches(cut, cuts), YES, NO)
    if model.review_thresholds is not msgspec.UNSET:
        lower = [list(map(threshold_value, model.review_thresholds))]
        reach = rows.level_value("review_threshold", lower)
        passed, review, blocked = map(nodes.Text, ACTIONS)
        below = passed if reach == NAN else when(rows.reaches(reach, lower), review, passed)
        decision = below if decision == NO else when(decision.equals(1.0), blocked, below)
    probability = model.columns["score"].measure == "probability"
    program.require(rows.score, *rows.uncertainties)
    found = {"decision": decision, "margin": _margin(program, rows.score, cut, cuts, probability)}
    if request.key is not None:  # which only a stochastic boundary takes
        key = program.bind("key", nodes.Words(request.key))
        chance = _chance(rows, cut, cuts)
        seed = model.seed if request.seed is None else request.seed
        assert isinstance(seed, int)  # the model was checked
        draw = program.bind("draw", nodes.Draw(key, seed))
        found["decision"] = when(draw < chance, YES, NO)
        found["decision_probability"] = chance
        program.require(key)
    return found


class _Rows:
    """What a row has, and the boundary of each segment, the last one of all others.

    `rises` says how the score rises with another one, where an earlier part of a bundle made it.
    """

    def __init__(self, program: Program, model: BoundaryModel, request: Request) -> None:
        """Bind the columns."""
        self.program, self.model = program, model
        name, column = request.column(model, "score"), model.columns["score"]
        self.score = program.bind_input("score", name, column, finite=False)
        self.uncertainties = [
            program.bind_input(role, request.column(model, role), model.columns[role])
            for role in model.spreads
        ]
        self.rises: Rising | None = None
        if model.order == "uncertainty-score" and column.dtype != "float32":
            self.rises = program.inverses.get(name)
        self.rules, self.segment = [model], None
        if model.groups is not msgspec.UNSET:
            other = model.of_group(OTHER) if OTHER in model.groups else model.with_rule(model.rule)
            self.rules = [*map(model.of_group, model.groups), other]
            name, pooled = model.columns["by"].name, model.pooled or ()
            self.segment = program.segment(name, model.groups, pooled)

    def level_value(self, name: str, values: Sequence[Sequence[float]]) -> Node:
        """Return the value of a row's rule and level."""
        found = [self._of_rule(*pair) for pair in zip(self.rules, values, strict=True)]
        return self.program.choose(name, self.segment, found)

    def _of_rule(self, rule: BoundaryModel, values: Sequence[float]) -> Node:
        """Return the value of the row's uncertainty level, of which each score bin may have its own."""
        if rule.partition is not msgspec.UNSET:  # steps along each uncertainty in turn
            found: list[Node] = [nodes.node_of(values[leaf]) for leaf in rule.partition.leaves]
            columns = zip(self.uncertainties, rule.partition.edges, strict=True)
            for x, edges in reversed(list(columns)):
                size, knots = len(edges) + 1, self.program.near_knots(x, edges)
                starts = range(0, len(found), size)
                found = [nodes.steps(x, knots, found[start : start + size]) for start in starts]
            return found[0]
        if rule.order != "score-uncertainty":
            return self._of_level(rule.uncertainty_min, rule.uncertainty_edges, values)
        assert isinstance(rule.score_edges, list) and isinstance(rule.score_min, float)
        assert isinstance(rule.uncertainty_min, list)
        bins = zip(rule.uncertainty_min, rule.uncertainty_edges, strict=True)
        found = [self._of_level(least, edges, values) for least, edges in bins]
        below = sum(edge <= rule.score_min for edge in rule.score_edges)
        return nodes.steps(self.score, rule.score_edges[below:], found[below:])

    def _of_level(self, least: object, edges: object, values: Sequence[float]) -> Node:
        """Return the value of a level; what lies below the least uncertainty counts as it."""
        if self.uncertainties and isinstance(least, float) and isinstance(edges, list) and edges:
            x, below = self.uncertainties[0], sum(edge <= least for edge in edges)
            return nodes.steps(x, self.program.near_knots(x, edges[below:]), values[below:])
        return nodes.node_of(values[0])

    def reaches(self, cut: Node, values: Sequence[Sequence[float]]) -> Node:
        """Return whether the score reaches its threshold.

        Of a score that another one rises with, the latter is compared, with what stands for the
        threshold there: a logarithm may not be the same everywhere, a comparison is.
        """
        if self.rises is None:
            return self.program.at_least(self.score, cut)
        limits = [value for own in values for value in own if math.isfinite(value)]
        found = []
        for inverse in self.rises.inverses:
            inverse.learn(limits)
            moved = [[inverse.known.get(value, value) for value in own] for own in values]
            found.append(self.level_value("limit", moved))
        limit = found[0] if self.rises.segment is None else nodes.chosen(self.rises.segment, found)
        return self.rises.inverses[0].x >= limit


def _margin(
    program: Program, score: Ref, cut: Node, levels: Sequence[Sequence[float]], probability: bool
) -> Node:
    """Return how far a score lies beyond its threshold, in logits for probabilities.

    Which special cases are written down depends on the thresholds that there are.
    """
    cuts = {cut.value} if isinstance(cut, Number) else {value for own in levels for value in own}
    branches: list[tuple[Node, Node]] = []
    if any(map(math.isnan, cuts)):
        branches.append((nodes.IsNan(cut), MISSING))
    if -math.inf in cuts:
        branches.append((cut.equals(-math.inf), MISSING))
    cuts = {value for value in cuts if value > -math.inf}
    if not cuts:
        return MISSING
    branches.append((score.equals(cut), ZERO))
    if not probability:
        return nodes.Case(tuple(branches), score - cut)
    low, high = Number(-math.inf), Number(math.inf)
    if min(cuts) < 0.0:  # beyond what a fit gives: both logits may be infinite
        branches.append((nodes.Every((score <= 0.0, cut <= 0.0)), MISSING))
    if max(cuts) > 1.0:
        branches.append((nodes.Every((score >= 1.0, cut >= 1.0)), MISSING))
    branches += [(score <= 0.0, low), (score >= 1.0, high)]
    if min(cuts) <= 0.0:
        branches.append((cut <= 0.0, high))
    if max(cuts) >= 1.0:
        branches.append((cut >= 1.0, low))
    if not any(0.0 < value < 1.0 for value in cuts):
        return nodes.Case(tuple(branches), MISSING)
    between = [score > 0.0, score < 1.0]
    if isinstance(cut, Number):
        level: Node = Number(math.log(cut.value / (1.0 - cut.value)))
    else:
        level = nodes.Log(cut / (1.0 - cut))
        between += [cut > 0.0, cut < 1.0]
    # The difference of two logits is missing where one is infinite.
    logit = nodes.Log(score / (1.0 - score))
    gap = program.bind("gap", when(nodes.Every(tuple(between)), logit - level))
    program.optional.add(gap.name)
    branches.append((gap.equals(0.0), (score - cut) / (cut * (1.0 - cut))))
    return nodes.Case(tuple(branches), gap)


def _chance(rows: _Rows, cut: Node, cuts: Sequence[Sequence[float]]) -> Node:
    """Return the probability with which a row is positive."""
    shares = [list(rule.tie_probability or []) for rule in rows.rules]
    share = rows.level_value("share", shares)
    reached = rows.reaches(cut, cuts)
    if rows.model.randomise == "tie":
        above = [[math.nextafter(value, math.inf) for value in own] for own in cuts]
        beyond = rows.reaches(rows.level_value("beyond", above), above)
        return rows.program.bind("chance", when(beyond, ONE, when(reached, share, ZERO)))
    lower = [list(map(threshold_value, rule.random_thresholds or [])) for rule in rows.rules]
    wide = rows.reaches(rows.level_value("random_threshold", lower), lower)
    return rows.program.bind("chance", when(reached, ONE, when(wide, share, ZERO)))
