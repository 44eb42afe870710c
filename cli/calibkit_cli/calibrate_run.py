"""What ``calibkit calibrate`` does with its options: read, fit, deliver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .console import Console
from .dry_run import show_plan
from .each_model import Fit, write_models
from .views.calibrator import calibrator_lines

if TYPE_CHECKING:
    from calibkit.calibrators.spec import CalibratorSpec
    from calibkit.columns import ColumnOptions
    from calibkit.sources import Source


@dataclass(frozen=True)
class CalibrateRun:
    """One run of the command."""

    console: Console
    spec: CalibratorSpec
    columns: ColumnOptions
    provenance: str
    tags: dict[str, str]

    def show_plan(self, source: Source) -> None:
        """Print what the run would do."""
        from calibkit.calibrators.rows import used_columns

        self.spec.check_scale(self.columns.scale)
        columns = used_columns(source, self.columns, self.spec)
        show_plan(self.console, source, columns, self.spec.steps())

    def fit(self, source: Source) -> None:
        """Fit one calibrator on all inputs, or (``-o DIR/``) one on each."""
        write_models(self.console, source, self._fit, "Calibrator")

    def _fit(self, source: Source) -> Fit:
        from calibkit.calibrators.fit import fit_calibrator
        from calibkit.calibrators.rows import read_calibration_rows
        from calibkit.threads import later, warm_up

        later(self.spec.threads, warm_up)
        rows = read_calibration_rows(source, self.columns, self.spec)
        self.console.detail(f"{rows.score.size:,} rows used of {rows.rows_read:,} read")
        made = fit_calibrator(rows, self.spec, provenance=self.provenance, tags=self.tags)
        return Fit(made.model, (*rows.warnings, *made.warnings), calibrator_lines(made.model))
