"""Write docs/evidence/hetcal.md: calibration by parts on four real score files.

    python benchmarks/study_hetcal.py DATA PEER_PYTHON

DATA holds ``census/``, ``bank/``, ``higgs/`` and ``criteo_tau3/``, each with ``train.parquet``,
``calib.parquet`` and ``test.parquet``.  PEER_PYTHON is an interpreter that has LightGBM, MCGrad,
pandas and scikit-learn; what it fits is kept under build/bench/hetcal.
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

from calibkit.apply.apply import apply_model
from calibkit.files.sources import open_source
from calibkit.methods.hetcal.fit import fit_hetcal
from calibkit.methods.hetcal.model import HetcalModel
from calibkit.methods.hetcal.reading import read_hetcal_rows
from calibkit.options.apply import ApplyOptions
from calibkit.options.hetcal import HetcalOptions

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "evidence" / "hetcal.md"
FITTED = ROOT / "build" / "bench" / "hetcal"
PEER = ROOT / "benchmarks" / "peers" / "residual_models.py"
SETS = ("census", "bank", "higgs", "criteo_tau3")
RESAMPLES = 1000
ECE_BINS = 15

Floats = NDArray[np.float64]

HEAD = """# Calibration by parts on real score files

Over-confident neural networks (`score`), four data sets. Maps are fitted on the calibration rows and
judged on test rows that took no part. *Plain* is the paper's own setting: a tree on the training
rows, depth 4, 1000 rows a leaf, no shrinkage. *Tree* is `calibkit hetcal --train`, *tree, no train* the
same without training rows, *forest* and *boosted* `--partition forest`, `boosted`; all else at its
default. LightGBM gets the Platt logit as offset and, with the features, as a feature (rate 0.05, 31
leaves, rounds by five-fold cross-validation); MCGrad starts from the Platt probability. The paper's
own tables, on networks of several sizes, are in [durfee](durfee.md). Written by
`make evidence-hetcal`.
"""


def fit(folder: Path, files: Sequence[str], train: bool = False, **options: Any) -> HetcalModel:
    """Return a model fitted on the calibration rows of a folder."""
    source = open_source([str(folder / files[0])])
    names = list(source.schema)
    names = names[names.index("uncertainty") + 1 :]
    asked = HetcalOptions(**options)
    grown, known = None, None
    if train:
        grown = read_hetcal_rows(open_source([str(files[1])]), asked, names)
        known = grown.features
    rows = read_hetcal_rows(source, asked, names, known=known)
    return fit_hetcal(rows, asked, train=grown).model


def predict(model: HetcalModel, path: Path) -> Floats:
    """Return the calibrated probabilities of a file."""
    applied = apply_model(model, open_source([str(path)]), ApplyOptions())
    return applied.frame["calibrated"].to_numpy()


def losses(p: Floats, y: NDArray[Any]) -> Floats:
    """Return the log loss of each row."""
    kept = np.clip(np.where(y == 1, p, 1 - p), 1e-15, 1.0)
    return -np.log(kept)


def auc(p: Floats, y: NDArray[Any]) -> float:
    """Return the area under the ROC curve."""
    ranks = pl.Series(p).rank("average").to_numpy()
    positives = int(y.sum())
    return float(
        (ranks[y == 1].sum() - positives * (positives + 1) / 2) / positives / (len(y) - positives)
    )


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
    text = f"{away.mean():+.4f} ({low:+.4f} to {high:+.4f})"
    return text.replace("-", "−")


def judged(name: str, data: Path, peer: str) -> tuple[dict[str, Floats], NDArray[Any]]:
    """Return the probabilities of every method on the test rows of a set, and the labels."""
    folder, out = data / name, FITTED / name
    if not (out / "base-test.parquet").is_file():
        subprocess.run([peer, str(PEER), str(folder), str(out)], check=True)
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


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def main(data: Path, peer: str) -> None:
    """Fit, judge, write."""
    seen = {name: judged(name, data, peer) for name in SETS}
    methods = list(next(iter(seen.values()))[0])
    lines = [HEAD, "## Test log loss (AUC)", ""]
    rows = [
        [method]
        + [f"{losses(p[method], y).mean():.4f} ({auc(p[method], y):.3f})" for p, y in seen.values()]
        for method in methods
    ]
    lines += table(["", *SETS], rows)
    lines += ["## Expected calibration error, 15 bins of equal mass", ""]
    rows = [[m] + [f"{ece(p[m], y):.4f}" for p, y in seen.values()] for m in methods]
    lines += table(["", *SETS], rows)
    lines += ["## Differences of log loss, 95 % bootstrap intervals over the test rows", ""]
    pairs = [
        ("tree", "global Platt"),
        ("tree", "plain"),
        ("forest", "tree"),
        ("boosted", "tree"),
        ("boosted", "MCGrad"),
        ("boosted", "LightGBM"),
    ]
    rows = [
        [f"{a} less {b}"] + [interval(losses(p[a], y), losses(p[b], y)) for p, y in seen.values()]
        for a, b in pairs
    ]
    lines += table(["", *SETS], rows)
    lines += [
        "## On a base that was trained well",
        "",
        "The base is gradient boosting on the training rows, rounds by cross-validation. A tree gains",
        "nothing there.",
        "",
    ]
    header = ["", "raw", "global Platt", "tree", "tree less global Platt", "leaves"]
    lines += table(header, [on_a_good_base(name, data) for name in SETS])
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
