"""Fill in calibrators.md: maps by every method, by the choice and by other packages, on real files.

Other packages are compared where they are installed; the page says which were not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pages import arguments, fill, paragraph, score_files, signed, table
from studies import monte_carlo

import calibkit as ck

SETS = ("census", "bank", "bank_tau5", "higgs", "criteo_tau3", "creditcard")
SIZES = ("500", "2000", "half")
OURS = ("none", "platt", "temperature", "beta", "quadratic", "spline", "venn-abers", "isotonic")
#: The choice by the other loss.
BY_BRIER = "auto, by Brier score"
#: The shapes of made files: the logit of the truth as a function of the logit of the score.
SHAPES: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "perfect": lambda z: z,
    "over-confident": lambda z: 0.5 * z - 0.3,
    "shifted": lambda z: z - 1.0,
    "two slopes": lambda z: np.where(z > 0.0, 0.4 * z, 1.2 * z),
    "flat ends": lambda z: 3.0 * np.tanh(z / 2.0),
    "waves": lambda z: z + 0.4 * np.sin(2.0 * z),
}
LEVELS = (-4.0, -1.5, 0.0)
MADE = ("none", "platt", "beta", "spline")
TESTED = 20_000

Floats = NDArray[np.float64]
Losses = dict[str, tuple[float, float]]
Predict = Callable[[Floats, Floats, Floats], Any]


def losses(p: Floats, y: Floats) -> tuple[float, float]:
    """Return mean log loss and Brier score."""
    near = np.clip(p, 1e-15, 1.0 - 1e-15)
    log_loss = -np.mean(y * np.log(near) + (1.0 - y) * np.log1p(-near))
    return float(log_loss), float(np.mean((p - y) ** 2))


def logit(score: Floats) -> Floats:
    """Return the logit of scores a millionth inside (0, 1), one column."""
    inside = np.clip(score, 1e-6, 1.0 - 1e-6)
    return np.log(inside / (1.0 - inside))[:, None]


def sklearn_line(score: Floats, label: Floats, new: Floats) -> Floats:
    """Return what a logistic regression on the logit makes of new scores."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=np.inf).fit(logit(score), label)
    return fitted.predict_proba(logit(new))[:, 1]


def sklearn_steps(score: Floats, label: Floats, new: Floats) -> Floats:
    """Return what scikit-learn's isotonic regression makes of new scores."""
    from sklearn.isotonic import IsotonicRegression

    return IsotonicRegression(out_of_bounds="clip").fit(score, label).predict(new)


def venn_abers(score: Floats, label: Floats, new: Floats) -> Floats:
    """Return what the package venn-abers makes of new scores."""
    from venn_abers import VennAbers

    tables = VennAbers()
    tables.fit(np.column_stack([1.0 - score, score]), label)
    return tables.predict_proba(np.column_stack([1.0 - new, new]))[0][:, 1]


def netcal(name: str, score: Floats, label: Floats, new: Floats) -> Floats:
    """Return what a method of netcal makes of new scores."""
    from netcal import binning, scaling

    made = binning.HistogramBinning(bins=15) if name == "histogram" else getattr(scaling, name)()
    return np.asarray(made.fit(score, label).transform(new), np.float64).reshape(-1)


def probmetrics(name: str, score: Floats, label: Floats, new: Floats) -> Floats:
    """Return what a method of probmetrics makes of new scores."""
    from probmetrics import calibrators

    pairs, further = (np.column_stack([1.0 - each, each]) for each in (score, new))
    fitted = calibrators.get_calibrator(name).fit(pairs, label.astype(np.int64))
    return np.asarray(fitted.predict_proba(further), np.float64)[:, 1]


def splinecalib(score: Floats, label: Floats, new: Floats) -> Floats:
    """Return what the package splinecalib makes of new scores."""
    from splinecalib import SplineCalib

    fitted = SplineCalib()
    fitted.fit(score, label)
    return np.asarray(fitted.calibrate(new), np.float64)


#: Other packages: the module that must be there, and what predicts.
PEERS: dict[str, tuple[str, Predict]] = {
    "scikit-learn logistic": ("sklearn", sklearn_line),
    "scikit-learn isotonic": ("sklearn", sklearn_steps),
    "venn-abers package": ("venn_abers", venn_abers),
    "netcal beta": ("netcal", partial(netcal, "BetaCalibration")),
    "netcal logistic": ("netcal", partial(netcal, "LogisticCalibration")),
    "netcal histogram": ("netcal", partial(netcal, "histogram")),
    "probmetrics quadratic": ("probmetrics", partial(probmetrics, "quadratic-scaling")),
    "probmetrics affine": ("probmetrics", partial(probmetrics, "affine-scaling")),
    "splinecalib": ("splinecalib", splinecalib),
}


@cache
def read(folder: Path, name: str) -> tuple[Floats, Floats]:
    """Return scores and labels of both files of a data set."""
    frame = pl.concat(score_files(folder / name, columns=["score", "label"]))
    return frame["score"].to_numpy(), frame["label"].cast(pl.Float64).to_numpy()


def judge(
    own: tuple[Floats, Floats], new: tuple[Floats, Floats], methods: Sequence[str]
) -> tuple[Losses, str]:
    """Return the losses of methods and of the choice on new rows, and what was chosen."""
    frame, found, chosen = pl.DataFrame({"score": new[0]}), {}, ""
    for name in (*methods, BY_BRIER, "auto"):
        asked = {"optimize": "brier"} if name == BY_BRIER else {}
        try:
            model = ck.fit_calibrator(
                score=own[0], label=own[1], method=name.partition(",")[0], **asked
            )
        except ck.DataError:  # the classes are separated: no finite solution
            continue
        mapped = model.apply(frame)["calibrated"].to_numpy()
        found[name], chosen = losses(mapped, new[1]), model.method
    return found, chosen


def resplit(cell: tuple[str, str, str], seed: int) -> tuple[Losses, str]:
    """Fit on some rows of a file, drawn at random, and judge on all others."""
    folder, name, size = cell
    warnings.simplefilter("ignore")
    score, label = read(Path(folder), name)
    order = np.random.default_rng([19, seed]).permutation(score.size)
    cut = score.size // 2 if size == "half" else int(size)
    own, new = order[:cut], order[cut:]
    found, chosen = judge((score[own], label[own]), (score[new], label[new]), OURS)
    for peer, (module, predict) in PEERS.items():
        if find_spec(module) and np.unique(label[own]).size == 2:
            given = (each.astype(np.float64) for each in (score[own], label[own], score[new]))
            found[peer] = losses(predict(*given), label[new])
    return found, chosen


def made(cell: tuple[str, float, str], seed: int) -> tuple[Losses, str]:
    """Fit on a file made from a known truth, and judge by the truth of other rows."""
    shape, level, size = cell
    warnings.simplefilter("ignore")
    draw = np.random.default_rng([1919, seed])
    z = draw.normal(level, 1.5, int(size) + TESTED)
    truth = 1.0 / (1.0 + np.exp(-SHAPES[shape](z)))
    score, label = 1.0 / (1.0 + np.exp(-z)), (draw.random(z.size) < truth).astype(np.float64)
    cut = int(size)
    return judge((score[:cut], label[:cut]), (score[cut:], truth[cut:]), MADE)


def means(results: list[tuple[Losses, str]], name: str, place: int, against: str) -> float:
    """Return the mean loss of a method less that of another, in units of 0.0001."""
    pairs = [found for found, _ in results if name in found and against in found]
    apart = [found[name][place] - found[against][place] for found in pairs]
    return 1e4 * math.fsum(apart) / len(apart) if apart else math.nan


def differences(
    study: dict[Any, list[tuple[Losses, str]]], names: Sequence[str], place: int = 0
) -> str:
    """Return the table of mean losses less that of beta, a row for each cell."""
    rows = [
        [*cell[-2:], *(signed(means(results, name, place, "beta"), 1) for name in names)]
        for cell, results in study.items()
    ]
    return table(["data", "rows", *names], rows, "llr")


def worse(results: list[tuple[Losses, str]], name: str) -> int:
    """Return on how many resplits a method does worse than the scores as they are."""
    return sum(found[name][0] > found["none"][0] for found, _ in results if name in found)


def standing(study: dict[Any, list[tuple[Losses, str]]], names: Sequence[str]) -> str:
    """Return the means over all cells, the worst cells, and how often maps do harm."""
    count = sum(map(len, study.values()))
    rows = []
    for name in names:
        log_loss, brier = (
            [means(results, name, place, "beta") for results in study.values()] for place in (0, 1)
        )
        harm = sum(worse(results, name) for results in study.values())
        figures = [np.mean(log_loss), max(log_loss), np.mean(brier), max(brier)]
        rows.append([name, *(signed(float(each), 1) for each in figures), f"{harm / count:.1%}"])
    header = "method|log loss|its worst cell|Brier score|its worst cell|worse than raw"
    return table(header, rows, "lr")


def choices(study: dict[Any, list[tuple[Losses, str]]]) -> str:
    """Return how often each method was chosen in each cell."""
    rows = []
    for cell, results in study.items():
        names = [chosen for _, chosen in results]
        counts = sorted({(-names.count(name), name) for name in names})
        rows.append([*cell[-2:], ", ".join(f"{name} {-number}" for number, name in counts)])
    return table("data|rows|chosen", rows)


def shapes(study: dict[tuple[str, float, str], list[tuple[Losses, str]]]) -> str:
    """Return what the choice does on made files."""
    rows = []
    for (shape, level, size), results in study.items():
        alone = sum(chosen == "none" for _, chosen in results)
        figures = [means(results, "auto", 0, other) for other in ("none", "beta", "platt")]
        share = [f"{number / len(results):.0%}" for number in (alone, worse(results, "auto"))]
        rows.append([shape, level, size, *(signed(each, 1) for each in figures), *share])
    header = "truth|mean logit|rows|auto − raw|auto − beta|auto − platt|left alone|worse than raw"
    return table(header, rows, "lr")


def main() -> None:
    """Resplit, judge, and fill the page in."""
    given = arguments(__doc__, needs=SETS, resplits=20, files=40)
    cells = [(str(given.folder), name, size) for name in SETS for size in SIZES]
    study = monte_carlo(resplit, cells, given.resplits)
    truths = [(shape, level, size) for shape in SHAPES for level in LEVELS for size in SIZES[:2]]
    files = monte_carlo(made, truths, given.files)
    peers = [name for name, (module, _) in PEERS.items() if find_spec(module)]
    absent = sorted({module for module, _ in PEERS.values() if not find_spec(module)})
    fill(
        "calibrators",
        setting=paragraph(
            f"Rows of `calib` and `test` together; 500, 2,000 or half of them, drawn at random "
            f"{given.resplits} times, are fitted on, all others judge. Figures are mean losses on "
            "the others less those of `beta` on the same resplits, in units of 0.0001: negative is "
            "better. Resplits on which a method has no finite solution are left out of its mean."
            + (f" Not installed: {', '.join(absent)}." if absent else "")
        ),
        standing=standing(study, ("auto", BY_BRIER, *OURS, *peers)),
        ours=differences(study, ("auto", *(name for name in OURS if name != "beta"))),
        brier=differences(study, ("auto", *(name for name in OURS if name != "beta")), 1),
        peers=differences(study, peers),
        chosen=choices(study),
        made=shapes(files),
    )


if __name__ == "__main__":
    main()
