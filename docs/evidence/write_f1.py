"""Write docs/evidence/f1.md: deterministic and stochastic thresholds for F1, tied and untied scores.

    python docs/evidence/write_f1.py [FOLDER] [--splits N]

The case study of Singh and Khim (Optimal binary classification beyond accuracy): nearest-neighbour
scores on credit card fraud, which are tied a great deal, and the scores of a network, which are
not; on one split and on N random ones.  FOLDER (default ``../shared/data`` beside the project) holds
``creditcard/``.  Where it is absent, nothing is written.  Needs scikit-learn, as the tests do.
"""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from boundary_study import DATA, ROOT, row
from f1_splits import FEATURES, SPLITS, study
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from calibkit.columns.columns import ScoreRows, read_score_rows
from calibkit.files.sources import open_source
from calibkit.methods.boundary.result.fit import fit_boundary
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.shared import ColumnOptions

PAGE = ROOT / "docs" / "evidence" / "f1.md"
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
    """Score, fit, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--splits", type=int, default=SPLITS)
    chosen = parser.parse_args()
    folder = chosen.folder / "creditcard"
    if not folder.is_dir():
        raise SystemExit(f"{folder} is not there: nothing written")
    kinds = {f"{k} nearest neighbours": nearest(folder, k) for k in NEIGHBOURS}
    kinds["network"] = {part: shipped(folder, part) for part in ("calib", "test")}
    PAGE.write_text(page(kinds, study(folder, chosen.splits)), encoding="utf-8")


def shipped(folder: Path, part: str) -> ScoreRows:
    """Return the rows of a file, without their uncertainty."""
    rows = read_score_rows(open_source([str(folder / f"{part}.parquet")]), ColumnOptions())
    options = replace(rows.options, uncertainty=None)
    return replace(rows, uncertainty=None, options=options)


def nearest(folder: Path, neighbours: int) -> dict[str, ScoreRows]:
    """Return both files with the share of frauds among the nearest training rows as the score."""

    def features(part: str) -> Floats:
        frame = pl.read_parquet(folder / f"{part}.parquet", columns=FEATURES)
        return frame.to_numpy().astype(np.float64)

    label = pl.read_parquet(folder / "train.parquet", columns=["label"])["label"].to_numpy()
    scaler = StandardScaler().fit(features("train"))
    model = KNeighborsClassifier(neighbours).fit(scaler.transform(features("train")), label)
    return {
        part: replace(
            shipped(folder, part),
            score=model.predict_proba(scaler.transform(features(part)))[:, 1],
        )
        for part in ("calib", "test")
    }


def fit(rows: dict[str, ScoreRows], goal: tuple[str, str], stochastic: bool) -> BoundaryModel:
    """Return a threshold for all rows, fitted on calib and judged on test."""
    more = {"method": "stochastic", "randomise": "tie"} if stochastic else {"method": "st"}
    options = BoundaryOptions(folds=0, **dict([goal]), **more)  # type: ignore[arg-type]
    return fit_boundary(rows["calib"], options, test=rows["test"]).model


def page(kinds: dict[str, dict[str, ScoreRows]], splits: list[str]) -> str:
    """Return the text of the page."""
    lines = [
        "# Deterministic and stochastic thresholds",
        "",
        "<!-- Written by `make evidence-ties`; edit docs/evidence/write_f1.py instead. -->",
        "",
        *textwrap.wrap(
            "Credit card fraud: one threshold for all rows, fitted on `calib` and judged on `test`. "
            "Deterministic: `--method st`. Stochastic: `--method stochastic --randomise tie`, which "
            "is random at one score (the class of Singh and Khim, Optimal binary classification "
            "beyond accuracy, whose case study this is). The scores are the share of frauds "
            "among the nearest training rows, tied a great deal, and those of a network.",
            99,
        ),
        "",
        "## One split, several goals",
        "",
        row(
            [
                "scores", "distinct", "goal", "deterministic", "stochastic", "chance at",
                "probability", "test: deterministic", "test: stochastic",
            ]
        ),
        row(["---"] * 9),
    ]  # fmt: skip
    helped: dict[str, list[str]] = {}
    for name, rows in kinds.items():
        distinct = f"{np.unique(rows['calib'].score).size:,}"
        for goal in GOALS:
            plain, random = fit(rows, goal, False), fit(rows, goal, True)
            assert isinstance(random.tie_probability, list)
            chance = random.tie_probability[0]
            mixes = 0.0 < chance < 1.0
            if mixes:
                helped.setdefault(" ".join(goal), []).append(name)
            lines.append(
                row(
                    [
                        name, distinct, " ".join(goal), value(plain), value(random),
                        f"{random.score_thresholds[0]:.4g}" if mixes else "",
                        f"{chance:.4f}" if mixes else "none",
                        on_test(plain), on_test(random),
                    ]
                )
            )  # fmt: skip
    lines += ["", *splits, "## Where chance can help", "", "On the one split:", ""]
    never = [" ".join(goal) for goal in GOALS if " ".join(goal) not in helped]
    for goal, names in helped.items():
        lines.append(f"* `{goal}`: {', '.join(names)}.")
    lines.append(f"* Nowhere: {', '.join(f'`{goal}`' for goal in never)}.")
    lines += [
        "",
        *textwrap.wrap(
            "That is no accident. With a share p of the rows at one score taken, the expected counts "
            "move along a straight line, and F1, like every linear or linear-fractional measure "
            "(accuracy, balanced accuracy, Youden's J, utility, precision, F-beta, Jaccard, Cohen's "
            "kappa, lift), is monotone along it; MCC and Fowlkes-Mallows are quasi-convex. So their "
            "best value is at p = 0 or p = 1, a plain threshold, whether scores are tied or not: "
            "randomisation cannot raise the F1 of the expected counts. The G-mean is concave along "
            "the line and can gain; a bound can be met with equality, which gains at most what one "
            "tie is worth: most with few neighbours, next to nothing without ties. A gain on "
            "`calib` is one of expected counts there; on other rows it is as uncertain as the "
            "threshold itself.",
            99,
        ),
    ]
    return "\n".join(lines) + "\n"


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
    # Forked workers would inherit locks of polars; one thread each, for there is one a processor.
    import multiprocessing
    import os

    os.environ |= {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    multiprocessing.set_start_method("spawn")
    main()
