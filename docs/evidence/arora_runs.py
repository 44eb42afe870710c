"""Runs of the methods of Arora and others on score files, and what is said of several runs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import polars as pl
from boundary_study import recall_beyond
from pages import score_files
from scipy import stats  # type: ignore[import-untyped]

import calibkit as ck

#: Runs are the five members of an ensemble: the same training under other seeds.
MEMBERS = tuple(f"score_{member}" for member in range(1, 6))
RESPLITS = 20


@dataclass(frozen=True)
class Files:
    """The rows on which boundaries are fitted and those on which they are judged."""

    calib: pl.DataFrame
    test: pl.DataFrame


@dataclass(frozen=True)
class Case:
    """An algorithm, with its name in the paper, and how it is run.

    `score_bins` None: every distinct score, where the method can do so.
    """

    name: str
    method: str
    bound: str = "0.7"
    levels: int = 3
    score_bins: int | None = 500
    strategy: str = "equal-mass"
    order: str = "uncertainty-score"

    def at(self, **changes: object) -> Case:
        """Return the same with other options."""
        return replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Outcome:
    """What a boundary did: on the rows of the fit, on test rows, and beyond one threshold.

    `beyond` is its recall on test rows less that of one threshold which selects as many of them.  A
    boundary that selects nothing has no precision and recalls nothing.
    """

    fit_recall: float
    fit_precision: float | None
    recall: float
    precision: float | None
    beyond: float


NOTHING = Outcome(0.0, None, 0.0, None, 0.0)


def read(folder: Path) -> Files:
    """Return the files of a data set."""
    return Files(*score_files(folder, columns=["label", *MEMBERS, "uncertainty"]))


def judge(files: Files, case: Case, score: str, uncertainty: str = "uncertainty") -> Outcome:
    """Fit a boundary and judge it."""
    single = case.method == "st"
    try:
        with warnings.catch_warnings():
            # EW-DPMT may miss the bound, which its precision here shows as well.
            warnings.simplefilter("ignore", ck.CalibkitWarning)
            model = ck.fit_boundary(
                files.calib,
                precision=case.bound,
                method=case.method,
                score=score,
                uncertainty=uncertainty,
                uncertainty_bins=None if single or case.method == "logistic" else case.levels,
                score_bins=case.score_bins,
                strategy=case.strategy,  # type: ignore[arg-type]
                order="uncertainty-score" if single else case.order,  # type: ignore[arg-type]
                folds=0,
                test=files.test,
                provenance="none",
            )
    except ck.InfeasibleError:
        return NOTHING
    seen, new = model.fit.in_sample, model.fit.test
    assert new is not None
    rows, label = files.test[score].to_numpy(), files.test["label"].to_numpy()
    return Outcome(
        seen.recall or 0.0,
        seen.precision,
        new.recall or 0.0,
        new.precision,
        recall_beyond(rows, label, new.selected, new.true_positives),
    )


def runs(files: Files, case: Case) -> list[Outcome]:
    """Return the outcomes of the members on the files as they are."""
    return [judge(files, case, score) for score in MEMBERS]


def resplits(files: Files) -> list[tuple[Files, str]]:
    """Return the rows of both files put together and dealt again, each with a member to score them."""
    rows = pl.concat([files.calib, files.test])
    dealt = []
    for seed in range(RESPLITS):
        order = np.random.default_rng(seed).permutation(rows.height)
        parts = order[: files.calib.height], order[files.calib.height :]
        dealt.append((Files(*(rows[part] for part in parts)), MEMBERS[seed % len(MEMBERS)]))
    return dealt


# ---------------------------------------------------------------- of several runs


def values(found: Sequence[Outcome], figure: str) -> list[float]:
    """Return a figure of some runs, where it is defined."""
    seen = (getattr(one, figure) for one in found)
    return [value for value in seen if value is not None]


def percent(numbers: Sequence[float], *, signed: bool = False, digits: int = 1) -> str:
    """Return the mean of shares and their standard deviation, in per cent."""
    if not numbers:
        return "-"
    middle = 100 * fmean(numbers)
    shown = f"{middle:+.{digits}f}" if signed else f"{middle:.{digits}f}"
    if len(numbers) > 1:
        shown += f" ± {100 * float(np.std(numbers, ddof=1)):.{digits}f}"
    return shown.replace("-", "−")


def precision(found: Sequence[Outcome]) -> str:
    """Return the mean precision from fit to test, and in how many runs there was a boundary."""
    fitted = values(found, "fit_precision")
    judged = values(found, "precision")
    if not judged:
        return "no boundary"
    few = f" ({len(judged)} of {len(found)})" if len(judged) < len(found) else ""
    return f"{fmean(fitted):.3f} → {fmean(judged):.3f}{few}"


def t_test(first: Sequence[float], second: Sequence[float], *, resplit: bool = False) -> str:
    """Return the p-value of a paired t-test that the first are larger, one-sided.

    Resplits share rows, so their differences are correlated: then the variance of the mean is that
    of one difference times 1/R + (test rows / fitting rows), here 1/R + 1 (Nadeau and Bengio,
    "Inference for the generalization error", 2003).
    """
    apart = np.subtract(first, second)
    spread = float(apart.std(ddof=1))
    if spread == 0.0:
        return "-"
    share = 1.0 / apart.size + (1.0 if resplit else 0.0)
    t = float(apart.mean()) / (spread * math.sqrt(share))
    return f"{float(stats.t.sf(t, apart.size - 1)):.2f}"
