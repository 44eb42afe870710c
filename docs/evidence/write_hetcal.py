"""Fill in hetcal.md: calibration by parts on four real score files.

LightGBM, MCGrad, pandas and scikit-learn must be there; what they fit is kept under build/bench/hetcal.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pages import ROOT, arguments, fill, signed, table
from small_networks import auc

import calibkit as ck
from calibkit.methods.hetcal.model import HetcalModel

FITTED = ROOT / "build" / "bench" / "hetcal"
PEER = ROOT / "benchmarks" / "peers" / "residual_models.py"
SETS = ("census", "bank", "higgs", "criteo_tau3")
RESAMPLES = 1000
ECE_BINS = 15

Floats = NDArray[np.float64]


def fit(folder: Path, files: Sequence[str], train: bool = False, **options: Any) -> HetcalModel:
    """Return a model fitted on the calibration rows of a folder."""
    rows = pl.read_parquet(folder / files[0])
    names = rows.columns[rows.columns.index("uncertainty") + 1 :]
    grown = pl.read_parquet(files[1]) if train else None
    return ck.fit_hetcal(rows, features=names, train=grown, **options)


def predict(model: HetcalModel, path: Path) -> Floats:
    """Return the calibrated probabilities of a file."""
    return model.apply(pl.read_parquet(path))["calibrated"].to_numpy()


def losses(p: Floats, y: NDArray[Any]) -> Floats:
    """Return the log loss of each row."""
    kept = np.clip(np.where(y == 1, p, 1 - p), 1e-15, 1.0)
    return -np.log(kept)


def ece(p: Floats, y: NDArray[Any]) -> float:
    """Return the expected calibration error over bins of equal mass."""
    order = np.argsort(p, kind="stable")
    parts = np.array_split(order, ECE_BINS)
    return float(sum(abs((p[part] - y[part]).sum()) for part in parts) / len(y))


def interval(ours: Floats, theirs: Floats, seed: int = 0) -> str:
    """Return the mean difference of paired losses with its 95 % bootstrap interval."""
    random = np.random.default_rng(seed)
    away = ours - theirs
    means = [away[random.integers(0, away.size, away.size)].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{signed(away.mean(), 4)} ({signed(low, 4)} to {signed(high, 4)})"


def judged(name: str, data: Path) -> tuple[dict[str, Floats], NDArray[Any]]:
    """Return the probabilities of every method on the test rows of a set, and the labels."""
    folder, out = data / name, FITTED / name
    if not (out / "base-test.parquet").is_file():
        subprocess.run([sys.executable, str(PEER), str(folder), str(out)], check=True)
    test = pl.read_parquet(folder / "test.parquet")
    peers = pl.read_parquet(out / "test.parquet")
    files, train = ("calib.parquet", folder / "train.parquet"), {"train": True}
    plain = {"max_depth": 4, "min_leaf": 1000, "shrinkage": 0.0}
    models = {
        "global Platt": fit(folder, files, max_depth=0, min_leaf=1, shrinkage=0.0),
        "plain": fit(folder, files, **train, **plain),
        "tree": fit(folder, files, **train),
        "tree, no train": fit(folder, files),
        "forest": fit(folder, files, partition="forest"),
        "boosted": fit(folder, files, partition="boosted"),
    }
    found = {"raw": test["score"].to_numpy().astype(float)}
    found |= {key: predict(model, folder / "test.parquet") for key, model in models.items()}
    found["MCGrad"] = peers["mcgrad"].to_numpy()
    found["LightGBM"] = peers["lightgbm"].to_numpy()
    return found, test["label"].to_numpy()


def on_a_good_base(name: str, data: Path) -> list[str]:
    """Return the row of the table for a base that was trained well."""
    out = FITTED / name
    files = ("base-calib.parquet", data / name / "train.parquet")
    y = pl.read_parquet(out / "base-test.parquet")["label"].to_numpy()
    raw = pl.read_parquet(out / "base-test.parquet")["score"].to_numpy().astype(float)
    pooled = predict(
        fit(out, files, max_depth=0, min_leaf=1, shrinkage=0.0), out / "base-test.parquet"
    )
    tree = fit(out, files, train=True)
    ours = predict(tree, out / "base-test.parquet")
    rows = [losses(p, y) for p in (raw, pooled, ours)]
    texts = [f"{part.mean():.4f}" for part in rows]
    return [name, *texts, interval(rows[2], rows[1]), str(tree.fit.leaves)]


PAIRS = (
    ("tree", "global Platt"),
    ("tree", "plain"),
    ("forest", "tree"),
    ("boosted", "tree"),
    ("boosted", "MCGrad"),
    ("boosted", "LightGBM"),
)


def main() -> None:
    """Fit, judge, and fill the page in."""
    data = arguments(__doc__, needs=SETS).folder
    seen = {name: judged(name, data) for name in SETS}
    methods = list(next(iter(seen.values()))[0])

    files, header = seen.values(), ["", *SETS]
    fill(
        "hetcal",
        loss=table(
            header,
            [
                [m, *(f"{losses(p[m], y).mean():.4f} ({auc(p[m], y):.3f})" for p, y in files)]
                for m in methods
            ],
        ),
        ece=table(header, [[m, *(f"{ece(p[m], y):.4f}" for p, y in files)] for m in methods]),
        differences=table(
            header,
            [
                [f"{a} less {b}", *(interval(losses(p[a], y), losses(p[b], y)) for p, y in files)]
                for a, b in PAIRS
            ],
        ),
        good_base=table(
            "|raw|global Platt|tree|tree less global Platt|leaves",
            [on_a_good_base(name, data) for name in SETS],
        ),
    )


if __name__ == "__main__":
    main()
