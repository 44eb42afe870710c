"""How every fit is run from the command line: here, on a cluster, as states, or only as a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import typer

from calibkit.errors import UsageError
from calibkit.options.option import Options, entries

from . import declare
from .console import Console
from .dry_run import show_plan
from .lines import STATE, StateLine

if TYPE_CHECKING:
    import polars as pl

    from calibkit.files.sources import Source
    from calibkit.models.model import Model
    from calibkit.summaries.runs import Fit, Fitted, Run
    from calibkit.summaries.states import State

_STDIN = "-"


class Told(Protocol):
    """A result of which something is to be said."""

    @property
    def warnings(self) -> Sequence[str]:
        """What the user has to be told."""

    @property
    def details(self) -> Sequence[str]:
        """What is said to those who ask for more."""


#: What messages call a model, by its kind.
_NOUNS = {"boundary": "Boundary", "calibrator": "Calibrator"}


def add_fit(
    app: typer.Typer,
    name: str,
    text: str,
    options: type[Options],
    method: Callable[[], Fit[Any, Model]],
) -> None:
    """Add the command of a fit.

    Parameters
    ----------
    app, name, text
        See `declare.add`.
    options
        The class of what is fitted.
    method
        Loads what fits it; `run` of an entry in `calibkit.registry.methods`.
    """

    def run(asked: Any, line: StateLine) -> None:
        run_fit(method, asked, line)

    declare.add(app, name, text, run, options, StateLine)


def run_fit(method: Callable[[], Fit[Any, Model]], options: Any, line: StateLine) -> None:
    """Do what the line asks for: models are what is written."""
    run_states(method, options, line, line.console(), write_models, deliver)


def run_states(
    load: Callable[[], Run[Any, Any]],
    options: Any,
    line: StateLine,
    console: Console,
    write: Callable[[Console, Source, Callable[[Source], Any]], None],
    deliver: Callable[[Console, Any], None],
) -> None:
    """Do what the line of a command that has states asks for.

    Parameters
    ----------
    load
        Loads what makes the result: `run` of an entry in `calibkit.registry.methods`.
    options, line, console
        How it is made, the rest of the line, and its voice.
    write
        Makes the results of a source, and delivers them.
    deliver
        Delivers the result of a state.
    """
    from calibkit.runtime.threads import later, warm_up

    check_paths(options, line, console)
    if line.dask is not None and not line.dry_run:
        state = state_far(load, options, line, console)
        deliver(console, load().finish(state, line.budget, options.workers))
        return
    method = load()
    source = line.open(console)
    if line.dry_run:
        plan = method.plan(options, source)
        show_plan(console, source, plan.columns, [*plan.steps, *line.steps])
        return
    later(options.workers, warm_up)
    if line.partial:
        write_states(console, source, partial(method.state, options))
        return
    write(console, source, partial(method.fit, options))


def check_paths(options: Options, line: StateLine, console: Console) -> None:
    """Refuse standard input that would be read twice."""
    # What goes into a state of rows is read more than once.
    again = line.partial and getattr(options, "of_rows", False)
    several = console.per_input or line.dask is not None or again or _STDIN in line.inputs
    for flag, paths in further_files(options).items():
        if _STDIN in paths and several:
            raise UsageError(f"standard input can be read once only; give {flag} a file.")


def further_files(options: Options) -> dict[str, list[str]]:
    """Return the files that options name besides the inputs, by the flag of each."""
    named = {
        entry.flag: getattr(options, entry.name)
        for entry in entries(type(options))
        if entry.option.path
    }
    return {
        flag: [value] if isinstance(value, str) else list(value)
        for flag, value in named.items()
        if value is not None
    }


def _travelling(options: Any) -> Any:
    """Return options whose files are found from whatever folder a worker runs in."""
    from pathlib import Path

    from calibkit.files.inputs import Named, find_files, is_remote

    absolute = {}
    for entry in entries(type(options)):
        value = getattr(options, entry.name)
        if entry.option.path and value is not None:
            names = [value] if isinstance(value, str) else list(value)
            absolute[entry.name] = [
                path if is_remote(path) else Named(str(Path(path).absolute()), path)
                for path, _ in find_files(names)
            ]
    return replace(options, **absolute) if absolute else options


def state_far(
    load: Callable[[], Run[Any, Any]], options: Any, line: StateLine, console: Console
) -> State:
    """Return the state of all inputs, made and merged on a cluster."""
    from calibkit.engines.work import Opening, shards_of, state_on_cluster

    assert line.dask is not None
    if console.per_input:
        raise UsageError("--dask makes one result of all files; give -o a file.")
    shards = shards_of(line.inputs)
    state = state_on_cluster(
        load,
        _travelling(options),
        shards,
        Opening(line.input_format, line.dtype, line.budget, line.dialect),
        line.dask,
        options.workers,
        console.progress(),
        # Rows beside those of the inputs come with each shard: the more shards, the more often.
        divide=not further_files(options),
    )
    console.detail(f"{len(shards)} files, {state.rows:,} rows")
    return state


def write_models(console: Console, source: Source, fit: Callable[[Source], Fitted[Model]]) -> None:
    """Fit and deliver where the command line says; several models appear together or not at all."""
    if not console.per_input:
        deliver(console, fit(source))
        return
    from calibkit.files.outputs import directory_outputs
    from calibkit.files.sinks import Transaction, make_folders
    from calibkit.models.kinds import view_of

    if console.as_json:
        raise UsageError("-o DIR/ gives several models; leave --json out.")
    outputs = directory_outputs(str(console.output), source.parts, suffix=".json")
    with Transaction() as transaction:
        for alone, output in zip(source.split(), outputs, strict=True):
            fitted = fit(alone)
            path = alone.parts[0].path
            console.summary(f"{path}:", *view_of(fitted.model).lines(fitted.model), *fitted.notes)
            for remark in (*fitted.warnings, *_doubts(fitted.model)):
                console.warn(f"{path}: {remark}")
            make_folders([output])
            transaction.write_bytes(fitted.model.to_json(), output)
    console.wrote("Model" if len(outputs) == 1 else f"{len(outputs)} models", outputs)


def deliver(
    console: Console, fitted: Fitted[Model], tables: Mapping[str, pl.DataFrame] | None = None
) -> None:
    """Say what a fit says, and write its model; tables for further files appear with it, or nothing."""
    from calibkit.files.sinks import Transaction
    from calibkit.models.kinds import view_of

    model = fitted.model
    if console.output is not None or not console.on_terminal:
        console.summary(*view_of(model).lines(model), *fitted.notes)
    tell(console, fitted)
    for remark in _doubts(model):
        console.warn(remark)
    with Transaction() as outputs:
        for path, table in (tables or {}).items():
            outputs.write_frames([table], path)
        if console.output not in (None, "-"):
            outputs.write_bytes(model.to_json(), str(console.output))
    console.show_model(model.to_json(), lambda: console.show(model))
    console.wrote(_NOUNS.get(model.kind, "Model"))


def _doubts(model: Model) -> Sequence[str]:
    """Return what speaks against using a model, by the view of its kind if that says it."""
    from calibkit.models.kinds import view_of

    doubts = getattr(view_of(model), "doubts", None)
    return () if doubts is None else doubts(model)


def tell(console: Console, made: Told) -> None:
    """Say the warnings of a result, and its details to those who ask for them."""
    for remark in made.warnings:
        console.warn(remark)
    console.detail(*made.details)


def write_states(console: Console, source: Source, make: Callable[[Source], State]) -> None:
    """Write the state of the inputs, or (``-o DIR/``) one of each; all appear or none."""
    from calibkit.files.outputs import directory_outputs
    from calibkit.files.sinks import Transaction, make_folders
    from calibkit.summaries.states import read_so

    assert console.output is not None
    parts: Sequence[Source] = [source]
    outputs = [console.output]
    if console.per_input:
        parts = source.split()
        outputs = directory_outputs(console.output, source.parts, suffix=STATE)
    rows = 0
    with Transaction() as transaction:
        for part, output in zip(parts, outputs, strict=True):
            state = read_so(make(part), part.told)
            rows += state.rows
            if output == "-":
                console.content(state.to_bytes())
                continue
            if console.per_input:
                make_folders([output])
            transaction.write(state.write, output)
    if console.as_json:
        console.json({"rows": rows, "states": outputs})
    console.wrote(f"State of {rows:,} rows", outputs)
