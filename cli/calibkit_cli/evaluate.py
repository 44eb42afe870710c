"""``calibkit evaluate``: metrics of scores, decisions and class probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from calibkit.errors import UsageError
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.shared import of_output

from . import declare
from .console import Console
from .judging import TEXTS, Gated, judge
from .lines import StateLine, check_beside
from .runs import deliver, run_states

if TYPE_CHECKING:
    from calibkit.evaluation.findings import Evaluated
    from calibkit.files.sinks import Transaction
    from calibkit.files.sources import Source
    from calibkit.models.page import Page


class EvaluateLine(StateLine, Gated):
    """Where metrics go, and what is drawn of them."""

    reliability: str | None = of_output(
        "Reliability diagrams as rows: bins, and the pools of isotonic regression (CORP).", "FILE"
    )
    decision_curve: str | None = of_output(
        "Net benefit of the decisions and of each score at all costs, with simultaneous "
        "bands, as rows.",
        "FILE",
    )
    plot: str | None = of_output(
        "Also draw a reliability diagram (.svg, .png, .pdf): for votes that of the "
        "disagreement, for raw scores the ROC curve.",
        "FILE",
    )
    report: str | None = of_output(
        "An HTML report of all figures, pictures and the boundary, in one file.", "FILE.html"
    )

    @property
    def beside(self) -> dict[str, str]:
        """The files beside that of the metrics, each with what it is."""
        done = {
            self.reliability: "Reliability diagrams",
            self.decision_curve: "Decision curves",
            self.plot: "Picture",
            self.report: "Report",
        }
        return {path: what for path, what in done.items() if path is not None}

    @property
    def steps(self) -> list[str]:
        """What is done to these files, in words."""
        return [f"write the {what.lower()} to {path}" for path, what in self.beside.items()]

    def check(self) -> None:
        """Refuse files that cannot be written, and those that a state has no rows for."""
        super().check()
        for name in ("reliability", "decision_curve", "plot", "report"):
            path, table = getattr(self, name), name in ("reliability", "decision_curve")
            if path is not None:
                check_beside(f"--{name.replace('_', '-')}", path, "metrics", table=table)
        if self.plot is not None:
            if not self.plot.lower().endswith((".svg", ".png", ".pdf")):
                said = f"--plot {self.plot}: a picture is .svg, .png or .pdf."
                raise UsageError(said, file=self.plot)
            from calibkit.reports.style import need_matplotlib

            need_matplotlib()
        if self.report is not None and not self.report.endswith((".html", ".htm")):
            said = f"--report {self.report}: the page is HTML; name it FILE.html."
            raise UsageError(said, file=self.report)
        self.refuse_states(
            self.beside or self.fail_if,
            "--reliability, --decision-curve, --plot, --report and --fail-if out (calibkit gate "
            "judges the metrics)",
        )


@declare.command
def evaluate(options: EvaluateOptions, line: EvaluateLine) -> None:
    """Evaluate, print."""
    console = line.part(Console, texts=TEXTS)
    if console.per_input and (line.beside or line.fail_if):
        raise UsageError(
            "-o DIR/ goes with none of --reliability, --decision-curve, --plot, --report, --fail-if."
        )
    if line.decision_curve is not None:
        from calibkit.measures.decisions import refuse

        refuse(options, "--decision-curve")
    if line.dask is not None:  # a worker may stand in another folder than this
        options = replace(options, boundary=options.model)

    def write(console: Console, source: Source, find: Callable[..., Evaluated]) -> None:
        find = partial(find, curves=bool(line.beside))
        beside = partial(_write_beside, options, line, source)
        about: dict[str, Any] = {"view": _view, "beside": beside, "files": line.beside}
        judge(console, source, find, tell=_tell, gates=line, noun="Metrics", **about)
        if line.report is not None:
            from calibkit.reports.evaluated import no_pictures

            console.summary(*no_pictures())

    run_states("evaluate", options, line, console, write, deliver_metrics)


def deliver_metrics(console: Console, found: Evaluated) -> None:
    """Say what was found of the rows of a state, and write it."""
    _tell(console, found)
    deliver(console, found, "Metrics", view=_view)


def _tell(console: Console, found: Evaluated, file: str | None = None) -> None:
    console.warn(*found.warnings)
    console.summary(*found.notes)


def _view(found: Evaluated, page: Page) -> None:
    from calibkit.evaluation.view import view

    view(found.metrics, page)


def _write_beside(
    options: EvaluateOptions,
    line: EvaluateLine,
    source: Source,
    found: Evaluated,
    outputs: Transaction,
) -> None:
    """Write the tables, the picture and the page of an evaluation."""
    from calibkit.evaluation.outputs import for_people

    if line.reliability is not None and found.curves is not None:
        outputs.write_frames([for_people(found.curves, line.reliability)], line.reliability)
    if line.decision_curve is not None and found.net_benefit is not None:
        table = for_people(found.net_benefit(), line.decision_curve)
        outputs.write_frames([table], line.decision_curve)
    if line.plot is not None:
        from calibkit.reports.evaluated import picture_of

        outputs.write_bytes(picture_of(options, source, found, line.plot.lower()[-3:]), line.plot)
    if line.report is not None:
        from calibkit.reports.evaluated import page_of

        outputs.write_bytes(page_of(options, source, found), line.report)
