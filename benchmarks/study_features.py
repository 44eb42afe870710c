"""Fits that need each row, in memory and on disk; writes docs/evidence/features.md.

    python benchmarks/study_features.py [--python PATH] [--rows N] [--memory SIZE] [--large N]
        [--budget SIZE] [--rounds N] [-o PAGE]

Each fit runs with room for all rows and with a budget that has none for them, in turn; a boosted
partition also on ten times the rows, once.  Files are made in build/bench/features (50 to 140 bytes a
row) and removed afterwards.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import harness
from harness import MILLION, Run, calibkit, run

PAGE = harness.ROOT / "docs" / "evidence" / "features.md"
DATA = harness.FOLDER / "features"
#: Rows that compile the kernels before anything is measured.
FEW = 20_000
FEATURES = 11

ALL = ("--features", "feature_*")
FOUR = ("--features", "feature_0,feature_1,feature_2,feature_kind")
VOTES = ("--probs", "prob_*", "--counts", "count_*")
BOOSTED = "hetcal --partition boosted (11 features)"
#: With nothing to choose: the small forests that choose take most of the time in both.
FOREST = "--partition forest --trees 20 --max-depth 4 --min-leaf 100 --shrinkage 100"
FITS: dict[str, tuple[str, ...]] = {
    BOOSTED: (*ALL, "--partition", "boosted"),
    "hetcal (4 features)": FOUR,
    "hetcal --map isotonic (4 features)": (*FOUR, "--map", "isotonic"),
    "hetcal --criterion auc (4 features)": (*FOUR, "--criterion", "auc"),
    f"hetcal {FOREST} (4 features)": (*FOUR, *FOREST.split()),
    "alpha-cal": VOTES,
    "alpha-cal --features (2)": (*VOTES, "--features", "feature_0,feature_1"),
    "calibrate --probs --method temperature": (*VOTES, "--method", "temperature"),
    "calibrate --probs --method vector": (*VOTES, "--method", "vector"),
}

TEXT = """# Fits that need each row, measured

Written by `make evidence-features` (`benchmarks/study_features.py`) in {minutes:.0f} minutes. Fits on
features, class probabilities and votes go over their rows many times. Where rows do not fit into
`--memory` the same fit goes over files in the temporary folder
([how](../cluster.md#how-rows-are-held)). Each line is a fit of a Parquet file of {rows} simulated
rows, with room for all rows and with `--memory {memory}`, as a process of its own; medians of
{rounds}. *Processors*: seconds of user and system time; *peak*: the most resident memory; *same
bytes*: of the two models. {machine}

{table}

## Ten times the rows

| fit | rows | budget | time | processors | peak |
| --- | ---: | ---: | ---: | ---: | ---: |
{large}
"""


def make(rows: int, place: int, path: Path) -> None:
    """Write the simulated rows of one of several files, a million at a time."""
    import polars as pl
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    writer = None
    for start in range(0, rows, MILLION):
        table = pl.DataFrame(columns(min(MILLION, rows - start), [rows, place, start])).to_arrow()
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=1 << 18)
    if writer:
        writer.close()


def columns(rows: int, seed: list[int]) -> dict[str, object]:
    """Return a score with features that say where it is wrong, and the votes of five raters."""
    import numpy as np

    random = np.random.default_rng(seed)
    score, kind = random.normal(-1.0, 1.5, rows), random.integers(0, 4, rows)
    features = random.normal(size=(FEATURES - 1, rows)).round(3)
    features[1] = random.integers(0, 50, rows)
    slope = np.where(features[0] > 0.4, 0.5, 1.1) + 0.1 * kind
    chance = 1.0 / (1.0 + np.exp(0.02 * features[1] - slope * score - 0.1 * features[2]))
    logits = np.stack([np.zeros(rows), score, 0.5 * score + 0.3 * features[0]], axis=1)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    gammas = random.standard_gamma(shares * np.exp(1.0 + 0.5 * features[0])[:, None])
    votes = random.multinomial(5, gammas / gammas.sum(axis=1, keepdims=True))
    return {
        "score": 1.0 / (1.0 + np.exp(-score)),
        "label": (random.random(rows) < chance).astype(np.uint8),
        **{f"feature_{place}": values for place, values in enumerate(features)},
        "feature_kind": np.array(["north", "east", "south", "west"])[kind],
        **{f"prob_{place}": shares[:, place] for place in range(3)},
        **{f"count_{place}": votes[:, place] for place in range(3)},
    }


def measured(options: argparse.Namespace, name: str, path: Path, memory: str) -> tuple[Run, bytes]:
    """Run a fit, and return what it took and the model."""
    out = DATA / "out.json"
    command = name.partition(" ")[0]
    line = (command, str(path), *FITS[name], "--memory", memory, "-q", "-o", str(out))
    found = run(calibkit(options.python, *line))
    print(f"{name}, {path.stem} rows, {memory}: {found}", file=sys.stderr, flush=True)
    return found, out.read_bytes()


def table(options: argparse.Namespace, path: Path) -> Iterator[str]:
    """Yield the lines of the table of the two budgets."""
    yield (
        "| fit | time in memory | on disk | ratio | processors in memory | on disk "
        "| peak in memory | on disk | same bytes |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for name in FITS:
        runs: dict[str, list[Run]] = {"64GB": [], options.memory: []}
        models = set()
        for _ in range(options.rounds):
            for memory, own in runs.items():
                took, model = measured(options, name, path, memory)
                own.append(took)
                models.add(model)
        whole, parts = ([statistics.median(map(of, own)) for of in OF] for own in runs.values())
        cells = [
            f"{whole[0]:.1f} s | {parts[0]:.1f} s | {parts[0] / whole[0]:.2f}",
            f"{whole[1]:.1f} s | {parts[1]:.1f} s",
            f"{whole[2] / 1e6:,.0f} MB | {parts[2] / 1e6:,.0f} MB",
            "yes" if len(models) == 1 else "**no**",
        ]
        yield f"| `{name}` | {' | '.join(cells)} |"


OF = (harness.wall_of, harness.cpu_of, harness.peak_of)


def large(options: argparse.Namespace, path: Path) -> str:
    """Return the line of a boosted partition on many rows."""
    took, _ = measured(options, BOOSTED, path, options.budget)
    return (
        f"| `{BOOSTED}` | {options.large:,} | {options.budget} | {took.wall:.0f} s "
        f"| {took.cpu:.0f} s | {took.peak / 1e6:,.0f} MB |"
    )


def read_options() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rows", type=int, default=MILLION)
    parser.add_argument("--memory", default="400MB")
    parser.add_argument("--large", type=int, default=10 * MILLION)
    parser.add_argument("--budget", default="950MB", help="for the large file")
    parser.add_argument("--rounds", type=int, default=3, help="of each fit with each budget")
    parser.add_argument("--place", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    return parser.parse_args()


def main() -> None:
    """Make the files, run the fits, write the page."""
    options = read_options()
    if options.make:
        make(options.rows, options.place, options.make)
        return
    begun, load = time.monotonic(), os.getloadavg()[0]
    paths = {rows: DATA / f"{rows}.parquet" for rows in (FEW, options.rows, options.large)}
    for rows, path in paths.items():
        run([options.python, __file__, "--rows", str(rows), "--make", str(path)])
    for name in FITS:
        for memory in ("64GB", "1MB"):
            measured(options, name, paths[FEW], memory)
    lines = "\n".join(table(options, paths[options.rows]))
    many = large(options, paths[options.large])
    options.output.write_text(
        TEXT.format(
            minutes=(time.monotonic() - begun) / 60,
            rows=f"{options.rows:,}",
            memory=options.memory,
            rounds=options.rounds,
            machine=f"{os.cpu_count()} processors; load before the first run {load:.1f}.",
            table=lines,
            large=many,
        ),
        encoding="utf-8",
    )
    shutil.rmtree(DATA)


if __name__ == "__main__":
    main()
