"""A calibrator as a program: the map of a row's segment, or that of its class probabilities."""

from __future__ import annotations

import msgspec
import numpy as np

from calibkit.exports import classes
from calibkit.exports.request import Request
from calibkit.expressions.nodes import Node, clipped
from calibkit.expressions.preimages import Function, Inverse
from calibkit.expressions.program import Program, Rising
from calibkit.expressions.scales import bind_input
from calibkit.maps.calibrator import CalibratorModel, ScoreMap
from calibkit.maps.formulas import Maker
from calibkit.maps.method import mapped
from calibkit.maps.methods import METHODS
from calibkit.models.model import Column


def translate(program: Program, model: CalibratorModel, request: Request) -> dict[str, Node]:
    """Return `calibrated`, of venn-abers with its limits; of classes `calibrated_<class>`."""
    if model.classes is not msgspec.UNSET:
        return classes.translate(program, model, request)
    request.refuse_key(model)
    name = str(request.column(model, "score"))
    maker, outputs = values(program, model, name)
    rises = METHODS[model.method].rises
    if name not in program.available and rises is not None and all(map(rises, maker.maps)):
        program.rising = _rising(model, maker)
    return {column: program.result([maker.score], value) for column, value in outputs.items()}


def values(program: Program, model: CalibratorModel, name: str) -> tuple[Maker, dict[str, Node]]:
    """Return what writes the map of the score in a column, and the columns that it adds."""
    column = model.columns["score"]
    if model.out_of_range == "clip":
        read = Column(column.name, column.dtype, "raw")
        raw = bind_input(program, "score", name, read)
        score = program.bind("score", clipped(raw, 0.0, 1.0))
    else:
        score = bind_input(program, "score", name, column)
    maps, segment = [model.own_map], None
    if model.groups is not msgspec.UNSET:
        maps = [*model.groups.values(), model.own_map]
        segment = program.segment(model.columns["by"].name, model.groups)
    method, maker = METHODS[model.method], Maker(program, score, column, maps, segment)
    found = zip(method.added, method.program(maker), strict=True)
    return maker, {added: maker.clipped(value) for added, value in found}


def _rising(model: CalibratorModel, maker: Maker) -> Rising:
    """Return `calibrated` as functions of the score."""
    method = METHODS[model.method]

    def function(one: ScoreMap) -> Function:
        return lambda scores: mapped(method, one, np.ascontiguousarray(scores), maker.scale, 1)[0]

    inverses = [Inverse(maker.score, function(one), 1.0, maker.scores) for one in maker.maps]
    return Rising(maker.segment, tuple(inverses))
