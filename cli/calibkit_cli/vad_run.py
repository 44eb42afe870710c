"""What ``calibkit vad`` does with its options: go through the rows, fit, deliver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial as with_arguments
from pathlib import Path

from calibkit.files.sources import STDIN, Source, open_source
from calibkit.memory import Memory
from calibkit.summaries.score_states import source_of
from calibkit.summaries.states import State
from calibkit.threads import later, warm_up
from calibkit.vad.fit import fit_vad
from calibkit.vad.rows import MemberOptions, member_names
from calibkit.vad.spec import VadSpec
from calibkit.vad.states import fit_state, vad_state
from calibkit.vad.summary import read_vad_rows

from .console import Console
from .dry_run import show_plan
from .each_model import Fit, write_models
from .states import write_states
from .views.vad import vad_lines


@dataclass(frozen=True, kw_only=True)
class VadRun:
    """One run of the command, its options read.

    Attributes
    ----------
    console
        Where everything is said.
    columns, spec
        What to fit, on which columns.
    train
        The file with rows like the training rows, or None.
    input_format, dtype
        How files are read.
    memory
        How much of it there is.
    provenance, tags
        What the model says of its origin.
    """

    console: Console
    columns: MemberOptions
    spec: VadSpec
    train: str | None
    input_format: str | None
    dtype: str
    memory: Memory
    provenance: str
    tags: dict[str, str]

    @property
    def threads(self) -> int:
        """How many threads to use."""
        return self.spec.threads

    def start(self, source: Source, *, dry_run: bool, partial: bool) -> None:
        """Fit one model on all inputs or (``-o DIR/``) one on each, or write their states."""
        if dry_run:
            self._show_plan(source)
            return
        later(self.spec.threads, warm_up)
        if partial:
            write_states(self.console, source, self.state_maker(self.memory))
            return
        train = self._train_opener()
        opened = None if train is None else train()
        write_models(self.console, source, lambda part: self._fit(part, opened), "Model")

    def state_maker(self, memory: Memory) -> Callable[[Source], State]:
        """Return what makes the state of a source, here or on another machine."""
        return with_arguments(
            vad_state,
            columns=self.columns,
            spec=self.spec,
            train=self._train_opener(absolute=True),
            memory=memory,
            provenance=self.provenance,
            tags=self.tags,
        )

    def _train_opener(self, *, absolute: bool = False) -> Callable[[], Source] | None:
        if self.train is None:
            return None
        named = str(Path(self.train).absolute()) if absolute and self.train != STDIN else self.train
        return with_arguments(
            open_source,
            [named],
            input_format=self.input_format,
            dtype=self.dtype,
            memory=self.memory,
        )

    def _fit(self, part: Source, train: Source | None) -> Fit:
        rows = read_vad_rows(part, self.columns, self.spec, train, memory=self.memory)
        self.console.detail(f"{rows.test.rows:,} rows used of {rows.test.rows_read:,} read")
        made = fit_vad(rows, self.spec, provenance=self.provenance, tags=self.tags)
        told = (*rows.test.told(), *(rows.train.told() if rows.train else ()), *made.warnings)
        return Fit(made.model, tuple(dict.fromkeys(told)), vad_lines(made.model))

    def _show_plan(self, source: Source) -> None:
        """Print what the run would do."""
        columns, names = self.columns, member_names(source, self.columns)
        roles = {f"member {place}": name for place, name in enumerate(names, start=1)}
        beside = {"calibrated": columns.calibrated, "by": columns.by, "weight": columns.weight}
        roles |= {role: name for role, name in beside.items() if name is not None}
        show_plan(self.console, source, roles, self.spec.steps(len(names)))


def finish_state(console: Console, state: State, memory: Memory, threads: int) -> None:
    """Fit on the rows of a state, and deliver."""

    def fit(_: Source) -> Fit:
        made = fit_state(state)
        return Fit(made.model, made.warnings, vad_lines(made.model))

    write_models(console, source_of(state), fit, "Model")
