"""What an evaluation finds, as it is found slice by slice and as it is handed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from calibkit.columns.columns import Condensing
from calibkit.measures import intervals
from calibkit.measures.decisions import Confusion
from calibkit.measures.ranges import ranges
from calibkit.measures.rates import IntervalOptions
from calibkit.measures.result import Coarse, Difference, Metrics, Number
from calibkit.measures.views import Pair, View
from calibkit.options.evaluate import EvaluateOptions
from calibkit.summaries.resolution import Range


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """What an evaluation found.

    Attributes
    ----------
    metrics
        The content of metrics.json.
    curves
        Reliability diagrams as rows, where they were asked for.
    warnings, notes
        What the user has to be told, and what a summary should say.
    """

    metrics: Metrics
    curves: pl.DataFrame | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the metrics as plain dictionaries."""
        return self.metrics.as_dict()

    def to_json(self) -> bytes:
        """Return the content of metrics.json."""
        return self.metrics.to_json()


@dataclass(kw_only=True)
class Findings:
    """Metrics as they are found, slice by slice."""

    asked: EvaluateOptions
    metrics: Metrics = field(default_factory=lambda: Metrics(signature={}, rows=0, metrics={}))
    ranges: dict[str, dict[str, dict[str, Range]]] = field(default_factory=dict)

    def add(self, score: str, part: str, values: Mapping[str, Number], small: bool = False) -> None:
        """Keep the metrics of a score in a slice; where that has too few rows, the count alone."""
        kept = {
            name: None if small and name != "count" else value for name, value in values.items()
        }
        self.metrics.metrics.setdefault(score, {}).setdefault(part, {}).update(kept)

    def bound(self, score: str, part: str, data: View | Confusion) -> None:
        """Keep the intervals of the metrics of a score in a slice."""
        if self.asked.intervals:
            found = intervals.intervals(self.metrics.metrics[score][part], data, self.options)
            self.metrics.intervals.setdefault(score, {}).setdefault(part, {}).update(found)

    def gaps(
        self, baseline: str, score: str, part: str, names: Sequence[str]
    ) -> dict[str, float | None]:
        """Return by how much the metrics of a score differ from the baseline's in a slice."""
        base, own = self.metrics.metrics[baseline][part], self.metrics.metrics[score][part]
        known = {name: (base[name], own[name]) for name in names}
        return {n: None if a is None or b is None else b - a for n, (a, b) in known.items()}

    def differ(self, name: str, pair: Pair, values: Mapping[str, float | None]) -> None:
        """Keep by how much metrics differ, with intervals."""
        found = intervals.differences(values, pair, self.options) if self.asked.intervals else {}
        self.metrics.differences.setdefault(name, {})[pair.other.part] = {
            metric: Difference(
                value, *((found[metric].low, found[metric].high) if metric in found else ())
            )
            for metric, value in values.items()
        }

    def sign(
        self, names: Sequence[str], signature: Callable[..., str], data: View | Confusion
    ) -> None:
        """Keep the signatures of metrics."""
        for name in names:
            how = intervals.method(name, data, self.options) if self.asked.intervals else None
            self.metrics.signature[name] = signature(name, interval=how)

    @property
    def options(self) -> IntervalOptions:
        """What intervals are wanted."""
        return IntervalOptions(
            confidence=self.asked.confidence,
            seed=self.asked.seed,
            threads=self.asked.settings.threads,
        )

    def spread(self, views: Mapping[str, View], small: bool) -> None:
        """Keep within what metrics of coarse scores lie."""
        for name, view in views.items():
            if not small:
                self.ranges.setdefault(name, {})[view.part] = ranges(view)

    def result(self, rows: int, condensing: Condensing | None = None) -> Metrics:
        """Return what was found as the content of metrics.json."""
        self.metrics.rows = rows
        if condensing is not None and condensing.score_bits is not None:
            self.metrics.resolution = Coarse(condensing.score_bits, self.ranges)
        return self.metrics
