"""``calibkit merge``: put states together, and finish them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from calibkit.errors import UsageError
from calibkit.options.shared import Threaded, arguments, of_input
from calibkit.registry import methods
from calibkit.runtime.memory import memory_budget

from . import declare
from .console import Console
from .evaluate import deliver_metrics
from .judging import TEXTS
from .lines import STATE, Budget, OutputFormat, Plan, Results, Talk
from .rows import deliver_grid
from .runs import deliver_model
from .watch import deliver_drift, deliver_watch

if TYPE_CHECKING:
    from calibkit.files.sinks import Write

#: What delivers the results that are no models.
_DELIVER: Final[dict[str, Any]] = {
    "bin": deliver_grid,
    "drift": deliver_drift,
    "evaluate": deliver_metrics,
    "evaluate --probs": deliver_metrics,
}


class MergeLine(Results, Talk, Threaded, Budget):
    """Combine the states of many shards into one result.

    A state is what a command writes with --partial: a summary of some of the rows, and the
    options of the command. Merged in any order and grouping they give the result that the command
    would give for all rows at once; a result named .state is the merged state itself.

    States of `calibkit watch` merge by their nights.

    The states of fits that go through their rows many times (hetcal, alpha-cal, calibrate
    --probs), and of evaluate --probs, are the rows themselves, with the columns that are used;
    merge works on them in one step.

    Examples:
      calibkit merge part-1.state part-2.state -o boundary.json
      calibkit merge parts/ --expect 100 -o boundary.json
      calibkit merge part-1.state part-2.state -o half.state
    """

    inputs: Annotated[
        list[str], arguments("State files, globs or folders of them, or -.", "STATE...")
    ]
    expect: int | None = of_input(
        "How many shards there must be in all; another number is an error.",
        "N",
        least=1,
        shown="any number",
    )
    output_format: OutputFormat = None
    plan: Plan = None

    def check(self) -> None:
        """Refuse a folder for a result."""
        if (self.output or "").endswith("/"):
            raise UsageError("merge makes one result; give -o a file.")


@declare.command
def merge(line: MergeLine) -> None:
    """Put states together, and write what they give, or their state."""
    from calibkit.files.paths import find_files
    from calibkit.methods.watch.watch import are_states
    from calibkit.registry.states import read_state
    from calibkit.summaries.states import merge_states

    paths = [str(path) for path in find_files(line.inputs)]
    for path in paths:
        if Path(path).is_fifo():
            raise UsageError.of(
                path,
                "a state is read more than once, which a pipe cannot be; name a file, or give one "
                "state on standard input, by -",
            )
    if are_states(line.inputs):
        _merge_watches(line, paths)
        return
    merged = merge_states([read_state(path) for path in paths], line.expect)
    kind, whole = merged.header.kind, (line.output or "").endswith(STATE)
    table = kind == "bin" and not whole
    console = line.part(
        Console,
        tabular=table,
        output_format=line.output_format if table else None,
        texts=TEXTS if _DELIVER.get(kind) in (deliver_drift, deliver_metrics) else (),
    )
    shards = len(merged.header.shards)
    console.detail(f"{len(paths)} states, {shards} shards, {merged.rows:,} rows")
    if whole:
        _write_state(console, merged.rows, merged.write, {"shards": shards, "states": len(paths)})
        return
    made = methods.run(kind).finish(merged, memory_budget(line.memory), line.workers)
    _DELIVER.get(kind, deliver_model)(console, made)


def _merge_watches(line: MergeLine, paths: list[str]) -> None:
    """Put states of `calibkit watch` together: their state, or what it says."""
    from calibkit.methods.watch.watch import merged

    if line.expect is not None:
        raise UsageError("--expect counts the parts of a fit; a watch has nights: leave it out.")
    output = line.output or ""
    found = merged(paths)
    if not output.endswith(STATE):
        deliver_watch(line.part(Console, texts=TEXTS), found)
        return
    console = line.part(Console)
    counts = {"nights": len(found.state.nights), "states": len(paths)}
    _write_state(console, found.rows, lambda file: file.write(found.state.to_json()), counts)


def _write_state(console: Console, rows: int, write: Write, counts: dict[str, int]) -> None:
    from calibkit.files.sinks import Transaction

    output = str(console.output)
    with Transaction() as transaction:
        transaction.write(write, output)
    if console.as_json:
        console.json({"rows": rows, **counts, "output": output})
    console.wrote(f"State of {rows:,} rows")
