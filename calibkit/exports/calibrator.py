"""A calibrator as a program: the map of a row's segment, or that of its class probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from calibkit.calibrators.maps import ScoreMap
from calibkit.calibrators.method import mapped
from calibkit.calibrators.methods import METHODS
from calibkit.calibrators.model import CalibratorModel
from calibkit.exports import classes
from calibkit.exports.maps import Maker
from calibkit.exports.nodes import Code, Node, Ref, clipped
from calibkit.exports.preimages import Function, Inverse
from calibkit.exports.program import Program, Rising
from calibkit.exports.request import Request
from calibkit.exports.scales import bind_input, scores_of
from calibkit.models import Column


def translate(program: Program, model: CalibratorModel, request: Request) -> dict[str, Node]:
    """Return `calibrated`, of venn-abers with its limits; of classes `calibrated_<class>`."""
    if model.classes is not msgspec.UNSET:
        return classes.translate(program, model, request)
    request.refuse_key(model)
    name = str(request.column(model, "score"))
    made = values(program, model, name)
    rises = METHODS[model.method].load().rises
    if name not in program.available and rises is not None and all(map(rises, made.maps)):
        program.rising = _rising(model, made)
    return {column: program.result([made.score], value) for column, value in made.outputs.items()}


@dataclass(frozen=True)
class Made:
    """What a calibrator makes of a row that has a score.

    Attributes
    ----------
    score
        As the map takes it.
    maps, segment
        The map of each segment, the last one of all others; which of them is a row's.
    outputs
        The added columns.
    """

    score: Ref
    maps: tuple[ScoreMap, ...]
    segment: Ref | None
    outputs: dict[str, Node]


def values(program: Program, model: CalibratorModel, name: str) -> Made:
    """Return what a calibrator makes of the score in a column."""
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
        words = program.words(model.columns["by"].name, whole=True)
        segment = program.bind("segment", Code(words, tuple(model.groups)))
    method, maker = METHODS[model.method].load(), Maker(program, score, column, maps, segment)
    found = zip(method.added, method.program(maker), strict=True)
    outputs = {column_added: maker.clipped(value) for column_added, value in found}
    return Made(score, tuple(maps), segment, outputs)


def _rising(model: CalibratorModel, made: Made) -> Rising:
    """Return `calibrated` as functions of the score."""
    column = model.columns["score"]
    method, scale = METHODS[model.method].load(), column.scale or "probability"

    def function(one: ScoreMap) -> Function:
        return lambda scores: mapped(method, one, np.ascontiguousarray(scores), scale, 1)[0]

    scores = scores_of(column)
    inverses = [Inverse(made.score, function(one), 1.0, scores) for one in made.maps]
    return Rising(made.segment, tuple(inverses))
