"""Ratios, machines and disturbances as the pages on speed show them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from harness import RESULTS, ROOT, Pair, Run, Spread, cpu_of, peak_of, wall_of
from pages import bullets, table


def read(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the results by name, as far as there are any."""
    paths = {name: RESULTS / f"{name}.json" for name in names}
    return {name: json.loads(path.read_bytes()) for name, path in paths.items() if path.is_file()}


def are_alike(found: dict[str, dict[str, Any]]) -> bool:
    """Return whether results come from the same machine and sources."""
    first, *others = (one["machine"] for one in found.values())
    return all(machine == first for machine in others)


def pairs_of(found: dict[str, Any]) -> list[Pair]:
    """Return the pairs of a benchmark."""
    return [Pair.from_dict(pair) for pair in found["pairs"]]


def runs_of(some: Iterable[dict[str, Any]]) -> list[Run]:
    """Return runs that `dataclasses.asdict` took apart."""
    return [Run(**one) for one in some]


def write(name: str, *sections: str) -> None:
    """Write a page of evidence that is nothing but its sections."""
    page = ROOT / "docs" / "evidence" / f"{name}.md"
    page.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    print(f"{page.relative_to(ROOT)} written.")


def shown(ratio: Spread) -> str:
    """Return a ratio with its range."""
    return f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"


def median(pair: Pair, side: str, of: Any) -> float:
    """Return the median over the runs of one side."""
    return statistics.median(map(of, getattr(pair, side)))


def seconds(pair: Pair, of: Any) -> str:
    """Return the medians of both sides."""
    return f"{median(pair, 'ours', of):.2f} s / {median(pair, 'peer', of):.2f} s"


def aim(pair: Pair) -> tuple[str, str]:
    """Return the ratio of wall times that was aimed at and whether it was met; empty without one."""
    if pair.limit is None:
        return "", ""
    return f"{pair.limit:.3g}", verdict(pair.ratio(wall_of).median, pair.limit)


def ratios(pairs: Iterable[Pair], other: str, **columns: Callable[[Pair], str]) -> str:
    """Return the table of ratios to another program; `columns` come before that of memory."""
    header = ["", f"calibkit / {other}", "wall", "aim", "", "processors", *columns, "memory"]
    rows = [
        [
            *(pair.name, seconds(pair, wall_of), shown(pair.ratio(wall_of)), *aim(pair)),
            shown(pair.ratio(cpu_of)),
            *(column(pair) for column in columns.values()),
            shown(pair.ratio(peak_of)),
        ]
        for pair in pairs
    ]
    return table(header, rows)


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
