"""What ``calibkit alpha-cal`` does with its options: read, fit, deliver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial as with_arguments

from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.memory import Memory
from calibkit.raters.alpha_cal import AlphaSpec, feature_names, fit_alpha
from calibkit.raters.model import AlphaModel
from calibkit.raters.rows import RaterOptions
from calibkit.raters.states import AlphaProblem, alpha_state, fit_alpha_state
from calibkit.raters.stored import StoredRows, read_rater_rows
from calibkit.summaries.score_states import source_of
from calibkit.summaries.states import State

from .console import Console
from .dry_run import show_plan
from .each_model import Fit, write_models
from .rater_columns import rater_columns
from .states import write_states
from .views.alpha import alpha_lines


@dataclass(frozen=True, kw_only=True)
class AlphaRun:
    """One run of the command, its options read.

    Attributes
    ----------
    console
        Where everything is said.
    columns, features, spec
        The columns, patterns of the features, and what to fit.
    memory
        How much of it there is.
    provenance, tags
        What the model says of its origin.
    """

    console: Console
    columns: RaterOptions
    features: list[str]
    spec: AlphaSpec
    memory: Memory
    provenance: str
    tags: dict[str, str]

    of_rows = True

    @property
    def threads(self) -> int:
        """How many threads to use."""
        return self.spec.threads

    def start(self, source: Source, *, dry_run: bool, partial: bool) -> None:
        """Do what the command line asks for."""
        if partial and not dry_run:
            write_states(self.console, source, self.state_maker(self.memory))
            return
        found = feature_names(source, self.features)
        others = tuple(found) if isinstance(found, list) else ()
        columns, spec = replace(self.columns, others=others), replace(self.spec, features=found)
        named = rater_columns(source, columns)
        if dry_run:
            show_plan(self.console, source, named, spec.steps())
            return

        def fit(part: Source) -> Fit:
            rows = read_rater_rows(part, columns, self.memory)
            made = fit_alpha(rows, spec, provenance=self.provenance, tags=self.tags)
            return _fit(made, rows)

        write_models(self.console, source, fit, "Model")

    def state_maker(self, memory: Memory) -> Callable[[Source], State]:
        """Return what makes the state of a source, here or on another machine."""
        problem = AlphaProblem(
            columns=self.columns, spec=self.spec, provenance=self.provenance, tags=self.tags
        )
        patterns = tuple(self.features)
        return with_arguments(alpha_state, problem=problem, patterns=patterns, memory=memory)


def finish_state(console: Console, state: State, memory: Memory, threads: int) -> None:
    """Fit on the rows of a state, and deliver."""

    def fit(_: Source) -> Fit:
        return _fit(*fit_alpha_state(state, memory, threads))

    write_models(console, source_of(state), fit, "Model")


def _fit(made: Fitted[AlphaModel], rows: StoredRows) -> Fit:
    return Fit(made.model, (*rows.warnings, *made.warnings), alpha_lines(made.model))
