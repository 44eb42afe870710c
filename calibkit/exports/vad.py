"""A shrinkage towards the mean as a program."""

from __future__ import annotations

from calibkit.exports import calibrator
from calibkit.exports.request import Request
from calibkit.expressions import scales
from calibkit.expressions.nodes import Node, Ref, clipped
from calibkit.expressions.program import Program
from calibkit.expressions.scales import bind_input, expit, line
from calibkit.maps.calibrator import CalibratorModel
from calibkit.methods.vad.model import VadModel


def translate(program: Program, model: VadModel, request: Request) -> dict[str, Node]:
    """Return `calibrated`."""
    request.refuse_key(model)
    column, name = model.columns["score"], str(request.column(model, "score"))
    scale = column.measure
    if model.calibrator is None:
        score = bind_input(program, "score", name, column)
        value: Node = score
    else:
        inner = model.inner()
        assert isinstance(inner, CalibratorModel)  # the model was checked
        maker, outputs = calibrator.values(program, inner, name)
        score, first = maker.score, next(iter(outputs.values()))
        value, scale = program.bind("calibrated", first), "probability"
    link = program.bind("link", _to_link(program, value, scale, model.link))
    factor, offset = _lines(program, model)
    shrunk = program.bind("shrunk", line(factor, link, offset))
    return {"calibrated": program.result([score], _from_link(program, shrunk, scale, model.link))}


def _lines(program: Program, model: VadModel) -> tuple[Node, Node]:
    """Return factor and offset of a row's segment."""
    lines = [(max(shrinkage, 0.0), mean) for shrinkage, mean in model.lines()]
    segment = None
    if model.groups is not None:
        segment = program.segment(model.columns["by"].name, model.groups.values)
        lines = [*lines[1:], lines[0]]
    factor = program.choose("factor", segment, [factor for factor, _ in lines])
    offset = program.choose("offset", segment, [(1.0 - factor) * mean for factor, mean in lines])
    return factor, offset


def _to_link(program: Program, value: Node, scale: str, link: str) -> Node:
    if link == "identity" and scale == "logit":
        return expit(program, value)
    if link == "identity" and scale == "probability":
        return value
    return scales.link(program, value, scale)


def _from_link(program: Program, shrunk: Ref, scale: str, link: str) -> Node:
    if link == "logit":
        return expit(program, shrunk)
    return shrunk if scale == "raw" else clipped(shrunk, 0.0, 1.0)
