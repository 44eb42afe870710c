"""How commands run on rows (here, on a cluster, as states, as a plan), and where results go.

Results are one of all inputs or, with ``-o DIR/``, one of each: all of them are written, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import typer
from msgspec import Struct

from calibkit.errors import UsageError
from calibkit.models.kinds import doubts_of, view_of
from calibkit.models.page import some_of
from calibkit.options.option import Options, options_of
from calibkit.registry import methods
from calibkit.runtime.progress import Count
from calibkit.runtime.threads import later, warm_up

from . import declare
from .console import SHOWN_ROWS, Console
from .lines import STATE, FitLine, StateLine

if TYPE_CHECKING:
    import polars as pl

    from calibkit.files.sinks import Transaction
    from calibkit.files.sources import Source
    from calibkit.methods.boundary.run import Inputs
    from calibkit.models.model import Model
    from calibkit.models.page import Page
    from calibkit.options.apply import ApplyOptions
    from calibkit.runtime.memory import Memory
    from calibkit.summaries.states import Fitted, Run, State

_STDIN = "-"

#: What messages call a model, by its kind.
_NOUNS = {"boundary": "Boundary", "calibrator": "Calibrator"}


#: What the command of a fit asks for: a class of options by its module.
_OPTIONS = {
    "alpha-cal": ("calibkit.options.alpha_cal", "AlphaOptions"),
    "calibrate": ("calibkit.options.calibrate", "CalibrateOptions"),
    "hetcal": ("calibkit.options.hetcal", "HetcalOptions"),
    "vad": ("calibkit.options.vad", "VadOptions"),
}


def _add(app: typer.Typer, name: str) -> None:
    """Add the command of a fit that has nothing but its options."""

    def run(asked: Any, line: FitLine) -> None:
        write = partial(write_models, asked, line)
        run_states(name, asked, line, line.part(Console), write, deliver_model)

    declare.add(app, name, run, methods.loaded(*_OPTIONS[name]), FitLine)


alpha_cal = calibrate = hetcal = vad = _add


def run_states(
    name: str,
    options: Any,
    line: StateLine,
    console: Console,
    write: Callable[[Console, Source, Callable[[Source], Any]], None],
    deliver: Callable[[Console, Any], None],
) -> None:
    """Do what the line of a command that has states asks for; `name` is that of its method.

    `write` makes the results of a source and delivers them, `deliver` delivers that of a state.
    """
    check_paths(options, line, console)
    if console.per_input and console.as_json and not (line.partial or console.tabular):
        raise UsageError("-o DIR/ gives several results; leave --json out.")
    load = partial(methods.run, name)
    if line.dask is not None and not line.dry_run:
        state = _state_far(load, options, line, console)
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
    several = console.per_input or line.dask is not None or again
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
    from calibkit.files.paths import find_files

    absolute = {
        name: [path.from_anywhere() for path in find_files(paths)]
        for name, paths in further_files(options).items()
    }
    return replace(options, **absolute)


def _state_far(
    load: Callable[[], Run[Any, Any]], options: Any, line: StateLine, console: Console
) -> State:
    """Return the state of all inputs, made and merged on a cluster."""
    from calibkit.engines.work import ShardOpening, shards_of, state_on_cluster

    assert line.dask is not None
    if console.per_input:
        raise UsageError("--dask makes one result of all files; give -o a file.")
    shards = shards_of(line.inputs)
    console.show_progress()
    state = state_on_cluster(
        load,
        _travelling(options),
        shards,
        line.opening(ShardOpening),
        line.dask,
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

        def write(_: Model, outputs: Transaction) -> None:
            if further is not None:
                further(fitted, outputs)
            if line.apply is not None:
                _apply(fitted.model, rows, options, line, console, outputs)

        files = {} if line.apply is None else {line.apply: f"{rows.rows:,} rows"}
        deliver_model(console, fitted, write, files)
        return

    def make(alone: Source) -> Write:
        fitted = fit(alone)
        model, path = fitted.model, alone.file
        console.summary(f"{path}:", *view_of(model).lines(model), *fitted.notes)
        console.warn(*(f"{path}: {remark}" for remark in (*fitted.warnings, *doubts_of(model))))
        return lambda transaction, output: transaction.write_bytes(model.to_json(), output)

    outputs = write_each(console, source, make, suffix=".json")
    console.wrote("Model" if len(outputs) == 1 else f"{len(outputs)} models", outputs)


def _apply(
    model: Model,
    source: Source,
    options: Any,
    line: FitLine,
    console: Console,
    outputs: Transaction,
) -> None:
    """Write the rows of a fit with the columns that its model adds, null where it dropped a row."""
    from calibkit.files.paths import directory_outputs, is_directory_output
    from calibkit.options.apply import ApplyOptions

    asked = ApplyOptions(on_missing="null" if options.on_missing == "drop" else "error")
    if line.keeps_text(line.apply):
        source = source.typed(read_by(model, asked))
    source.warnings = ()  # the fit has told of them
    sources, files = [source], [str(line.apply)]
    if is_directory_output(files[0]):
        sources, files = source.split(), directory_outputs(files[0], source.parts)
        outputs.make_folders(files)
    for part, file in zip(sources, files, strict=True):
        try:
            made = applied(model, asked, line.budget, options.workers, part, console.warn)
        except UsageError as error:
            error.message = f"--apply: {error.message}"
            if "--overwrite-columns" in error.message:
                error.message += " These are options of `calibkit apply`."
            raise
        kept = part.parts[0].format if file == _STDIN else None
        outputs.write_frames(made.frames, file, format=kept, metadata=made.metadata)


def deliver_model(
    console: Console,
    fitted: Fitted[Model],
    beside: Callable[[Any, Transaction], None] | None = None,
    files: Mapping[str, str] | None = None,
) -> None:
    """Say what a fit says, and write its model; further files appear with it, or nothing."""
    model = fitted.model
    console.outline(model, *fitted.notes)
    tell(console, fitted)
    console.warn(*doubts_of(model))
    deliver(console, model, _NOUNS.get(model.kind, "Model"), beside=beside, files=files)


def tell(console: Console, made: Fitted[Model] | Inputs) -> None:
    """Say the warnings of a result, and its details to those who ask for them."""
    console.warn(*made.warnings)
    console.detail(*made.details)


def write_states(console: Console, source: Source, make: Callable[[Source], State]) -> None:
    """Write the state of the inputs, or (``-o DIR/``) one of each; all appear or none."""
    rows = 0

    def write(part: Source) -> Write:
        nonlocal rows
        state = make(part)
        rows += state.rows
        if console.output == "-":
            return lambda transaction, output: console.content(state.to_bytes())
        return lambda transaction, output: transaction.write(state.write, output)

    outputs = write_each(console, source, write, suffix=STATE)
    if console.as_json:
        console.json({"rows": rows, "states": outputs})
    console.wrote(f"State of {rows:,} rows", outputs)


# Where results go --------------------------------------------------------------------------------

#: How many rows of the input, and of its files, ``--dry-run`` shows.
HEAD = 5

#: Writes a result as an output of a transaction.
Write = Callable[["Transaction", str], None]

#: Says warnings.
Tell = Callable[..., None]


class Rows(Struct, frozen=True):
    """A result that is rows."""

    frames: Iterable[pl.DataFrame]
    added: Sequence[str]  # which of their columns the command added
    metadata: dict[str, str] = {}  # for the footer of a Parquet file


def read_by(model: Model, options: ApplyOptions) -> tuple[str, ...]:
    """Return the columns that a model reads, by name or pattern."""
    features = getattr(model, "features", None)
    names = [options.score, options.uncertainty, options.probs, options.key]
    names += features if isinstance(features, list) else []
    names += [one.name for role, one in model.columns.items() if role not in ("label", "value")]
    return tuple(filter(None, names))


def applied(
    model: Model, options: ApplyOptions, memory: Memory, threads: int, source: Source, tell: Tell
) -> Rows:
    """Return the rows of a source with a model's columns added."""
    from calibkit.apply.apply import plan_application
    from calibkit.models.lineage import footer

    plan = plan_application(model, source, options)
    frames = plan.frames(memory, threads, tell)
    return Rows(frames, plan.added, metadata=footer(plan.made_by))


def deliver(
    console: Console,
    found: Any,
    noun: str,
    *,
    beside: Callable[[Any, Transaction], None] | None = None,
    files: Mapping[str, str] | None = None,
    view: Callable[[Any, Page], None] | None = None,
) -> None:
    """Write a result, which messages call `noun`, where the command line says, and show it.

    It is JSON, or one of the console's `texts` by the suffix of the output.  `beside` writes the
    further `files` of the run, named by their path; `view` shows it, else it is shown as its class is.
    """
    from calibkit.files.sinks import Transaction

    with Transaction() as outputs:
        if beside is not None:
            beside(found, outputs)
        if console.output not in (None, "-"):
            output, data = str(console.output), found.to_json
            if console.texts:
                from calibkit.evaluation.outputs import content

                data = partial(content, found, output)
            outputs.write_bytes(data(), output)
    console.wrote(noun)
    if not console.as_json:
        console.summary(*(f"{what} written to {path}." for path, what in (files or {}).items()))
    console.model(found.to_json(), lambda: console.show(found, view=view))


def write_each(
    console: Console,
    source: Source,
    make: Callable[[Source], Write],
    *,
    over: bool = False,
    **named: str | None,
) -> list[str]:
    """Write a result of all inputs, or one of each, all of them or none; return the files.

    Those of each stand in the folder of ``-o DIR/``, `named` as `directory_outputs` says, or `over` the
    inputs.
    """
    from calibkit.files.paths import directory_outputs
    from calibkit.files.sinks import Transaction

    sources, outputs = [source], [console.output or "-"]
    if console.per_input:
        outputs = directory_outputs(str(console.output), source.parts, **named)
    if over or console.per_input:
        sources, outputs = source.split(), source.paths if over else outputs
    with Transaction() as transaction:
        for part, output in zip(sources, outputs, strict=True):
            write = make(part)
            if console.per_input:
                transaction.make_folders([output])
            write(transaction, output)
    return outputs


def write_rows(
    console: Console,
    source: Source,
    make: Callable[[Source, Tell], Rows],
    *,
    in_place: bool = False,
) -> None:
    """Make rows of a source and deliver them where the command line says, or over each input.

    What the user should be told only when `make` has made them all goes to its second argument, at the
    latest before the last frame.
    """
    if not console.per_input and not in_place:
        deliver_rows(console, make(source, console.warn), source.parts[0].format)
        return
    count, added = Count(), list[str]()

    def write(alone: Source) -> Write:
        (part,) = alone.parts

        def tell(*texts: str) -> None:
            console.warn(*(f"{part.path}: {text}" for text in texts))

        made = make(alone, tell)
        added[:] = made.added
        frames, kept = count.passing(made.frames), part.format if in_place else None
        return lambda transaction, output: transaction.write_frames(
            frames, output, format=kept, metadata=made.metadata or None
        )

    outputs = write_each(console, source, write, over=in_place, format=console.output_format)
    console.report_rows(count.rows, added)
    said = f"{count.rows:,} rows in {len(outputs)} file{'s' if len(outputs) > 1 else ''}"
    if in_place and not console.as_json:
        console.summary(f"{said} written over.")
    console.wrote(said, outputs)


def deliver_rows(console: Console, made: Rows, input_format: str, said: str = "") -> None:
    """Say what is to be said of rows, and write them: to ``-o`` or a pipe, their head to a terminal.

    On standard output their format is that of the input, unless ``--output-format`` says otherwise.
    `said` goes on with how many were written.
    """
    count = Count()
    if console.output is None and console.on_terminal:
        import polars as pl

        heads: list[pl.DataFrame] = []
        for frame in count.passing(made.frames):
            if not heads or sum(head.height for head in heads) < SHOWN_ROWS:
                heads.append(frame.head(SHOWN_ROWS))
        console.head(pl.concat(heads), rows=count.rows)
        console.summary()
        return
    from calibkit.files.sinks import write_frames

    output = console.output or "-"
    chosen = console.output_format or (input_format if output == "-" else None)
    write_frames(count.passing(made.frames), output, format=chosen, metadata=made.metadata)
    console.report_rows(count.rows, made.added)
    console.wrote(f"{count.rows:,} rows{said}")


def show_plan(
    console: Console, source: Source, columns: Mapping[str, str], plan: Sequence[str]
) -> None:
    """Print what a run would do (``--dry-run``): on standard output, or as one object."""
    if console.as_json:
        told = {"files": source.paths, "rows": source.rows, "columns": dict(columns)}
        console.json({"dry_run": True, **told, "plan": list(plan)})
        return
    console.say(f"Input: {source.rows:,} rows of {some_of(source.paths, HEAD)}")
    for role, name in columns.items():
        console.say(f"  {role}: column {name!r} ({source.schema[name]})")
    for step in plan:
        console.say(f"Would {step}.")
    head = source.read(list(dict.fromkeys(columns.values()))).head(HEAD)
    console.table(head.columns, head.rows())
