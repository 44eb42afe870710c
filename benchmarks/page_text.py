"""Ratios, machines and disturbances as the pages on speed show them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from harness import Pair, Spread
from pages import bullets


def shown(ratio: Spread) -> str:
    """Return a ratio with its range."""
    return f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"


def median(pair: Pair, side: str, of: Any) -> float:
    """Return the median over the runs of one side."""
    return statistics.median(map(of, getattr(pair, side)))


def seconds(pair: Pair, of: Any) -> str:
    """Return the medians of both sides."""
    return f"{median(pair, 'ours', of):.2f} s / {median(pair, 'peer', of):.2f} s"


def verdict(value: float, limit: float) -> str:
    """Return whether an aim was met."""
    return "met" if value <= limit else "**missed**"


def environment(about: dict[str, Any], others: str) -> list[str]:
    """Return the machine and the versions on both sides, as items of a list."""

    def listed(versions: dict[str, str]) -> str:
        return ", ".join(f"{name} {version}" for name, version in versions.items())

    lines = [
        f"Machine: {about['processor']}, {about['cores']} cores, {about['memory']}, "
        f"{about['system']}.",
        f"calibkit and polars, in an environment without scipy: {listed(about['versions'])}.",
        f"{others}: {listed(about['development'])}.",
    ]
    if about["versions"].keys() & {"scipy", "scikit-learn"}:
        lines[1:] = [f"Everything: {listed(about['versions'])}."]
    return list(map(bullets, lines))


def disturbance(loads: Sequence[float], quiet: float) -> list[str]:
    """Return what other work took while measuring, as items of a list; nothing where it was quiet."""
    busy = sum(load > quiet for load in loads)
    if not busy:
        return []
    return [
        bullets(
            f"**The machine was busy**: other work took more than {quiet} processors during {busy} "
            f"of {len(loads)} measurements (up to {max(loads):.1f}). That is not neutral: polars sorts "
            "with all cores, most steps of calibkit use one, so other work takes more from polars. "
            "Ratios of processor time say more than those of the clock."
        )
    ]
