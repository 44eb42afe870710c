"""How every fit is run from the command line: here, on a cluster, as states, or only as a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from calibkit.errors import UsageError
from calibkit.models.kinds import view_of
from calibkit.options.option import Options, options_of
from calibkit.runtime.threads import later, warm_up

from . import declare
from .console import Console
from .deliver import Write, applied, show_plan, write_each
from .deliver import deliver as deliver_result
from .lines import STATE, FitLine, StateLine

if TYPE_CHECKING:
    from calibkit.files.sinks import Transaction
    from calibkit.files.sources import Source
    from calibkit.models.model import Model
    from calibkit.registry.methods import Method
    from calibkit.runtime.memory import Memory
    from calibkit.summaries.runs import Fitted
    from calibkit.summaries.states import State

_STDIN = "-"


#: What messages call a model, by its kind.
_NOUNS = {"boundary": "Boundary", "calibrator": "Calibrator"}


def fit_command(text: str, options: type[Options], method: Method) -> declare.Register:
    """Return what adds the command of a fit: its help, the class of its options, and what fits it."""

    def run(asked: Any, line: FitLine) -> None:
        write = partial(write_models, asked, line)
        run_states(method, asked, line, line.console(), write, deliver)

    return declare.command(text, run, options, FitLine)


def run_states(
    made_by: Method,
    options: Any,
    line: StateLine,
    console: Console,
    write: Callable[[Console, Source, Callable[[Source], Any]], None],
    deliver: Callable[[Console, Any], None],
) -> None:
    """Do what the line of a command that has states asks for.

    `write` makes the results of a source and delivers them, `deliver` delivers that of a state.
    """
    check_paths(options, line, console)
    if line.dask is not None and not line.dry_run:
        state = state_far(made_by, options, line, console)
        deliver(console, made_by.run().finish(state, line.budget, options.workers))
        return
    method = made_by.run()
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
    for name, paths in further_files(options).items():
        if _STDIN in paths and several:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"standard input can be read once only; give {flag} a file.")


def further_files(options: Options) -> dict[str, list[str]]:
    """Return the files that options name besides the inputs, by the option."""
    known = [option.name for option in options_of(type(options)) if option.path]
    named = {name: value for name in known if (value := getattr(options, name)) is not None}
    return {
        name: [value] if isinstance(value, str) else list(value) for name, value in named.items()
    }


def _travelling(options: Any) -> Any:
    """Return options whose files are found from whatever folder a worker runs in."""
    from pathlib import Path

    from calibkit.files.paths import Named, find_files, is_remote

    absolute = {
        name: [
            path if is_remote(path) else Named(str(Path(path).absolute()), path)
            for path, _ in find_files(paths)
        ]
        for name, paths in further_files(options).items()
    }
    return replace(options, **absolute)


def state_far(made_by: Method, options: Any, line: StateLine, console: Console) -> State:
    """Return the state of all inputs, made and merged on a cluster."""
    from calibkit.engines.work import shards_of, state_on_cluster

    assert line.dask is not None
    if console.per_input:
        raise UsageError("--dask makes one result of all files; give -o a file.")
    shards = shards_of(line.inputs)
    console.show_progress()
    state = state_on_cluster(
        made_by.run,
        _travelling(options),
        shards,
        line.opening,
        line.dask,
        options.workers,
        # Rows beside those of the inputs come with each shard: the more shards, the more often.
        divide=not further_files(options),
    )
    console.aside(state.noted.lines)
    console.detail(f"{len(shards)} files, {state.rows:,} rows")
    return state


def write_models(
    options: Any,
    line: FitLine,
    console: Console,
    source: Source,
    fit: Callable[[Source], Fitted[Model]],
    further: Callable[[Any, Transaction], None] | None = None,
) -> None:
    """Fit and deliver where the command line says; several models appear together or not at all.

    `further` writes what goes beside the model of all inputs.
    """
    if not console.per_input:
        rows = copy(source)  # as its columns are before a fit reads them in its way
        fitted = fit(source)

        def write(outputs: Transaction) -> None:
            if further is not None:
                further(fitted, outputs)
            if line.apply is not None:
                _apply(fitted.model, rows, options, line.apply, line.budget, console, outputs)

        files = {} if line.apply is None else {line.apply: f"{rows.rows:,} rows"}
        deliver(console, fitted, write, files)
        return
    if console.as_json:
        raise UsageError("-o DIR/ gives several models; leave --json out.")

    def make(alone: Source) -> Write:
        fitted = fit(alone)
        model, path = fitted.model, alone.parts[0].path
        console.summary(f"{path}:", *view_of(model).lines(model), *fitted.notes)
        console.warn(*(f"{path}: {remark}" for remark in (*fitted.warnings, *_doubts(model))))
        return lambda transaction, output: transaction.write_bytes(model.to_json(), output)

    outputs = write_each(console, source, make, suffix=".json")
    console.wrote("Model" if len(outputs) == 1 else f"{len(outputs)} models", outputs)


def _apply(
    model: Model,
    source: Source,
    options: Any,
    output: str,
    memory: Memory,
    console: Console,
    outputs: Transaction,
) -> None:
    """Write the rows of a fit with the columns that its model adds, null where it dropped a row."""
    from calibkit.files.paths import directory_outputs, is_directory_output
    from calibkit.files.sinks import make_folders
    from calibkit.options.apply import ApplyOptions

    source.warnings = ()  # the fit has told of them
    sources, files = [source], [output]
    if is_directory_output(output):
        sources, files = source.split(), directory_outputs(output, source.parts)
        make_folders(files)
    asked = ApplyOptions(on_missing="null" if options.on_missing == "drop" else "error")
    for part, file in zip(sources, files, strict=True):
        try:
            made = applied(model, asked, memory, options.workers, part, console.warn)
        except UsageError as error:
            error.message = f"--apply: {error.message}"
            if "--overwrite-columns" in error.message:
                error.message += " These are options of `calibkit apply`."
            raise
        kept = part.parts[0].format if file == _STDIN else None
        outputs.write_frames(made.frames, file, format=kept, metadata=made.metadata)


def deliver(
    console: Console,
    fitted: Fitted[Model],
    beside: Callable[[Transaction], None] | None = None,
    files: Mapping[str, str] | None = None,
) -> None:
    """Say what a fit says, and write its model; further files appear with it, or nothing."""
    model = fitted.model
    console.outline(model, *fitted.notes)
    tell(console, fitted)
    console.warn(*_doubts(model))
    deliver_result(console, model, _NOUNS.get(model.kind, "Model"), beside=beside, files=files)


def _doubts(model: Model) -> Sequence[str]:
    """Return what speaks against using a model, by the view of its kind if that says it."""
    doubts = getattr(view_of(model), "doubts", None)
    return () if doubts is None else doubts(model)


def tell(console: Console, made: Any) -> None:
    """Say the warnings of a result, and its details to those who ask for them."""
    console.warn(*made.warnings)
    console.detail(*made.details)


def write_states(console: Console, source: Source, make: Callable[[Source], State]) -> None:
    """Write the state of the inputs, or (``-o DIR/``) one of each; all appear or none."""
    from calibkit.summaries.states import read_so

    rows = 0

    def write(part: Source) -> Write:
        nonlocal rows
        state = read_so(make(part), part.told, part.noted)
        rows += state.rows
        if console.output == "-":
            return lambda transaction, output: console.content(state.to_bytes())
        return lambda transaction, output: transaction.write(state.write, output)

    outputs = write_each(console, source, write, suffix=STATE)
    if console.as_json:
        console.json({"rows": rows, "states": outputs})
    console.wrote(f"State of {rows:,} rows", outputs)
