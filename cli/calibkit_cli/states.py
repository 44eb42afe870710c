"""The options of states, and how they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from calibkit.errors import UsageError

from .console import Console
from .options import OUTPUT, option

if TYPE_CHECKING:
    from calibkit.files.sources import Source
    from calibkit.summaries.states import State

#: The suffix of state files.
SUFFIX = ".state"

Partial = Annotated[
    bool,
    option(
        "--partial",
        panel=OUTPUT,
        help="Write the summary of these rows, a .state file, for `calibkit merge` to put together.",
    ),
]


def _refuse_plan(plan: str | None) -> None:
    if plan is not None:
        raise UsageError("--plan is not needed: merge finishes in one step; leave it out.")


#: What 0.1 needed for fits in several rounds.
Plan = Annotated[
    str | None,
    option("--plan", metavar="FILE", help="Not needed.", hidden=True, callback=_refuse_plan),
]


def check_output(output: str | None, partial: bool) -> None:
    """Refuse a state under another name, and another result under that of a state."""
    named = output is not None and output.endswith(SUFFIX)
    if partial and not (named or output == "-" or (output or "").endswith("/")):
        raise UsageError(f"--partial writes a state; give it a name: -o NAME{SUFFIX}.")
    if named and not partial:
        raise UsageError(f"{output}: is a state by its name; add --partial, or name it otherwise.")


def write_states(console: Console, source: Source, make: Callable[[Source], State]) -> None:
    """Write the state of the inputs, or (``-o DIR/``) one of each; all appear or none."""
    from calibkit.files.outputs import directory_outputs, spare_inputs
    from calibkit.files.sinks import Transaction, make_folders

    assert console.output is not None
    parts, outputs = [source], [console.output]
    if console.per_input:
        parts = source.split()
        outputs = directory_outputs(console.output, source.parts, suffix=SUFFIX)
    elif console.output != "-":
        spare_inputs(console.output, source.parts)
    rows = 0
    with Transaction() as transaction:
        for part, output in zip(parts, outputs, strict=True):
            state = make(part)
            rows += state.rows
            if output == "-":
                console.content(state.to_bytes())
                continue
            if console.per_input:
                make_folders([output])
            transaction.write(state.write, output)
    if console.as_json:
        console.json({"rows": rows, "states": outputs})
    console.wrote(f"State of {rows:,} rows")
