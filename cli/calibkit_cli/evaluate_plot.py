"""What ``evaluate --plot`` draws: the picture that goes with what was evaluated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from calibkit.errors import UsageError

if TYPE_CHECKING:
    from calibkit.files.sources import Source
    from calibkit.metrics.evaluate import Evaluated
    from calibkit.metrics.spec import EvaluateSpec


def check_plot(output: str) -> None:
    """Raise before any work if a picture cannot be drawn or written.

    Raises
    ------
    UsageError
        For a name that is no picture's, a folder that does not exist, standard output; without
        matplotlib.
    """
    from calibkit.files.outputs import check_output
    from calibkit.report.style import need_matplotlib

    if output == "-":
        raise UsageError("--plot - would mix with the metrics; give it a file.")
    if not output.lower().endswith((".svg", ".png")):
        raise UsageError(f"--plot {output}: a picture is .svg or .png.", file=output)
    check_output(output)
    need_matplotlib()


def plot_of(source: Source, spec: EvaluateSpec, found: Evaluated, output: str) -> bytes:
    """Return the picture of an evaluation, over all rows.

    A reliability diagram; of votes that of the predicted disagreement; of raw scores the ROC curve.
    """
    from calibkit.options.plot import RocOptions
    from calibkit.report import disagreement, plots, reliability
    from calibkit.report.judged import curves_of

    if spec.settings.scale == "raw" and not spec.probs:
        shown = plots.points(source, curves_of(RocOptions, spec))
    else:
        whole = found.curves
        if whole is not None:
            whole = whole.filter(whole["slice"] == "all")
        kind = disagreement if spec.votes is not None else reliability
        shown = kind.of_evaluated(replace(found, curves=whole), spec)
    return plots.picture(shown, format=output.lower()[-3:])
