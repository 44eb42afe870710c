"""A bundle as a program: its parts in turn, then the first name that fires."""

from __future__ import annotations

import msgspec

from calibkit.bundles.model import BundleModel, Step
from calibkit.exports.writing import Request
from calibkit.expressions.nodes import MISSING, Lacks, Node, Text, when
from calibkit.expressions.program import Program
from calibkit.maps.calibrator import CalibratorModel
from calibkit.maps.methods import METHODS
from calibkit.models.kinds import ACTION, KINDS, PASS


def translate(program: Program, model: BundleModel, request: Request) -> dict[str, Node]:
    """Return the columns of each part, and `action`."""
    steps = model.steps()
    model.refuse(request)
    program.bundled = True
    outputs: dict[str, Node] = {}
    for step in steps:
        outputs |= _part(program, step, step.request(request, outputs))
    action: Node = Text(PASS)
    for step in reversed(steps):
        if step.decides:
            fires = outputs[step.columns["decision"]].equals(1.0)
            action = when(fires, Text(str(step.name)), action)
    outputs[ACTION] = action
    lacks = Lacks(tuple(program.needed))
    return {name: when(lacks, MISSING, value) for name, value in outputs.items()}


def _part(program: Program, step: Step, request: Request) -> dict[str, Node]:
    """Return the columns of one part, and let the parts after it read them."""
    found = KINDS[step.model.kind].translate()(program, step.model, request)
    exact = False  # or copying numbers and plain arithmetic, the same on every machine
    if isinstance(step.model, CalibratorModel) and step.model.classes is msgspec.UNSET:
        exact = METHODS[step.model.method].exact
    made: dict[str, Node] = {}
    for own, name in step.columns.items():
        made[name] = program.available[name] = bound = program.bind("made", found[own])
        if own != "decision" and not exact:
            program.loose.add(bound.name)
    if program.rising is not None:
        program.inverses[step.columns["calibrated"]] = program.rising
        program.rising = None
    return made
