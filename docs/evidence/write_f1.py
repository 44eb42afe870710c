"""Fill in f1.md: deterministic and stochastic thresholds for F1, tied and untied scores.

The case study of Singh and Khim (Optimal binary classification beyond accuracy): nearest-neighbour
scores on credit card fraud, which are tied a great deal, and the scores of a network, which are
not; on one split and on some random ones.  Needs scikit-learn, as the tests do.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from f1_splits import FEATURES, SPLITS, study
from numpy.typing import NDArray
from pages import arguments, bullets, fill, table
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import calibkit as ck
from calibkit.methods.boundary.result.model import BoundaryModel

NEIGHBOURS = (5, 15, 50)
#: The measures that are maximised, and a bound, which chance can meet with equality.
GOALS = (
    ("maximize", "f1"),
    ("maximize", "gmean"),
    ("maximize", "mcc"),
    ("precision", "0.9"),
    ("fpr", "0.001"),
)

Floats = NDArray[np.float64]


def main() -> None:
    """Score, fit, and fill the page in."""
    given = arguments(__doc__, needs=["creditcard"], splits=SPLITS)
    folder = given.folder / "creditcard"
    kinds = {f"{k} nearest neighbours": nearest(folder, k) for k in NEIGHBOURS}
    kinds["network"] = {part: shipped(folder, part) for part in ("calib", "test")}
    fill("f1", **one_split(kinds), **study(folder, given.splits))


def shipped(folder: Path, part: str) -> pl.DataFrame:
    """Return the rows of a file, without their uncertainty."""
    return pl.read_parquet(folder / f"{part}.parquet", columns=["score", "label"])


def nearest(folder: Path, neighbours: int) -> dict[str, pl.DataFrame]:
    """Return both files with the share of frauds among the nearest training rows as the score."""

    def features(part: str) -> Floats:
        frame = pl.read_parquet(folder / f"{part}.parquet", columns=FEATURES)
        return frame.to_numpy().astype(np.float64)

    label = pl.read_parquet(folder / "train.parquet", columns=["label"])["label"].to_numpy()
    scaler = StandardScaler().fit(features("train"))
    model = KNeighborsClassifier(neighbours).fit(scaler.transform(features("train")), label)
    return {
        part: shipped(folder, part).with_columns(
            score=model.predict_proba(scaler.transform(features(part)))[:, 1]
        )
        for part in ("calib", "test")
    }


def fit(rows: dict[str, pl.DataFrame], goal: tuple[str, str], stochastic: bool) -> BoundaryModel:
    """Return a threshold for all rows, fitted on calib and judged on test."""
    more = {"method": "stochastic", "randomise": "tie"} if stochastic else {"method": "st"}
    return ck.fit_boundary(rows["calib"], test=rows["test"], folds=0, **dict([goal]), **more)


def one_split(kinds: dict[str, dict[str, pl.DataFrame]]) -> dict[str, str]:
    """Return every goal on the one split, and for which of them chance helps."""
    lines = []
    helped: dict[str, list[str]] = {}
    for name, rows in kinds.items():
        distinct = f"{rows['calib']['score'].n_unique():,}"
        for goal in GOALS:
            plain, random = fit(rows, goal, False), fit(rows, goal, True)
            assert isinstance(random.tie_probability, list)
            chance = random.tie_probability[0]
            mixes = 0.0 < chance < 1.0
            if mixes:
                helped.setdefault(" ".join(goal), []).append(name)
            lines.append(
                [
                    name, distinct, " ".join(goal), value(plain), value(random),
                    f"{random.score_thresholds[0]:.4g}" if mixes else "",
                    f"{chance:.4f}" if mixes else "none",
                    on_test(plain), on_test(random),
                ]
            )  # fmt: skip
    never = [" ".join(goal) for goal in GOALS if " ".join(goal) not in helped]
    return {
        "goals": table(
            "scores|distinct|goal|deterministic|stochastic|chance at|probability|"
            "test: deterministic|test: stochastic",
            lines,
        ),
        "helped": bullets(
            *(f"`{goal}`: {', '.join(names)}." for goal, names in helped.items()),
            f"Nowhere: {', '.join(f'`{goal}`' for goal in never)}.",
        ),
    }


def value(model: BoundaryModel) -> str:
    """Return the objective on the fitting rows."""
    found = model.fit.in_sample.objective_value
    return "none" if found is None else f"{found:.6f}"


def on_test(model: BoundaryModel) -> str:
    """Return the objective on the test rows, and under a bound the bounded figure."""
    seen = model.fit.test
    assert seen is not None
    found = f"{seen.objective_value:.4f}"
    if "precision" in model.objective.subject_to:
        found += f" (precision {seen.precision:.4f})"
    if "fpr" in model.objective.subject_to:
        found += f" (fpr {seen.false_positive_rate:.5f})"
    return found


if __name__ == "__main__":
    main()
