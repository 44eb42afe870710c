"""Label histograms: `alpha-cal` on features against scipy, `evaluate` on a million histograms.

scipy runs in the environment of this script, on the same objective in numpy.  Both must reach the
same objective.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import harness
from harness import MILLION, Pair, calibkit, compare, made, million, peer_script

ROUNDS = 3

ROWS, CLASSES, FEATURES, VOTES = 100_000, 10, 64, 10

#: Rows of the file that shows what starting takes.
FEW = 200

#: How many times faster than scipy the whole fit should be.
TIMES = 5.0


def histograms(rows: int, features: int, classes: int = CLASSES) -> str:
    """Return a file of class probabilities, votes and features that say how far raters agree."""
    more = "" if classes == CLASSES else f"-{classes}"
    size = map(str, (rows, features, classes))
    name = f"histograms-{rows}-{features}{more}.parquet"
    return made(name, [sys.executable, __file__, *size])


def write(rows: int, features: int, classes: int, path: str) -> None:
    """Write such a file."""
    import numpy as np
    import polars as pl

    random = np.random.default_rng(1)
    z = random.dirichlet(np.ones(classes), rows)
    u = random.normal(size=(rows, features))
    log_alpha0 = u @ (0.2 * random.normal(size=features)) if features else random.normal(size=rows)
    share = random.gamma(np.maximum(z * np.exp(log_alpha0)[:, None], 1e-3))
    share /= share.sum(axis=1, keepdims=True)
    y = random.multinomial(VOTES, share)
    columns = {f"prob_{k}": z[:, k] for k in range(classes)}
    columns |= {f"count_{k}": y[:, k] for k in range(classes)}
    columns |= {f"feature_{k}": u[:, k] for k in range(features)}
    pl.DataFrame(columns).write_parquet(path)


def fits(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure the fit on features."""
    path = histograms(ROWS, FEATURES)
    model = str(harness.FOLDER / "alpha.json")
    output = str(harness.FOLDER / "scipy-alpha.json")
    few, output_of = histograms(FEW, FEATURES), ("-q", "-o", model)
    ours = calibkit(options.python, "alpha-cal", path, "--features", "feature_*", *output_of)
    pair = compare(
        f"{ROWS:,} rows, {CLASSES} classes, {FEATURES} features",
        ours,
        peer_script(sys.executable, "scipy_alpha.py", path, output),
        rounds=options.rounds,
        limit=1 / TIMES,
        starts=(
            calibkit(options.python, "alpha-cal", few, "--features", "feature_*", *output_of),
            peer_script(sys.executable, "scipy_alpha.py", few, output),
        ),
        floor=harness.reading(options.python, path),
        why="scipy takes few iterations on these rows: start-up and reading weigh on both sides",
        kind="raters",
    )
    found, known = (json.loads(Path(file).read_text(encoding="utf-8")) for file in (model, output))
    higher = {"objective_above_scipy": found["objective"] - known["objective"]}
    yield replace(pair, facts=pair.facts | higher)


def results(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the fit on features, and metrics."""
    return {"pairs": list(fits(options)), "evaluation": evaluation(options)}


def evaluation(options: argparse.Namespace) -> list[dict[str, object]]:
    """Measure all metrics of a million histograms, with and without intervals."""
    path = histograms(MILLION, 0)
    found = []
    for name, more in (("with intervals", []), ("without", ["--no-intervals"])):
        command = calibkit(
            options.python,
            *("evaluate", path, "--probs", "prob_*", "--counts", "count_*", *more, "-q"),
            *("-o", str(harness.FOLDER / "raters.json")),
        )
        harness.run(command)
        runs = [harness.run(command) for _ in range(options.rounds)]
        found.append({"name": f"{million(MILLION)}, {name}", "runs": runs})
    return found


if __name__ == "__main__":
    write(*map(int, sys.argv[1:-1]), sys.argv[-1])
