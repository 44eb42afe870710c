"""`calibkit hetcal` on 20 features against scikit-learn (a tree, a map a leaf), LightGBM and MCGrad.

A tree of depth 4 against DecisionTreeClassifier and a LogisticRegression in each leaf (calibkit also
fits five more trees to cross-fit its maps; with `--train` it fits one); 50 boosted partitions against
50 LightGBM trees, and on a tenth of the rows against MCGrad, where PEER_PYTHON (else the interpreter
of this script) has them; applying the tree against polars reading the file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import harness
from harness import MILLION, Pair, calibkit, compare, made, million, peer_script

ROUNDS = 2

FEATURES = 20
TREES = 50

#: Rows of the file that shows what starting takes.
FEW = 1000


def rows_file(python: str, rows: int) -> str:
    """Return a file of scores with features, made once."""
    return made(f"features-{rows}.parquet", [python, __file__, str(rows)])


def make(rows: int, path: str) -> None:
    """Write scores that miss a product, a wave and a step of the features."""
    import numpy as np
    import polars as pl

    random = np.random.default_rng(0)
    x = random.normal(size=(rows, FEATURES)).astype(np.float32)
    truth = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) + x[:, 3] - 0.5 * (x[:, 4] > 1)
    label = random.random(rows) < 1 / (1 + np.exp(-truth))
    seen = 1.5 * (x[:, 3] + 0.5 * np.sin(3 * x[:, 2]) + 0.5 * random.normal(size=rows))
    score = (1 / (1 + np.exp(-seen))).astype(np.float32)
    columns = {f"feature_{j}": x[:, j] for j in range(FEATURES)}
    pl.DataFrame({"label": label.astype(np.int8), "score": score, **columns}).write_parquet(path)


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure the comparisons: trees, boosted partitions, applying."""
    options.rows = min(options.rows, MILLION)
    options.peer = os.environ.get("PEER_PYTHON", sys.executable)
    python, model = options.python, str(harness.FOLDER / "hetcal.json")
    path, start = rows_file(python, options.rows), rows_file(python, FEW)
    shared: dict[str, Any] = {"rounds": options.rounds, "kind": "hetcal"}
    what = f"{million(options.rows)}, {FEATURES} features"

    def tree(rows: str, *more: str) -> list[str]:
        size = ("--max-depth", "4", "--min-leaf", "1000", "--shrinkage", "0")
        return calibkit(python, "hetcal", rows, *size, *more, "-q", "-o", model)

    leaves = peer_script(sys.executable, "sklearn_leaves.py", path)
    yield compare(
        f"{what}, tree of depth 4",
        tree(path),
        leaves,
        limit=0.2,
        starts=(tree(start), peer_script(sys.executable, "sklearn_leaves.py", start)),
        floor=harness.reading(python, path),
        why="five of calibkit's six trees cross-fit its maps, which scikit-learn's way leaves out; the "
        "next row grows one tree, but reads, checks and fingerprints the rows twice",
        **shared,
    )
    yield compare(
        f"{what}, one tree, rows read twice (`--train`)",
        tree(path, "--train", path),
        leaves,
        **shared,
    )
    yield from boosted(options, path, model, shared)
    yield applied(options, path, start, model, shared)


def boosted(
    options: argparse.Namespace, path: str, model: str, shared: dict[str, Any]
) -> Iterator[Pair]:
    """Measure boosted partitions against LightGBM, and on fewer rows against MCGrad."""
    python = options.python
    how = ("--partition", "boosted", "--trees", str(TREES), "-q", "-o", model + ".boosted")
    rows = {"lightgbm": options.rows, "mcgrad": options.rows // 10}
    names = {"lightgbm": f"LightGBM, {TREES} trees", "mcgrad": "MCGrad, as it chooses"}
    for module, count in rows.items():
        if not _has(options.peer, module):
            continue
        few = rows_file(python, count)
        theirs = {
            "lightgbm": ("lightgbm_trees.py", few, str(TREES)),
            "mcgrad": ("mcgrad_fit.py", few),
        }
        yield compare(
            f"{million(count)}, {FEATURES} features, {TREES} boosted trees, {names[module]}",
            calibkit(python, "hetcal", few, *how),
            peer_script(options.peer, *theirs[module]),
            limit=3.0 if module == "lightgbm" else None,
            **shared,
        )


def _has(python: str, module: str) -> bool:
    """Return whether an interpreter finds a module."""
    code = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", code], check=False).returncode == 0


def applied(
    options: argparse.Namespace, path: str, start: str, model: str, shared: dict[str, Any]
) -> Pair:
    """Measure applying the tree."""
    output = str(harness.FOLDER / "hetcal.parquet")

    def apply(rows: str) -> list[str]:
        more = ("--keep", "label", "-q", "-o", output)
        return calibkit(options.python, "apply", model, rows, *more)

    return compare(
        f"{million(options.rows)}, apply the tree, against reading the file",
        apply(path),
        peer_script(options.python, "polars_read.py", path),
        limit=1.0,
        starts=(apply(start), peer_script(options.python, "polars_read.py", start)),
        floor=harness.reading(options.python, path),
        why="polars only reads; calibkit loads kernels too, reads, finds leaves and writes a file",
        **shared,
    )


if __name__ == "__main__":
    make(int(sys.argv[1]), sys.argv[2])
