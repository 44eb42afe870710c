"""Fits that go over the rows many times: in memory, and in rounds; writes docs/evidence/rounds.md.

    python benchmarks/study_rounds.py [--python PATH] [--rows N] [--memory SIZE] [-o PAGE]

Each fit runs once with all rows in memory and once in rounds, with a budget that has no room for them.
The file is made in build/bench/rounds and removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
from harness import Run, calibkit, run

PAGE = harness.ROOT / "docs" / "evidence" / "rounds.md"
DATA = harness.FOLDER / "rounds"
#: Rows that compile the kernels before anything is measured.
FEW = 20_000

FEATURES = ("--features", "feature_*")
VOTES = ("--probs", "prob_*", "--counts", "count_*")
#: With nothing to choose: the small forests that choose take most of the time in both.
FOREST = "--partition forest --trees 20 --max-depth 4 --min-leaf 100 --shrinkage 100"
FITS: dict[str, tuple[str, ...]] = {
    "hetcal": FEATURES,
    "hetcal --map beta": (*FEATURES, "--map", "beta"),
    "hetcal --map isotonic": (*FEATURES, "--map", "isotonic"),
    "hetcal --map histogram": (*FEATURES, "--map", "histogram"),
    "hetcal --criterion auc": (*FEATURES, "--criterion", "auc"),
    "hetcal --time day": (*FEATURES, "--time", "day"),
    f"hetcal {FOREST}": (*FEATURES, *FOREST.split()),
    "hetcal --partition boosted --trees 50": (*FEATURES, "--partition", "boosted", "--trees", "50"),
    "alpha-cal": VOTES,
    "alpha-cal --features 'feature_[ab]'": (*VOTES, "--features", "feature_[ab]"),
    "calibrate --probs --method temperature": (*VOTES, "--method", "temperature"),
    "calibrate --probs --method vector": (*VOTES, "--method", "vector"),
}

TEXT = """# Fits in rounds, measured

Written by `make evidence-rounds` (`benchmarks/study_rounds.py`) in {minutes:.0f} minutes. Fits that go
over their rows many times hold them in memory where they fit, else they go over the file: a pass a
round, each of which sums what the next one asks for. Each line is one fit of a Parquet file of {rows}
simulated rows (a score, four features, one of them a category, and the votes of five raters on three
classes), run once with room for all rows and once with `--memory {memory}`, as a process of its own.
*Processors*: seconds of user and system time; *peak*: the most resident memory. {machine}

{table}

*Loss* is what the model says of the rows it was fitted on: log loss after calibration (`hetcal`,
`calibrate`), the objective (`alpha-cal`). Where it is not the same, folds or bootstrap rows are dealt
by a hash of the row in rounds, at random in memory; [hetcal](../hetcal.md#rows-that-do-not-fit) says
what else is, and what is not, the same.
"""


def make(rows: int, path: Path) -> None:
    """Write simulated rows."""
    import numpy as np
    import polars as pl

    random = np.random.default_rng(rows)
    score = random.normal(-1.0, 1.5, rows)
    first, second = random.normal(size=rows), random.integers(0, 50, rows)
    third, kind = random.gamma(2.0, size=rows), random.integers(0, 4, rows)
    slope = np.where(first > 0.4, 0.5, 1.1) + 0.1 * kind
    chance = 1.0 / (1.0 + np.exp(0.02 * second - slope * score - 0.1 * third))
    logits = np.stack([np.zeros(rows), score, 0.5 * score + 0.3 * first], axis=1)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    alpha = np.exp(1.0 + 0.5 * first)[:, None]
    gammas = random.standard_gamma(shares * alpha)
    votes = random.multinomial(5, gammas / gammas.sum(axis=1, keepdims=True))
    columns: dict[str, Any] = {
        "score": 1.0 / (1.0 + np.exp(-score)),
        "label": (random.random(rows) < chance).astype(np.uint8),
        "feature_a": first,
        "feature_b": second.astype(np.float64),
        "feature_c": third,
        "feature_kind": np.array(["north", "east", "south", "west"])[kind],
        "day": random.integers(0, 365, rows),
    }
    columns |= {f"prob_{place}": shares[:, place] for place in range(3)}
    columns |= {f"count_{place}": votes[:, place] for place in range(3)}
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(columns).write_parquet(path, row_group_size=1 << 18)


def measured(options: argparse.Namespace, name: str, path: Path, memory: str) -> tuple[Run, float]:
    """Run a fit, and return what it took and the loss that the model states."""
    out = DATA / "out.json"
    line = (
        name.partition(" ")[0],
        str(path),
        *FITS[name],
        "--memory",
        memory,
        "-v",
        "-o",
        str(out),
    )
    found = run(calibkit(options.python, *line))
    print(f"{name}, {memory}: {found}", file=sys.stderr, flush=True)
    return found, loss_of(json.loads(out.read_text()))


def loss_of(model: dict[str, Any]) -> float:
    """Return the loss that a model states of the rows that it was fitted on."""
    if "objective" in model:
        return float(model["objective"])
    fit = model["fit"]
    return float(fit["in_sample"]["calibrated"] if "in_sample" in fit else fit["log_loss"])


def rounds_of(said: str) -> int:
    """Return how many rounds a fit said that it took; 0: none."""
    return max((int(number) for number in re.findall(r"round (\d+)", said)), default=0)


def table(options: argparse.Namespace, path: Path) -> Iterator[str]:
    """Yield the lines of the table."""
    yield (
        "| fit | rounds | time in memory | in rounds | processors in memory | in rounds "
        "| peak in memory | in rounds | loss in memory | in rounds |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name in FITS:
        whole, loss = measured(options, name, path, "64GB")
        parts, other = measured(options, name, path, options.memory)
        cells = [
            f"{rounds_of(parts.said)}",
            *(f"{one.wall:.1f} s" for one in (whole, parts)),
            *(f"{one.cpu:.1f} s" for one in (whole, parts)),
            *(f"{one.peak / 1e6:,.0f} MB" for one in (whole, parts)),
            f"{loss:.7f}",
            f"{other:.7f}",
        ]
        yield f"| `{name}` | {' | '.join(cells)} |"


def read_options() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rows", type=int, default=harness.MILLION)
    parser.add_argument("--memory", default="400MB")
    parser.add_argument("--make", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    return parser.parse_args()


def main() -> None:
    """Make the file, run the fits, write the page."""
    options = read_options()
    if options.make:
        make(options.rows, options.make)
        return
    begun, load = time.monotonic(), os.getloadavg()[0]
    paths = {rows: DATA / f"{rows}.parquet" for rows in (FEW, options.rows)}
    for rows, path in paths.items():
        run([options.python, __file__, "--rows", str(rows), "--make", str(path)])
    for name in FITS:
        for memory in ("64GB", "1MB"):
            measured(options, name, paths[FEW], memory)
    lines = "\n".join(table(options, paths[options.rows]))
    options.output.write_text(
        TEXT.format(
            minutes=(time.monotonic() - begun) / 60,
            rows=f"{options.rows:,}",
            memory=options.memory,
            machine=f"{os.cpu_count()} processors; load before the first run {load:.1f}.",
            table=lines,
        ),
        encoding="utf-8",
    )
    shutil.rmtree(DATA)


if __name__ == "__main__":
    main()
