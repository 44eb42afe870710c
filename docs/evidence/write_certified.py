"""Fill in certified.md: certified boundaries on real files beside MAPIE's controller.

The same files, bounds and resplits as write_auto.py.  Needs MAPIE 1.6, which calibkit itself does not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from boundary_study import bounds
from numpy.typing import NDArray
from pages import arguments, fill, paragraph, score_files, table
from studies import monte_carlo

from calibkit import InfeasibleError, fit_boundary

SETS = ("census", "bank", "bank_tau5", "higgs", "criteo_tau3", "creditcard")
CONFIDENCE = 0.9
THRESHOLDS = 300
#: Of two bounds at once: the recall, beside the precision that one threshold has at a recall of 0.5.
SECOND = 0.3
#: The share of its rows from which MAPIE learns the order of its tests: of .1, .2, .3 and .5 the one
#: with the best mean recall over these files.
LEARNS = 0.3

#: What is promised, by name, and the least of it.
Bounds = dict[str, float]
#: From fitting rows, test rows, bounds and the seed to the test rows selected; None: nothing could be
#: certified.
Certify = Callable[[pl.DataFrame, pl.DataFrame, Bounds, int], NDArray[np.bool_] | None]


def calibkit(
    method: str, calib: pl.DataFrame, test: pl.DataFrame, least: Bounds, seed: int
) -> NDArray[np.bool_] | None:
    """Certify by a method of ``calibkit boundary --confidence``."""
    asked: dict[str, Any] = {**least, "method": method, "confidence": CONFIDENCE, "seed": seed}
    try:
        model = fit_boundary(calib, **asked)
    except InfeasibleError:
        return None
    taken: NDArray[np.bool_] = model.apply(test)["decision"].to_numpy() == 1
    return taken


def mapie(
    correction: str, calib: pl.DataFrame, test: pl.DataFrame, least: Bounds, seed: int
) -> NDArray[np.bool_] | None:
    """Certify by MAPIE: one of the quantiles of the scores as the threshold."""
    from mapie.risk_control import BinaryClassificationController

    score, label = calib["score"].to_numpy(), calib["label"].to_numpy()
    controller = BinaryClassificationController(
        lambda scores: np.column_stack([1.0 - scores, scores]),
        risk=list(least) if len(least) > 1 else next(iter(least)),
        target_level=list(least.values()) if len(least) > 1 else next(iter(least.values())),
        confidence_level=CONFIDENCE,
        list_predict_params=np.unique(np.quantile(score, np.arange(THRESHOLDS) / THRESHOLDS)),
        best_predict_param_choice="recall",
        fwer_method=correction,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where nothing can be certified
        if correction == "split_fixed_sequence":  # the rows stand in random order
            cut = round(LEARNS * score.size)
            controller.learn_fixed_sequence_order(score[:cut], label[:cut])
            score, label = score[cut:], label[cut:]
        controller.calibrate(score, label)
    found = controller.best_predict_param
    if found is None:
        return None
    taken: NDArray[np.bool_] = test["score"].to_numpy() >= float(found)
    return taken


METHODS: dict[str, Certify] = {
    "default": partial(calibkit, "auto"),
    "logistic": partial(calibkit, "logistic"),
    "st": partial(calibkit, "st"),
    "MAPIE, split sequence": partial(mapie, "split_fixed_sequence"),
    "MAPIE, Holm": partial(mapie, "bonferroni_holm"),
}
OURS = 3


@cache
def read(folder: str) -> pl.DataFrame:
    """Return the rows of both files of a data set."""
    files = score_files(Path(folder), columns=["score", "uncertainty", "label"])
    return pl.concat(files).cast(
        {"score": pl.Float64, "uncertainty": pl.Float64, "label": pl.UInt8}
    )


def resplit(cell: tuple[str, tuple[tuple[str, float], ...]], seed: int) -> list[tuple[float, ...]]:
    """Return test recall (0 where nothing is certified), and by how much each bound is kept."""
    rows, least = read(cell[0]), dict(cell[1])
    order = np.random.default_rng(seed).permutation(rows.height)
    calib, test = (rows[part] for part in np.array_split(order, 2))
    label, found = test["label"].to_numpy(), []
    for certify in METHODS.values():
        taken = certify(calib, test, least, seed)
        if taken is None or not taken.any():
            found.append((0.0, math.nan))
            continue
        hits = float(label[taken].sum())
        seen = {"recall": hits / float(label.sum()), "precision": hits / float(taken.sum())}
        found.append((seen["recall"], min(seen[name] - own for name, own in least.items())))
    return found


def compared(study: dict[Any, list[list[tuple[float, ...]]]]) -> tuple[str, str]:
    """Return the table of mean recalls, and what it says of the default."""
    lines, means, behind = [], [], []
    for (folder, least), results in study.items():
        recall, kept = np.moveaxis(np.array(results), 2, 0)
        counts = zip(np.isnan(kept).sum(axis=0), (kept < 0.0).sum(axis=0), strict=True)
        cells = [
            f"{own:.3f} ({a}, {b})" for own, (a, b) in zip(recall.mean(axis=0), counts, strict=True)
        ]
        lines.append([Path(folder).name, " and ".join(f"{own:.3f}" for _, own in least), *cells])
        means.append(recall.mean(axis=0))
        best = int(np.argmax(means[-1][:OURS]))
        gap = recall[:, best] - recall[:, 0]
        error = gap.std(ddof=1) / math.sqrt(gap.size)
        if gap.mean() > 2.0 * error and best:
            name = f"{Path(folder).name} at {least[0][1]:.3f}"
            behind.append(
                f"{name} by {gap.mean():.3f} ± {error:.3f} behind `{list(METHODS)[best]}`"
            )
    over = np.mean(means, axis=0)
    lines.append(["mean", "", *(f"{own:.3f}" for own in over)])
    ahead = sum(own[0] >= max(own[OURS:]) for own in means)
    said = (
        f"The default recalls at least as much as the better of MAPIE's two in {ahead} of "
        f"{len(means)} lines. Of the three methods of calibkit it is the best, or within two standard "
        "errors of it (of the paired difference, over the resplits), in every line"
    )
    if behind:
        said += f" but {len(behind)}: {'; '.join(behind)}"
    return table(["data", "bound", *METHODS], lines), f"{said}."


def main() -> None:
    """Resplit, certify, judge, and fill the page in."""
    given = arguments(__doc__, needs=SETS, resplits=20)
    one, two = [], []
    for name in SETS:
        folder = str(given.folder / name)
        rows = read(folder)
        found = bounds(rows["score"].to_numpy(), rows["label"].to_numpy())
        one += [(folder, (("precision", float(bound)),)) for bound in found]
        two.append((folder, (("precision", float(found[1])), ("recall", SECOND))))
    recall, verdict = compared(monte_carlo(resplit, one, given.resplits))
    several, several_verdict = compared(monte_carlo(resplit, two, given.resplits))
    setting = (
        f"Rows of `calib` and `test` together, split in halves {given.resplits} times at random; a "
        f"boundary is certified on one half (precision >= the bound with confidence {CONFIDENCE}) "
        "and judged on the other. *default*, `logistic` and `st` are methods of `calibkit boundary "
        "--confidence`; MAPIE 1.6 controls the precision of one threshold, one of "
        f"{THRESHOLDS} quantiles of the scores, by a fixed sequence whose order it learns from "
        f"{LEARNS:.0%} of the half, or by Holm's correction. Recall on the test half, 0 "
        "where nothing was certified; in brackets the resplits with nothing certified and those "
        "with a test figure below its bound (the test half is a sample itself, so that a "
        "true precision just above the bound shows below it often)."
    )
    fill(
        "certified",
        setting=paragraph(setting),
        recall=recall,
        verdict=paragraph(verdict),
        several=several,
        several_verdict=paragraph(several_verdict),
    )


if __name__ == "__main__":
    main()
