"""What judges results: ``calibkit gate``, ``diff`` and ``--fail-if``; how findings are delivered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibkit.errors import UsageError
from calibkit.options.option import Options, option
from calibkit.options.shared import arguments, of_output

from . import declare
from .console import Console
from .lines import Annotate, Results, Voice
from .runs import Write, deliver, write_each

if TYPE_CHECKING:
    from calibkit.files.sources import Source
    from calibkit.gates.figures import Expression, Outcome

GATE_FAILED = 1

#: What figures can be written as.
TEXTS = ("json", "prom", "csv", "md", "tex")


def _parsed(texts: Any, flag: str) -> tuple[Expression, ...]:
    from calibkit.gates.figures import parse_all

    return parse_all(texts) if texts and isinstance(texts[0], str) else tuple(texts)


class Gated(Options):
    """What makes a command fail, once everything is written."""

    fail_if: Sequence[Any] = of_output(
        "Exit with code 1 if this holds: [SCORE/][SLICE/]METRIC[.low|.high|.delta], one of "
        "< <= > >=, a number or another address; may be repeated.",
        "EXPR",
        default=(),
        many="repetition",
        shown=False,
        read=_parsed,
    )

    def outcomes(self, content: dict[str, Any]) -> list[tuple[str | None, Outcome]]:
        """Return what becomes of the expressions on a result."""
        from calibkit.gates.figures import check

        return [(None, outcome) for outcome in check(content, self.fail_if)]


def settle(judged: Sequence[tuple[str | None, Outcome]]) -> None:
    """Say on standard error what failed, also under ``-q``, and end the command with exit code 1.

    Call it last: the outputs are written whether the gate holds or not.  Each outcome comes with its
    file, None where there is only one.
    """
    failed = [(file, outcome) for file, outcome in judged if outcome.failed]
    if not failed:
        return
    files = any(file is not None for file, _ in failed)
    rows = [
        [*([file] if files else []), outcome.expression, outcome.text] for file, outcome in failed
    ]
    some = f"{len(failed)} of {len(judged)} checks"
    count = f"{some if len(judged) > 1 else '1 check'} failed."
    header = [*(["file"] if files else []), "fail if", "found"]
    Console().table(header, rows, title=count, error=True)
    raise typer.Exit(GATE_FAILED)


def judge(
    console: Console,
    source: Source,
    find: Callable[[Source], Any],
    *,
    tell: Callable[..., None],
    gates: Gated,
    noun: str,
    **more: Any,
) -> None:
    """Judge all inputs together, or (``-o DIR/``) each by itself; the rest as of `deliver`.

    What is found has `metrics`.  `tell` gets the console, what was found and, where that is of one
    file among others, its name.
    """
    if not console.per_input:
        found = find(source)
        tell(console, found)
        outcomes = gates.outcomes(found.as_dict()) if gates.fail_if else []
        deliver(console, found, noun, **more)
        settle(outcomes)
        return

    def make(alone: Source) -> Write:
        found = find(alone)
        tell(console, found, alone.file)
        return lambda transaction, output: transaction.write_bytes(found.to_json(), output)

    console.wrote(noun, write_each(console, source, make, suffix=".json"))


class GateLine(Gated):
    """Fail (exit code 1) if metrics, models or other results are not good enough.

    A gate writes nothing, so a Makefile can run it after the result is safely written. A number
    that is not defined fails the gate; an expression that finds nothing is a mistake, exit code
    2.

    Examples:
      calibkit gate metrics.json --fail-if 'auc<0.75' --fail-if 'ece>0.02'
      calibkit gate metrics.json --fail-if 'new/auc.low < old/auc'
      calibkit gate metrics.json --fail-if 'country:*/precision<0.6'
      calibkit gate boundary.json --fail-if 'fit/cross_validated/recall<0.3'
    """

    files: Annotated[
        list[str],
        arguments("Files of metrics, models or other JSON results; - for standard input.", "FILE"),
    ]
    as_json: Annotated[bool, Results] = False
    annotate: Annotate = None
    quiet: Annotated[bool, Voice] = False

    def check(self) -> None:
        """Refuse a gate that judges nothing, and a file named twice."""
        from calibkit.gates.figures import parse_all

        if not self.fail_if:
            parse_all(())  # says what is missing
        twice = sorted({file for file in self.files if self.files.count(file) > 1})
        if twice:
            raise UsageError(f"{twice[0]} is named twice.", file=twice[0])


@declare.command
def gate(line: GateLine) -> None:
    """Judge, print."""
    from calibkit.gates.figures import check_files, read_result

    console = line.part(Console)
    judged = check_files({file: read_result(file) for file in line.files}, line.fail_if)
    if line.as_json:
        failed = sum(outcome.failed for _, outcome in judged)
        outcomes = [{"file": file, **outcome.as_dict()} for file, outcome in judged]
        console.json({"passed": not failed, "failed": failed, "outcomes": outcomes})
    for file, outcome in judged if line.annotate else ():
        if outcome.failed:
            said = f"{outcome.expression}: {outcome.text}"
            console.annotate("error", said, title="calibkit gate", file=file)
    settle([(file if len(line.files) > 1 else None, outcome) for file, outcome in judged])
    console.summary(f"{len(judged)} {'check' if len(judged) == 1 else 'checks'} passed.")


class DiffLine(Gated):
    """Compare two metrics files, or two models, side by side.

    Examples:
      calibkit diff old/metrics.json metrics.json
      calibkit diff old/metrics.json metrics.json --fail-if 'auc.delta<-0.01'
      calibkit diff monday.json tuesday.json -o changes.json
    """

    first: Annotated[str, option("The file before.", "A.json", argument=True)]
    second: Annotated[str, option("The file after.", "B.json", argument=True)]
    output: Annotated[str | None, Results] = None
    as_json: Annotated[bool, Results] = False
    quiet: Annotated[bool, Voice] = False


@declare.command
def diff(line: DiffLine) -> None:
    """Compare, print."""
    from calibkit.gates.figures import read_result, side_by_side
    from calibkit.models.model import canonical_json

    console = line.part(Console, one="the result is one comparison; name a file")
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
    from calibkit.gates.figures import values

    cells: dict[tuple[str, ...], dict[str, Any]] = {}
    for (*path, side), value in values(compared):
        cells.setdefault(tuple(path), {})[side] = value
    rows = [
        [*(path if metrics else ["/".join(path)]), *map(cell.get, ("a", "b", "delta"))]
        for path, cell in cells.items()
        if metrics or cell["a"] != cell["b"]
    ]
    header = [*(["score", "slice", "metric"] if metrics else ["path"]), "a", "b", "b - a"]
    if rows:
        console.table(header, rows)
    else:
        console.say("No differences.")
