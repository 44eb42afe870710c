"""``calibkit diff``: two results side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from calibkit.errors import UsageError
from calibkit.options.option import option

from . import declare
from .console import Console
from .judging import Gated, settle
from .lines import Json, Output, Quiet

HELP = """\
Examples:
  calibkit diff old/metrics.json metrics.json
  calibkit diff old/metrics.json metrics.json --fail-if 'auc.delta<-0.01'
  calibkit diff monday.json tuesday.json -o changes.json
"""


@dataclass(frozen=True, kw_only=True)
class DiffLine(Gated):
    """What is compared, and where the result goes."""

    first: Annotated[str, option("The file before.", "A.json", argument=True)]
    second: Annotated[str, option("The file after.", "B.json", argument=True)]
    output: Output = None
    as_json: Json = False
    quiet: Quiet = False

    def check(self) -> None:
        """Refuse standard input twice."""
        if self.first == self.second == "-":
            raise UsageError("standard input can be one of the two files only.")


def diff(line: DiffLine) -> None:
    """Compare, print."""
    from calibkit.gates.figures import read_result, side_by_side
    from calibkit.models.model import canonical_json

    console = line.part(Console)
    if console.per_input:
        raise UsageError(f"{line.output}: the result is one comparison; name a file.")
    contents = [read_result(line.first), read_result(line.second)]
    compared = side_by_side(*contents)
    outcomes = line.outcomes(compared)
    metrics = "kind" not in contents[0] and "metrics" in contents[0]
    content = canonical_json(compared)
    if console.output not in (None, "-"):
        from calibkit.files.sinks import write_bytes

        write_bytes(content, str(console.output))
    console.model(content, lambda: _view(compared, metrics, console))
    console.wrote("Comparison")
    settle(outcomes)


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


register = declare.command(HELP, diff, DiffLine)
