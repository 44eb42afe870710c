"""``calibkit apply``: add a model's columns to rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from calibkit.errors import UsageError
from calibkit.options.apply import ApplyOptions
from calibkit.options.shared import Threaded, of_output

from . import declare, lines
from .console import Console
from .deliver import applied, show_plan, write_rows

if TYPE_CHECKING:
    from calibkit.models.model import Model

HELP = """\
A boundary adds `decision` (0 or 1) and `margin`: how far the score is above the threshold of the
row's level, in logits; a stochastic one also `decision_probability`, and needs --key; with --add-level
`level`, and for mist `probability`. Calibrators and vad add `calibrated` (of class probabilities
`calibrated_<class>`), hetcal also `leaf`; alpha-cal adds `alpha0`, `disagreement` and
`disagreement_<class>`, with --map also `calibrated_<class>`. A bundle adds what its parts add,
`decision_<name>` for each boundary, and `action`: the name of the first that selects the row.

Examples:
  calibkit apply boundary.json test.parquet -o decided.parquet
  calibkit apply cal.json scores.parquet --column p -o calibrated.parquet
  cat scores.csv | calibkit apply boundary.json - -o - | head
  calibkit apply boundary.json scores/ --selected --keep 'id,score' -o alarms.csv
  calibkit apply boundary.json scores/ --in-place --overwrite-columns
"""


@dataclass(frozen=True, kw_only=True)
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


def run(options: ApplyOptions, line: ApplyLine) -> None:
    """Do what the line asks for: here, on a cluster, or only as a plan."""
    from calibkit.apply.apply import plan_application
    from calibkit.models.model import load

    console = line.console(tabular=not line.in_place, output_format=line.output_format)
    model = load(line.model)
    if line.dask is not None and not line.dry_run:
        _run_far(model, options, line, line.dask, console)
        return
    source = line.open(console)
    plan = plan_application(model, source, options)
    read = ", ".join(map(repr, [*plan.reads.needed.values(), *plan.reads.optional]))
    files = f"{len(source.parts)} file{'s' if len(source.parts) > 1 else ''}"
    console.detail(
        f"{line.model}: {model.kind}, reads {read}; {source.rows:,} rows of {files}; "
        f"{line.workers} threads"
    )
    if line.dry_run:
        step = f"add {', '.join(plan.added)} by {line.model}"
        show_plan(console, source, plan.reads.needed, [step])
        return

    make = partial(applied, model, options, line.budget, line.workers)
    write_rows(console, source, make, in_place=line.in_place)


def _run_far(
    model: Model, options: ApplyOptions, line: ApplyLine, address: str, console: Console
) -> None:
    """Apply a model on a cluster: each file becomes another."""
    from calibkit.engines.work import ApplyTask, apply_on_cluster, shards_of
    from calibkit.files.formats import suffix_format
    from calibkit.files.paths import Part, directory_outputs

    if not console.per_input or console.output is None:
        raise UsageError("apply --dask writes a file for each input; give -o a folder: -o DIR/.")
    shards = shards_of(line.inputs)
    parts = [
        Part(shard.path, line.input_format or suffix_format(shard.path) or "csv", shard.relative)
        for shard in shards
    ]
    console.show_progress()
    made = apply_on_cluster(
        ApplyTask(model, options, line.opening),
        shards,
        outputs := directory_outputs(console.output, parts, format=console.output_format),
        address,
        line.workers,
        console.warn,
    )
    console.aside(made.noted.lines)
    console.report_rows(made.rows, list(made.added))
    console.wrote(f"{made.rows:,} rows in {len(outputs)} files", outputs)


register = declare.command(HELP, run, ApplyOptions, ApplyLine)
