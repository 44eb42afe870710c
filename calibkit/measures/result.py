"""The structure of ``metrics.json``: what `calibkit evaluate` finds, for DVC, MLflow and gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType

from calibkit.models.model import Range, Shown, decode_as

if TYPE_CHECKING:
    import polars as pl

#: A metric's value: null where it is not defined.
Number = int | float | None

Values = dict[str, dict[str, dict[str, Number]]]


class Interval(Struct, frozen=True, forbid_unknown_fields=True):
    """A confidence interval; null ends where there is none."""

    low: float | None
    high: float | None


class Difference(Struct, frozen=True, forbid_unknown_fields=True):
    """How much larger a metric is for one score than for the baseline, with its interval."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Coarse(Struct, frozen=True, forbid_unknown_fields=True):
    """How coarse the scores were that metrics come from, and within what some of them lie for sure.

    Attributes
    ----------
    score_bits
        See `calibkit.models.model.Resolution`.
    ranges
        ``ranges[score][slice][metric]``: `auc` and `average_precision` if the rows of each coarse
        score are put in the worst and in the best order.
    """

    score_bits: int
    ranges: dict[str, dict[str, dict[str, Range]]]


class Line(Struct, frozen=True):
    """One number; a difference has the part ``delta``, as in gate expressions."""

    score: str
    slice: str
    metric: str
    part: str
    numbers: tuple[Number, Number, Number]  # the number, and the ends of its interval

    @property
    def name(self) -> str:
        """The metric with its part."""
        return f"{self.metric}.{self.part}" if self.part else self.metric


class Metrics(Shown, Struct, kw_only=True, forbid_unknown_fields=True):
    """What one evaluation found.

    Attributes
    ----------
    signature
        Of each metric: its name, options, how its interval was found, and the version of calibkit,
        such as ``ece|bins:15|norm:l1|strategy:equal-width|ties:whole|v:0.1.0``.
    rows
        How many rows were used.
    metrics
        ``metrics[score][slice][metric]``: a number, or null where it is not defined.
    intervals
        ``intervals[score][slice][metric]``; metrics without an interval are left out.
    differences
        ``differences[b-a][slice][metric]``: score b less baseline a.
    resolution
        Where the rows did not fit and scores were rounded down.
    """

    signature: dict[str, str]
    rows: int
    metrics: Values
    intervals: dict[str, dict[str, dict[str, Interval]]] = {}
    differences: dict[str, dict[str, dict[str, Difference]]] = {}
    resolution: Coarse | UnsetType = UNSET

    def interval(self, score: str, part: str, metric: str) -> Interval:
        """Return the interval of a metric; its ends are None where it has none."""
        return self.intervals.get(score, {}).get(part, {}).get(metric, Interval(None, None))

    def lines(self) -> Iterator[Line]:
        """Yield all numbers with their intervals, differences last."""
        for score, slices in self.metrics.items():
            for part, values in slices.items():
                for name, value in values.items():
                    own = self.interval(score, part, name)
                    yield Line(score, part, name, "", (value, own.low, own.high))
        for pair, compared in self.differences.items():
            for part, found in compared.items():
                for name, gap in found.items():
                    yield Line(pair, part, name, "delta", (gap.value, gap.low, gap.high))

    def to_polars(self) -> pl.DataFrame:
        """Return a row a number: score, slice, metric, value, low and high.

        A difference has the scores ``b-a`` and the metric's name with ``.delta``; what is not
        defined, and the ends of an interval that there is not, are null.
        """
        import polars as pl

        names = dict.fromkeys(("score", "slice", "metric"), pl.String)
        numbers = dict.fromkeys(("value", "low", "high"), pl.Float64)
        rows = [(line.score, line.slice, line.name, *line.numbers) for line in self.lines()]
        return pl.DataFrame(rows, {**names, **numbers}, orient="row", strict=False)

    def to_pandas(self) -> Any:
        """Return the same as a pandas frame."""
        return self.to_polars().to_pandas()

    to_dict = Shown.as_dict

    @classmethod
    def from_json(cls, data: bytes, file: str | None = None) -> Metrics:
        """Return the metrics that a file holds.

        Raises `ModelError` for text that is no metrics file.
        """
        return decode_as(data, cls, "a metrics file of calibkit evaluate", file)


def metric_of(bound: str) -> str:
    """Return what the quantity that a bound is on is called as a metric."""
    return "selected_share" if bound == "capacity" else bound


def alike(metrics: Metrics) -> list[list[str]]:
    """Return the scores in groups that have the same metrics, without those that have none."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for score, slices in metrics.metrics.items():
        if any(slices.values()):
            groups.setdefault(tuple(slices.get("all", ())), []).append(score)
    return list(groups.values())
