"""Gates: ``--fail-if`` of every command that has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from .console import Console

if TYPE_CHECKING:
    from calibkit.gates.expressions import Expression
    from calibkit.gates.figures import Outcome

GATE_FAILED = 1


def expressions(texts: Sequence[str] | None) -> list[Expression]:
    """Return the expressions that were typed; refuse bad ones before any work."""
    from calibkit.gates.expressions import parse

    return [parse(text) for text in texts or ()]


def settle(judged: Sequence[tuple[str | None, Outcome]]) -> None:
    """Say on standard error what failed, also under ``-q``, and end the command with exit code 1.

    Call it last: the outputs are written whether the gate holds or not.

    Parameters
    ----------
    judged
        Outcomes, each with its file; None where there is only one.
    """
    failed = [(file, outcome) for file, outcome in judged if outcome.failed]
    if not failed:
        return
    files = any(file is not None for file, _ in failed)
    rows = [
        [*([file] if files else []), outcome.expression, outcome.text] for file, outcome in failed
    ]
    count = f"{len(failed)} of {len(judged)} checks failed."
    header = [*(["file"] if files else []), "fail if", "found"]
    Console().table(header, rows, title=count, error=True)
    raise typer.Exit(GATE_FAILED)
