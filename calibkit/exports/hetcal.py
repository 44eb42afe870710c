"""Calibration by parts as a program: the leaf of a row in each partition, and the maps of leaves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from calibkit.arrays import Numbers
from calibkit.errors import UsageError
from calibkit.expressions import nodes
from calibkit.expressions.nodes import MISSING, ONE, ZERO, Node, Number, Ref, line, when
from calibkit.expressions.program import SINGLE_OVERFLOW, Inverse, Program, Scores
from calibkit.maps.formulas import Maker
from calibkit.maps.methods import METHODS
from calibkit.methods.hetcal import model as hetcal
from calibkit.methods.hetcal.maps import moved
from calibkit.methods.hetcal.model import SCORE_FEATURE, HetcalModel
from calibkit.methods.hetcal.rows import linear_scores
from calibkit.models.kinds import Request
from calibkit.models.model import Column

#: A tree is written as nested comparisons to this depth; what lies below gets a name first.
_NESTED = 12

#: Deeper trees have no use but to exhaust what reads them.
_DEEPEST = 1000

#: Partitions whose steps are added up before the sum gets a name.
_ADDED = 32


def translate(program: Program, model: HetcalModel, request: Request) -> dict[str, Node]:
    """Return `calibrated` and `leaf`."""
    rows = _Rows(program, model, request.column(model, "score"))
    parts = model.parts()
    leaf = program.bind("leaf", rows.tree(parts[0], nodes.Whole))
    if model.final is not msgspec.UNSET:
        total = _in_turn(rows, parts)
        total = program.expit(line(model.final.a, total, model.final.b))
    else:
        total = ZERO
        for place, part in enumerate(parts):
            own = leaf if place == 0 else program.bind("leaf", rows.tree(part, nodes.Whole))
            probability = program.bind("part", _leaf_maps(rows, part.maps, own))
            total = probability if place == 0 else program.bind("sum", total + probability)
        if len(parts) > 1:
            total /= float(len(parts))
    program.require(rows.score)
    return {"calibrated": program.inside(total, model.clip, "total"), "leaf": leaf}


class _Rows:
    """What a row has: the score, its linear form (a logit after precalibration), and features.

    The score is missing also where a feature is infinite, which `apply` refuses; `inverse` is the
    linear form seen from the score.
    """

    def __init__(self, program: Program, model: HetcalModel, name: str) -> None:
        """Bind score and features."""
        column = model.columns["score"]
        program.lenient = True  # rows without a feature have a side of their own
        self.program, self.model = program, model
        self.features: dict[str, Ref] = {}
        infinite: list[tuple[Node, Node]] = []
        for own in model.features():
            feature = own.name
            if own.kind == "category":
                self.features[feature] = program.bind(
                    "feature", program.available.get(feature, nodes.Words(feature))
                )
                continue
            raw = program.bind("read", nodes.Between(program.number(feature), -math.inf, math.inf))
            limit = SINGLE_OVERFLOW if own.dtype == "float32" else math.inf
            infinite += [(raw <= -limit, MISSING), (raw >= limit, MISSING)]
            self.features[feature] = program.bind_input("feature", feature, own, value=raw)
        usable = program.bind("usable", nodes.Case(tuple(infinite), ONE))
        program.lenient = False
        score = program.bind_input("score", name, column)
        if infinite:
            whole = when(nodes.Lacks((usable,)), MISSING, score)
            usable_score = program.bind("usable_score", whole)
            if score.name in program.inputs:
                program.inputs[usable_score.name] = program.inputs[score.name]
            score = usable_score
        scale = column.measure
        linear, slope = _moved(program, program.link(score, scale), model.precalibrate)

        def function(scores: Numbers) -> Numbers:
            return moved(model.precalibrate, linear_scores(scores, scale)[0])

        self.inverse = Inverse(score, function, slope, Scores.of(column))
        knots: list[float] = []
        for part in model.parts():
            on_score = [node.cut for node in part.tree if node.feature == SCORE_FEATURE]
            knots += [_above(cut) for cut in on_score if isinstance(cut, float)]
            for one in part.maps:
                knots += one.knots[1:] if isinstance(one.knots, list) else []
        self.inverse.learn(knots)
        self.score, self.linear = score, program.bind("linear", linear)

    def tree(self, part: hetcal.PartitionPart, at_leaf: Callable[[int], Node]) -> Node:
        """Return what stands at the leaf of a row, nodes from the last to the first.

        The children of a node stand after it, so that they are written already.
        """
        found: list[Node] = [MISSING] * len(part.tree)
        depth = [0] * len(part.tree)
        whole = [0] * len(part.tree)
        for place, node in reversed(list(enumerate(part.tree))):
            if isinstance(node.leaf, int):
                found[place] = at_leaf(node.leaf)
                continue
            assert isinstance(node.left, int) and isinstance(node.right, int)
            depth[place] = 1 + max(depth[node.left], depth[node.right])
            whole[place] = 1 + max(whole[node.left], whole[node.right])
            found[place] = self._split(node, found[node.left], found[node.right])
            found[node.left] = found[node.right] = MISSING
            if depth[place] >= _NESTED:
                found[place], depth[place] = self.program.bind("branch", found[place]), 0
        if whole[0] > _DEEPEST:
            raise UsageError(
                f"a tree {whole[0]} levels deep makes no code that a database would take; at most "
                f"{_DEEPEST} can be exported."
            )
        return found[0]

    def _split(self, node: hetcal.TreeNode, left: Node, right: Node) -> Node:
        """Return the side of a row; rows without a value go on to the last one written."""
        missing_left = node.missing == "left"
        kept, other = (left, right) if missing_left else (right, left)
        if left == right:
            return left
        if isinstance(node.left_categories, list) and isinstance(node.right_categories, list):
            listed = node.right_categories if missing_left else node.left_categories
            if not listed:
                return kept
            return when(nodes.OneOf(self.features[str(node.feature)], tuple(listed)), other, kept)
        by_score = node.feature == SCORE_FEATURE and node.feature not in self.features
        if by_score and isinstance(node.cut, float):
            return self.inverse.steps([_above(node.cut)], [left, right])
        if by_score:  # which is never missing
            return left
        feature = self.features[str(node.feature)]
        if not isinstance(node.cut, float):  # every value goes left
            return left if missing_left else when(feature <= math.inf, left, right)
        cut = self.program.near_knots(feature, [node.cut], above=True)[0]
        return when(feature > cut if missing_left else feature <= cut, other, kept)


def _moved(program: Program, linear: Node, first: hetcal.FirstMap | None) -> tuple[Node, float]:
    """Return a linear score after what it goes through first, and a number of the sign of its slope."""
    if first is None or first.name == "none":
        return linear, 1.0
    one, logit = first.score_map, program.bind("logit", linear)
    if first.name == "platt":
        assert one.a is not None and one.b is not None  # the model was checked
        return line(one.a, logit, one.b), one.a
    maker = Maker(program, logit, Column("logit", scale="logit"), [one], None)
    (value,) = METHODS[first.name].program(maker)
    return program.link(program.bind("first", value), "probability"), 1.0


def _above(cut: float) -> float:
    """Return the knot of a cut: what is up to the cut is below the next number."""
    return math.nextafter(cut, math.inf)


def _leaf_maps(rows: _Rows, maps: Sequence[hetcal.LeafMap], leaf: Ref) -> Node:
    """Return the probability of a row under the map of its leaf."""
    program = rows.program
    pooled = rows.model.pooled

    def parameter(name: str) -> Node:
        return program.choose(name, leaf, [float(getattr(one, name)) for one in maps])

    if any(isinstance(one.c, float) for one in maps):
        low, high = program.log_parts(rows.linear)
        a, b, c = (parameter(name) for name in "abc")
        return program.expit(a * low + b * high + c)
    if not any(isinstance(one.knots, list) for one in maps):
        return program.expit(line(parameter("a"), rows.linear, parameter("b")))
    whole = program.expit(line(pooled.a, rows.linear, pooled.b))
    found, shares = [], []
    for one in maps:
        assert isinstance(one.knots, list) and isinstance(one.values, list)  # as the fit writes
        found.append(rows.inverse.steps(one.knots[1:], one.values))
        shares.append(float(one.share or 0.0))
    step = program.choose("step", leaf, found)
    if set(shares) == {1.0}:
        return step
    share = program.choose("share", leaf, shares)
    return share * step + (1.0 - share) * program.bind("whole", whole)


def _in_turn(rows: _Rows, parts: Sequence[hetcal.PartitionPart]) -> Node:
    """Return the linear score after the steps of all partitions in turn."""
    score: Node = rows.linear
    for place, part in enumerate(parts):
        slopes = [Number(one.a) for one in part.maps if isinstance(one.a, float)]
        shifts = [Number(one.b) for one in part.maps if isinstance(one.b, float)]
        if set(slopes) != {ONE}:
            score = rows.program.bind("slope", rows.tree(part, slopes.__getitem__)) * score
        score += rows.tree(part, shifts.__getitem__)
        if place % _ADDED == _ADDED - 1:
            score = rows.program.bind("moved", score)
    return score
