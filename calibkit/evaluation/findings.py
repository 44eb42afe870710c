"""What an evaluation finds, as it is found slice by slice and as it is handed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from calibkit.measures import intervals
from calibkit.measures.decisions import Confusion
from calibkit.measures.influence import IntervalOptions
from calibkit.measures.result import Coarse, Difference, Metrics, Number
from calibkit.measures.views import View
from calibkit.models.model import Range
from calibkit.options.evaluate import EvaluateOptions


@dataclass(frozen=True, kw_only=True)
class Evaluated:
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


@dataclass(kw_only=True)
class Findings:
    """Metrics as they are found, slice by slice."""

    asked: EvaluateOptions
    metrics: Metrics = field(default_factory=lambda: Metrics(signature={}, rows=0, metrics={}))
    ranges: dict[str, dict[str, dict[str, Range]]] = field(default_factory=dict)
    drawn: list[pl.DataFrame] = field(default_factory=list)

    def add(self, score: str, part: str, values: Mapping[str, Number], small: bool = False) -> None:
        """Keep the metrics of a score in a slice; where that has too few rows, the count alone."""
        kept = {
            name: None if small and name != "count" else value for name, value in values.items()
        }
        self.metrics.metrics.setdefault(score, {}).setdefault(part, {}).update(kept)

    def judge(
        self,
        data: View | Confusion,
        values: Mapping[str, Number],
        signature: Callable[..., str],
        small: bool,
    ) -> None:
        """Keep the metrics of a score in a slice with their intervals, and their signatures."""
        self.add(data.name, data.part, values, small)
        asked = self.asked.intervals
        if asked:
            kept = self.metrics.metrics[data.name][data.part]
            found = intervals.intervals(kept, data, self.options)
            self.metrics.intervals.setdefault(data.name, {})[data.part] = found
        for name in values:
            how = intervals.method(name, data, self.options) if asked else None
            self.metrics.signature[name] = signature(name, interval=how)

    def gaps(
        self, baseline: str, score: str, part: str, names: Sequence[str]
    ) -> dict[str, float | None]:
        """Return by how much the metrics of a score differ from the baseline's in a slice."""
        base, own = self.metrics.metrics[baseline][part], self.metrics.metrics[score][part]
        known = {name: (base[name], own[name]) for name in names}
        return {n: None if a is None or b is None else b - a for n, (a, b) in known.items()}

    def differ(self, baseline: View, other: View, names: Sequence[str]) -> None:
        """Keep by how much metrics of two scores of the same rows differ, with intervals."""
        values = self.gaps(baseline.name, other.name, other.part, names)
        found = {}
        if self.asked.intervals:
            found = intervals.differences(values, baseline, other, self.options)
        self.metrics.differences.setdefault(f"{other.name}-{baseline.name}", {})[other.part] = {
            metric: Difference(
                value, *((found[metric].low, found[metric].high) if metric in found else ())
            )
            for metric, value in values.items()
        }

    @property
    def options(self) -> IntervalOptions:
        """What intervals are wanted."""
        return IntervalOptions(
            confidence=self.asked.confidence,
            seed=self.asked.seed,
            threads=self.asked.settings.threads,
        )

    @property
    def confidence(self) -> float | None:
        """That of intervals; None where none are wanted."""
        return self.asked.confidence if self.asked.intervals else None

    def evaluated(
        self,
        rows: int,
        warnings: tuple[str, ...],
        notes: tuple[str, ...] = (),
        score_bits: int | None = None,
    ) -> Evaluated:
        """Return what was found on so many rows."""
        self.metrics.rows = rows
        if score_bits is not None:
            self.metrics.resolution = Coarse(score_bits, self.ranges)
        curves = pl.concat(self.drawn) if self.drawn else None
        return Evaluated(metrics=self.metrics, curves=curves, warnings=warnings, notes=notes)
