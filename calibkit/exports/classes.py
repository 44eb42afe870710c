"""Class probabilities as a program: the columns that hold them, their logits, linear maps of these."""

from __future__ import annotations

from collections.abc import Sequence

from calibkit.errors import UsageError
from calibkit.exports.request import Request
from calibkit.expressions.nodes import Clamped, Every, Exp, Item, Log, Node, Number, Ref, when
from calibkit.expressions.program import Program
from calibkit.expressions.scales import as_fitted, bind_input
from calibkit.maps.calibrator import CalibratorModel
from calibkit.maps.class_rows import SUM_SLACK
from calibkit.maps.logit_maps import LEAST_PROBABILITY, LogitMapModel
from calibkit.models.model import Column, Model

#: What a pattern is recognised by.
_GLOB = set("*?[")


def translate(program: Program, model: CalibratorModel, request: Request) -> dict[str, Node]:
    """Return `calibrated_<class>`."""
    request.refuse_key(model)
    assert isinstance(model.classes, list)
    needed, prediction = read_classes(program, model, model.classes, request)
    logits = logits_of(program, model, prediction)
    found = named("calibrated", model.classes, softmax(program, mapped(model.logit_map, logits)))
    return {name: program.result(needed, value) for name, value in found.items()}


def named(prefix: str, classes: Sequence[str], values: Sequence[Node]) -> dict[str, Node]:
    """Return the added columns of the classes."""
    return {f"{prefix}_{name}": value for name, value in zip(classes, values, strict=True)}


def read_classes(
    program: Program, model: Model, classes: Sequence[str], request: Request
) -> tuple[list[Ref], list[Ref]]:
    """Return what a row needs, and its class probabilities (normalised) or logits."""
    column = model.columns["probs"]
    scale = column.scale or "probability"
    described = Column(column.name, column.dtype, scale if scale == "probability" else "logit")
    read = [
        bind_input(program, "given", name, described)
        if isinstance(name, str)
        else program.bind("given", as_fitted(program, name, described))
        for name in class_columns(column.name, classes, request)
    ]
    if scale == "logit":
        return read, [program.bind("score", Clamped(value)) for value in read]
    total = program.bind("total", _sum(read))
    off = total - 1.0
    near = Every((off <= SUM_SLACK, off >= -SUM_SLACK))
    total = program.bind("total", when(near, total))
    return [*read, total], [program.bind("share", value / total) for value in read]


def _sum(values: Sequence[Node]) -> Node:
    total = values[0]
    for value in values[1:]:
        total += value
    return total


def class_columns(pattern: str, classes: Sequence[str], request: Request) -> list[str | Item]:
    """Return where each class is: a column, or a place in a column of lists.

    Raises
    ------
    UsageError
        Where only a file could tell what a pattern stands for.
    """
    pattern = request.columns.get("probs", pattern)
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


def logits_of(program: Program, model: Model, prediction: Sequence[Ref]) -> Sequence[Ref]:
    """Return the logits of class probabilities, or those that were read."""
    if model.columns["probs"].scale == "logit":
        return prediction
    return [logarithm(program, value) for value in prediction]


def logarithm(program: Program, value: Node) -> Ref:
    """Return the logarithm of a probability that is lifted to the least one first."""
    least = Number(LEAST_PROBABILITY)
    return program.bind("log", Log(when(value < least, least, value)))


def mapped(one: LogitMapModel, logits: Sequence[Node]) -> list[Node]:
    """Return logits after a linear map."""
    weights, intercept = one.arrays(len(logits))
    if weights.ndim < 2:
        scale = weights.tolist() * (len(logits) if weights.size == 1 else 1)
        return [
            Number(factor) * value + shift
            for factor, value, shift in zip(scale, logits, intercept.tolist(), strict=True)
        ]
    found = []
    for own, shift in zip(weights.tolist(), intercept.tolist(), strict=True):
        total: Node = Number(shift)
        for factor, value in zip(own, logits, strict=True):
            total += Number(factor) * value
        found.append(total)
    return found


def softmax(program: Program, logits: Sequence[Node]) -> list[Ref]:
    """Return the probabilities that logits stand for."""
    bound = [program.bind("logit", value) for value in logits]
    top: Node = bound[0]
    for value in bound[1:]:
        top = program.bind("top", when(value > top, value, top))
    powers = [program.bind("power", Exp(value - top)) for value in bound]
    mass = program.bind("mass", _sum(powers))
    return [program.bind("class_probability", power / mass) for power in powers]
