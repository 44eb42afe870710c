"""Pictures of a page: small ones drawn by hand as SVG, which need nothing else, and matplotlib's.

Both take the colours of the page, and have words for people who do not see them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from calibkit.evaluation.evaluate import Evaluated
from calibkit.evaluation.slices import ALL
from calibkit.options.plot import KINDS, Look
from calibkit.reports import plots
from calibkit.reports.html import NOTHING, Markup, Span, escaped, figure, joined, number, tag
from calibkit.reports.points import Points

#: Side of the square of a reliability diagram, its margins, and the height of its histogram.
_SIDE, _LEFT, _TOP, _COUNTS = 280.0, 58.0, 8.0, 46.0

#: Of a picture of slices: the height of a line, the widths of names and of the scale.
_LINE, _NAMES, _SCALE = 22.0, 180.0, 240.0

#: Shares that an axis names.
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

#: Slices that one picture shows at most.
MOST_SLICES = 40

_LONGEST_NAME = 22


@dataclass(frozen=True)
class _Axis:
    """A stretch of numbers laid over a stretch of the picture."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def reliability(curve: pl.DataFrame) -> Markup:
    """Return the reliability diagram of one score in one slice, nothing where it has no rows.

    Bins are dots with their intervals, isotonic regression (CORP) is a line, and the number of rows
    of each bin stands below.  `curve` has the columns of `calibkit.measures.curves.SCHEMA`.
    """
    bins = curve.filter((pl.col("curve") == "bins") & (pl.col("count") > 0)).to_dicts()
    if not bins:
        return NOTHING
    x = _Axis(0.0, 1.0, _LEFT, _LEFT + _SIDE)
    y = _Axis(0.0, 1.0, _TOP + _SIDE, _TOP)
    middle = (y.start + y.end) / 2
    sides = {"x": x.start, "y": y.end, "width": _SIDE, "height": _SIDE}
    turned = {"transform": f"rotate(-90 12 {middle:g})"}
    parts = [
        _shape("rect", "axis", **{name: f"{side:g}" for name, side in sides.items()}),
        _line("ideal", (x.start, y.start), (x.end, y.end)),
        *(_text(f"{share:g}", x.start - 6, y.at(share) + 4, "end") for share in _TICKS),
        _text("share of positive rows", 12, middle, "middle", **turned),
    ]
    # A bar a bin below the diagram, of the bin's width and as high as its rows are many.
    floor, most = _TOP + _SIDE + 14 + _COUNTS, max(one["count"] for one in bins)
    for one in bins:
        left, right = (x.at(min(max(one[end], 0.0), 1.0)) for end in ("score_low", "score_high"))
        high, wide = _COUNTS * one["count"] / most, max(right - left - 1.0, 1.0)
        parts.append(_shape("rect", "bar", x=left, y=floor - high, width=wide, height=high))
    parts += [
        _line("axis", (x.start, floor), (x.end, floor)),
        *(_text(f"{share:g}", x.at(share), floor + 15, "middle") for share in _TICKS),
        _text("rows", x.start - 6, floor - _COUNTS / 2 + 4, "end"),
        _text("score", (x.start + x.end) / 2, floor + 30, "middle"),
    ]
    pools = curve.filter(pl.col("curve") == "corp").to_dicts()
    points = [
        f"{x.at(pool[end]):.1f},{y.at(pool['mean_label']):.1f}"
        for pool in pools
        for end in ("score_low", "score_high")
    ]
    parts.append(_shape("polyline", "curve", points=" ".join(points)))
    for one in bins:
        across, up = x.at(one["mean_score"]), y.at(one["mean_label"])
        if one["low"] is not None:
            parts.append(_line("whisker", (across, y.at(one["low"])), (across, y.at(one["high"]))))
        parts.append(_shape("circle", "mark", cx=across, cy=up, r="3.5"))
    words = (
        f"{number(one['mean_score'])} came true {number(one['mean_label'])} of the time"
        for one in bins
    )
    alt = "Reliability diagram. Scores around " + "; ".join(words) + "."
    return _drawing(_LEFT + _SIDE + 12, _TOP + _SIDE + 22 + _COUNTS + 34, alt, parts)


def slices(metric: str, values: Sequence[tuple[str, Span]]) -> Markup:
    """Return a metric with its interval, a line a slice; nothing for fewer than two values."""
    shown = [(name, one.value, one) for name, one in values if one.value is not None][:MOST_SLICES]
    if len(shown) < 2:
        return NOTHING
    ends = [end for _, value, one in shown for end in (value, one.low, one.high) if end is not None]
    low, high = min(ends), max(ends)
    slack = (high - low) * 0.05 or abs(low) * 0.05 or 1.0
    x = _Axis(low - slack, high + slack, _NAMES, _NAMES + _SCALE)
    bottom = _LINE * len(shown) + 6
    first = x.at(shown[0][1])
    parts = [_line("ideal", (first, 2), (first, bottom))]
    for place, (name, value, span) in enumerate(shown):
        y = _LINE * (place + 0.5) + 4
        parts.append(_text(_short(name), _NAMES - 8, y + 4, "end"))
        if span.low is not None and span.high is not None:
            parts.append(_line("whisker", (x.at(span.low), y), (x.at(span.high), y)))
        parts.append(_shape("circle", "mark", cx=x.at(value), cy=y, r="4"))
    parts.append(_line("axis", (x.start, bottom), (x.end, bottom)))
    for end in dict.fromkeys((low, high)):
        parts.append(_text(number(end), x.at(end), bottom + 16, "middle"))
    words = "; ".join(f"{name} {number(value)}" for name, value, _ in shown)
    return _drawing(_NAMES + _SCALE + 24, bottom + 24, f"{metric} by slice: {words}.", parts)


def _short(name: str) -> str:
    """Return as much of a name as has room; wide characters count as two."""
    room = _LONGEST_NAME
    for place, character in enumerate(name):
        room -= 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if room < 0:
            return f"{name[: place - 1]}…"
    return name


def _drawing(width: float, height: float, alt: str, parts: Sequence[Markup]) -> Markup:
    sides = {"width": f"{width:g}", "height": f"{height:g}"}
    box = f"0 0 {sides['width']} {sides['height']}"
    return tag("svg", joined(parts), viewBox=box, **sides, role="img", aria_label=alt)


def _shape(name: str, kind: str, **attributes: float | str) -> Markup:
    shown = {key: _tenths(value) for key, value in attributes.items()}
    return tag(name, class_=kind, **shown)


def _line(kind: str, start: tuple[float, float], end: tuple[float, float]) -> Markup:
    return _shape("line", kind, x1=start[0], y1=start[1], x2=end[0], y2=end[1])


def _text(words: str, x: float, y: float, anchor: str, **more: str) -> Markup:
    return tag("text", words, x=_tenths(x), y=_tenths(y), text_anchor=anchor, **more)


def _tenths(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.1f}"


#: What the light style draws with, and the names of these colours on the page.
_COLOURS = {
    "#1a1a1a": "--ink",
    "#000000": "--ink",
    "#d9d9d9": "--line",
    "#ffffff": "--ground",
    "#0072b2": "--series",
}

_BEFORE = re.compile(r"^.*?(?=<svg )", re.DOTALL)
_STYLE = re.compile(r"<defs><style.*?</style></defs>", re.DOTALL)
_LABEL = re.compile(r'aria-label="[^"]*"')
_SPACES = re.compile(r' xmlns(:xlink)?="[^"]*"')  # HTML knows them
_IDS = re.compile(r'(\bid="|url\(#|href="#)')

#: The main numbers behind a picture, for people who do not see it.
_METRICS = {"reliability": "ece", "precision-recall": "average_precision", "roc": "auc"}

#: What each kind of picture says, below it.
_WORDS = {
    "reliability": "Calibrated scores lie on the diagonal. Dots are bins "
    "with their intervals, the step line is isotonic regression (CORP), bars count rows.",
    "threshold": "Precision, recall and the share of rows that raise an alert, at every threshold; "
    "bands are intervals.",
    "precision-recall": "What each threshold would reach: precision against recall.",
    "roc": "Recall against the false positive rate; the diagonal is chance.",
    "heatmap": "Share of positives over score and uncertainty, with the boundary.",
    "dispersion": "What the distance from the raters consists of: calibration, which a map can "
    "correct, and dispersion, which it cannot.",
    "disagreement": "How often two raters differ, against the predicted chance that they do.",
}


def figure_of(shown: Points, place: int, found: Evaluated) -> Markup:
    """Return the picture of some points of an evaluation, the `place`-th of its page, as a figure."""
    title = KINDS[shown.kind].HEADING
    svg = plots.picture(shown, Look(title="", transparent=True)).decode()
    name = _METRICS.get(shown.kind, "epistemic_loss")
    values = [
        f"{score}: {name} {number(slices[ALL][name])}"
        for score, slices in found.metrics.metrics.items()
        if slices[ALL].get(name) is not None
    ]
    alt = f"{title} ({'; '.join(values)})." if values else f"{title}."
    return figure(_inline(svg, alt, f"picture{place}-"), f"{title}. {_WORDS[shown.kind]}")


def _inline(svg: str, alt: str, prefix: str) -> Markup:
    """Return an SVG file of the light style as an element of a page, in the page's colours.

    Its names get a prefix, because two pictures of one page may not share any.
    """
    element = _STYLE.sub("", _BEFORE.sub("", svg, count=1), count=1)
    element = _SPACES.sub("", element, count=2)
    element = _IDS.sub(lambda found: f"{found[1]}{prefix}", element)
    for colour, name in _COLOURS.items():
        element = element.replace(colour, f"var({name})")
    return Markup(_LABEL.sub(f'aria-label="{escaped(alt)}"', element, count=1).strip())
