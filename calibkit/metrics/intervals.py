"""Confidence intervals of metrics and of their differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calibkit.metrics.result import Interval, Number
from calibkit.metrics.views import Confusion, Pair, View


@dataclass(frozen=True, kw_only=True)
class IntervalOptions:
    """What intervals are wanted: their confidence, and where their randomness begins."""

    confidence: float = 0.95
    seed: int = 0
    threads: int = 1


def intervals(
    values: Mapping[str, Number], data: View | Confusion, options: IntervalOptions
) -> dict[str, Interval]:
    """Return the intervals of those metrics that have one."""
    return {}


def differences(
    values: Mapping[str, float | None], pair: Pair, options: IntervalOptions
) -> dict[str, Interval]:
    """Return the intervals of paired differences."""
    return {}


def method(metric: str, data: View | Confusion, options: IntervalOptions) -> str | None:
    """Return how the interval of a metric is found, None where it has none."""
    return None
