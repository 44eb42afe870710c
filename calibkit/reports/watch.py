"""A watch over the nights: the confidence sequence of each promise, and the evidence against it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.methods.watch.watch import HISTORY, are_states, merged
from calibkit.options.plot import WatchPlotOptions
from calibkit.reports.style import Points, Sheet


def of_states(files: Sequence[str]) -> Source | None:
    """Return what states of a watch say of each night, as rows; None for files of another kind."""
    if not are_states(files):
        return None
    table = merged(list(files)).history()
    if not table.height:
        raise UsageError(f"{files[0]}: no night has been counted yet; there is nothing to draw.")
    return Source.from_frame(table, files[0])


def columns(source: Source) -> dict[str, str]:
    """Return the columns of the nights; `UsageError` where one is missing."""
    source.require(list(HISTORY), "plot watch, which draws states of a watch")
    return {name: name for name in HISTORY}


def points(source: Source, options: WatchPlotOptions) -> Points:
    """Return the nights of a watch as `calibkit.methods.watch.watch.Watched.history` has them."""
    table = source.read(list(columns(source))).cast(HISTORY)
    first = table.row(0, named=True)["period"]
    words = {"first": first} if "-" in first[1:] else {}  # a date; other nights are numbers anyway
    return Points(kind=options.KIND, table=table, words=words)


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw a panel a promise, and below them the evidence against all, on a logarithmic axis."""
    promises = shown.table.partition_by("promise", maintain_order=True)
    *panels, below = sheet.panels(*[1.0] * len(promises), 0.8)
    share = 1.0 / (len(panels) + 0.8)
    alarm = math.log10(float(shown.table["threshold"][0]))
    for place, (panel, own) in enumerate(zip(panels, promises, strict=True)):
        known = own.filter(pl.col("estimate").is_not_null())
        night, name = known["night"], str(own["promise"][0])
        panel.axhline(float(own["bound"][0]), **sheet.guide)
        sheet.band(panel, place, night, known)
        sheet.curve(panel, place, name, night, known["estimate"])
        sheet.series(panel, place, night, known["rate"], ls="none", ms=3.0)
        sheet.label(panel, y=name.partition(" ")[0], share=share)
        # Beyond its cube the height of an alarm says nothing more.
        height = own["e_value"].log10().clip(upper_bound=3.0 * alarm)
        sheet.series(below, place, own["night"], height, marker="")
        alarms = own.filter("refuted")["night"]
        if alarms.len():
            for one in (panel, below):
                one.axvline(int(alarms[0]), color=sheet.line(place)["color"], lw=1.2, ls=":")
    below.axhline(alarm, **sheet.guide)
    below.locator_params(axis="x", integer=True)
    since = f" (1 is {shown.words['first']})" if "first" in shown.words else ""
    sheet.label(below, x=f"night{since}", y="e-value, log10", share=0.8 * share)
    sheet.entry("a night alone", **sheet.line(0) | sheet.rim | {"ls": "none", "ms": 3.0})
    sheet.entry("bound; e-value of an alarm", **sheet.guide)
