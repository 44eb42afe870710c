"""A shrinkage towards the mean as a program."""

from __future__ import annotations

from calibkit.calibrators.model import CalibratorModel
from calibkit.exports import calibrator
from calibkit.exports.nodes import Code, Node, Number, Ref, chosen, clipped, numbers
from calibkit.exports.program import Program
from calibkit.exports.request import Request
from calibkit.exports.scales import bind_input, expit, line, log_odds, tame
from calibkit.vad.model import VadModel
from calibkit_kernels.decide import LEAST


def translate(program: Program, model: VadModel, request: Request) -> dict[str, Node]:
    """Return `calibrated`."""
    request.refuse_key(model)
    column, name = model.columns["score"], str(request.column(model, "score"))
    scale = column.scale or "probability"
    if model.calibrator is None:
        score = bind_input(program, "score", name, column)
        value: Node = score
    else:
        inner = model.inner()
        assert isinstance(inner, CalibratorModel)  # the model was checked
        made = calibrator.values(program, inner, name)
        score, first = made.score, next(iter(made.outputs.values()))
        value, scale = program.bind("calibrated", first), "probability"
    link = program.bind("link", _to_link(program, value, scale, model.link))
    factor, offset = _lines(program, model)
    shrunk = program.bind("shrunk", line(factor, link, offset))
    return {"calibrated": program.result([score], _from_link(program, shrunk, scale, model.link))}


def _lines(program: Program, model: VadModel) -> tuple[Node, Node]:
    """Return factor and offset of a row's segment."""
    lines = [(max(shrinkage, 0.0), mean) for shrinkage, mean in model.lines()]
    factors = numbers([factor for factor, _ in lines])
    offsets = numbers([(1.0 - factor) * mean for factor, mean in lines])
    if model.groups is None:
        return factors[0], offsets[0]
    words = program.words(model.columns["by"].name, whole=True)
    segment = program.bind("segment", Code(words, tuple(model.groups.values)))
    found = []
    for kind, values in (("factor", factors), ("offset", offsets)):
        value = chosen(segment, [*values[1:], values[0]])
        found.append(value if isinstance(value, Number) else program.bind(kind, value))
    return found[0], found[1]


def _to_link(program: Program, value: Node, scale: str, link: str) -> Node:
    if link == "logit" and scale == "probability":
        return log_odds(program, value, LEAST)
    if link == "identity" and scale == "logit":
        return expit(program, value)
    return tame(program, value, scale)


def _from_link(program: Program, shrunk: Ref, scale: str, link: str) -> Node:
    if link == "logit":
        return expit(program, shrunk)
    return shrunk if scale == "raw" else clipped(shrunk, 0.0, 1.0)
