"""Recall that uncertainty gains over a single threshold, by the bound on precision.

Arora, Merugu, Saladi, Rastogi, "Leveraging uncertainty estimates to improve classifier
performance", figure 6 (a).  The figure shows recall alone; here the precision on the same rows
stands below it, because a boundary tuned on one file falls short of its bound on others.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import ScoreRows, read_score_rows
from calibkit.errors import InfeasibleError, UsageError, nearest
from calibkit.files.sources import Source
from calibkit.methods.boundary.application import probabilities
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.numerics.binomial import interval
from calibkit.numerics.bounds import Bound, decimal_bound
from calibkit.numerics.normal import critical_value
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.grid_plots import RecallGainOptions
from calibkit.options.judging import decimals
from calibkit.reports.points import Points, check_lines, ends_of, per_cent, schema
from calibkit.reports.style import Sheet, aside
from calibkit.views.answer import alert_counts

#: What the others are compared with.
BASELINE = "st"

_RATES = ("precision", "recall", "baseline_precision", "baseline_recall", "gain")
_BOUNDED = ("precision", "baseline_precision", "gain")
_SCHEMA = schema("method", "bound", *_RATES, *ends_of(_BOUNDED))


def points(source: Source, options: RecallGainOptions) -> Points:
    """Return recall and precision of each method at each bound, beside the best single threshold's.

    They are those on the rows of ``test``, else the cross-validated ones, and null where a method
    finds no boundary.  `gain` is recall / recall of the single threshold - 1.

    The intervals of precision are exact for the alerts counted (Clopper, Pearson).  That of the gain
    is normal on the logarithmic scale, from the positives of ``test`` that one boundary finds and the
    other does not; without such rows there is none.
    """
    from calibkit.methods.boundary.result.fit import fit_boundary  # which no other picture needs

    check_lines(options.methods, "methods", "--method")
    known = [
        name
        for name, method in METHODS.items()
        if "precision" in method.objectives and name != BASELINE
    ]
    for name in options.methods:
        if name not in known:
            raise UsageError(
                f"--method {name!r} cannot be compared with st at bounds on precision"
                f"{nearest(name, known)}; the methods are {', '.join(known)}."
            )
    bounds = sorted(
        {decimal_bound(text, "--precision") for text in decimals(options.precision, "--precision")},
        key=lambda one: one.numerator / one.denominator,
    )
    rows = read_score_rows(source, options.columns)
    held = None
    if options.test is not None:
        held = read_score_rows(source.beside(options.test, "test"), rows.options)
    confidence = options.confidence if options.intervals and options.weight is None else None
    found: dict[tuple[str, Bound], _Judged] = {}
    for bound in bounds:
        for name in (BASELINE, *options.methods):
            own = BoundaryOptions(
                precision=bound.text,
                method=name,
                uncertainty_bins=None if METHODS[name].surface else options.uncertainty_bins,
                score_bins=options.score_bins if METHODS[name].take else None,
                folds=0 if held is not None else options.folds,
                seed=options.seed,
                threads=options.workers,
                provenance="none",
            )
            if name == BASELINE:
                own = own.at_levels(None)
            with suppress(InfeasibleError):
                found[name, bound] = _judged(fit_boundary(rows, own, test=held).model, held)
    table = []
    for name in options.methods:
        for bound in bounds:
            row: dict[str, object] = {"method": name, "bound": bound.numerator / bound.denominator}
            one, base = found.get((name, bound)), found.get((BASELINE, bound))
            for of, prefix in ((one, ""), (base, "baseline_")):
                if of is not None:
                    row |= {f"{prefix}precision": of.precision, f"{prefix}recall": of.recall}
                if of is not None and of.counts is not None and confidence is not None:
                    (low,), (high,) = interval([of.counts[0]], [of.counts[1]], confidence)
                    row |= {f"{prefix}precision_low": low, f"{prefix}precision_high": high}
            if one is not None and base is not None and one.recall is not None and base.recall:
                row["gain"] = one.recall / base.recall - 1.0
                row["gain_low"], row["gain_high"] = _gain_ends(one, base, confidence)
            table.append(row)
    judged_on = "test rows" if held is not None else f"cross-validated, {options.folds} folds"
    frame = pl.DataFrame(table, schema=_SCHEMA)
    return Points.of("recall-gain", frame, rows, rows=judged_on, interval=per_cent(confidence))


@dataclass(frozen=True)
class _Judged:
    """A boundary on rows that it was not fitted on."""

    precision: float | None
    recall: float | None
    counts: tuple[int, int] | None  # alerts that are right, and all alerts, where they are a draw
    hit: NDArray[np.bool_] | None  # of test rows those that are positive and selected


def _judged(model: BoundaryModel, held: ScoreRows | None) -> _Judged:
    """Return precision and recall on test rows, else those of the cross-validation."""
    if held is None:
        checked = model.fit.cross_validated
        assert checked is not None  # `folds` is 2 or more
        return _Judged(checked.precision, checked.recall, alert_counts(model), None)
    test = model.fit.test
    assert test is not None and held.label is not None
    chance = probabilities(model, held.score, held.uncertainty)
    certain = ((chance == 0.0) | (chance == 1.0)).all()
    hit = (chance == 1.0) & (held.label == 1) if certain else None
    return _Judged(test.precision, test.recall, alert_counts(model), hit)


def _gain_ends(
    one: _Judged, base: _Judged, confidence: float | None
) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of a ratio of two recalls of the same positives, less 1."""
    if confidence is None or one.hit is None or base.hit is None:
        return None, None
    both = np.count_nonzero(one.hit & base.hit)
    hits, base_hits = np.count_nonzero(one.hit), np.count_nonzero(base.hit)
    if not hits or not base_hits:
        return None, None
    variance = (hits + base_hits - 2 * both) / (hits * base_hits)
    reach = math.exp(critical_value(confidence) * math.sqrt(variance))
    return hits / base_hits / reach - 1.0, hits / base_hits * reach - 1.0


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw the gain of each method above, and by how much precision misses the bound below."""
    above, below = sheet.panels(3, 2)
    for panel in (above, below):
        panel.axhline(0.0, zorder=1, **sheet.guide)
    table = shown.table.with_columns(
        pl.col(f"{name}precision{end}").sub(pl.col("bound")).alias(f"{name}miss{end}")
        for name in ("", "baseline_")
        for end in ("", "_low", "_high")
    )
    series = table.partition_by("method", maintain_order=True)
    wide = float(np.ptp(table["bound"].to_numpy()))
    for place, own in enumerate(series):
        for panel, name in ((above, "gain"), (below, "miss")):
            known = own.filter(pl.col(name).is_not_null())
            x = known["bound"] + aside(place, len(series)) * wide
            sheet.series(panel, place, x, known[name])
            sheet.whiskers(panel, place, x, known[f"{name}_low"], known[f"{name}_high"])
        sheet.entry(own["method"][0], **sheet.line(place))
    base = series[0].filter(pl.col("baseline_miss").is_not_null())
    look: dict[str, Any] = {"color": sheet.ink, "ls": "-", "marker": "+", "lw": 1.0, "ms": 6.0}
    below.plot(base["bound"].to_numpy(), base["baseline_miss"].to_numpy(), **look)
    ends = (base[f"baseline_miss_{end}"] for end in ("low", "high"))
    sheet.whiskers(below, 0, base["bound"], *ends, color=sheet.ink)
    sheet.entry("single threshold (st)", **look)
    above.yaxis.set_major_formatter(lambda value, _: f"{100 * value:+.6g}%" if value else "0%")
    below.yaxis.set_major_formatter(lambda value, _: f"{value:+.4g}" if value else "0")
    sheet.label(above, y=f"gain in recall over one threshold{shown.interval}", share=0.6)
    sheet.label(
        below, x=f"bound on precision ({shown.words['rows']})", y="precision − bound", share=0.4
    )
