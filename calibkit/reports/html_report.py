"""The page of one evaluation: what a reader wants to know first, then everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from calibkit.evaluation.evaluate import Evaluated
from calibkit.evaluation.findings import ALL
from calibkit.measures.result import Difference, Metrics, Number, alike
from calibkit.models.page import Table, some_of
from calibkit.options.metrics import meaning, stem
from calibkit.reports import html
from calibkit.reports.html import NOTHING, Markup, Span
from calibkit.version import __version__

#: Metrics shown large, the first six that a score has.
HEADLINES = (
    *("precision", "recall", "selected", "fpr", "f1"),
    *("accuracy", "auc", "average_precision", "log_loss", "calibration_bias", "ece", "brier"),
    *("classwise_ece", "squared_loss", "epistemic_loss", "class_calibration_error"),
    *("disagreement_loss", "disagreement_calibration_error"),
)
_MOST_HEADLINES = 6

#: Metrics of a table of slices, the first eight that a score has.
OF_SLICES = ("count", "base_rate", "mean_score", "selected", "rows_used", *HEADLINES)
_MOST_COLUMNS = 8

#: Slices whose every metric is on the page; metrics.json has them all.
_MOST_IN_FULL = 100

_CONFUSION = ("tp", "fp", "fn", "tn")


def report(
    found: Evaluated,
    *,
    inputs: Sequence[str],
    confidence: float | None,
    short: Sequence[str],
    story: Sequence[str | Table],
    pictures: Sequence[Markup],
    remark: str,
) -> bytes:
    """Return the page of an evaluation: UTF-8, one file, the same bytes for the same findings.

    `short` says what came of decisions, `story` what is to be said of the boundary, `remark` why
    `pictures` are missing; `confidence` is None where there are no intervals.
    """
    metrics = found.metrics
    told = [*found.warnings, *found.notes]
    names = list(dict.fromkeys(name for own in metrics.metrics.values() for name in own[ALL]))
    terms: list[Markup] = []
    for name in dict.fromkeys(map(stem, names)):  # without bounds and classes
        terms += [html.tag("dt", html.tag("code", name)), html.tag("dd", meaning(name))]
    signed = [[name, metrics.signature[name]] for name in names if name in metrics.signature]
    caption = "Two numbers are comparable if their signatures are equal"
    signatures = Table(["metric", "signature"], signed, caption, codes=(0, 1))
    return html.page(
        f"Evaluation of {some_of(inputs, 3)}",
        _head(metrics, inputs, confidence),
        html.section("In short", html.paragraphs(short)),
        html.section(
            "What to know about the data",
            html.tag("div", html.paragraphs(told), class_="warnings") if told else NOTHING,
        ),
        _pictures(found, pictures, remark),
        _story(metrics, story),
        *(_glance(metrics, score) for score in metrics.metrics),
        html.section("All rows", *(_all_rows(metrics, scores) for scores in alike(metrics))),
        html.section("Differences", *(_differences(metrics, pair) for pair in metrics.differences)),
        html.section("Slices", *(_slices(metrics, score) for score in metrics.metrics)),
        html.section("What the figures mean", html.tag("dl", html.joined(terms), class_="terms")),
        html.section("How they were computed", html.table(signatures)),
        html.tag("footer", f"Written by calibkit {__version__}."),
    )


def _head(metrics: Metrics, inputs: Sequence[str], confidence: float | None) -> Markup:
    of = html.tag("code", some_of(inputs, 3))
    heading = html.tag("h1", html.joined(["Evaluation of ", of]))
    line = f"{metrics.rows:,} rows; scores: {', '.join(metrics.metrics)}."
    if confidence is not None and metrics.intervals:
        line += f" {100 * confidence:.10g} % confidence intervals."
    return html.tag("header", html.joined([heading, html.paragraphs([line], class_="soft")]))


def cell_of(metrics: Metrics, score: str, part: str, name: str) -> Number | Span | None:
    """Return a metric, with its interval where there is one."""
    value = metrics.metrics[score][part].get(name)
    own = metrics.intervals.get(score, {}).get(part, {}).get(name)
    return value if own is None else Span(value, own.low, own.high)


def _chosen(values: dict[str, Number], wanted: Sequence[str], most: int) -> list[str]:
    known = [name for name in dict.fromkeys(wanted) if name in values]
    return known[:most] or [name for name in values if not name.endswith("]")][:most]


def _glance(metrics: Metrics, score: str) -> Markup:
    """Return the main figures of a score, large."""
    values = metrics.metrics[score][ALL]
    cards = []
    for name in _chosen(values, HEADLINES, _MOST_HEADLINES):
        cell = cell_of(metrics, score, ALL, name)
        lines = [html.tag("dt", name.replace("_", " "), title=meaning(name))]
        lines.append(html.tag("dd", html.number(values[name])))
        if isinstance(cell, Span):
            ends = f"{html.number(cell.low)} to {html.number(cell.high)}"
            lines.append(html.tag("dd", ends, class_="interval"))
        cards.append(html.tag("div", html.joined(lines)))
    return html.section(f"{score} at a glance", html.tag("dl", html.joined(cards), class_="cards"))


def _story(metrics: Metrics, story: Sequence[str | Table]) -> Markup:
    """Return what decisions came to: the boundary's own words, and each confusion matrix."""
    told = [
        html.table(part) if isinstance(part, Table) else html.paragraphs([part]) for part in story
    ]
    counted = [
        _confusion(score, slices[ALL])
        for score, slices in metrics.metrics.items()
        if all(slices[ALL].get(name) is not None for name in _CONFUSION)
    ]
    return html.section("Boundary" if told else "Decisions", *counted, *told)


def _confusion(score: str, values: dict[str, Number]) -> Markup:
    columns = [html.tag("th", f"label {side}", scope="col") for side in ("positive", "negative")]
    lines = []
    for name, counts in (("selected", ("tp", "fp")), ("not selected", ("fn", "tn"))):
        cells = [html.tag("td", html.cell_text(values[one])) for one in counts]
        lines.append(html.tag("tr", html.tag("th", name, scope="row"), *cells))
    parts = [
        html.tag("caption", f"Confusion matrix of {score}: rows on these data"),
        html.tag("thead", html.tag("tr", html.tag("td"), *columns)),
        html.tag("tbody", html.joined(lines)),
    ]
    return html.tag("div", html.tag("table", html.joined(parts), class_="confusion"), class_="wide")


def _pictures(found: Evaluated, pictures: Sequence[Markup], remark: str) -> Markup:
    drawn = [*(pictures or _diagrams(found.curves)), *_slice_pictures(found.metrics)]
    return html.section(
        "Pictures",
        html.tag("div", html.joined(drawn), class_="pictures") if drawn else NOTHING,
        html.paragraphs([remark] if remark else [], class_="soft"),
    )


def _diagrams(curves: pl.DataFrame | None) -> Iterator[Markup]:
    """Yield a reliability diagram a score, of all rows."""
    if curves is None or "curve" not in curves.columns:
        return
    for score in curves["score"].unique(maintain_order=True):
        own = curves.filter((pl.col("score") == score) & (pl.col("slice") == ALL))
        if drawing := html.reliability(own):
            words = (
                f"Reliability of {score}: a dot a bin with its interval; the line is isotonic "
                "regression (CORP). On the dashed line scores say how often rows are positive."
            )
            yield html.figure(drawing, words)


def _slice_pictures(metrics: Metrics) -> Iterator[Markup]:
    """Yield a picture a score: its first headline with an interval, slice by slice."""
    for score, slices in metrics.metrics.items():
        bounded = metrics.intervals.get(score, {}).get(ALL, {})
        names = [name for name in HEADLINES if name in slices[ALL] and name in bounded]
        for name in names[:1]:
            cells = [(part, cell_of(metrics, score, part, name)) for part in slices]
            values = [(part, cell) for part, cell in cells if isinstance(cell, Span)]
            if drawing := html.slices(name, values):
                rest = len(slices) - html.MOST_SLICES
                more = f" The first {html.MOST_SLICES} are drawn." if rest > 0 else ""
                words = (
                    f"{name} of {score} in each slice; the dashed line is that of all rows.{more}"
                )
                yield html.figure(drawing, words)


def _all_rows(metrics: Metrics, scores: Sequence[str]) -> Markup:
    """Return the metrics of all rows, a column a score; those of single classes folded away."""
    header, caption = ["metric", *scores], "Metrics on all rows"
    main, single = (
        [
            [name, *(cell_of(metrics, score, ALL, name) for score in scores)]
            for name in metrics.metrics[scores[0]][ALL]
            if name.endswith("]") == of_class
        ]
        for of_class in (False, True)
    )
    classes = Table(header, single, f"{caption}, class by class", codes=(0,))
    return html.folding(Table(header, main, caption, codes=(0,)), "Each class", classes)


def _differences(metrics: Metrics, pair: str) -> Markup:
    """Return by how much two scores differ, on all rows and folded away on slices."""
    slices = metrics.differences[pair]

    def cells(found: Difference) -> list[object]:
        return [Span(found.value, found.low, found.high, signed=True), _verdict(found)]

    own = [[name, *cells(found)] for name, found in slices[ALL].items() if not name.endswith("]")]
    rest = [
        [part, name, *cells(found)]
        for part in [part for part in slices if part != ALL][:_MOST_IN_FULL]
        for name, found in slices[part].items()
        if found.value is not None and not name.endswith("]")
    ]
    header = ["metric", "difference", "0 inside"]
    title = f"{pair} on all rows: the first less the baseline"
    main = Table(header, own, title, codes=(0,))
    each = Table(["slice", *header], rest, f"{pair} by slice", codes=(0, 1))
    return html.folding(main, "On slices", each)


def _verdict(found: Difference) -> str:
    """Say whether the interval leaves open that there is no difference."""
    if found.low is None or found.high is None:
        return "–"
    return "yes" if found.low <= 0.0 <= found.high else "no"


def _slices(metrics: Metrics, score: str) -> Markup:
    """Return a line a slice with the main metrics, and folded away all of them."""
    slices = metrics.metrics[score]
    if len(slices) < 2:
        return NOTHING
    names = _chosen(slices[ALL], OF_SLICES, _MOST_COLUMNS)
    short = [[part, *(values.get(name) for name in names)] for part, values in slices.items()]
    shown = [part for part in slices if part != ALL][:_MOST_IN_FULL]
    full = [
        [part, name, cell_of(metrics, score, part, name)] for part in shown for name in slices[part]
    ]
    rest = len(slices) - 1 - len(shown)
    more = f", of the first {len(shown)}; metrics.json has {rest} more" if rest else ""
    caption = f"Every metric of {score} by slice{more}"
    every = Table(["slice", "metric", "value"], full, caption, codes=(0, 1))
    main = Table(["slice", *names], short, f"{score} by slice", codes=(0,))
    return html.folding(main, "Every metric", every)
