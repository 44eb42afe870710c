"""Maps as programs: calibrators of a score or of class probabilities, a shrinkage, an alpha model."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import msgspec
import numpy as np

from calibkit.errors import UsageError
from calibkit.expressions import nodes
from calibkit.expressions.nodes import Clamped, Item, Node, Number, Ref, clipped, line, total, when
from calibkit.expressions.program import Function, Program, Rising
from calibkit.maps.class_rows import LEAST_PROBABILITY, SUM_SLACK
from calibkit.maps.formulas import Maker
from calibkit.maps.methods import METHODS
from calibkit.maps.model import CalibratorModel, LogitMapModel, ScoreMap
from calibkit.methods.raters.application import LARGEST_LOG
from calibkit.methods.raters.model import AlphaModel
from calibkit.methods.vad.model import VadModel
from calibkit.models.kinds import Request
from calibkit.models.model import Column, Model

#: What a pattern is recognised by.
_GLOB = set("*?[")

#: Numbers below this have products that PostgreSQL cannot hold.
_SMALL = 1e-140
#: So many numbers are added up in one expression: readers of programs limit how deep one may be.
_STRETCH = 32


def translate_calibrator(
    program: Program, model: CalibratorModel, request: Request
) -> dict[str, Node]:
    """Return `calibrated`, of venn-abers with its limits; of classes `calibrated_<class>`."""
    if model.classes is not msgspec.UNSET:
        probabilities = _probabilities(program, model, model.classes, request)
        return _named("calibrated", model.classes, probabilities)
    name = request.column(model, "score")
    maker, outputs = _score_map(program, model, name)
    method = METHODS[model.method]
    program.exact = method.rises is None
    if name not in program.available and method.rises and all(map(method.rises, maker.maps)):

        def function(one: ScoreMap) -> Function:
            return lambda scores: method.mapped(one, scores, maker.scale, 1)[0]

        inverses = tuple(maker.inverse(function(one), 1.0) for one in maker.maps)
        program.rising = Rising(maker.segment, inverses)
    program.require(maker.score)
    return outputs


def _score_map(
    program: Program, model: CalibratorModel, name: str
) -> tuple[Maker, dict[str, Node]]:
    """Return what writes the map of the score in a column, and the columns that it adds."""
    column = model.columns["score"]
    if model.out_of_range == "clip":
        raw = program.bind_input("score", name, Column(column.name, column.dtype, "raw"))
        score = program.bind("score", clipped(raw, 0.0, 1.0))
    else:
        score = program.bind_input("score", name, column)
    maps, segment = [model.own_map], None
    if model.groups is not msgspec.UNSET:
        maps = [*model.groups.values(), model.own_map]
        segment = program.segment(model.columns["by"].name, model.groups, model.pooled_groups or ())
    method, maker = METHODS[model.method], Maker(program, score, column, maps, segment)
    found = zip(method.added, method.program(maker), strict=True)
    return maker, {added: maker.clipped(value) for added, value in found}


def _named(prefix: str, classes: Sequence[str], values: Sequence[Node]) -> dict[str, Node]:
    """Return the added columns of the classes."""
    return {f"{prefix}_{name}": value for name, value in zip(classes, values, strict=True)}


def _probabilities(
    program: Program,
    model: CalibratorModel | AlphaModel,
    classes: Sequence[str],
    request: Request,
) -> list[Ref]:
    """Return the class probabilities of a row, after the model's map of logits if it has one."""
    read, one = _read_classes(program, model, classes, request), model.logit_map
    are_logits = model.columns["probs"].scale == "logit"
    if one is None:
        return _softmax(program, read) if are_logits else read
    logits = read if are_logits else [_logarithm(program, value) for value in read]
    return _softmax(program, _moved(one, logits))


def _read_classes(
    program: Program, model: Model, classes: Sequence[str], request: Request
) -> list[Ref]:
    """Return the class probabilities (normalised) or logits of a row."""
    column = model.columns["probs"]
    described = Column(column.name, column.dtype, column.measure)
    read = [
        program.bind_input("given", name, described)
        if isinstance(name, str)
        else program.bind("given", program.as_fitted(name, described))
        for name in _class_columns(request.column(model, "probs"), classes, request)
    ]
    if column.measure == "logit":
        return [program.bind("score", Clamped(value)) for value in read]
    mass: Node = _sum(program, "total", read)
    off = mass - 1.0
    near = nodes.Every((off <= SUM_SLACK, off >= -SUM_SLACK))
    mass = program.bind("total", when(near, mass))
    program.require(mass)
    return [program.bind("share", value / mass) for value in read]


def _class_columns(pattern: str, classes: Sequence[str], request: Request) -> list[str | Item]:
    """Return where each class is: a column, or a place in a column of lists."""
    known = request.class_columns
    if known is not None and len(known) == len(classes) > 1:
        return list(known)
    if known is not None or not _GLOB & set(pattern):
        column = pattern if known is None else known[0]
        return [Item(column, place, len(classes)) for place in range(len(classes))]
    if pattern.count("*") == 1 and not _GLOB & set(pattern.replace("*", "")):
        return [pattern.replace("*", name) for name in classes]
    raise UsageError(
        f"which columns {pattern!r} stands for only a file tells: name one by --check, or the "
        "columns by a pattern with one '*' (--probs), which stands for the class."
    )


def _logarithm(program: Program, value: Node) -> Ref:
    """Return the logarithm of a probability that is lifted to the least one first."""
    least = Number(LEAST_PROBABILITY)
    return program.bind("log", nodes.Log(when(value < least, least, value)))


def _moved(one: LogitMapModel, logits: Sequence[Node]) -> list[Node]:
    """Return logits after a linear map."""
    weights, intercept = one.arrays(len(logits))
    if weights.ndim < 2:
        scale = np.broadcast_to(weights, len(logits)).tolist()
        return [
            Number(factor) * value + shift
            for factor, value, shift in zip(scale, logits, intercept.tolist(), strict=True)
        ]
    return [
        total([Number(shift), *map(operator.mul, map(Number, own), logits)])
        for own, shift in zip(weights.tolist(), intercept.tolist(), strict=True)
    ]


def _sum(program: Program, name: str, values: Sequence[Ref]) -> Ref:
    """Return the sum of numbers in their order: of many in stretches, not too deep to be read."""
    found = values[0]
    for start in range(1, len(values), _STRETCH):
        found = program.bind(name, total([found, *values[start : start + _STRETCH]]))
    return found


def _softmax(program: Program, logits: Sequence[Node]) -> list[Ref]:
    """Return the probabilities that logits stand for."""
    bound = [program.bind("logit", value) for value in logits]
    tops = bound
    while len(tops) > 1:  # in pairs: each step that waits for another is a layer of its own
        pairs = zip(tops[::2], tops[1::2], strict=False)
        found = [program.bind("top", when(b > a, b, a)) for a, b in pairs]
        tops = [*found, *tops[len(found) * 2 :]]
    powers = [program.bind("power", nodes.Exp(value - tops[0])) for value in bound]
    mass = _sum(program, "mass", powers)
    program.require(mass)  # which a class without a value leaves without one
    return [program.bind("class_probability", power / mass) for power in powers]


def translate_vad(program: Program, model: VadModel, request: Request) -> dict[str, Node]:
    """Return `calibrated`."""
    column, name = model.columns["score"], request.column(model, "score")
    scale = column.measure
    if model.calibrator is None:
        score = program.bind_input("score", name, column)
        value: Node = score
    else:
        inner = model.inner()
        assert isinstance(inner, CalibratorModel)  # the model was checked
        maker, outputs = _score_map(program, inner, name)
        score, first = maker.score, next(iter(outputs.values()))
        value, scale = program.bind("calibrated", first), "probability"
    if model.link != "identity" or scale == "raw":
        value = program.link(value, scale)
    elif scale == "logit":
        value = program.expit(value)
    linked = program.bind("link", value)
    segment = None
    if model.groups is not None:
        own = model.groups
        segment = program.segment(model.columns["by"].name, own.values, own.pooled)
    factors, offsets = zip(*model.lines(), strict=True)
    factor = program.choose("factor", segment, factors)
    offset = program.choose("offset", segment, offsets)
    shrunk = program.bind("shrunk", line(factor, linked, offset))
    if model.link == "logit":
        found = program.expit(shrunk)
    else:
        found = shrunk if scale == "raw" else clipped(shrunk, 0.0, 1.0)
    program.require(score)
    return {"calibrated": found}


def translate_alpha(program: Program, model: AlphaModel, request: Request) -> dict[str, Node]:
    """Return what `AlphaApplier` adds, by the names of the columns."""
    probabilities = _probabilities(program, model, model.classes, request)
    features = _features(program, model, probabilities)
    alpha0 = _strength(program, model, features)
    small = [program.bind("small", Clamped(value, _SMALL)) for value in probabilities]
    found = _named("calibrated", model.classes, probabilities) if model.calibrates else {}
    whole, *own = _disagreements(program, model, small, alpha0)
    found |= {"alpha0": alpha0, "disagreement": whole}
    return found | _named("disagreement", model.classes, own)


def _features(program: Program, model: AlphaModel, probabilities: list[Ref]) -> list[Node]:
    if model.features is None:
        return []
    if isinstance(model.features, list):
        read = [
            program.bind_input("feature", own, Column(own, "float64")) for own in model.features
        ]
        program.require(*read)
        return [program.bind("feature", Clamped(value)) for value in read]
    logs: list[Node] = [_logarithm(program, value) for value in probabilities]
    if model.features == "probs":
        return logs
    ordered = program.bind("falling", nodes.Descending(tuple(logs)))
    return [nodes.Element(ordered, place) for place in range(len(logs))]


def _strength(program: Program, model: AlphaModel, features: list[Node]) -> Node:
    """Return alpha0, the exponential of a linear function."""
    weights, intercept = model.strength()
    if not weights.size:
        return Number(float(np.exp(intercept)))
    terms = map(operator.mul, features, weights.tolist())
    log = program.bind("log_strength", total([Number(intercept), *terms]))
    limited = program.bind("log_strength", clipped(log, -LARGEST_LOG, LARGEST_LOG))
    return program.bind("strength", nodes.Exp(limited))


def _disagreements(
    program: Program, model: AlphaModel, small: list[Ref], alpha0: Node
) -> list[Node]:
    """Return the probability that two raters differ: at all, and about each class."""
    raw = [
        1.0 - total([value * value for value in small]),
        *(Number(2.0) * own * (1.0 - own) for own in small),
    ]
    if isinstance(alpha0, Number):
        whole = alpha0.value
        ratio: Node = nodes.ONE if math.isinf(whole) else Number(whole / (whole + 1.0))
    else:
        ratio = program.bind("ratio", Clamped(alpha0 / (alpha0 + 1.0), _SMALL))
    found: list[Node] = []
    for part in raw:
        product = program.bind("product", program.bind("differing", part) * ratio)
        found.append(program.bind("disagreement", clipped(product, 0.0, 1.0)))
    steps_map = model.disagreement_map
    if steps_map is None:
        return found
    step = nodes.steps(found[0], steps_map.knots[1:], steps_map.values)
    moved = program.bind("moved", step)
    factor = program.bind("factor", when(found[0] > 0.0, moved / found[0], 0.0))
    after: list[Node] = [moved]
    for part in found[1:]:
        scaled = program.bind("scaled", program.bind("one", Clamped(part, _SMALL)) * factor)
        after.append(when(scaled > moved, moved, scaled))
    return after
