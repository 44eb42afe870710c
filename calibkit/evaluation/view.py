"""Metrics on a terminal: a table of all rows, and one line a slice below it."""

from __future__ import annotations

from collections.abc import Sequence

from calibkit.measures.result import Difference, Metrics, alike
from calibkit.models.page import Page, cell_text

ALL = "all"

#: What is shown of a slice other than all rows: as much as fits on a line.
OF_SLICES = (
    *("count", "base_rate", "mean_score", "auc", "log_loss", "ece"),
    *("selected", "precision", "recall", "accuracy"),
    *("squared_loss", "epistemic_loss", "class_calibration_error", "dispersion_error"),
    *("disagreement_loss", "disagreement_calibration_error"),
)


def headline(metrics: Metrics) -> str:
    """Return in a few words what metrics are of."""
    slices = {name for found in metrics.metrics.values() for name in found}
    count = len({name for found in metrics.metrics.values() for name in found[ALL]})
    beside = f", {len(slices)} slices" if len(slices) > 1 else ""
    what = f"{count} metric{'s' * (count != 1)}{beside}"
    return f"{', '.join(metrics.metrics)}: {what}, {metrics.rows:,} rows"


def lines(metrics: Metrics) -> list[str]:
    """Return what metrics are of, in a line."""
    return [f"{headline(metrics)}."]


def view(metrics: Metrics, page: Page) -> None:
    """Print metrics: all rows first, a table for scores and one for decisions; then the slices."""
    for scores in alike(metrics):
        _print_all(metrics, scores, page)
    for score, slices in metrics.metrics.items():
        if len(slices) > 1:
            names = [name for name in OF_SLICES if name in slices[ALL]] or list(slices[ALL])[:6]
            parts = [ALL, *(part for part in slices if part != ALL)]
            rows = [[part, *(_rounded(slices[part][name]) for name in names)] for part in parts]
            page.table(["slice", *names], rows, title=f"{score} by slice")
            page.say("")


def _print_all(metrics: Metrics, scores: Sequence[str], page: Page) -> None:
    """Print the metrics of all rows, a column a score, with intervals and differences."""
    bounded = any(metrics.intervals.get(score, {}).get(ALL) for score in scores)
    against = {
        name: found[ALL]
        for name, found in metrics.differences.items()
        if any(name == f"{one}-{two}" for one in scores for two in scores)
    }
    header = ["metric"]
    for score in scores:
        header += [score, "interval"] if bounded else [score]
    header += against
    rows = []
    names = list(metrics.metrics[scores[0]][ALL])
    of_classes = [name for name in names if name.endswith("]")]
    for name in [name for name in names if name not in of_classes]:
        row: list[object] = [name]
        for score in scores:
            row.append(metrics.metrics[score][ALL][name])
            if bounded:
                found = metrics.intervals[score][ALL].get(name)
                row.append("" if found is None else _span(found.low, found.high))
        row += [_difference(differences.get(name)) for differences in against.values()]
        rows.append(row)
    page.table(header, rows, title=f"{metrics.rows:,} rows")
    if of_classes:
        page.say(f"… and {len(of_classes)} metrics of single classes; -o FILE writes them.")
    page.say("")


def _span(low: float | None, high: float | None) -> str:
    return f"{cell_text(_rounded(low))} to {cell_text(_rounded(high))}"


def _difference(one: Difference | None) -> str:
    if one is None:
        return ""
    if one.value is None:
        return "-"
    ends = f" ({_span(one.low, one.high)})" if one.low is not None else ""
    return f"{'+' if one.value > 0 else ''}{cell_text(_rounded(one.value))}{ends}"


def _rounded(value: float | None) -> float | None:
    """Return a float with four significant digits; a whole number as it is."""
    return float(f"{value:.4g}") if isinstance(value, float) else value
