"""``calibkit calibrate --probs``: maps of class probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial as with_arguments
from typing import TYPE_CHECKING

from calibkit.calibrators.classes import (
    ClassSpec,
    fit_class_calibrator,
    refuse_score_options,
)
from calibkit.calibrators.model import CalibratorModel
from calibkit.errors import UsageError
from calibkit.fitted import Fitted
from calibkit.raters.rows import RaterOptions
from calibkit.raters.states import ClassProblem, fit_class_state, rater_state
from calibkit.raters.stored import StoredRows, read_rater_rows
from calibkit.summaries.score_states import source_of

from . import typed
from .dry_run import show_plan
from .each_model import Fit, write_models
from .rater_columns import rater_columns
from .states import write_states
from .views.calibrator import calibrator_lines

if TYPE_CHECKING:
    from calibkit.files.sources import Source
    from calibkit.memory import Memory
    from calibkit.summaries.states import State

    from .console import Console


def class_options(
    *,
    method: str | None,
    regularization: str | None,
    probs: list[str] | None,
    counts: str | None,
    label: str,
    scale: str,
    on_missing: str,
    unlabelled: str,
    seed: int,
    refused: Mapping[str, object],
) -> tuple[ClassSpec, RaterOptions]:
    """Return what options say of a fit on class probabilities; `refused` are those of scores."""
    refuse_score_options(refused)
    patterns = typed.listed(probs) or ["prob_*"]
    if len(patterns) > 1:
        raise UsageError("calibrate fits one predictor: give --probs one pattern.")
    spec = ClassSpec(
        method=method or "temperature",
        regularization=typed.penalties(regularization or "cv", "--regularization"),
        scale=scale,
        seed=seed,
    )
    columns = RaterOptions(
        probs=tuple(patterns),
        counts=counts,
        label=label,
        scale=scale,
        logits=True,
        on_missing=on_missing,
        unlabelled=unlabelled,
    )
    return spec, columns


@dataclass(frozen=True)
class ClassRun:
    """One run of the command with class probabilities; see `calibrate_run.CalibrateRun`."""

    console: Console
    spec: ClassSpec
    columns: RaterOptions
    provenance: str
    tags: dict[str, str]
    memory: Memory
    threads: int

    of_rows = True

    def start(self, source: Source, *, dry_run: bool, partial: bool) -> None:
        """Do what the command line asks for."""
        named = rater_columns(source, self.columns)
        if dry_run:
            show_plan(self.console, source, named, self.spec.steps())
            return
        if partial:
            write_states(self.console, source, self.state_maker(self.memory))
            return

        def fit(part: Source) -> Fit:
            rows = read_rater_rows(part, self.columns, self.memory)
            made = fit_class_calibrator(rows, self.spec, provenance=self.provenance, tags=self.tags)
            return _fit(made, rows)

        write_models(self.console, source, fit, "Calibrator")

    def state_maker(self, memory: Memory) -> Callable[[Source], State]:
        """Return what makes the state of a source, here or on another machine."""
        problem = ClassProblem(
            columns=self.columns, spec=self.spec, provenance=self.provenance, tags=self.tags
        )
        return with_arguments(rater_state, problem=problem, memory=memory)


def finish_state(console: Console, state: State, memory: Memory, threads: int) -> None:
    """Fit on the rows of a state, and deliver."""

    def fit(_: Source) -> Fit:
        return _fit(*fit_class_state(state, memory))

    write_models(console, source_of(state), fit, "Calibrator")


def _fit(made: Fitted[CalibratorModel], rows: StoredRows) -> Fit:
    return Fit(made.model, (*rows.warnings, *made.warnings), calibrator_lines(made.model))
