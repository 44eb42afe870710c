"""Fill in auc_splits.md: the criterion `auc` on rows that the base model knows, and on others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pages import arguments, fill, score_files, signed, table
from small_networks import auc

import calibkit as ck
from calibkit.columns.weights import ROW
from calibkit.methods.hetcal.grow import Vectors
from calibkit.numerics.logistic import fit_logistic
from calibkit_kernels import criteria

Floats = NDArray[np.float64]

#: Of the search by hand: cuts tried of a feature, depth, rows of a leaf and rows that judge a cut.
CUTS, DEPTH, LEAST, JUDGES = 8, 3, 400, 4000

SETS = ("census", "bank", "higgs")
CRITERIA = ("gini", "entropy", "auc")

#: The paper's setting, with leaves small enough for half of the calibration rows.
PLAIN = {"max_depth": 4, "min_leaf": 300, "shrinkage": 0.0, "precalibrate": "none"}


def judged(grown: pl.DataFrame, mapped: pl.DataFrame, test: pl.DataFrame) -> list[float]:
    """Return the area of each criterion on test rows."""
    names = mapped.columns[mapped.columns.index("uncertainty") + 1 :]
    models = [
        ck.fit_hetcal(mapped, train=grown, features=names, criterion=criterion, **PLAIN)
        for criterion in CRITERIA
    ]
    return [area(model.apply(test), "calibrated") for model in models]


def area(rows: pl.DataFrame, score: str = "score") -> float:
    """Return the area under the ROC curve of a column."""
    return auc(rows[score].to_numpy(), rows["label"].to_numpy())


def of_set(folder: Path, repeats: int) -> list[list[object]]:
    """Return the rows of the table for a data set."""
    train, calib, test = score_files(folder, ("train", "calib", "test"))
    known = judged(train, calib, test)
    halves = []
    for seed in range(repeats):
        rows = calib.sample(fraction=1.0, shuffle=True, seed=seed)
        half = rows.height // 2
        halves.append(judged(rows[:half], rows[half:], test))
    means, away = np.mean(halves, axis=0), np.array(halves)[:, 2] - np.array(halves)[:, 0]
    error = away.std(ddof=1) / np.sqrt(repeats)
    return [
        [folder.name, f"the model's own ({area(train):.3f})", *(f"{one:.4f}" for one in known),
         signed(known[2] - known[0], 4)],
        [folder.name, f"new ({area(calib):.3f})", *(f"{one:.4f}" for one in means),
         f"{signed(float(away.mean()), 4)} ({error:.4f})"],
    ]  # fmt: skip


class Rows:
    """Linear scores, labels and numeric features of a file."""

    def __init__(self, rows: pl.DataFrame) -> None:
        clipped = rows["score"].cast(pl.Float64).clip(1e-6, 1 - 1e-6)
        self.score = (clipped / (1 - clipped)).log().to_numpy()
        self.label = rows["label"].to_numpy()
        names = rows.columns[rows.columns.index("uncertainty") + 1 :]
        numbers = [rows[name] for name in names if rows[name].dtype.is_numeric()]
        self.features = np.stack([one.cast(pl.Float64).to_numpy() for one in numbers], axis=1)

    def at(self, places: Any) -> Rows:
        """Return some of the rows."""
        own = object.__new__(Rows)
        own.score, own.label, own.features = (
            self.score[places], self.label[places], self.features[places],
        )  # fmt: skip
        return own


def line(rows: Rows) -> tuple[float, float]:
    """Return a and b of the line of greatest likelihood; of one class the smoothed rate."""
    hits = float(rows.label.sum())
    if not 0 < hits < rows.label.size:
        return 0.0, float(np.log((hits + 1) / (rows.label.size - hits + 1)))
    fit = fit_logistic([rows.score], rows.label.astype(float), 1.0 - rows.label)
    return float(fit.slopes[0]), float(fit.intercept)


def exact(rows: Rows, left: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve after each side has the line of greatest likelihood."""
    moved = np.empty(rows.score.size)
    for own in (left, ~left):
        slope, shift = line(rows.at(own))
        moved[own] = slope * rows.score[own] + shift
    return auc(moved, rows.label)


def closed(rows: Rows, left: NDArray[np.bool_]) -> float:
    """Return the same as `hetcal --criterion auc` has it: for scores normal in each class."""
    low, high = float(rows.score.min()), float(rows.score.max())
    vectors = Vectors("auc", low, high, rows.score.size, rows.score.size, ROW)
    payload = vectors.of(rows.score, rows.label.astype(np.uint8), np.ones(left.size, np.int64))
    rules = vectors.rules(1, 1).array()
    return float(criteria.auc_of_split(payload[left].sum(axis=0), payload.sum(axis=0), rules))


def gini(rows: Rows, left: NDArray[np.bool_]) -> float:
    """Return how little the sides are mixed."""
    shares = [(own.sum(), rows.label[own].mean()) for own in (left, ~left)]
    return -float(sum(count * share * (1 - share) for count, share in shares))


def searched(
    criterion: Callable[[Rows, NDArray[np.bool_]], float],
    grown: Rows, mapped: Rows, new: Rows, depth: int = DEPTH,
) -> Floats:  # fmt: skip
    """Return the scores of new rows, calibrated by the parts that a search by a criterion finds."""
    judges = grown.at(slice(JUDGES))  # the rows come shuffled
    tried = []
    for place in range(grown.features.shape[1]) if depth else ():
        values = grown.features[:, place]
        for cut in np.unique(
            np.quantile(values, np.arange(1, CUTS + 1) / (CUTS + 1), method="lower")
        ):
            left, here = values <= cut, judges.features[:, place] <= cut
            if min(left.sum(), (~left).sum()) >= LEAST and 0 < here.sum() < here.size:
                tried.append((criterion(judges, here), -place, -cut))
    if not tried:
        slope, shift = line(mapped)
        return slope * new.score + shift
    _, place, cut = max(tried)
    found, mine = np.empty(new.score.size), new.features[:, -place] <= -cut
    old, fresh = (rows.features[:, -place] <= -cut for rows in (grown, mapped))
    for own, other, third in ((mine, old, fresh), (~mine, ~old, ~fresh)):
        found[own] = searched(criterion, grown.at(other), mapped.at(third), new.at(own), depth - 1)
    return found


def by_hand(folder: Path) -> list[object]:
    """Return the row of the second table for a data set."""
    calib = pl.read_parquet(folder / "calib.parquet").sample(fraction=1.0, shuffle=True, seed=1)
    half, new = calib.height // 2, Rows(pl.read_parquet(folder / "test.parquet"))
    grown, mapped = Rows(calib[:half]), Rows(calib[half:])
    found = [searched(one, grown, mapped, new) for one in (gini, closed, exact)]
    return [folder.name, *(f"{auc(score, new.label):.4f}" for score in found)]


def main() -> None:
    """Fit, judge, and fill the page in."""
    given = arguments(__doc__, needs=SETS, repeats=10)
    rows = [row for name in SETS for row in of_set(given.folder / name, given.repeats)]
    fill(
        "auc_splits",
        areas=table(["", "grown on rows (AUC of the score)", *CRITERIA, "auc less gini"], rows),
        by_hand=table("|gini|closed form|exact", [by_hand(given.folder / name) for name in SETS]),
    )


if __name__ == "__main__":
    main()
