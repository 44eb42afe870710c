"""The sections of the page that compare whole processes: sorting, start-up, MIST, metrics."""

from __future__ import annotations

import statistics
from typing import Any

from bench_boundary import LARGE
from bench_startup import FIRST
from harness import Pair, cpu_of, peak_of, wall_of
from page_reasons import is_missed, reasons
from page_text import aim, median, ratios, runs_of, seconds, shown, verdict
from pages import bullets, paragraph, table

SORT = """## A boundary against sorting the rows

The yardstick is a Python process that reads the same three columns with polars and sorts the rows
by score: `polars.read_parquet(file, columns=[…]).sort("score")`. calibkit reads, checks, hashes,
sorts, counts and proves the optimum over every distinct score in 11 uncertainty levels
(`--precision 0.7 --uncertainty-bins 11`). Scores and uncertainties are float32. In *distinct*
nearly every row has a score of its own; *counts* is what `calibkit simulate posterior` writes, with
many rows to a score. *All defaults* chooses among one threshold, a surface and exact levels, by a
cross-validation on a million of the rows (`--precision 0.7` alone). *Net of start-up* takes off what
both sides need without data (calibkit on 1,000 rows, `import polars`), measured in the same rounds,
in processor time; a dash where noise is as large as what is left."""

COLD = """Cold is the first run after an installation or an update: kernels are compiled, once, and kept
under `~/.cache/calibkit`. Warm is every run after it."""

MIST = """## MIST against scikit-learn

The paper's isotonic method, whole process, same file: levels by numpy, one isotonic regression a
level by scikit-learn, one cut for all levels. `IsotonicRegression` is the class as one would use
it; `isotonic_regression` is its bare pooling, on rows that numpy sorted and gathered before."""

EVALUATE = """## Metrics against scikit-learn and a plain script

`calibkit evaluate` with AUC, average precision, log loss, Brier, ECE, MCE and CORP, all with intervals,
whole process, on *distinct*. scikit-learn: its functions for the first four and the calibration curve,
no intervals. The script: numpy, one sort, DeLong's interval, standard errors of the losses, ECE and
MCE, no CORP; arrays given up as soon as they have served. At 1 million rows start-up is most of the
time."""


def startup_section(pairs: list[Pair], start: Pair, cold: list[dict[str, Any]]) -> str:
    """Return the section about start-up."""
    rows = []
    for pair in pairs:
        best = min(one.wall for one in pair.ours)
        rows.append(
            [
                *(pair.name, f"{median(pair, 'ours', wall_of):.2f} s", f"{best:.2f} s"),
                f"{median(pair, 'ours', cpu_of):.2f} s",
                *(shown(pair.ratio(wall_of)), *aim(pair)),
            ]
        )
    header = "command|median|best|processors|ratio to `import polars, numba`|aim|"
    ours, peer = (median(start, side, cpu_of) for side in ("ours", "peer"))
    text = (
        f"A boundary on 1,000 rows takes {seconds(start, wall_of)} against `import polars` alone, "
        f"{ours:.2f} s / {peer:.2f} s of the processors; the profile below says what it consists "
        "of."
    )
    parts = ["## Start-up", table(header, rows)]
    late = [slow_start(pair) for pair in pairs if is_missed(pair)]
    if late:
        parts.append("\n".join(late))
    parts += [paragraph(text), COLD, cold_table(cold)]
    return "\n\n".join(parts)


def slow_start(pair: Pair) -> str:
    """Return why a start-up takes longer than aimed at."""
    ours, peer = (median(pair, side, wall_of) for side in ("ours", "peer"))
    text = f"Why {pair.name} misses: it takes {ours:.2f} s, importing polars and numba {peer:.2f} s"
    if "boundary" in pair.name:
        return bullets(
            f"{text}; it imports polars, the command line and compiled kernels, and fits."
        )
    return bullets(f"{text}; it imports neither, but Python itself and what the command needs.")


def cold_table(cold: list[dict[str, Any]]) -> str:
    """Return what commands take on the sample data at first, and from then on."""
    rows = []
    for one in cold:
        (first,), warm = runs_of([one["cold"]]), runs_of(one["warm"])
        rows.append(
            [
                *(f"`calibkit {one['name']}`", f"{first.wall:.1f} s", f"{first.cpu:.1f} s"),
                f"{statistics.median(map(wall_of, warm)):.2f} s",
                f"{statistics.median(map(peak_of, warm)) / 1e6:.0f} MB",
            ]
        )
    first = cold[0]["cold"]["wall"]
    return "\n\n".join(
        [
            table(["sample data", "cold", "processors", "warm", "memory, warm"], rows),
            bullets(
                f"The first boundary: {first:.1f} s; aim: {FIRST:g} s, {verdict(first, FIRST)}."
            ),
        ]
    )


def bare(pair: Pair) -> str:
    """Return the ratio of processor times net of start-up."""
    ratio = pair.net(cpu_of)
    return "—" if ratio is None else f"{ratio:.2f}"


def sort_section(pairs: list[Pair]) -> str:
    """Return the section about boundaries and sorting."""
    remarks = [bullets(sort_remark(pair)) for pair in pairs]
    if not any(pair.limit == LARGE for pair in pairs):
        remarks.append(
            bullets("50 million rows were not measured: `make bench LARGE=1` does that.")
        )
    remarks += reasons(pairs)
    return "\n\n".join(
        [SORT, ratios(pairs, "polars", **{"net of start-up": bare}), "\n".join(remarks)]
    )


def sort_remark(pair: Pair) -> str:
    """Return an honest sentence about a ratio."""
    assert pair.limit is not None
    wall, cpu, peak = pair.ratio(wall_of), pair.ratio(cpu_of), pair.ratio(peak_of)
    text = f"{pair.name}: "
    if wall.high <= pair.limit:
        text += f"{wall.median:.2f} meets {pair.limit:g} in every round"
    elif wall.median <= pair.limit:
        text += f"{wall.median:.2f} meets {pair.limit:g}, though not in every round"
    else:
        text += f"{wall.median:.2f} misses {pair.limit:g}"
    text += f"; {cpu.median:.2f} of the processor time."
    if pair.memory_limit is not None:
        text += (
            f" Peak memory {median(pair, 'ours', peak_of) / 1e6:.0f} MB against "
            f"{median(pair, 'peer', peak_of) / 1e6:.0f} MB: {peak.median:.2f}, "
            f"{verdict(peak.median, pair.memory_limit)} (aim: {pair.memory_limit:g})."
        )
    return text


def mist_section(pairs: list[Pair]) -> str:
    """Return the section about MIST."""
    remarks = []
    for pair in pairs:
        wall = pair.ratio(wall_of)
        if pair.limit is not None:
            remarks.append(
                f"{pair.name}: {1 / wall.median:.1f} times as fast; aimed at were "
                f"{1 / pair.limit:g} times: {verdict(wall.median, pair.limit)}."
            )
        elif wall.median > 1:
            remarks.append(f"{pair.name}: scikit-learn is faster.")
    items = [*map(bullets, remarks), *reasons(pairs)]
    return "\n\n".join([MIST, faster(pairs, "scikit-learn", "same thresholds"), "\n".join(items)])


def faster(pairs: list[Pair], other: str, same: str) -> str:
    """Return the table of how many times as fast calibkit is, and whether results are the same."""
    rows = []
    for pair in pairs:
        wall, cpu = pair.ratio(wall_of), pair.ratio(cpu_of)
        rows.append(
            [
                *(pair.name, seconds(pair, wall_of)),
                f"{1 / wall.median:.1f} ({1 / wall.high:.1f}–{1 / wall.low:.1f})",
                *(f"{1 / cpu.median:.1f}", shown(pair.ratio(peak_of))),
                "yes" if pair.facts[same.replace(" ", "_")] else "**no**",
            ]
        )
    return table(f"|calibkit / {other}|times as fast|in processor time|memory|{same}", rows)


def evaluate_section(pairs: list[Pair]) -> str:
    """Return the section about metrics."""
    remarks = []
    for pair in pairs:
        wall, peak = pair.ratio(wall_of), pair.ratio(peak_of)
        if pair.limit is not None:
            text = f"{pair.name}: {wall.median:.2f} of the time; aim: at most {pair.limit:g}, "
            text += f"{verdict(wall.median, pair.limit)}."
            if pair.memory_limit is not None:
                met = verdict(peak.median, pair.memory_limit)
                text += f" Memory: at most {pair.memory_limit:g}, {met}."
            remarks.append(text)
    items = [*map(bullets, remarks), *reasons(pairs)]
    return "\n\n".join([EVALUATE, faster(pairs, "other", "same values"), "\n".join(items)])
