"""Commands whose result is rows: ``calibkit apply``, ``bin`` and ``simulate``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from calibkit.errors import UsageError
from calibkit.files.formats import suffix_format
from calibkit.options.apply import ApplyOptions
from calibkit.options.bin import BinOptions
from calibkit.options.shared import Threaded, of_output
from calibkit.options.simulate import KINDS, SimulateOptions

from . import declare, lines, runs
from .console import Console

if TYPE_CHECKING:
    from calibkit.bins import Binned
    from calibkit.files.sources import Source
    from calibkit.models.model import Model


class ApplyLine(lines.Reading, lines.Results, lines.Spread, lines.DryRun, Threaded):
    """What the command line of an application has besides its options."""

    model: lines.Model
    output_format: lines.OutputFormat = None
    in_place: bool = of_output(
        "Write each input over, in its format: all of them once all are done, or none.",
        default=False,
    )

    def check(self) -> None:
        """Refuse two places for the rows, and inputs that are no files."""
        if not self.in_place:
            return
        if self.output is not None or self.output_format is not None or self.dask is not None:
            raise UsageError(
                "--in-place writes the inputs over; leave -o, --output-format and --dask out."
            )
        for path in self.inputs:
            if path == "-" or "://" in path or path.startswith("/dev/"):
                raise UsageError(f"--in-place: {path} is no file here that could be written over.")


def _need_plain(source: Source) -> None:
    """Refuse inputs that would not be written over as they are written."""
    if any(part.format == "xlsx" for part in source.parts):
        raise UsageError("--in-place would write a workbook anew, with one bare sheet; give -o.")
    for remark in source.remarks:
        if any(odd in remark for odd in ("decimal commas", " between fields", "encoding ")):
            raise UsageError(
                "--in-place writes commas between fields and decimal points, in UTF-8; give -o. "
                f"{remark}"
            )


@declare.command
def apply(options: ApplyOptions, line: ApplyLine) -> None:
    """Do what the line asks for: here, on a cluster, or only as a plan."""
    from calibkit.apply.apply import plan_application
    from calibkit.models.model import load

    console = line.part(Console, tabular=not line.in_place, output_format=line.output_format)
    model = load(line.model)
    typed = runs.read_by(model, options) if line.keeps_text(line.output) else None
    if line.dask is not None and not line.dry_run:
        _run_far(model, options, line, typed, console)
        return
    source = line.open(console, typed)
    if line.in_place:
        _need_plain(source)
    plan = plan_application(model, source, options)
    read = ", ".join(map(repr, [*plan.reads.needed.values(), *plan.reads.optional]))
    files = f"{len(source.parts)} file{'s' if len(source.parts) > 1 else ''}"
    console.detail(
        f"{line.model}: {model.kind}, reads {read}; {source.rows:,} rows of {files}; "
        f"{line.workers} threads"
    )
    if line.dry_run:
        step = f"add {', '.join(plan.added)} by {line.model}"
        runs.show_plan(console, source, plan.reads.needed, [step])
        return

    make = partial(runs.applied, model, options, line.budget, line.workers)
    runs.write_rows(console, source, make, in_place=line.in_place)


def _run_far(
    model: Model,
    options: ApplyOptions,
    line: ApplyLine,
    typed: tuple[str, ...] | None,
    console: Console,
) -> None:
    """Apply a model on a cluster: each file becomes another."""
    from calibkit.engines.work import ApplyTask, ShardOpening, apply_on_cluster, shards_of
    from calibkit.files.paths import Part, directory_outputs

    if not console.per_input or console.output is None:
        raise UsageError("apply --dask writes a file for each input; give -o a folder: -o DIR/.")
    shards = shards_of(line.inputs)
    parts = [
        Part(file, line.input_format or suffix_format(file) or "csv", file.relative)
        for file in (shard.file for shard in shards)
    ]
    console.show_progress()
    made = apply_on_cluster(
        ApplyTask(model, options, line.opening(ShardOpening, typed)),
        shards,
        outputs := directory_outputs(console.output, parts, format=console.output_format),
        str(line.dask),
        line.workers,
        console.warn,
    )
    console.aside(made.noted.lines)
    console.report_rows(made.rows, list(made.added))
    console.wrote(f"{made.rows:,} rows in {len(outputs)} files", outputs)


class BinLine(lines.StateLine):
    """The rest of the line."""

    output_format: lines.OutputFormat = None


def deliver_grid(console: Console, binned: Binned) -> None:
    """Write the grid of a state."""
    runs.deliver_rows(console, _rows(console, binned, console.warn), "arrow")


@declare.command
def bin(options: BinOptions, line: BinLine) -> None:
    """Count, and write the grid, or the rows with their levels."""
    console = line.part(
        Console,
        tabular=not line.partial,
        output_format=None if line.partial else line.output_format,
    )
    if options.add_level and not line.dry_run:
        _write_levels(options, line, console)
        return
    runs.run_states("bin", options, line, console, _write_grids, deliver_grid)


def _write_levels(options: BinOptions, line: BinLine, console: Console) -> None:
    """Write the rows with their levels: they are read a second time, once the grid is known."""
    from calibkit.apply.levels import with_levels
    from calibkit.models.lineage import footer

    if line.partial or line.dask is not None:
        raise UsageError(
            "--add-level writes rows, which a state has not and --dask does not send; fit a boundary "
            "on all shards and use `apply --add-level` on each."
        )
    runs.check_paths(options, line, console)

    def make(part: Source, tell: runs.Tell) -> runs.Rows:
        plan, placed = with_levels(options, part, as_written=line.keeps_text(line.output))
        console.summary(*placed.notes)
        console.detail(*placed.details)
        tell(*placed.warnings)
        frames = plan.frames(line.budget, options.workers, tell)
        return runs.Rows(frames, ["level"], footer(plan.made_by))

    runs.write_rows(console, line.open(console), make)


def _write_grids(console: Console, source: Source, fit: Callable[[Source], Binned]) -> None:
    runs.write_rows(console, source, lambda part, tell: _rows(console, fit(part), tell))


def _rows(console: Console, binned: Binned, tell: runs.Tell) -> runs.Rows:
    console.summary(*binned.notes)
    console.detail(*binned.details)
    tell(*binned.warnings)
    return runs.Rows([binned.frame], binned.frame.columns, binned.metadata)


class SimulateLine(lines.Results, lines.DryRun):
    """What the command line of a simulation has besides its options."""

    output_format: lines.Format | None = of_output(
        "Format of the output, whatever its suffix.", shown="by suffix; on standard output csv"
    )


@declare.several(KINDS)
def simulate(options: SimulateOptions, line: SimulateLine) -> None:
    """Simulate, and write the rows, or show the first of them."""
    from calibkit.simulate import simulate as run

    console = line.part(Console, tabular=True, one="is a folder; name a file in it")
    if line.dry_run:
        frame = run(replace(options, rows=min(options.rows, runs.HEAD)))
        if console.as_json:
            console.json({"dry_run": True, "rows": options.rows, "columns": frame.columns})
            return
        console.say(f"Would simulate {options.rows:,} rows; the first {frame.height}:")
        console.table(frame.columns, frame.rows())
        return
    frame = run(options)
    if "label" in frame.columns and frame["label"].n_unique() == 1:
        console.warn(f"every row has the label {frame['label'][0]}; most fits need both labels.")
    runs.deliver_rows(
        console, runs.Rows([frame], frame.columns), "csv", f" with {', '.join(frame.columns)}"
    )
