"""What an evaluation finds, slice by slice and as it is handed on; slices of the rows.

Slices are all rows, the top by a column, and the values of a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct, field

from calibkit.arrays import Bools, Numbers, rows_by_group
from calibkit.columns.segments import Segments
from calibkit.errors import UsageError
from calibkit.measures import decisions, metrics
from calibkit.measures.decisions import Confusion
from calibkit.measures.influence import IntervalOptions
from calibkit.measures.result import Coarse, Difference, Interval, Metrics, Number
from calibkit.measures.views import Sample, View, signed
from calibkit.models.model import Range
from calibkit.numerics.sums import exact_sum
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.metrics import Share, needs, stem
from calibkit.summaries.tally import count_rows

#: Metrics that say how many rows there are.
_ALWAYS = ("count", "rows_used", "rows_two_raters")


class Evaluated(Struct, frozen=True, kw_only=True):
    """What an evaluation found."""

    metrics: Metrics  # the content of metrics.json
    curves: pl.DataFrame | None = None  # reliability diagrams as rows, where they were asked for
    #: `warnings, notes`: what the user has to be told, and what a summary should say.
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    #: Returns the decision curves of the rows as a table; None where there are none.
    net_benefit: Callable[[], pl.DataFrame] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the metrics as plain dictionaries."""
        return self.metrics.as_dict()

    def to_json(self) -> bytes:
        """Return the content of metrics.json."""
        return self.metrics.to_json()


class Findings(Struct, kw_only=True):
    """Metrics as they are found, slice by slice."""

    asked: EvaluateOptions
    metrics: Metrics = field(default_factory=lambda: Metrics(signature={}, rows=0, metrics={}))
    ranges: dict[str, dict[str, dict[str, Range]]] = {}
    drawn: list[pl.DataFrame] = []

    def add(
        self,
        score: str,
        part: str,
        values: Mapping[str, Number],
        small: bool,
        limits: Callable[[Mapping[str, Number]], dict[str, Interval]] | None = None,
    ) -> None:
        """Keep the metrics of a score in a slice; where that has too few rows, their number alone.

        With intervals, if these are asked for and `limits` gives those of metrics.
        """
        kept = self.metrics.metrics.setdefault(score, {}).setdefault(part, {})
        kept |= {n: None if small and n not in _ALWAYS else value for n, value in values.items()}
        if limits and self.asked.intervals:
            known = {name: value for name, value in kept.items() if value is not None}
            self.metrics.intervals.setdefault(score, {})[part] = limits(known)

    def judge(self, data: View | Confusion, wanted: Sequence[str], small: bool) -> None:
        """Keep the metrics of a score in a slice with their intervals, and their signatures."""
        known = [name for name in wanted if name in _ALWAYS] if small else wanted
        if isinstance(data, View):
            values = dict.fromkeys(wanted) | metrics.compute(data, known)
        else:
            values = dict.fromkeys(wanted) | decisions.compute(data, known)
        limits = partial(metrics.intervals, data=data, options=self.options)
        self.add(data.name, data.part, values, small, limits)
        asked, settings = self.asked.intervals, self.asked.settings
        for name in wanted:
            how = metrics.method(name, data, self.options) if asked else None
            scored = isinstance(data, View)
            shape = metrics.METRICS[stem(name)].options(settings) if scored else {}
            self.metrics.signature[name] = signed(name, shape, settings, how)

    def differ(
        self,
        baseline: str,
        other: str,
        part: str,
        names: Sequence[str],
        views: tuple[View, View] | None = None,
    ) -> None:
        """Keep by how much metrics of two scores of the same rows differ in a slice.

        With intervals, where the `views` of both are given.
        """
        base, own = (self.metrics.metrics[score][part] for score in (baseline, other))
        known = {name: (base[name], own[name]) for name in names}
        gaps = {n: None if a is None or b is None else b - a for n, (a, b) in known.items()}
        found = {name: Difference(gap) for name, gap in gaps.items()}
        if views and self.asked.intervals:
            found |= metrics.differences(gaps, *views, self.options)
        self.metrics.differences.setdefault(f"{other}-{baseline}", {})[part] = found

    @property
    def options(self) -> IntervalOptions:
        """What intervals are wanted."""
        asked, threads = self.asked, self.asked.settings.threads
        return IntervalOptions(confidence=asked.confidence, seed=asked.seed, threads=threads)

    def evaluated(
        self,
        rows: int,
        warnings: tuple[str, ...],
        notes: tuple[str, ...] = (),
        score_bits: int | None = None,
    ) -> Evaluated:
        """Return what was found on so many rows; a `UsageError` for a metric that they do not have."""
        found = {
            name for own in self.metrics.metrics.values() for part in own.values() for name in part
        }
        for name in self.asked.chosen or ():
            if not any(one == name or one.startswith(f"{name}[") for one in found):
                raise UsageError(f"--metrics {name} {needs(name)}.")
        self.metrics.rows = rows
        if score_bits is not None:
            self.metrics.resolution = Coarse(score_bits, self.ranges)
        curves = pl.concat(self.drawn) if self.drawn else None
        return Evaluated(metrics=self.metrics, curves=curves, warnings=warnings, notes=notes)


#: The slice of all rows.
ALL = "all"


class Slice(Struct, frozen=True):
    """Some of the rows."""

    name: str  # ``all``, ``top:SHARE`` or ``COLUMN:VALUE``
    rows: Numbers | None  # which rows, by number or as a mask; None is all
    segment: bool = False  # whether it is the value of a column, which may have too few rows

    def of(self, values: Numbers) -> Numbers:
        """Return the slice of a column."""
        return values if self.rows is None else values[self.rows]

    def small(self, least: int, times: Numbers | None = None) -> bool:
        """Return whether it is a segment with fewer rows than `least`, each once or so many times."""
        if not self.segment or self.rows is None:
            return False
        own = None if times is None else times[self.rows].astype(np.float64)
        return (self.rows.size if own is None else exact_sum(own)) < least


def top_rows(values: Numbers, sample: Sample, shares: Sequence[Share]) -> list[Bools]:
    """Return where values are among the largest, for each share of the rows of a sample.

    The fewest whole groups of equal values that hold the share: all values at or above the k-th
    largest, k the share times the rows, rounded up from its decimal; of weights likewise.
    """
    classes, weight = sample.classes, sample.weight if sample.classes is None else sample.given
    level = np.zeros(values.size, np.uint16)
    tally = count_rows(values, level, sample.label, 1, weight=weight)
    if classes is not None:  # in integers, so that shares are compared exactly
        tally = tally.reweighted(classes.factors)
    reached = np.cumsum(tally.count, dtype=np.int64)
    total, found = int(reached[-1]), []
    for share in shares:
        least = -(-total * share.bound.numerator // share.bound.denominator)
        found.append(values >= tally.score[np.searchsorted(reached, max(1, least))])
    return found


def slices_of(
    segments: Segments | None,
    shares: Sequence[Share] = (),
    top: Numbers | None = None,
    sample: Sample | None = None,
) -> Iterator[Slice]:
    """Yield all rows, the shares with the largest values, and the values of a column, in order."""
    yield Slice(ALL, None)
    if top is not None:
        assert sample is not None  # whose rows have these values
        for share, mask in zip(shares, top_rows(top, sample, shares), strict=True):
            yield Slice(f"top:{share.text}", mask)
    if segments is None:
        return
    rows = rows_by_group(segments.code, len(segments.names))
    for name, own in zip(segments.names, rows, strict=True):
        yield Slice(f"{segments.column}:{name}", own, segment=True)


def check_names(shares: Sequence[Share], segments: Segments | None) -> None:
    """Refuse a column whose slices would have the names of others."""
    if segments is not None and shares and segments.column == "top":
        clash = {share.text for share in shares} & set(segments.names)
        if clash:
            raise UsageError(f"--by top and --top both make a slice top:{min(clash)}; drop one.")
