"""`calibkit hetcal` on 20 features against scikit-learn (a tree, a map a leaf) and LightGBM.

    PEER_PYTHON=PATH python benchmarks/bench_hetcal.py [--python PATH] [--rows N] [--rounds N]

A tree of depth 4 against DecisionTreeClassifier and a LogisticRegression in each leaf (calibkit also
fits five more trees to cross-fit its maps); 50 boosted partitions against 50 LightGBM trees
(PEER_PYTHON is an interpreter that has it; else left out); applying the tree against polars reading
the file.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

import harness
from harness import MILLION, Pair, calibkit, compare, million, peer_script, run

FEATURES = 20
TREES = 50

#: Rows of the file that shows what starting takes.
FEW = 1000


def rows_file(python: str, rows: int) -> str:
    """Return a file of scores with features, made once."""
    path = harness.FOLDER / f"features-{rows}.parquet"
    if not path.is_file():
        harness.FOLDER.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f"new-{path.name}")
        run([python, __file__, "--make", str(rows), str(made)])
        made.rename(path)
    return str(path)


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
    """Measure the three comparisons."""
    path, model = rows_file(options.python, options.rows), str(harness.FOLDER / "hetcal.json")
    size = ("--max-depth", "4", "--min-leaf", "1000", "--shrinkage", "0")
    tree = calibkit(options.python, "hetcal", path, *size, "-q", "-o", model)
    shared = {"rounds": options.rounds, "kind": "hetcal"}
    yield compare(
        f"{million(options.rows)}, {FEATURES} features, tree of depth 4",
        tree,
        peer_script(sys.executable, "sklearn_leaves.py", path),
        limit=0.2,
        **shared,
    )
    boosted = ("--partition", "boosted", "--trees", str(TREES), "-q", "-o", model + ".boosted")
    if options.peer:
        yield compare(
            f"{million(options.rows)}, {FEATURES} features, {TREES} boosted trees",
            calibkit(options.python, "hetcal", path, *boosted),
            peer_script(options.peer, "lightgbm_trees.py", path, str(TREES)),
            limit=3.0,
            **shared,
        )
    output = str(harness.FOLDER / "hetcal.parquet")

    def applied(rows: str) -> list[str]:
        more = ("--keep", "label", "-q", "-o", output)
        return calibkit(options.python, "apply", model, rows, *more)

    start = rows_file(options.python, FEW)
    yield compare(
        f"{million(options.rows)}, apply the tree, against reading the file",
        applied(path),
        peer_script(options.python, "polars_read.py", path),
        limit=1.0,
        starts=(applied(start), peer_script(options.python, "polars_read.py", start)),
        **shared,
    )


def main() -> None:
    if "--make" in sys.argv:
        make(int(sys.argv[-2]), sys.argv[-1])
        return
    options = harness.arguments(__doc__, rounds=3)
    options.rows = min(options.rows, MILLION)
    options.peer = os.environ.get("PEER_PYTHON")
    harness.save("hetcal", options.python, pairs=list(pairs(options)))


if __name__ == "__main__":
    main()
