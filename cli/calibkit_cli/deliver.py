"""Where results go: one for all inputs, or (``-o DIR/``) one for each; together, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from calibkit.models.page import some_of

from .console import SHOWN_ROWS, Console

if TYPE_CHECKING:
    import polars as pl

    from calibkit.files.sinks import Transaction
    from calibkit.files.sources import Source
    from calibkit.models.model import Model
    from calibkit.models.page import Page
    from calibkit.options.apply import ApplyOptions
    from calibkit.runtime.memory import Memory

#: How many rows of the input, and of its files, ``--dry-run`` shows.
HEAD = 5

#: Writes a result as an output of a transaction.
Write = Callable[["Transaction", str], None]

#: Says a warning.
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Rows:
    """A result that is rows."""

    frames: Iterable[pl.DataFrame]
    added: Sequence[str]  # which of their columns the command added
    warnings: Sequence[str] = ()  # what the user should be told before they are written
    metadata: dict[str, str] = field(default_factory=dict)  # for the footer of a Parquet file


def applied(
    model: Model, options: ApplyOptions, memory: Memory, threads: int, source: Source, tell: Tell
) -> Rows:
    """Return the rows of a source with a model's columns added."""
    from calibkit.apply.apply import Run, plan_application
    from calibkit.models.lineage import footer

    plan = plan_application(model, source, options)
    made = Run(plan, source, options, memory, threads)
    return Rows(made.frames(tell), plan.added, metadata=footer(plan.made_by))


def deliver(
    console: Console,
    found: Any,
    noun: str,
    *,
    text: Callable[[Any, str], bytes] | None = None,
    beside: Callable[[Transaction], None] | None = None,
    files: Mapping[str, str] | None = None,
    view: Callable[[Any, Page], None] | None = None,
) -> None:
    """Write a result, which messages call `noun`, where the command line says, and show it.

    `text` returns its content for an output, else it is JSON; `beside` writes the further `files` of
    the run, named by their path; `view` shows it, else it is shown as its class is.
    """
    from calibkit.files.sinks import Transaction

    with Transaction() as outputs:
        if beside is not None:
            beside(outputs)
        if console.output not in (None, "-"):
            output = str(console.output)
            outputs.write_bytes(found.to_json() if text is None else text(found, output), output)
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
    from calibkit.files.sinks import Transaction, make_folders

    sources, outputs = [source], [console.output or "-"]
    if console.per_input:
        outputs = directory_outputs(str(console.output), source.parts, **named)
    if over or console.per_input:
        sources, outputs = source.split(), source.paths if over else outputs
    with Transaction() as transaction:
        for part, output in zip(sources, outputs, strict=True):
            write = make(part)
            if console.per_input:
                make_folders([output])
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

        def tell(text: str) -> None:
            console.warn(f"{part.path}: {text}")

        made = make(alone, tell)
        for remark in made.warnings:
            tell(remark)
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
    console.warn(*made.warnings)
    count = Count()
    if console.output is None and console.on_terminal:
        import polars as pl

        heads: list[pl.DataFrame] = []
        for frame in count.passing(made.frames):
            if not heads or sum(head.height for head in heads) < SHOWN_ROWS:
                heads.append(frame.head(SHOWN_ROWS))
        console.head(pl.concat(heads), rows=count.rows)
        return
    from calibkit.files.sinks import write_frames

    output = console.output or "-"
    chosen = console.output_format or (input_format if output == "-" else None)
    write_frames(count.passing(made.frames), output, format=chosen, metadata=made.metadata)
    console.report_rows(count.rows, made.added)
    console.wrote(f"{count.rows:,} rows{said}")


@dataclass
class Count:
    """Counts the rows of frames as they pass."""

    rows: int = 0

    def passing(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield frames as they come."""
        for frame in frames:
            self.rows += frame.height
            yield frame


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
