"""An alpha model as a program: class probabilities, how far raters agree, and where they differ."""

from __future__ import annotations

import math

import numpy as np

from calibkit.exports import classes as class_maps
from calibkit.exports.request import Request
from calibkit.expressions.nodes import (
    ONE,
    Clamped,
    Descending,
    Element,
    Exp,
    Node,
    Number,
    Ref,
    clipped,
    steps,
    when,
)
from calibkit.expressions.program import Program
from calibkit.expressions.scales import bind_input
from calibkit.methods.raters.alpha import LARGEST_LOG
from calibkit.methods.raters.model import AlphaModel
from calibkit.models.model import Column

#: Numbers below this have products that PostgreSQL cannot hold.
_SMALL = 1e-140


def translate(program: Program, model: AlphaModel, request: Request) -> dict[str, Node]:
    """Return what `AlphaApplier` adds, by the names of the columns."""
    request.refuse_key(model)
    needed, prediction = class_maps.read_classes(program, model, model.classes, request)
    probabilities = prediction
    if model.logit_map is not None:
        logits = class_maps.logits_of(program, model, prediction)
        moved = class_maps.mapped(model.logit_map, logits)
        probabilities = class_maps.softmax(program, moved)
    elif model.columns["probs"].scale == "logit":
        probabilities = class_maps.softmax(program, prediction)
    features = _features(program, model, probabilities)
    if isinstance(model.features, list):
        needed += [value for value in features if isinstance(value, Ref)]
    alpha0 = _strength(program, model, features)
    small = [program.bind("small", Clamped(value, _SMALL)) for value in probabilities]
    found: dict[str, Node] = {}
    if model.calibrates:
        found |= class_maps.named("calibrated", model.classes, probabilities)
    about = _disagreements(program, model, small, alpha0)
    found |= {"alpha0": alpha0, "disagreement": about[0]}
    found |= class_maps.named("disagreement", model.classes, about[1:])
    return {name: program.result(needed, value) for name, value in found.items()}


def _features(program: Program, model: AlphaModel, probabilities: list[Ref]) -> list[Node]:
    if model.features is None:
        return []
    if isinstance(model.features, list):
        return [
            bind_input(program, "feature", name, Column(name, "float64")) for name in model.features
        ]
    logs: list[Node] = [class_maps.logarithm(program, value) for value in probabilities]
    if model.features == "probs":
        return logs
    ordered = program.bind("falling", Descending(tuple(logs)))
    return [Element(ordered, place) for place in range(len(logs))]


def _strength(program: Program, model: AlphaModel, features: list[Node]) -> Node:
    """Return alpha0, the exponential of a linear function."""
    weights, intercept = model.strength()
    if not weights.size:
        return Number(float(np.exp(intercept)))
    total: Node = Number(intercept)
    for value, weight in zip(features, weights.tolist(), strict=True):
        own = value if isinstance(model.features, str) else program.bind("feature", Clamped(value))
        total += own * weight
    log = program.bind("log_strength", total)
    limited = program.bind("log_strength", clipped(log, -LARGEST_LOG, LARGEST_LOG))
    return program.bind("strength", Exp(limited))


def _disagreements(
    program: Program, model: AlphaModel, small: list[Ref], alpha0: Node
) -> list[Node]:
    """Return the probability that two raters differ: at all, and about each class."""
    same: Node = small[0] * small[0]
    for value in small[1:]:
        same += value * value
    raw = [1.0 - same, *(Number(2.0) * own * (1.0 - own) for own in small)]
    if isinstance(alpha0, Number):
        whole = alpha0.value
        ratio: Node = ONE if math.isinf(whole) else Number(whole / (whole + 1.0))
    else:
        ratio = program.bind("ratio", Clamped(alpha0 / (alpha0 + 1.0), _SMALL))
    found: list[Node] = []
    for part in raw:
        product = program.bind("product", program.bind("differing", part) * ratio)
        found.append(program.bind("disagreement", clipped(product, 0.0, 1.0)))
    steps_map = model.disagreement_map
    if steps_map is None:
        return found
    moved = program.bind("moved", steps(found[0], steps_map.knots[1:], steps_map.values))
    factor = program.bind("factor", when(found[0] > 0.0, moved / found[0], 0.0))
    after: list[Node] = [moved]
    for part in found[1:]:
        scaled = program.bind("scaled", program.bind("one", Clamped(part, _SMALL)) * factor)
        after.append(when(scaled > moved, moved, scaled))
    return after
