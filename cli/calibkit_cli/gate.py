"""``calibkit gate``: fail a build by what result files hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from calibkit.errors import UsageError
from calibkit.options.shared import arguments

from . import declare
from .console import Console
from .judging import Gated, settle
from .lines import Annotate, Json, Quiet

HELP = """\
A gate writes nothing, so a Makefile can run it after the result is safely written. A number that is
not defined fails the gate; an expression that finds nothing is a mistake, exit code 2.

Examples:
  calibkit gate metrics.json --fail-if 'auc<0.75' --fail-if 'ece>0.02'
  calibkit gate metrics.json --fail-if 'new/auc.low < old/auc'
  calibkit gate metrics.json --fail-if 'country:*/precision<0.6'
  calibkit gate boundary.json --fail-if 'fit/cross_validated/recall<0.3'
"""


@dataclass(frozen=True, kw_only=True)
class GateLine(Gated):
    """What is judged."""

    files: Annotated[
        list[str],
        arguments("Files of metrics, models or other JSON results; - for standard input.", "FILE"),
    ]
    as_json: Json = False
    annotate: Annotate = None
    quiet: Quiet = False

    def check(self) -> None:
        """Refuse a gate that judges nothing, and a file named twice."""
        from calibkit.gates.figures import parse_all

        if not self.fail_if:
            parse_all(())  # says what is missing
        twice = sorted({file for file in self.files if self.files.count(file) > 1})
        if twice:
            raise UsageError(f"{twice[0]} is named twice.", file=twice[0])


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


register = declare.command(HELP, gate, GateLine)
