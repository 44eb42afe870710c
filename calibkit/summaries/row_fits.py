"""Fits that need their rows: of a source, or of a state that holds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from calibkit.files.sources import Source
from calibkit.models.lineage import name_makers
from calibkit.models.model import Model
from calibkit.options.option import from_plain
from calibkit.options.shared import FitOptions
from calibkit.summaries.row_states import makers_of, problem_of, sources_of
from calibkit.summaries.runs import Fitted
from calibkit.summaries.states import State

O = TypeVar("O", bound=FitOptions)  # noqa: E741 (options)
M = TypeVar("M", bound=Model)


def options_of(state: State, kind: type[O], threads: int | None = None) -> O:
    """Return what is to be fitted on a state; raises `ModelError` where it does not say it."""
    return from_plain(problem_of(state), kind, state.path, threads=threads)


def finished(
    state: State, options: O, fit: Callable[[O, Source, Source | None], Fitted[M]]
) -> Fitted[M]:
    """Return what a fit makes of the rows of a merged state, and of its training rows."""
    fitted = fit(options, *sources_of(state))
    name_makers(fitted.model, makers_of(state), state.header.text)
    return fitted
