"""What commands that judge share: ``--fail-if``, and how what was found is delivered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from calibkit.options.option import Options
from calibkit.options.shared import of_output

from .console import Console
from .deliver import Write, deliver, write_each

if TYPE_CHECKING:
    from calibkit.evaluation.outputs import Judged
    from calibkit.files.sinks import Transaction
    from calibkit.files.sources import Source
    from calibkit.gates.figures import Expression, Outcome

GATE_FAILED = 1

#: What figures can be written as.
TEXTS = ("json", "prom", "csv", "md", "tex")


def _parsed(texts: Any, flag: str) -> tuple[Expression, ...]:
    from calibkit.gates.figures import parse_all

    return parse_all(texts) if texts and isinstance(texts[0], str) else tuple(texts)


@dataclass(frozen=True, kw_only=True)
class Gated(Options):
    """What makes a command fail, once everything is written."""

    fail_if: Sequence[Any] = of_output(
        "Exit with code 1 if this holds: [SCORE/][SLICE/]METRIC[.low|.high|.delta], one of "
        "< <= > >=, a number or another address; may be repeated.",
        "EXPR",
        default=(),
        many="repetition",
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


def deliver_judged(
    console: Console,
    found: Judged,
    noun: str,
    beside: Callable[[Any, Transaction], None] | None = None,
    **more: Any,
) -> None:
    """Write what was found in the format of the output's suffix, and show it; see `deliver`."""
    from calibkit.evaluation.outputs import content

    also = None if beside is None else partial(beside, found)
    deliver(console, found, noun, text=content, beside=also, **more)


def judge(
    console: Console,
    source: Source,
    find: Callable[[Source], Judged],
    gates: Gated,
    noun: str,
    **more: Any,
) -> None:
    """Judge all inputs together, or (``-o DIR/``) each by itself; the rest as of `deliver_judged`."""
    if not console.per_input:
        found = find(source)
        outcomes = gates.outcomes(found.as_dict()) if gates.fail_if else []
        deliver_judged(console, found, noun, **more)
        settle(outcomes)
        return

    def make(alone: Source) -> Write:
        content = find(alone).to_json()
        return lambda transaction, output: transaction.write_bytes(content, output)

    console.wrote(noun, write_each(console, source, make, suffix=".json"))
