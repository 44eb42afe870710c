"""A boundary's word and what came of it: expected and certified figures beside those of the page."""

from __future__ import annotations

from collections.abc import Callable

from calibkit.evaluation.rows import BOUNDARY
from calibkit.evaluation.slices import ALL
from calibkit.measures.result import Metrics, Number
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.models.page import Table
from calibkit.reports.html import Span, number
from calibkit.views.answer import hundredths, rule

#: Bounds that metrics call otherwise.
_METRICS = {"capacity": "selected_share"}


def in_short(model: BoundaryModel | None, metrics: Metrics) -> list[str]:
    """Return what decisions came to in sentences: alerts, those that were right, what was missed."""
    lines = []
    for score, slices in metrics.metrics.items():
        values = slices[ALL]
        if any(values.get(name) is None for name in ("tp", "fp", "fn", "tn")):
            continue
        tp, fp, fn, tn = (float(values[name] or 0) for name in ("tp", "fp", "fn", "tn"))
        rows, alerts = tp + fp + fn + tn, tp + fp
        said = f"{score}: {number(alerts)} of {number(rows)} rows raise an alert"
        said += f", {1000 * alerts / rows:,.3g} of a thousand." if rows else "."
        if alerts:
            said += f" {hundredths(tp / alerts)} of 100 alerts are right."
        if tp + fn:
            said += (
                f" {hundredths(tp / (tp + fn))} % of the positives are found: {number(tp)} of "
                f"{number(tp + fn)}; {number(fn)} are missed."
            )
        if fp + tn:
            said += f" {hundredths(fp / (fp + tn))} % of the negatives raise a false alarm."
        lines.append(said)
    if model is None or BOUNDARY not in metrics.metrics:
        return lines
    return [*_bounds(model, _finder(metrics)), rule(model), *lines]


def _finder(metrics: Metrics) -> Callable[[str], Number | Span | None]:
    """Return what finds a figure of the boundary, with its interval where there is one."""

    def found(name: str) -> Number | Span | None:
        reach = f"{BOUNDARY}:review"  # of three-way decisions, whose recall is that of both
        under = reach if name == "recall" and reach in metrics.metrics else BOUNDARY
        interval = metrics.intervals.get(under, {}).get(ALL, {}).get(name)
        value = metrics.metrics[under][ALL].get(name)
        return value if interval is None else Span(value, interval.low, interval.high)

    return found


def beside(model: BoundaryModel, metrics: Metrics) -> list[Table]:
    """Return what the boundary led to expect beside what the rows of the evaluation show."""
    values = metrics.metrics.get(BOUNDARY, {}).get(ALL, {})
    if not values:
        return []
    found = _finder(metrics)
    fit = model.fit
    judged = fit.test or fit.cross_validated
    rows: list[list[object]] = [
        [name, getattr(fit.in_sample, name), getattr(judged, name, None), found(name)]
        for name in ("precision", "recall")
        if name in values
    ]
    how = "its test rows" if fit.test else "cross-validated"
    header = ["", "fitting rows", how if judged else "not judged on others", "found here"]
    return [Table(header, rows, "What to expect, and what was found")] if rows else []


def _bounds(model: BoundaryModel, found: Callable[[str], Number | Span | None]) -> list[str]:
    """Say of each bound of the fit whether the rows of the evaluation keep it."""
    certificate, lines = model.fit.certificate, []
    for name, bound in model.objective.subject_to.items():
        cell = found(_METRICS.get(name, name))
        value = cell.value if isinstance(cell, Span) else cell
        whole = name == "capacity" and bound >= 1.0
        if value is None or "value" in model.columns or whole:
            continue
        least = name in ("precision", "recall")
        word = "meets" if (value >= bound if least else value <= bound) else "misses"
        lines.append(
            f"{name} {'>=' if least else '<='} {number(bound)}: these rows show {number(value)}, "
            f"which {word} it{_chance(cell, bound, least)}."
        )
    if certificate is not None:
        promised = " and ".join(one.text for one in certificate.all)
        lines.append(
            f"Certificate: {promised} on new rows of "
            f"the same kind, with confidence {certificate.confidence:g} over the drawing of the "
            f"{certificate.rows:,} rows that certified it."
        )
    return lines


def _chance(cell: object, bound: float, least: bool) -> str:
    """Say whether the interval leaves it open that the bound is met."""
    if not isinstance(cell, Span) or cell.low is None or cell.high is None:
        return ""
    both = cell.low < bound <= cell.high if least else cell.low <= bound < cell.high
    return "; its interval includes the bound" if both else ", as does its whole interval"
