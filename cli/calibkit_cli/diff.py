"""``calibkit diff``: two results side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibkit.errors import UsageError

from . import options
from .console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator

HELP = """Lay two metrics files, or two models, side by side: what each holds, and the difference.

Examples:

  calibkit diff old/metrics.json metrics.json

  calibkit diff old/metrics.json metrics.json --fail-if 'auc.delta<-0.01'

  calibkit diff monday.json tuesday.json -o changes.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("diff", help=HELP)(diff)


def diff(
    first: Annotated[
        str, typer.Argument(metavar="A.json", help="The file before.", show_default=False)
    ],
    second: Annotated[
        str, typer.Argument(metavar="B.json", help="The file after.", show_default=False)
    ],
    output: options.Output = None,
    fail_if: options.FailIf = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Parse, read, compare."""
    console = Console(output, as_json, quiet)
    if console.per_input:
        raise UsageError(f"{output}: the result is one comparison; name a file.")
    if first == second == "-":
        raise UsageError("standard input can be one of the two files only.")
    from calibkit.gates.figures import check
    from calibkit.gates.results import read_result, side_by_side
    from calibkit.models import canonical_json

    from .gates import expressions, settle

    wanted = expressions(fail_if)
    contents = [read_result(first), read_result(second)]
    compared = side_by_side(*contents)
    outcomes = check(compared, wanted)
    metrics = "kind" not in contents[0] and "metrics" in contents[0]
    console.model(canonical_json(compared), lambda: _view(compared, metrics, console))
    console.wrote("Comparison")
    settle([(None, outcome) for outcome in outcomes])


def _view(compared: dict[str, Any], metrics: bool, console: Console) -> None:
    """Print the comparison as a table; of models only what differs."""
    rows = [
        [*(path if metrics else ["/".join(path)]), cell["a"], cell["b"], cell["delta"]]
        for path, cell in _cells(compared)
        if metrics or cell["a"] != cell["b"]
    ]
    header = [*(["score", "slice", "metric"] if metrics else ["path"]), "a", "b", "b - a"]
    if rows:
        console.table(header, rows)
    else:
        console.say("No differences.")


def _cells(
    compared: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    for name, inner in compared.items():
        if set(inner) == {"a", "b", "delta"} and not isinstance(inner["a"], dict):
            yield (*path, name), inner
        else:
            yield from _cells(inner, (*path, name))
