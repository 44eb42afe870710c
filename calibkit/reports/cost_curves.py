"""Decision curves and cost curves: what decisions are worth at all costs at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from calibkit.evaluation.decision_curves import models_of
from calibkit.evaluation.rows import read_evaluate_rows
from calibkit.files.sources import Source
from calibkit.measures.net_benefit import COST, NET_BENEFIT, Flagged, curves, refuse
from calibkit.options.plot import CurveOptions
from calibkit.reports.points import Points, check_lines, per_cent
from calibkit.reports.style import Sheet

_WORTHS = {"decision-curve": NET_BENEFIT, "cost-curve": COST}

#: What stands at the axes, by kind; that of costs has its own name in the table.
_LABELS = {
    "decision-curve": "net benefit a row, in true positives",
    "cost-curve": "expected cost a row",
}


def points(source: Source, options: CurveOptions) -> Points:
    """Return the curves of boundaries, decisions and scores, and those of ``all`` and ``none``.

    Raises
    ------
    UsageError
        Columns or models that are not there, or too many of them; scores that are no probabilities.
    DataError
        Values that are missing or of the wrong type.
    """
    check_lines(options.names, "scores", "--score")
    check_lines([name for name, _ in options.boundaries], "boundaries", "--boundary")
    kind, spec = options.KIND, options.judged
    refuse(spec, f"a {kind.replace('-', ' ')}")
    base = replace(spec, metrics=("count",))
    rows = read_evaluate_rows(base, source)
    found = []
    for name, model in options.boundaries:
        own = replace(base, boundary=model, decision=None, uncertainty=options.uncertainty)
        judged: Flagged = models_of(own, read_evaluate_rows(own, source))[0]
        found.append(replace(judged, name=name))
    found += models_of(base, rows)
    confidence = base.confidence if base.intervals else None
    table = curves(found, _WORTHS[kind], confidence, base.seed)
    if kind == "cost-curve":
        table = table.rename({"net_benefit": "cost"})
    return Points.of(kind, table, rows, interval=per_cent(confidence))


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw a line a model with its band, and what flagging every row and none would give."""
    (panel,) = sheet.panels()
    benefit = shown.kind == "decision-curve"
    column = "net_benefit" if benefit else "cost"
    table = shown.table
    flat = table.filter(pl.col("model").is_in(["all", "none"]))
    best = float(table[column].max())  # type: ignore[arg-type]
    bottom, top = (-0.25 * best, 1.1 * best) if benefit else (0.0, _most(flat))
    models = table.partition_by("model", maintain_order=True)[:-2]
    for place, own in enumerate(models):
        line = {**sheet.line(place), "marker": ""}
        x = own["threshold"].to_numpy()
        if own["low"].null_count() == 0:
            low, high = (np.clip(own[end].to_numpy(), bottom, top) for end in ("low", "high"))
            panel.fill_between(x, low, high, color=line["color"], alpha=0.18, lw=0)
        seen = own.filter(pl.col(column) >= bottom)
        panel.plot(seen["threshold"].to_numpy(), seen[column].to_numpy(), **line)
        sheet.entry(own["model"][0], **line)
    for name, dots in (("all", (0, (4, 3))), ("none", (0, (1, 2)))):
        own = flat.filter(pl.col("model") == name).filter(pl.col(column).is_between(bottom, top))
        look = {**sheet.guide, "ls": dots}
        panel.plot(own["threshold"].to_numpy(), own[column].to_numpy(), **look)
        sheet.entry(f"{name} flagged", **look)
    panel.set(xlim=(0.0, 1.0), ylim=(bottom, top))
    at = "threshold (cost of a false alarm)"
    sheet.label(panel, x=at, y=_LABELS[shown.kind] + shown.interval.replace("interval", "band"))


def _most(flat: pl.DataFrame) -> float:
    """Return where an axis of costs ends: a little above the best without any model."""
    best = flat.group_by("threshold").agg(pl.col("cost").min())["cost"].max()
    return 1.6 * float(best)  # type: ignore[arg-type]
