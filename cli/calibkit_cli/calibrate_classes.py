"""``calibkit calibrate --probs``: maps of class probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibkit.calibrators.classes import ClassSpec, fit_class_calibrator
from calibkit.errors import UsageError
from calibkit.raters.rows import RaterOptions, read_rater_rows

from .dry_run import show_plan
from .each_model import Fit, write_models
from .rater_columns import rater_columns
from .views.calibrator import calibrator_lines

if TYPE_CHECKING:
    from calibkit.sources import Source

    from .console import Console


def run(
    console: Console,
    source: Source,
    spec: ClassSpec,
    columns: RaterOptions,
    provenance: str,
    tags: dict[str, str],
    dry_run: bool,
) -> None:
    """Fit a calibrator of class probabilities and deliver it, or say what would be done."""
    if len(columns.probs) > 1:
        raise UsageError("calibrate fits one predictor: give --probs one pattern.")
    if dry_run:
        show_plan(console, source, rater_columns(source, columns), spec.steps())
        return

    def fit(part: Source) -> Fit:
        rows = read_rater_rows(part, columns)
        made = fit_class_calibrator(rows, spec, provenance=provenance, tags=tags)
        return Fit(made.model, (*rows.warnings, *made.warnings), calibrator_lines(made.model))

    write_models(console, source, fit, "Calibrator")
