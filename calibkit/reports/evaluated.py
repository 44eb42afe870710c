"""What is shown of an evaluation: its picture, and its page.

The page says what a reader wants to know first, then everything: UTF-8, one file, the same bytes for
the same findings.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

from msgspec.structs import astuple, replace

from calibkit.errors import CalibkitError
from calibkit.evaluation.evaluate import evaluate
from calibkit.evaluation.findings import ALL, Evaluated
from calibkit.evaluation.rows import BOUNDARY, with_score
from calibkit.files.sources import Source
from calibkit.measures.result import Difference, Metrics, Number, alike, metric_of
from calibkit.methods.boundary.result.answer import hundredths, promised, rule, sign, within
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.models.kinds import view_of
from calibkit.models.page import Page, Table, some_of
from calibkit.options import plot
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.metrics import meaning, stem
from calibkit.options.plot import KINDS, HeatmapOptions, Look
from calibkit.reports import html, plots, reliability
from calibkit.reports.html import NOTHING, Markup, Span, escaped, number
from calibkit.reports.style import MOST_LINES, Points, Sheet, settings, shown_name, to_bytes
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

#: Slices that one picture shows at most.
_MOST_DRAWN = 40

#: How pictures of a page look, which says by itself what they show.
_LOOK: Final = Look(title="", transparent=True)

_NO_PICTURES: Final = (
    "Pictures (reliability, precision and recall, ROC, the boundary over score and uncertainty) come "
    "with the extra calibkit[plot]: pip install 'calibkit[plot]'."
)

_OTHER_RATE: Final = "Pictures of precision are left out: they would not show that of --prevalence."

_TOO_MANY: Final = (
    "Pictures that need all rows at once are left out: the rows do not fit into the memory given "
    "(--memory)."
)


def picture_of(options: EvaluateOptions, source: Source, found: Evaluated, format: str) -> bytes:  # noqa: A002 (the word of options)
    """Return the picture of an evaluation with curves, over all rows, as ``svg`` or ``png``.

    A reliability diagram; of votes that of the predicted disagreement; of raw scores the ROC curve.
    """
    options = with_score(options, source)
    if options.scale == "raw" and not options.patterns:
        shown = plots.points(source, options.part(plot.RocOptions, scores=options.ranked))
    else:
        shown = _reliability(options, found)
    return plots.picture(shown, format=format)


def page_of(options: EvaluateOptions, source: Source, found: Evaluated) -> bytes:
    """Return the HTML page of an evaluation with curves; pictures of all rows where these fit."""
    options = with_score(options, source)
    metrics, model = found.metrics, options.model
    boundary = model if isinstance(model, BoundaryModel) else None
    paths = [one.relative or one.path for one in source.parts]
    inputs = some_of(["standard input" if path == "-" else path for path in paths], 3)
    heading = html.tag("h1", html.joined(["Evaluation of ", html.tag("code", inputs)]))
    line = f"{metrics.rows:,} rows; scores: {', '.join(metrics.metrics)}."
    if options.intervals and metrics.intervals:
        line += f" {100 * options.confidence:.10g} % confidence intervals."
    names = list(dict.fromkeys(name for own in metrics.metrics.values() for name in own[ALL]))
    terms: list[Markup] = []
    for name in dict.fromkeys(map(stem, names)):  # without bounds and classes
        terms += [html.tag("dt", html.tag("code", name)), html.tag("dd", meaning(name))]
    signed = [[name, metrics.signature[name]] for name in names if name in metrics.signature]
    caption = "Two numbers are comparable if their signatures are equal"
    signatures = Table(["metric", "signature"], signed, caption, codes=(0, 1))
    told = html.paragraphs([*found.warnings, *found.notes])
    short = [*_in_short(boundary, metrics, options), *_money(options, source, boundary)]
    return html.page(
        f"Evaluation of {inputs}",
        html.tag("header", html.joined([heading, html.paragraphs([line], class_="soft")])),
        html.section("In short", html.paragraphs(short)),
        html.section(
            "What to know about the data",
            html.tag("div", told, class_="warnings") if told else NOTHING,
        ),
        _pictures(options, source, found, boundary),
        _story(metrics, options, boundary),
        *(_glance(metrics, score) for score in metrics.metrics),
        html.section("All rows", *(_all_rows(metrics, scores) for scores in alike(metrics))),
        html.section("Differences", *(_differences(metrics, pair) for pair in metrics.differences)),
        html.section("Slices", *(_slices(metrics, score) for score in metrics.metrics)),
        html.section("What the figures mean", html.tag("dl", html.joined(terms), class_="terms")),
        html.section("How they were computed", html.table(signatures)),
        html.tag("footer", f"Written by calibkit {__version__}."),
    )


def no_pictures() -> tuple[str, ...]:
    """Return how to have pictures on pages, where matplotlib is missing."""
    return () if find_spec("matplotlib") else (_NO_PICTURES,)


def _pictures(
    options: EvaluateOptions, source: Source, found: Evaluated, boundary: BoundaryModel | None
) -> Markup:
    """Return the pictures of all rows, those of slices, and why some are missing."""
    if missing := no_pictures():
        return html.section("Pictures", html.paragraphs(missing, class_="soft"))
    drawn: list[Markup] = []
    fits = source.memory is None or source.rows <= source.memory.entries
    remarks = [] if options.prevalence is None else [_OTHER_RATE]
    remarks += [] if fits else [_TOO_MANY]
    makers = [partial(_reliability, options, found)]
    for kind, own in _asked(options, boundary) if fits else ():
        makers.append(partial(plots.points, source, options.part(kind, **own)))
    for make in makers:
        try:
            shown = make()
        except CalibkitError:  # raw scores, one class, too many lines: no such picture
            continue
        svg, title = plots.picture(shown, _LOOK), KINDS[shown.kind].HEADING
        name = _METRICS.get(shown.kind, "epistemic_loss")
        values = [
            f"{score}: {name} {number(slices[ALL][name])}"
            for score, slices in found.metrics.metrics.items()
            if slices[ALL].get(name) is not None
        ]
        alt = f"{title} ({'; '.join(values)})." if values else f"{title}."
        drawn.append(_figure_of(svg, len(drawn), alt, f"{title}. {_WORDS[shown.kind]}"))
    for svg, words in _slice_pictures(found.metrics):
        drawn.append(_figure_of(svg, len(drawn), words, words))
    return html.section(
        "Pictures",
        html.tag("div", html.joined(drawn), class_="pictures") if drawn else NOTHING,
        html.paragraphs(remarks, class_="soft"),
    )


def _asked(
    options: EvaluateOptions, model: BoundaryModel | None
) -> Iterator[tuple[type[plot.PlotOptions], dict[str, Any]]]:
    """Yield the pictures of a page that need the rows, with options of their own."""
    names = options.ranked
    if options.counts is not None:
        yield plot.DispersionOptions, {"probs": options.patterns}
    if options.patterns or len(names) > MOST_LINES:
        return
    if options.prevalence is not None:  # on which recall and the false positive rate do not depend
        yield plot.RocOptions, {"scores": names}
        return
    if len(names) == 1:  # what a threshold gives, with those that were judged
        single = model is not None and not model.groups and len(model.score_thresholds) == 1
        own = {} if single else {"boundary": ()}
        yield plot.ThresholdOptions, {"scores": names, "decision": None, **own}
    yield plot.PrecisionRecallOptions, {"scores": names}
    yield plot.RocOptions, {"scores": names}
    if model is not None and "uncertainty" in model.columns:  # over the columns that it reads
        score, uncertainty = model.columns["score"], model.columns["uncertainty"].name
        grid = {"score": score.name, "scale": score.scale or "probability"}
        yield HeatmapOptions, grid | {"uncertainty": options.uncertainty or uncertainty}


def _reliability(options: EvaluateOptions, found: Evaluated) -> Points:
    """Return the reliability of all rows: of votes that of the predicted disagreement."""
    assert found.curves is not None  # they were asked for
    whole = found.curves.filter(found.curves["slice"] == ALL)
    return reliability.of_evaluated(replace(found, curves=whole), options)


#: What the light style draws with, and the names of these colours on the page.
_COLOURS = {
    "#1a1a1a": "--ink",
    "#000000": "--ink",
    "#d9d9d9": "--line",
    "#ffffff": "--ground",
    "#0072b2": "--series",
}

_STYLE = re.compile(r"<defs><style.*?</style></defs>", re.DOTALL)
_LABEL = re.compile(r'aria-label="[^"]*"')
_SPACES = re.compile(r' xmlns(:xlink)?="[^"]*"')  # HTML knows them
_IDS = re.compile(r'(\bid="|url\(#|href="#)')

#: The main numbers behind a picture, for people who do not see it.
_METRICS = {"reliability": "ece", "precision-recall": "average_precision", "roc": "auc"}

#: What each kind of picture says, below it.
_WORDS = {
    "reliability": "Calibrated scores lie on the diagonal. Dots are bins, with intervals where they "
    "count whole rows, the step line is isotonic regression (CORP), bars count rows.",
    "threshold": "Precision, recall and the share of rows that raise an alert, at every threshold; "
    "bands are intervals.",
    "precision-recall": "What each threshold would reach: precision against recall.",
    "roc": "Recall against the false positive rate; the diagonal is chance.",
    "heatmap": "Share of positives over score and uncertainty, with the boundary.",
    "dispersion": "What the distance from the raters consists of: calibration, which a map can "
    "correct, and dispersion, which it cannot.",
    "disagreement": "How often two raters differ, against the predicted chance that they do.",
}


def _figure_of(svg: bytes, place: int, alt: str, words: str) -> Markup:
    """Return a picture, the `place`-th of its page, as a figure with words for eyes and for ears."""
    # As an element of the page, in its colours; two pictures of one page may not share names.
    text = svg.decode()
    element = _STYLE.sub("", text[text.index("<svg ") :], count=1)
    element = _SPACES.sub("", element, count=2)
    element = _IDS.sub(lambda found: f"{found[1]}picture{place}-", element)
    for colour, of_page in _COLOURS.items():
        element = element.replace(colour, f"var({of_page})")
    label = f'aria-label="{escaped(alt)}"'  # in which a backslash is one
    element = _LABEL.sub(lambda _: label, element, count=1).strip()
    return html.tag("figure", html.joined([Markup(element), html.tag("figcaption", words)]))


def _cell(metrics: Metrics, score: str, part: str, name: str) -> Span:
    """Return a metric, with its interval where there is one."""
    ends = metrics.interval(score, part, name)
    return Span(metrics.metrics[score][part].get(name), ends.low, ends.high)


def _chosen(values: dict[str, Number], wanted: Sequence[str], most: int) -> list[str]:
    known = [name for name in dict.fromkeys(wanted) if name in values]
    return known[:most] or [name for name in values if not name.endswith("]")][:most]


def _glance(metrics: Metrics, score: str) -> Markup:
    """Return the main figures of a score, large."""
    values = metrics.metrics[score][ALL]
    cards = []
    for name in _chosen(values, HEADLINES, _MOST_HEADLINES):
        cell = _cell(metrics, score, ALL, name)
        lines = [html.tag("dt", name.replace("_", " "), title=meaning(name))]
        lines.append(html.tag("dd", number(cell.value)))
        if cell.low is not None:
            lines.append(html.tag("dd", cell.ends, class_="interval"))
        cards.append(html.tag("div", html.joined(lines)))
    return html.section(f"{score} at a glance", html.tag("dl", html.joined(cards), class_="cards"))


def _story(metrics: Metrics, options: EvaluateOptions, boundary: BoundaryModel | None) -> Markup:
    """Return what decisions came to: each confusion matrix, and the boundary's own words."""
    told: list[str | Table] = []
    if options.model is not None:
        page = Page(everything=True)
        view_of(options.model).view(options.model, page)
        if boundary is not None:  # what to expect on new data stands beside what was found
            told += _beside(boundary, metrics, options)
            page.parts[0] = rule(boundary)
        told += filter(None, page.parts)  # an empty line parts paragraphs, as HTML does anyway
    counted = [_confusion(score, *cells) for score, cells in _decided(metrics)]
    parts = [html.table(one) if isinstance(one, Table) else html.paragraphs([one]) for one in told]
    return html.section("Boundary" if told else "Decisions", *counted, *parts)


def _in_short(model: BoundaryModel | None, metrics: Metrics, options: EvaluateOptions) -> list[str]:
    """Return what decisions came to in sentences: alerts, those that were right, what was missed."""
    lines = []
    for score, (tp, fp, fn, tn) in _decided(metrics):
        rows, alerts = tp + fp + fn + tn, tp + fp
        said = f"{score}: {number(alerts)} of {number(rows)} rows raise an alert"
        said += f", {float(f'{1000 * alerts / rows:.3g}'):,g} of a thousand." if rows else "."
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
    return lines if model is None else [*_bounds(model, metrics, options), rule(model), *lines]


def _money(options: EvaluateOptions, source: Source, model: BoundaryModel | None) -> list[str]:
    """Say what the alerts of a boundary fitted with ``--value`` come to, where rows have the column.

    Sums of values are counts of rows weighted by them; rows with weights of their own are left out.
    """
    column = None if model is None else model.columns.get("value")
    if column is None or column.name not in source.schema or options.weight is not None:
        return []
    off = "by", "grid", "grid_score", "groups", "prevalence", "top", "top_by"
    own: dict[str, Any] = dict.fromkeys(off) | {"intervals": False}
    own |= {"weight": column.name, "weight_kind": "sampling", "metrics": ("tp", "fp", "fn")}
    try:
        judged = evaluate(dataclasses.replace(options, **own), source).metrics
    except CalibkitError as error:  # a value is missing or negative
        return [f"{column.name} is not summed: {error}"]
    values = judged.metrics[BOUNDARY][ALL]
    found, wrong, missed = (float(values[name] or 0.0) for name in ("tp", "fp", "fn"))
    share = f" ({hundredths(found / (found + missed))} %)" if found + missed else ""
    return [
        f"{column.name}: {_amount(found)} of the {_amount(found + missed)} in the positives is caught"
        f"{share}, {_amount(missed)} is missed; {_amount(wrong)} is in false alarms."
    ]


def _amount(value: float) -> str:
    """Return a sum of values: whole from a thousand on."""
    return f"{value:,.0f}" if value >= 1000.0 or value == int(value) else f"{value:,.2f}"


def _found(metrics: Metrics, name: str, part: str = ALL) -> Span:
    """Return a figure of the boundary on a slice, with its interval where there is one."""
    reach = f"{BOUNDARY}:review"  # of three-way decisions, whose recall is that of both
    under = reach if name == "recall" and reach in metrics.metrics else BOUNDARY
    return _cell(metrics, under, part, name)


def _apart(model: BoundaryModel, options: EvaluateOptions, name: str) -> str | None:
    """Return why a figure of the fit is not the one of the evaluation; None where it is."""
    rate = model.objective.prevalence or 0.0
    if name == "recall" and "value" in model.columns:
        return f"it is a share of {model.columns['value'].name}"
    if "weight" in model.columns and options.weight is None:
        return f"the fit weighs rows by {model.columns['weight'].name} (--weight)"
    if rate and name in ("precision", "capacity") and float(options.prevalence or 0.0) != rate:
        return f"it is one at a base rate of {rate:g} (--prevalence {rate:g})"
    return None


def _beside(model: BoundaryModel, metrics: Metrics, options: EvaluateOptions) -> list[Table]:
    """Return what the boundary led to expect beside what the rows of the evaluation show."""
    fit = model.fit
    judged = fit.test or fit.cross_validated
    rows: list[list[object]] = [
        [name, getattr(fit.in_sample, name), getattr(judged, name, None), _found(metrics, name)]
        for name in ("precision", "recall")
        if name in metrics.metrics[BOUNDARY][ALL] and _apart(model, options, name) is None
    ]
    how = "its test rows" if fit.test else "cross-validated"
    header = ["", "fitting rows", how if judged else "not judged on others", "found here"]
    return [Table(header, rows, "What to expect, and what was found")] if rows else []


def _bounds(model: BoundaryModel, metrics: Metrics, options: EvaluateOptions) -> list[str]:
    """Say of each bound of the fit whether the rows of the evaluation keep it."""
    certificate, lines, parts, unseen = model.fit.certificate, [], {ALL: ""}, list[str]()
    if model.bounded_groups:
        by = model.columns["by"].name
        slices = [f"{by}:{name}" for name in model.bounded_groups]
        parts = {one: f" in {one}" for one in slices if one in metrics.metrics[BOUNDARY]}
        unseen = [one for one in slices if one not in parts]
    for name, bound in model.objective.subject_to.items():
        text = f"{name} {sign(name)} {bound:.9g}"
        if name == "capacity" and bound >= 1.0:
            continue
        if why := _apart(model, options, name):
            lines.append(f"{text} is not judged here: {why}.")
            continue
        if unseen:
            how = "" if parts else ": name its column by --by"
            lines.append(f"{text} is not judged here in {some_of(unseen, 3)}{how}.")
        for part, where in parts.items():
            cell = _found(metrics, metric_of(name), part)
            if cell.value is None:
                continue
            word = "meets" if within(name, cell.value, bound) else "misses"
            chance = ""
            if cell.low is not None and cell.high is not None:
                decided = within(name, cell.low, bound) == within(name, cell.high, bound)
                said = (", as does its whole interval", "; its interval includes the bound")
                chance = said[not decided]
            lines.append(  # with digits enough to see it
                f"{text}{where}: these rows show {cell.value:.6g}, which {word} it{chance}."
            )
    if certificate is not None:
        lines.append(
            f"Certificate: {promised(model, certificate)} on new rows of "
            f"the same kind, with confidence {certificate.confidence:g} over the drawing of the "
            f"{certificate.rows:,} rows that certified it."
        )
    return lines


def _decided(metrics: Metrics) -> Iterator[tuple[str, list[int | float]]]:
    """Yield the scores that decide, each with its confusion matrix of all rows."""
    for score, slices in metrics.metrics.items():
        cells = [slices[ALL].get(name) for name in ("tp", "fp", "fn", "tn")]
        known = [cell for cell in cells if cell is not None]
        if known == cells:
            yield score, known


def _confusion(score: str, tp: float, fp: float, fn: float, tn: float) -> Markup:
    rows = [["selected", tp, fp], ["not selected", fn, tn]]
    caption = f"Confusion matrix of {score}: rows on these data"
    table = Table(["", "label positive", "label negative"], rows, caption)
    return html.tag("div", html.table(table), class_="confusion")


def _slice_pictures(metrics: Metrics) -> Iterator[tuple[bytes, str]]:
    """Yield a picture a score, and words: its first headline with an interval, slice by slice."""
    for score, slices in metrics.metrics.items():
        bounded = metrics.intervals.get(score, {}).get(ALL, {})
        names = [name for name in HEADLINES if name in slices[ALL] and name in bounded]
        for name in names[:1]:
            cells = {part: _cell(metrics, score, part, name) for part in slices}
            known = [(part, one) for part, one in cells.items() if one.low is not None]
            if len(known) < 2:
                continue
            rest = len(known) - _MOST_DRAWN
            more = f" The first {_MOST_DRAWN} are drawn." if rest > 0 else ""
            words = f"{name} of {score} in each slice; the dashed line is that of all rows.{more}"
            yield _by_slice(name, dict(known[:_MOST_DRAWN])), words


def _by_slice(name: str, cells: dict[str, Span]) -> bytes:
    """Return the picture of a metric with its intervals, a line a slice, the first of all rows."""
    size, places = (5.0, 0.8 + 0.25 * len(cells)), range(len(cells))
    values, lows, highs, _ = zip(*map(astuple, cells.values()), strict=True)
    with settings(_LOOK, size):
        sheet = Sheet(_LOOK, size, name)
        (panel,) = sheet.panels()
        panel.axvline(values[0], **sheet.guide)
        panel.hlines(places, lows, highs, color=sheet.line(0)["color"])
        sheet.series(panel, 0, values, places, ls="none")
        panel.set_yticks(places, [*map(shown_name, cells)])
        panel.invert_yaxis()
        sheet.label(panel, x=name)
        return to_bytes(sheet.finish())


def _all_rows(metrics: Metrics, scores: Sequence[str]) -> Markup:
    """Return the metrics of all rows, a column a score; those of single classes folded away."""
    header, caption = ["metric", *scores], "Metrics on all rows"
    main, single = (
        [
            [name, *(_cell(metrics, score, ALL, name) for score in scores)]
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
        """Return a difference, and whether its interval leaves open that there is none."""
        inside = "–"
        if found.low is not None and found.high is not None:
            inside = "yes" if found.low <= 0.0 <= found.high else "no"
        return [Span(found.value, found.low, found.high, signed=True), inside]

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


def _slices(metrics: Metrics, score: str) -> Markup:
    """Return a line a slice with the main metrics, and folded away all of them."""
    slices = metrics.metrics[score]
    if len(slices) < 2:
        return NOTHING
    names = _chosen(slices[ALL], OF_SLICES, _MOST_COLUMNS)
    short = [[part, *(values.get(name) for name in names)] for part, values in slices.items()]
    shown = [part for part in slices if part != ALL][:_MOST_IN_FULL]
    full = [
        [part, name, _cell(metrics, score, part, name)] for part in shown for name in slices[part]
    ]
    rest = len(slices) - 1 - len(shown)
    more = f", of the first {len(shown)}; metrics.json has {rest} more" if rest else ""
    caption = f"Every metric of {score} by slice{more}"
    every = Table(["slice", "metric", "value"], full, caption, codes=(0, 1))
    main = Table(["slice", *names], short, f"{score} by slice", codes=(0,))
    return html.folding(main, "Every metric", every)
