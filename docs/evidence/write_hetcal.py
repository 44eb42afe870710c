"""Fill in hetcal.md: calibration by parts on four real score files.

LightGBM, MCGrad, pandas and scikit-learn must be there; what they fit is kept under build/bench/hetcal.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pages import ROOT, arguments, fill, score_files, signed, table
from small_networks import auc

import calibkit as ck
from calibkit.methods.hetcal.model import HetcalModel

FITTED = ROOT / "build" / "bench" / "hetcal"
PEER = ROOT / "benchmarks" / "peers" / "residual_models.py"
SETS = ("census", "bank", "higgs", "criteo_tau3")
RESAMPLES = 1000
ECE_BINS = 15
#: Of one map for all rows.
GLOBAL = {"max_depth": 0, "min_leaf": 1, "shrinkage": 0.0}

Floats = NDArray[np.float64]


def fit(rows: pl.DataFrame, **options: Any) -> HetcalModel:
    """Return a model fitted on calibration rows, by all of their features."""
    names = rows.columns[rows.columns.index("uncertainty") + 1 :]
    return ck.fit_hetcal(rows, features=names, **options)


def predict(model: HetcalModel, rows: pl.DataFrame) -> Floats:
    """Return the calibrated probabilities of rows."""
    return model.apply(rows)["calibrated"].to_numpy()


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
    train, calib, test = score_files(folder, ("train", "calib", "test"))
    (peers,) = score_files(out, ["test"])
    models = {
        "global Platt": fit(calib, **GLOBAL),
        "plain": fit(calib, train=train, max_depth=4, min_leaf=1000, shrinkage=0.0),
        "tree": fit(calib, train=train),
        "tree, no train": fit(calib),
        "forest": fit(calib, partition="forest"),
        "boosted": fit(calib, partition="boosted"),
    }
    found = {"raw": test["score"].to_numpy().astype(float)}
    found |= {key: predict(model, test) for key, model in models.items()}
    found["MCGrad"] = peers["mcgrad"].to_numpy()
    found["LightGBM"] = peers["lightgbm"].to_numpy()
    return found, test["label"].to_numpy()


def on_a_good_base(name: str, data: Path) -> list[str]:
    """Return the row of the table for a base that was trained well."""
    calib, test = score_files(FITTED / name, ("base-calib", "base-test"))
    (train,) = score_files(data / name, ["train"])
    y, raw = test["label"].to_numpy(), test["score"].to_numpy().astype(float)
    tree = fit(calib, train=train)
    rows = [losses(p, y) for p in (raw, predict(fit(calib, **GLOBAL), test), predict(tree, test))]
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
