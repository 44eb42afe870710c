"""Our calibrators by the protocol of CalArena, on a folder with its files.

CalArena (Berta, Holzmüller, Bach, Jordan, arXiv 2605.30188, github.com/probkit/CalArena) publishes
the scores of some thousand binary experiments, each with rows to calibrate on and rows to judge on,
and what twenty calibrators make of them.  ``python benchmarks/calarena.py FOLDER``, FOLDER being a
checkout with the data in ``calibration_benchmarks``, adds what ours make of them to its ``results``,
in its columns, and prints how often each calibrator has the smaller loss.  h5py reads the data.

Its own program runs ours too: ``from calarena import CUSTOM_CALIBRATORS`` in ``custom_calibrators.py``.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import calibkit as ck

Floats = NDArray[np.float64]
#: Losses by dataset and model.
Losses = dict[tuple[str, str], dict[str, float]]

BENCHMARKS = ("tabrepo-binary", "tabarena-binary", "cv-binary")
METHODS = (
    "auto", "beta", "platt", "temperature", "quadratic", "spline", "isotonic", "venn-abers",
)  # fmt: skip
#: What its calibration error bins by, and where its logarithms end.
BINS, LEAST_LOG = 15, float(np.log(np.finfo(np.float32).tiny))


class Calibrator:
    """A calibrator as CalArena calls it."""

    def __init__(self, method: str) -> None:
        self.method = method

    def fit(self, p_cal: Any, y_cal: Any) -> None:
        """Fit the map on probabilities of the second class (or of both) and labels."""
        frame = {"score": _second(p_cal), "label": np.asarray(y_cal).astype(np.uint8)}
        self.model = ck.fit_calibrator(**frame, method=self.method)

    def predict_proba(self, p_test: Any) -> Floats:
        """Return calibrated probabilities of both classes, shape (rows, 2)."""
        new = np.asarray(self.model.apply(_second(p_test)), np.float64)
        return np.stack([1.0 - new, new], axis=1)


CUSTOM_CALIBRATORS: dict[str, Callable[[], Calibrator]] = {
    f"calibkit-{method}": partial(Calibrator, method) for method in METHODS
}


def _second(probabilities: Any) -> Floats:
    """Return the probabilities of the second class."""
    given = np.asarray(probabilities, np.float64)
    return np.ascontiguousarray(given if given.ndim == 1 else given[:, -1])


def figures(p: Floats, label: NDArray[Any]) -> dict[str, float]:
    """Return CalArena's figures of probabilities of the second class.

    Its Brier score is the sum over both classes, twice the usual one; its logarithms end at that of the
    least float of 32 bits; a tie of the classes counts as the first.
    """
    y = label.astype(np.float64)
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(np.stack([1.0 - p, p])), LEAST_LOG)
    own = np.where(label == 1, logs[1], logs[0])
    inside = np.clip(p, 1e-7, 1.0 - 1e-7)
    place = np.minimum((inside * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(place, inside - y, BINS)
    order = np.argsort(p, kind="stable")
    walk = np.concatenate([[0.0], np.cumsum(y[order] - p[order])]) / y.size
    return {
        "brier": 2.0 * float(np.mean((p - y) ** 2)),
        "logloss": float(np.mean(np.logaddexp(*logs) - own)),
        "kuiper": float(walk.max() - walk.min()),
        f"ece-{BINS}": float(np.abs(gaps).sum() / y.size),
        "accuracy": float(np.mean((p > 0.5) == (label == 1))),
    }


def judge(experiment: Mapping[str, Any], make: Callable[[], Calibrator]) -> dict[str, float]:
    """Return the figures of a calibrator in an experiment, and the seconds that it took."""
    begun = time.perf_counter()
    calibrator = make()
    calibrator.fit(experiment["probas_cal"][:], experiment["labels_cal"][:])
    new = calibrator.predict_proba(experiment["probas_test"][:])
    seconds = time.perf_counter() - begun
    return {**figures(new[:, 1], experiment["labels_test"][:]), "time": seconds}


def run(folder: Path, benchmark: str, names: Sequence[str]) -> None:
    """Write the results of calibrators in a benchmark, one file each."""
    import h5py

    data = folder / "calibration_benchmarks"
    with (data / f"{benchmark}-experiments.csv").open(encoding="utf-8") as file:
        listed = [(row["dataset"], row["model"]) for row in csv.DictReader(file)]
    (folder / "results" / benchmark).mkdir(parents=True, exist_ok=True)
    with h5py.File(data / f"{benchmark}.h5", "r") as experiments:
        for name in names:
            rows = []
            for dataset, model in listed:
                one = experiments[f"{dataset}/{model}"]
                sizes = {"cal_size": len(one["labels_cal"]), "test_size": len(one["labels_test"])}
                try:
                    found = judge(one, CUSTOM_CALIBRATORS[name])
                except ck.CalibkitError as error:  # it counts as a loss, as there
                    print(f"{dataset}/{model}, {name}: {error}", file=sys.stderr)
                    continue
                own = {f"{name}_{figure}": value for figure, value in found.items()}
                rows.append({"dataset": dataset, "model": model, **sizes, **own})
            path = folder / "results" / benchmark / f"{name}.csv"
            with path.open("w", encoding="utf-8", newline="") as out:
                writer = csv.DictWriter(out, list(rows[0]) if rows else ["dataset", "model"])
                writer.writeheader()
                writer.writerows(rows)
            print(f"{path}: {len(rows):,} of {len(listed):,} experiments", flush=True)


def read(folder: Path, benchmark: str) -> dict[str, Losses]:
    """Return the figures of every calibrator that has results, by experiment."""
    found: dict[str, Losses] = {}
    for path in sorted((folder / "results" / benchmark).glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            found[path.stem] = {
                (row["dataset"], row["model"]): {
                    key.removeprefix(f"{path.stem}_"): float(value)
                    for key, value in row.items()
                    if key.startswith(f"{path.stem}_") and value
                }
                for row in csv.DictReader(file)
            }
    return found


def win_rates(results: Mapping[str, Losses], figure: str) -> dict[str, float]:
    """Return in which share of its duels each calibrator has the smaller figure.

    One without a figure loses to those that have one; who ties has not won.
    """
    places = sorted({place for own in results.values() for place in own})
    table = np.array(
        [[own.get(place, {}).get(figure, np.inf) for place in places] for own in results.values()]
    )
    table[np.isnan(table)] = np.inf
    wins = (table[None] > table[:, None]).mean(axis=2).sum(axis=1) / max(len(results) - 1, 1)
    return dict(zip(results, map(float, wins), strict=True))


def main() -> None:
    """Run, and print the win rates."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a checkout of CalArena with its data")
    parser.add_argument(
        "--benchmark", action="append", choices=BENCHMARKS, help="default: all there"
    )
    parser.add_argument("--calibrator", action="append", choices=list(CUSTOM_CALIBRATORS))
    given = parser.parse_args()
    data = given.folder / "calibration_benchmarks"
    there = [name for name in given.benchmark or BENCHMARKS if (data / f"{name}.h5").is_file()]
    if not there:
        sys.exit(
            f"{data}: no {' or '.join(f'{name}.h5' for name in given.benchmark or BENCHMARKS)}"
        )
    for benchmark in there:
        run(given.folder, benchmark, given.calibrator or list(CUSTOM_CALIBRATORS))
        results = read(given.folder, benchmark)
        for figure in ("logloss", "brier"):
            print(f"\n{benchmark}, share of duels with the smaller {figure}")
            rates = sorted(win_rates(results, figure).items(), key=lambda rate: -rate[1])
            print("\n".join(f"{rate:.3f} {name}" for name, rate in rates))


if __name__ == "__main__":
    main()
