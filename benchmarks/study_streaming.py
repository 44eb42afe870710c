"""Files larger than memory: time, memory, what cells cost; writes docs/evidence/streaming.md.

Shards of a million rows with float64 scores, nearly all distinct, which is the hard case for a
summary; each command runs on some and on all of them with a fixed budget, once.  The shards (25 bytes a
row) are made in build/bench/streaming and removed afterwards.  With four processors that have nothing
else to do it takes about ten minutes; a page from a busy machine says so.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
from datasets import drawn
from harness import MILLION, Run, calibkit, run
from pages import FOLDER as PAGES
from pages import fill, paragraph, table

PICTURE = "streaming_growth.svg"
DATA = harness.FOLDER / "streaming"

COMMANDS = {
    "boundary --precision 0.5 --method exact": ("--precision", "0.5", "--method", "exact"),
    "calibrate --method isotonic": ("--method", "isotonic"),
    "evaluate": (),
    "vad": ("--members", "score,other"),
}

SETTING = """\
Written by `make evidence-streaming` (`benchmarks/study_streaming.py`) in {minutes:.0f} minutes. Each
command runs once, as a process of its own, on shards of a million rows in Parquet (float64 scores and
uncertainties, nearly all distinct), with `--memory {memory}`. *Processors*: seconds of user and system
time, in all and for a million rows; *peak*: the most resident memory. {machine}"""

GROWTH = """\
A budget is one of the whole process: peak memory has to stay below it. From {least} to {most} rows
the processors take {growth} times as long, for {factor:g} times the rows. Rows that fit are read at
once and not rounded; others are read in windows, those of a boundary twice: once for the edges of
uncertainty levels, once for the rest."""

SMALL = """\
The same rows with a budget that has room for all of them, and with {small}, in turn; medians of
{rounds}; with all processors, and with two. Metrics and maps of cells take less time than those of all
rows, which is why a small budget may be the faster one."""

#: What the runs took and wrote, by command and rows.
Found = dict[tuple[str, int], tuple[Run, Any]]


def shards(python: str, rows: int) -> list[str]:
    """Return files of a million rows each, made once."""
    return [
        drawn(python, f"streaming/{place:04}.parquet", "shard", place)
        for place in range(rows // MILLION)
    ]


def measured(options: argparse.Namespace, rows: int, memory: str, name: str) -> tuple[Run, Any]:
    """Run a command on the first shards, and return what it took and what it wrote."""
    command, out = name.partition(" ")[0], DATA / "out.json"
    inputs, budget = shards(options.python, rows), ("--memory", memory, "-q", "-o", str(out))
    found = run(calibkit(options.python, command, *inputs, *COMMANDS[name], *budget))
    print(f"{name}, {rows:,} rows, {memory}: {found}", file=sys.stderr, flush=True)
    return found, json.loads(out.read_text())


def runs(found: Found) -> str:
    """Return the table of time and memory."""
    rows = [
        [
            *(f"`{name}`", f"{rows:,}", f"{one.wall:.1f} s", f"{one.cpu:.1f} s"),
            *(f"{one.cpu / (rows / MILLION):.2f} s", f"{one.peak / 1e9:.2f} GB"),
        ]
        for (name, rows), (one, _) in found.items()
    ]
    return table("command|rows|time|processors|a million rows|peak", rows, "lr")


def cost(found: Found) -> str:
    """Return the table of what results say of their rounding."""
    lines = []
    for (name, rows), (_, result) in found.items():
        said = result.get("resolution") or result.get("fit", {}).get("resolution") or {}
        ranges: dict[str, Any] = {"recall": said["optimum"]} if said.get("optimum") else {}
        ranges |= said.get("ranges", {}).get("score", {}).get("all", {})
        text = "; ".join(
            f"{key} {own['low']:.7f} and {own['high']:.7f}" for key, own in ranges.items()
        )
        bits = said.get("score_bits", "all")
        lines.append([f"`{name}`", f"{rows:,}", bits, text or ("-" if said else "exact")])
    return table("command|rows|bits of scores|what lies for sure between", lines, "lrrl")


RATIOS = (
    "command|rows|on processors|all rows fit|they do not|ratio|"
    "seconds of the processors, all fit|they do not|ratio"
)


def ratios(options: argparse.Namespace, rows: int) -> Iterator[list[str]]:
    """Yield lines of the table of budgets with room for some rows and without."""
    every = os.sched_getaffinity(0)
    for name in COMMANDS:
        for allowed in [every, set(sorted(every)[:2])] if len(every) > 2 else [every]:
            os.sched_setaffinity(0, allowed)  # processes that are started inherit it
            runs: dict[str, list[Run]] = {"64GB": [], options.small: []}
            for _ in range(options.rounds):
                for size, own in runs.items():
                    own.append(measured(options, rows, size, name)[0])
            cells = []
            for of in (lambda run: run.wall, lambda run: run.cpu):
                one, other = (statistics.median(map(of, own)) for own in runs.values())
                cells += [f"{one:.1f} s", f"{other:.1f} s", f"{other / one:.2f}"]
            yield [f"`{name}`", f"{rows:,}", str(len(allowed)), *cells]
    os.sched_setaffinity(0, every)


def draw(found: Found, path: Path) -> None:
    """Draw the seconds of the processors by rows: straight lines, if they grow alike."""
    from calibkit.options.plot import Look
    from calibkit.reports.style import Sheet, settings, to_bytes

    title, size = "Seconds of the processors by rows", (6.0, 4.4)
    look = Look(title=title)
    with settings(look, size):
        sheet = Sheet(look, size, title)
        (panel,) = sheet.panels()
        for place, name in enumerate(COMMANDS):
            own = sheet.line(place)
            points = [
                (rows / MILLION, one.cpu) for (of, rows), (one, _) in found.items() if of == name
            ]
            panel.plot(*zip(*points, strict=True), **own, zorder=3)
            sheet.entry(name.partition(" ")[0], **own)
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        sheet.label(panel, x="million rows", y="seconds of the processors")
        picture = to_bytes(sheet.finish())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture)


def read_options() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    sizes = [count * MILLION for count in (10, 20, 50, 100)]
    parser.add_argument("--rows", type=int, nargs="+", default=sizes)
    parser.add_argument(
        "--fitting", type=int, nargs="+", default=sizes[:2], help="with two budgets"
    )
    parser.add_argument("--memory", default="1900MB")
    parser.add_argument("--small", default="1GB")
    parser.add_argument("--rounds", type=int, default=3, help="of the runs with two budgets")
    parser.add_argument("--keep", action="store_true", help="leave the shards for another run")
    return parser.parse_args()


def main() -> None:
    """Make the shards, run the commands, write the page and its picture."""
    options = read_options()
    begun, load = time.monotonic(), os.getloadavg()[0]
    shards(options.python, max(*options.rows, *options.fitting))
    for name in COMMANDS:  # kernels are compiled before anything is measured
        measured(options, MILLION, "1MB", name)
    found = {(name, rows): measured(options, rows, options.memory, name)
             for name in COMMANDS for rows in options.rows}  # fmt: skip
    least, most = min(options.rows), max(options.rows)
    growth = [found[name, most][0].cpu / found[name, least][0].cpu for name in COMMANDS]
    fill(
        "streaming",
        setting=paragraph(
            SETTING.format(
                minutes=(time.monotonic() - begun) / 60,
                memory=options.memory,
                machine=f"{os.cpu_count()} processors; load before the first run {load:.1f}.",
            )
        ),
        runs=runs(found),
        growth=paragraph(
            GROWTH.format(
                least=f"{least:,}",
                most=f"{most:,}",
                growth=f"{min(growth):.1f} to {max(growth):.1f}",
                factor=most / least,
            )
        ),
        cost=cost(found),
        small=paragraph(SMALL.format(small=options.small, rounds=options.rounds)),
        ratios=table(
            RATIOS, [line for rows in options.fitting for line in ratios(options, rows)], "lr"
        ),
    )
    if not options.keep:
        shutil.rmtree(DATA)
    draw(found, PAGES / "figures" / PICTURE)  # last: matplotlib takes memory


if __name__ == "__main__":
    main()
