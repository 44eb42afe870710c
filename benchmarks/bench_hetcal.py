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

import datasets
import harness
from datasets import FEATURES
from harness import MILLION, Pair, calibkit, compare, million, peer_script, to

ROUNDS = 2

TREES = 50

#: Rows of the file that shows what starting takes.
FEW = 1000


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure the comparisons: trees, boosted partitions, applying."""
    options.rows = min(options.rows, MILLION)
    options.peer = os.environ.get("PEER_PYTHON", sys.executable)
    python, model = options.python, str(harness.FOLDER / "hetcal.json")
    path, start = datasets.features(python, options.rows), datasets.features(python, FEW)
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
        limit=0.15,
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
    for module, rows, name, limit, script, *more in (
        (
            "lightgbm",
            options.rows,
            f"LightGBM, {TREES} trees",
            1.1,
            "lightgbm_trees.py",
            str(TREES),
        ),
        ("mcgrad", options.rows // 10, "MCGrad, as it chooses", None, "mcgrad_fit.py"),
    ):
        if not _has(options.peer, module):
            continue
        few = datasets.features(python, rows)
        yield compare(
            f"{million(rows)}, {FEATURES} features, {TREES} boosted trees, {name}",
            calibkit(python, "hetcal", few, *how),
            peer_script(options.peer, script, few, *more),
            limit=limit,
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

    def apply(rows: str) -> list[str]:
        more = ("--keep", "label", *to("hetcal.parquet"))
        return calibkit(options.python, "apply", model, rows, *more)

    return compare(
        f"{million(options.rows)}, apply the tree, against reading the file",
        apply(path),
        harness.reading(options.python, path),
        limit=1.0,
        starts=(apply(start), harness.reading(options.python, start)),
        floor=harness.reading(options.python, path),
        why="polars only reads; calibkit loads kernels too, reads, finds leaves and writes a file",
        **shared,
    )
