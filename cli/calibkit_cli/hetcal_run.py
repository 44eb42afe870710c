"""What ``calibkit hetcal`` does with its options: read, fit, deliver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial as with_arguments
from pathlib import Path

from calibkit.errors import UsageError
from calibkit.files.inputs import find_files
from calibkit.files.outputs import spare_inputs
from calibkit.files.remote import is_remote
from calibkit.files.sources import STDIN, Source, open_files, open_source
from calibkit.hetcal.run import TRAIN_IGNORED, Run, feature_columns, fit_source
from calibkit.hetcal.spec import DEPTHS, LEAF_SIZES, SHRINKAGES, HetcalSpec
from calibkit.hetcal.states import HetcalProblem, fit_state, hetcal_state
from calibkit.makers import record_makers
from calibkit.memory import Memory
from calibkit.rows.columns import ColumnOptions, resolve
from calibkit.summaries.states import State
from calibkit.threads import later, warm_up

from .console import Console
from .dry_run import show_plan, used_columns
from .states import write_states
from .views.hetcal import hetcal_lines, view


@dataclass(frozen=True, kw_only=True)
class HetcalRun:
    """One run of the command, its options read.

    Attributes
    ----------
    console
        Where everything is said.
    spec, columns, features
        What to fit, on which columns.
    train
        The inputs to grow the partition on; none: the calibration rows.
    input_format, dtype
        How inputs are read.
    memory
        How much of it there is.
    provenance, tags
        What the model says of its origin.
    """

    console: Console
    spec: HetcalSpec
    columns: ColumnOptions
    features: list[str]
    train: list[str]
    input_format: str | None
    dtype: str
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
        if dry_run:
            self.show_plan(source)
        elif partial:
            write_states(self.console, source, self.state_maker(self.memory))
        else:
            self.fit(source)

    def state_maker(self, memory: Memory) -> Callable[[Source], State]:
        """Return what makes the state of a source, here or on another machine."""
        problem = HetcalProblem(
            columns=self.columns,
            features=tuple(self.features),
            spec=self.spec,
            provenance=self.provenance,
            tags=self.tags,
        )
        return with_arguments(
            hetcal_state, problem=problem, memory=memory, train=self._train_opener(memory)
        )

    def _train_opener(self, memory: Memory) -> Callable[[], Source] | None:
        """Return what opens the training rows, from whatever folder a worker runs in."""
        if self.train and self.spec.partition == "boosted":
            self.console.warn(TRAIN_IGNORED)
        if not self.train or self.spec.partition == "boosted":
            return None
        files = find_files(self.train)
        if any(path == STDIN for path, _ in files):
            raise UsageError("the training rows are read more than once here: give --train a file.")
        return with_arguments(
            open_files,
            [(path if is_remote(path) else str(Path(path).absolute()), own) for path, own in files],
            input_format=self.input_format,
            dtype=self.dtype,
            memory=memory,
            names=[path for path, _ in files],
        )

    def show_plan(self, source: Source) -> None:
        """Print what the run would do."""
        spec = self.spec
        resolved = resolve(source, self.columns, label=True, uncertainty=False)
        columns = used_columns(resolved, label=True)
        names = feature_columns(source, self.features, self.columns, spec)
        for place, name in enumerate(names, 1):
            columns[f"feature {place}"] = name
        chosen = [
            f"{name} from {', '.join(f'{value:g}' for value in values)}"
            for name, value, values in (
                ("depth", spec.max_depth, DEPTHS),
                ("leaf size", spec.min_leaf, LEAF_SIZES),
                ("shrinkage", spec.shrinkage, SHRINKAGES),
            )
            if value is None and spec.partition == "tree"
        ]
        grown = ", ".join(self.train) or "the same rows"
        steps = [
            f"grow a {spec.partition} partition on {grown}, and fit a {spec.map} map to each leaf"
        ]
        if chosen:
            steps.append(f"choose by cross-validation {'; '.join(chosen)}")
        show_plan(self.console, source, columns, steps)

    def fit(self, source: Source) -> None:
        """Fit one model on all inputs."""
        console = self.console
        stdin = any(part.path == STDIN for part in source.parts)
        if stdin and STDIN in self.train:
            raise UsageError("standard input can be read once only; give --train a file.")
        train = None
        if self.train:
            train = open_source(
                self.train, input_format=self.input_format, dtype=self.dtype, memory=self.memory
            )
        for one in (source, train):
            if one is not None and console.output not in (None, "-"):
                spare_inputs(console.output, one.parts)
        later(self.spec.threads, warm_up)
        run = fit_source(
            source,
            train,
            self.columns,
            self.features,
            self.spec,
            provenance=self.provenance,
            tags=self.tags,
            memory=self.memory,
        )
        record_makers(run.fitted.model, source)
        deliver(console, run)


def finish_state(console: Console, state: State, memory: Memory, threads: int) -> None:
    """Fit on the rows of a state, and deliver."""
    later(threads, warm_up)
    deliver(console, fit_state(state, memory, threads))


def deliver(console: Console, run: Run) -> None:
    """Say what a fit says, and write its model."""
    model = run.fitted.model
    for remark in run.warnings:
        console.warn(remark)
    for remark in run.details:
        console.detail(remark)
    if console.output is not None or not console.on_terminal:
        console.summary(*hetcal_lines(model))
    console.model(model.to_json(), lambda: view(model, console))
    console.wrote("Model")
