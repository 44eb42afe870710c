"""What ``evaluate --report`` hands to the page: the findings, and what a boundary says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from calibkit.errors import UsageError

from .console import Console

if TYPE_CHECKING:
    from calibkit.files.inputs import Part
    from calibkit.files.sources import Source
    from calibkit.memory import Memory
    from calibkit.metrics.evaluate import Evaluated
    from calibkit.metrics.spec import EvaluateSpec
    from calibkit.models import Model
    from calibkit.report.html import Cell, Markup, Table

_SUFFIXES = (".html", ".htm")

_NO_PICTURES = (
    "More pictures (precision and recall, ROC, the boundary over score and uncertainty) come with the "
    "extra calibkit[plot]: pip install 'calibkit[plot]'."
)

_TOO_MANY = (
    "Pictures that need all rows at once are left out: the rows do not fit into the memory given "
    "(--memory)."
)


@dataclass
class Recorder(Console):
    """A console that keeps what a view says, to be shown elsewhere."""

    parts: list[str | Table] = field(default_factory=list)

    def say(self, *lines: str) -> None:
        """Keep paragraphs; blank lines between them are nothing."""
        self.parts += [line for line in lines if line]

    def table(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        title: str | None = None,
        error: bool = False,
    ) -> None:
        """Keep a table."""
        from calibkit.report.html import Table

        cells = [[_cell(cell) for cell in row] for row in rows]
        caption = title or f"{header[0] or 'figures'}: {', '.join(name for name in header[1:])}"
        self.parts.append(Table(caption=caption, header=header, rows=cells, codes=()))


def _cell(value: object) -> Cell:
    return value if value is None or isinstance(value, str | int | float) else str(value)


def check_report(output: str) -> None:
    """Raise before any work if a page cannot be written.

    Raises
    ------
    UsageError
        For a name that is no page's, a folder that does not exist, standard output.
    """
    from calibkit.files.outputs import check_output

    if output == "-":
        raise UsageError("--report - would mix with the metrics; give it a file.")
    if not output.endswith(_SUFFIXES):
        raise UsageError(f"--report {output}: the page is HTML; name it FILE.html.", file=output)
    check_output(output)


def report_of(source: Source, spec: EvaluateSpec, found: Evaluated, memory: Memory) -> bytes:
    """Return the page of an evaluation; pictures of all rows where these fit."""
    from calibkit.boundary.model import BoundaryModel
    from calibkit.models import Model, load
    from calibkit.report.html_report import Context, report

    given = spec.boundary
    model = given if given is None or isinstance(given, Model) else load(given)
    drawn: list[Markup] = []
    remark = _NO_PICTURES
    if find_spec("matplotlib") is not None:
        from calibkit.report.html_plots import pictures

        boundary = model if isinstance(model, BoundaryModel) else None
        fits = source.rows <= memory.entries
        drawn = pictures(source if fits else None, spec, found, boundary)
        remark = "" if fits else _TOO_MANY
    context = Context(
        inputs=[_named(part) for part in source.parts],
        confidence=spec.confidence if spec.intervals else None,
        story=story(model, found) if model else (),
        pictures=drawn,
        remark=remark,
    )
    return report(found, context)


def _named(part: Part) -> str:
    return "standard input" if part.path == "-" else part.relative or part.path


def story(model: Model, found: Evaluated) -> list[str | Table]:
    """Return what a boundary led to expect beside what was found, and what `show` says of it."""
    from calibkit.boundary.model import BoundaryModel
    from calibkit.report.html_boundary import beside

    from .views import view_of

    recorder = Recorder(everything=True)
    view_of(model.kind)(model, recorder)
    told = beside(model, found.metrics) if isinstance(model, BoundaryModel) else []
    return [*told, *recorder.parts]
