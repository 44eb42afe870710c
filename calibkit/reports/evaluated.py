"""What is shown of an evaluation: its picture, and its page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

from calibkit.evaluation.evaluate import Evaluated
from calibkit.evaluation.slices import ALL
from calibkit.files.inputs import Part
from calibkit.files.sources import Source
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.models.model import Model
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.plot import RocOptions
from calibkit.reports import plots, reliability
from calibkit.reports.html import Cell, Markup, Table
from calibkit.reports.html_boundary import beside
from calibkit.reports.html_report import report
from calibkit.reports.judged import curves_of
from calibkit.views import page_of as viewed
from calibkit.views.page import Page

_NO_PICTURES: Final = (
    "More pictures (precision and recall, ROC, the boundary over score and uncertainty) come with the "
    "extra calibkit[plot]: pip install 'calibkit[plot]'."
)

_TOO_MANY: Final = (
    "Pictures that need all rows at once are left out: the rows do not fit into the memory given "
    "(--memory)."
)


def picture_of(options: EvaluateOptions, source: Source, found: Evaluated, format: str) -> bytes:  # noqa: A002 (the word of options)
    """Return the picture of an evaluation with curves, over all rows, as ``svg`` or ``png``.

    A reliability diagram; of votes that of the predicted disagreement; of raw scores the ROC curve.

    Raises
    ------
    DataError
        Where there is nothing to draw.
    """
    if options.scale == "raw" and not options.patterns:
        shown = plots.points(source, curves_of(RocOptions, options))
        return plots.picture(shown, format=format)
    whole = found.curves
    if whole is not None:
        whole = whole.filter(whole["slice"] == ALL)
    shown = reliability.of_evaluated(replace(found, curves=whole), options)
    return plots.picture(shown, format=format)


def page_of(options: EvaluateOptions, source: Source, found: Evaluated) -> bytes:
    """Return the HTML page of an evaluation with curves; pictures of all rows where these fit."""
    model = options.model
    drawn: list[Markup] = []
    remark = _NO_PICTURES
    if find_spec("matplotlib") is not None:
        from calibkit.reports.html_plots import pictures

        boundary = model if isinstance(model, BoundaryModel) else None
        fits = source.memory is None or source.rows <= source.memory.entries
        drawn = pictures(source if fits else None, options, found, boundary)
        remark = "" if fits else _TOO_MANY
    return report(
        found,
        inputs=[_named(part) for part in source.parts],
        confidence=options.confidence if options.intervals else None,
        story=[] if model is None else [*_story(model, found)],
        pictures=drawn,
        remark=remark,
    )


def _named(part: Part) -> str:
    return "standard input" if part.path == "-" else part.relative or part.path


def _story(model: Model, found: Evaluated) -> Iterator[str | Table]:
    """Yield what a boundary led to expect beside what was found, and all that is to say of it."""
    if isinstance(model, BoundaryModel):
        yield from beside(model, found.metrics)
    for part in viewed(model, Page(everything=True)).parts:
        if isinstance(part, str):
            if part:
                yield part
            continue
        cells = [[_cell(cell) for cell in row] for row in part.rows]
        caption = part.title or f"{part.header[0] or 'figures'}: {', '.join(part.header[1:])}"
        yield Table(caption=caption, header=part.header, rows=cells, codes=())


def _cell(value: object) -> Cell:
    return value if value is None or isinstance(value, str | int | float) else str(value)
