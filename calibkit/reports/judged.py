"""What has to be evaluated for a picture, and which curves go with an evaluation."""

from __future__ import annotations

from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.plot import CurveOptions, JudgedPlot


def judged(options: JudgedPlot) -> EvaluateOptions:
    """Return what to evaluate for a picture of metrics, whatever boundaries are drawn there.

    Raises
    ------
    UsageError
        For options that do not go together.
    """
    return options.part(EvaluateOptions, boundary=None, uncertainty=None)


def curves_of(kind: type[CurveOptions], options: EvaluateOptions) -> CurveOptions:
    """Return which curves to draw of what was evaluated."""
    boundary = () if options.boundary is None else options.boundary
    return options.part(kind, scores=options.ranked, boundary=boundary)
