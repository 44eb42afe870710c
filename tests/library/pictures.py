"""Rows for pictures, the points of every kind, and what may be wrong with a picture."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from functools import cache
from typing import Any

import numpy as np
import polars as pl

import calibkit as ck
from calibkit.files.sources import Source
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.watch.bets import Promise
from calibkit.methods.watch.state import MAGIC, VERSION, Night, Shard, WatchState
from calibkit.methods.watch.watch import judge
from calibkit.options.plot import KINDS
from calibkit.reports import plots
from calibkit.reports.style import Points


@cache
def scored(rows: int = 240) -> pl.DataFrame:
    """Return rows with ties, two scores, a run and an uncertainty."""
    random = np.random.default_rng(5)
    score = random.random(rows).round(2)
    uncertainty = random.normal(size=rows).round(1)
    label = random.random(rows) < score**1.5 * np.exp(-0.1 * uncertainty)
    other = np.clip(score**1.5 + 0.1 * random.normal(size=rows), 0, 1).round(3)
    return pl.DataFrame(
        {
            "score": score,
            "other": other,
            "uncertainty": uncertainty,
            "label": label.astype(np.int64),
            "run": np.arange(rows) % 6,
        }
    )


@cache
def voted(rows: int = 200) -> pl.DataFrame:
    """Return class probabilities of two models, votes of one to five raters, and a strength."""
    random = np.random.default_rng(6)
    truth = random.dirichlet([1.0, 1.0, 1.0], rows)
    raters = random.integers(1, 6, rows)
    counts = np.array([random.multinomial(n, p) for n, p in zip(raters, truth, strict=True)])
    one = (truth + 0.3) / (truth + 0.3).sum(axis=1, keepdims=True)
    two = truth**2 / (truth**2).sum(axis=1, keepdims=True)
    frame = {f"a_{k}": one[:, k] for k in range(3)} | {f"b_{k}": two[:, k] for k in range(3)}
    frame |= {f"count_{k}": counts[:, k] for k in range(3)} | {
        "alpha0": random.gamma(2.0, 2.0, rows)
    }
    return pl.DataFrame(frame)


def many() -> pl.DataFrame:
    """Return more of the rows of `scored`."""
    return scored(4000)


@cache
def leaves(recall: float | None = None) -> BoundaryModel:
    """Return a boundary over leaves of uncertainties of `many`, with a recall a three-way one."""
    drawn: dict[str, Any] = {"uncertainty": ["uncertainty", "other", "run"], "uncertainty_bins": 3}
    return ck.fit_boundary(many(), precision=0.75, recall=recall, method="exact", folds=0, **drawn)


def new_state(
    model: str, promises: Sequence[Promise], confidence: float, **more: Any
) -> WatchState:
    """Return the state of a watch before its first night; `more`: further fields of it."""
    bounds = {promise.name: promise.bound for promise in promises}
    return WatchState(MAGIC, VERSION, model, bounds, confidence, **{"maturity": 0, **more})


def watched() -> pl.DataFrame:
    """Return forty nights of a watch, whose precision falls after the thirtieth."""
    promises = [Promise("precision", 0.7), Promise("recall", 0.3)]
    state = new_state("0" * 16, promises, 0.95, calendar="date")
    draw = np.random.default_rng(8)
    nights = []
    for day in range(40):
        hits = int(draw.binomial(60, 0.75 if day < 30 else 0.5))
        missed = int(draw.binomial(150, 0.5))
        shard = Shard(f"{day:016x}", 210)
        cells = ((0.0, 150 - missed, missed), (1.0, 60 - hits, hits))
        nights.append(Night(str(date(2026, 11, 1) + timedelta(day)), cells, (shard,)))
    return judge(state.add(nights)[0]).history()


#: Votes of two predictors.
JUDGED: dict[str, Any] = {"probs": ("a_*", "b_*"), "counts": "count_*", "alpha0": "alpha0"}

BOTH = ("score", "other")

#: Of each kind: the rows, and the options of what to show of them.
SHOWN: dict[str, tuple[Callable[[], pl.DataFrame], dict[str, Any]]] = {
    **{
        kind: (scored, {"scores": BOTH})
        for kind in ("reliability", "precision-recall", "roc", "decision-curve", "cost-curve")
    },
    "risk-coverage": (scored, {"scores": BOTH}),
    "threshold": (scored, {"threshold": 0.4}),
    "positivity": (scored, {"score_bins": 4}),
    "heatmap": (scored, {"uncertainty_bins": 4, "score_bins": 5}),
    "regions": (many, {"boundary": leaves(), "uncertainty": ["run", "uncertainty"]}),
    "recall-gain": (scored, {"method": "exact", "precision": [0.6, 0.75]}),
    "ece-at": (scored, {"scores": BOTH, "score_bins": 4}),
    "bias": (
        scored,
        {"scores": BOTH, "top": [0.1, 0.3, 1], "bin_strategy": "equal-width", "intervals": False},
    ),
    "dispersion": (voted, JUDGED),
    "disagreement": (voted, JUDGED),
    "watch": (watched, {}),
    "auc-lift": (scored, {"scores": BOTH, "by": "run", "min_rows": 1, "intervals": False}),
}


def source_of(frame: pl.DataFrame) -> Source:
    """Return rows as a command would read them."""
    return Source.from_frame(frame)


def points(kind: str, rows: pl.DataFrame | Source | None = None, **options: Any) -> Points:
    """Return the points of a kind with options, of the rows of `scored` where none are given."""
    rows = scored() if rows is None else rows
    source = source_of(rows) if isinstance(rows, pl.DataFrame) else rows
    return plots.points(source, KINDS[kind](**options))


@cache
def points_of(kind: str) -> Points:
    """Return the points of a kind."""
    rows, options = SHOWN[kind]
    return points(kind, rows(), **options)


def rows_of(name: str = "score") -> list[tuple[float, int]]:
    """Return a score and the label of each row of `scored`."""
    return list(scored().select(name, "label").iter_rows())


def faults(figure: Any) -> list[str]:
    """Return what is clipped, overlaps or is empty in a picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    whole, found, boxes = figure.bbox, [], []
    for text in _texts(figure):
        if not text.get_visible() or not text.get_text().strip():
            continue
        box = text.get_window_extent(renderer)
        if box.x0 < -1 or box.y0 < -1 or box.x1 > whole.width + 1 or box.y1 > whole.height + 1:
            found.append(f"clipped: {text.get_text()}")
        boxes.append((text.get_text(), box))
    for (one, a), (two, b) in itertools.combinations(boxes, 2):
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        if width > 1 and height > 1:
            found.append(f"overlap: {one} / {two}")
    for panel in figure.axes:
        if not (panel.lines or panel.collections or panel.patches):
            found.append("empty panel")
        if panel.get_window_extent(renderer).height < 18:
            found.append("flat panel")
    return found


def _texts(figure: Any) -> Iterator[Any]:
    if figure.get_suptitle():
        yield figure._suptitle
    for panel in figure.axes:
        for axis in (panel.xaxis, panel.yaxis):
            yield axis.label
            yield axis.offsetText
            low, high = sorted(axis.get_view_interval())
            slack = 1e-9 * (high - low)
            for tick in axis.get_major_ticks():
                if low - slack <= tick.get_loc() <= high + slack:
                    yield tick.label1
    for legend in figure.legends:
        yield from legend.get_texts()
