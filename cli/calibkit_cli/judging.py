"""What commands that judge share: ``--fail-if``, and how what was found is delivered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from calibkit.options.option import Options
from calibkit.options.shared import of_output

from .console import Console

if TYPE_CHECKING:
    from calibkit.evaluation.outputs import Judged
    from calibkit.files.sinks import Transaction
    from calibkit.files.sources import Source
    from calibkit.gates.expressions import Expression
    from calibkit.gates.figures import Outcome
    from calibkit.models.page import Page

GATE_FAILED = 1

#: What figures can be written as.
TEXTS = ("json", "prom", "csv", "md")


def _parsed(texts: Any, flag: str) -> tuple[Expression, ...]:
    from calibkit.gates.expressions import parse_all

    return parse_all(texts) if texts and isinstance(texts[0], str) else tuple(texts)


@dataclass(frozen=True, kw_only=True)
class Gated(Options):
    """What makes a command fail, once everything is written."""

    fail_if: Sequence[Any] = of_output(
        "Exit with code 1 if this holds: [SCORE/][SLICE/]METRIC[.low|.high|.delta], one of "
        "< <= > >=, a number or another address; may be repeated.",
        "EXPR",
        default=(),
        flags=("--fail-if",),
        many="repetition",
        read=_parsed,
    )

    def outcomes(self, content: dict[str, Any]) -> list[tuple[str | None, Outcome]]:
        """Return what becomes of the expressions on a result."""
        from calibkit.gates.figures import check

        return [(None, outcome) for outcome in check(content, self.fail_if)]


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


@dataclass(frozen=True)
class Delivery:
    """How what was found is delivered.

    Attributes
    ----------
    noun
        What messages call it.
    view
        Shows it; None: as its class is shown.
    beside
        Writes the further files of a run.
    files
        What these are called, by their path.
    """

    noun: str
    view: Callable[[Any, Page], None] | None = None
    beside: Callable[[Any, Transaction], None] | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def judge(
        self, console: Console, source: Source, find: Callable[[Source], Judged], gates: Gated
    ) -> None:
        """Judge all inputs together, or (``-o DIR/``) each by itself; `find` says what it found."""
        if console.per_input:
            self._each(console, source, find)
            return
        found = find(source)
        outcomes = gates.outcomes(found.as_dict()) if gates.fail_if else []
        self.deliver(console, found)
        settle(outcomes)

    def deliver(self, console: Console, found: Judged) -> None:
        """Write all outputs, and show what was found."""
        from calibkit.evaluation.outputs import content
        from calibkit.files.sinks import Transaction

        with Transaction() as outputs:
            if self.beside is not None:
                self.beside(found, outputs)
            if console.output not in (None, "-"):
                output = str(console.output)
                outputs.write_bytes(content(found, output), output)
        console.wrote(self.noun)
        if not console.as_json:
            console.summary(*(f"{what} written to {path}." for path, what in self.files.items()))
        console.show_model(found.to_json(), lambda: console.show(found, view=self.view))

    def _each(self, console: Console, source: Source, find: Callable[[Source], Judged]) -> None:
        from calibkit.files.outputs import directory_outputs
        from calibkit.files.sinks import Transaction, make_folders

        outputs = directory_outputs(str(console.output), source.parts, suffix=".json")
        with Transaction() as transaction:
            for alone, output in zip(source.split(), outputs, strict=True):
                found = find(alone)
                make_folders([output])
                transaction.write_bytes(found.to_json(), output)
        console.wrote(self.noun, outputs)
