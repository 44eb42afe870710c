"""What makes a program of each kind of model that can stand alone or in a bundle; loaded when used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from calibkit.exports.request import Request
from calibkit.expressions.nodes import Node
from calibkit.expressions.program import Program

if TYPE_CHECKING:
    from calibkit.maps.calibrator import CalibratorModel
    from calibkit.methods.boundary.result.model import BoundaryModel
    from calibkit.methods.hetcal.model import HetcalModel
    from calibkit.methods.raters.model import AlphaModel
    from calibkit.methods.vad.model import VadModel

#: Returns the columns that a model adds, as nodes of a program.
Translate = Callable[[Program, Any, Request], dict[str, Node]]


def alpha(program: Program, model: AlphaModel, request: Request) -> dict[str, Node]:
    """Return the columns of ``alpha-cal``."""
    from calibkit.exports.alpha import translate

    return translate(program, model, request)


def boundary(program: Program, model: BoundaryModel, request: Request) -> dict[str, Node]:
    """Return the columns of ``boundary``."""
    from calibkit.exports.boundary import translate

    return translate(program, model, request)


def calibrator(program: Program, model: CalibratorModel, request: Request) -> dict[str, Node]:
    """Return the columns of ``calibrate``."""
    from calibkit.exports.calibrator import translate

    return translate(program, model, request)


def hetcal(program: Program, model: HetcalModel, request: Request) -> dict[str, Node]:
    """Return the columns of ``hetcal``."""
    from calibkit.exports.hetcal import translate

    return translate(program, model, request)


def vad(program: Program, model: VadModel, request: Request) -> dict[str, Node]:
    """Return the columns of ``vad``."""
    from calibkit.exports.vad import translate

    return translate(program, model, request)


#: By kind.
PARTS: Final[Mapping[str, Translate]] = {
    "alpha": alpha,
    "boundary": boundary,
    "calibrator": calibrator,
    "hetcal": hetcal,
    "vad": vad,
}
