"""Class probabilities as a program: the columns that hold them, their logits, linear maps of these."""

from __future__ import annotations

from collections.abc import Sequence

from calibkit.calibrators.model import CalibratorModel
from calibkit.errors import UsageError
from calibkit.exports.nodes import (
    ONE,
    Compare,
    Every,
    Exp,
    Item,
    Log,
    Missing,
    Node,
    Number,
    Ref,
    add,
    divide,
    multiply,
    subtract,
    when,
)
from calibkit.exports.program import Program
from calibkit.exports.request import Request
from calibkit.exports.scales import as_fitted, bind_input, tame
from calibkit.models import Column, Model
from calibkit.raters.logit_maps import LEAST_PROBABILITY
from calibkit.raters.model import LogitMapModel
from calibkit.raters.rows import SUM_SLACK

#: What a pattern is recognised by.
_GLOB = set("*?[")


def translate(program: Program, model: CalibratorModel, request: Request) -> dict[str, Node]:
    """Return `calibrated_<class>`."""
    request.refuse_key(model)
    assert isinstance(model.classes, list)
    needed, prediction = read_classes(program, model, model.classes, request)
    logits = prediction
    if model.columns["probs"].scale != "logit":
        logits = [logarithm(program, value) for value in prediction]
    found = softmax(program, mapped(program, model.logit_map, logits))
    return {
        f"calibrated_{name}": program.result(needed, value)
        for name, value in zip(model.classes, found, strict=True)
    }


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
        return read, [tamed(program, value) for value in read]
    total: Node = read[0]
    for value in read[1:]:
        total = add(total, value)
    total = program.bind("total", total)
    near = Every(
        (
            Compare("<=", subtract(total, ONE), Number(SUM_SLACK)),
            Compare(">=", subtract(total, ONE), Number(-SUM_SLACK)),
        )
    )
    total = program.bind("total", when(near, total, Missing()))
    return [*read, total], [program.bind("share", divide(value, total)) for value in read]


def class_columns(pattern: str, classes: Sequence[str], request: Request) -> list[str | Item]:
    """Return where each class is: a column, or a place in a column of lists.

    Raises
    ------
    UsageError
        Where only a file could tell what a pattern stands for.
    """
    if request.class_columns is not None:
        if len(request.class_columns) == len(classes) > 1:
            return list(request.class_columns)
        return [
            Item(request.class_columns[0], place, len(classes)) for place in range(len(classes))
        ]
    pattern = request.columns.get("probs", pattern)
    if not _GLOB & set(pattern):
        return [Item(pattern, place, len(classes)) for place in range(len(classes))]
    if pattern.count("*") == 1 and not _GLOB & set(pattern.replace("*", "")):
        return [pattern.replace("*", name) for name in classes]
    raise UsageError(
        f"which columns {pattern!r} stands for only a file tells: name one by --check, or the "
        "columns by a pattern with one '*' (--probs), which stands for the class."
    )


def tamed(program: Program, value: Ref) -> Ref:
    """Return a logit that may be multiplied."""
    found = tame(program, value, "logit")
    assert isinstance(found, Ref)
    return found


def logarithm(program: Program, value: Node) -> Ref:
    """Return the logarithm of a probability that is lifted to the least one first."""
    least = Number(LEAST_PROBABILITY)
    return program.bind("log", Log(when(Compare("<", value, least), least, value)))


def mapped(program: Program, one: LogitMapModel, logits: Sequence[Node]) -> list[Node]:
    """Return logits after a linear map."""
    fitted = one.fitted(len(logits))
    if fitted.weights.ndim < 2:
        scale = fitted.weights.tolist() * (len(logits) if fitted.weights.size == 1 else 1)
        return [
            add(multiply(Number(factor), value), Number(shift))
            for factor, value, shift in zip(scale, logits, fitted.intercept.tolist(), strict=True)
        ]
    found = []
    for weights, shift in zip(fitted.weights.tolist(), fitted.intercept.tolist(), strict=True):
        total: Node = Number(shift)
        for factor, value in zip(weights, logits, strict=True):
            total = add(total, multiply(Number(factor), value))
        found.append(total)
    return found


def softmax(program: Program, logits: Sequence[Node]) -> list[Ref]:
    """Return the probabilities that logits stand for."""
    bound = [program.bind("logit", value) for value in logits]
    top: Node = bound[0]
    for value in bound[1:]:
        top = program.bind("top", when(Compare(">", value, top), value, top))
    powers = [program.bind("power", Exp(subtract(value, top))) for value in bound]
    mass: Node = powers[0]
    for value in powers[1:]:
        mass = add(mass, value)
    whole = program.bind("mass", mass)
    return [program.bind("class_probability", divide(power, whole)) for power in powers]
