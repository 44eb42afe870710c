"""Fill in certified.md: certified boundaries on real files beside MAPIE's controller.

The same files, bounds and resplits as write_auto.py.  Needs MAPIE 1.6, which calibkit itself does not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from boundary_study import bounds, part
from numpy.typing import NDArray
from pages import arguments, fill, paragraph, table
from write_auto import SETS, read

from calibkit.columns.columns import ScoreRows
from calibkit.errors import InfeasibleError
from calibkit.methods.boundary.certificate.certificate import certify_boundary
from calibkit.methods.boundary.result.decide import decide
from calibkit.options.boundary import AUTO, BoundaryOptions

CONFIDENCE = "0.9"
THRESHOLDS = 100

Taken = NDArray[np.bool_]
#: From fitting rows, test rows, the bound and the resplit to the test rows selected; None: nothing
#: could be certified.
Certify = Callable[[ScoreRows, ScoreRows, str, int], Taken | None]


def calibkit(method: str) -> Certify:
    """Return what certifies by a method of ``calibkit boundary --confidence``."""

    def certify(calib: ScoreRows, test: ScoreRows, bound: str, seed: int) -> Taken | None:
        options = BoundaryOptions(precision=bound, method=method, confidence=CONFIDENCE, seed=seed)
        try:
            model = certify_boundary(calib, options).model
        except InfeasibleError:
            return None
        decision, _ = decide(model, test.score, test.uncertainty)
        taken: Taken = decision == 1
        return taken

    return certify


def mapie(calib: ScoreRows, test: ScoreRows, bound: str, seed: int) -> Taken | None:
    """Certify by MAPIE: thresholds at quantiles of the scores, Holm's correction."""
    from mapie.risk_control import BinaryClassificationController

    controller = BinaryClassificationController(
        lambda scores: np.column_stack([1.0 - scores, scores]),
        risk="precision",
        target_level=float(bound),
        confidence_level=float(CONFIDENCE),
        list_predict_params=np.unique(np.quantile(calib.score, np.arange(THRESHOLDS) / THRESHOLDS)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where nothing can be certified
        controller.calibrate(calib.score.astype(np.float64), calib.label)
    found = controller.best_predict_param
    if found is None:
        return None
    taken: Taken = test.score.astype(np.float64) >= found
    return taken


METHODS: dict[str, Certify] = {
    "auto": calibkit(AUTO),
    "logistic": calibkit("logistic"),
    "st": calibkit("st"),
    "MAPIE": mapie,
}


def judge(rows: ScoreRows, bound: str, resplits: int) -> dict[str, NDArray[np.float64]]:
    """Return test recall (0 where nothing is certified) and precision (then NaN), by resplit."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
    size = rows.score.size
    for split in range(resplits):
        order = np.random.default_rng(split).permutation(size)
        calib, test = part(rows, order[: size // 2]), part(rows, order[size // 2 :])
        calib, test = replace(calib, others=None), replace(test, others=None)
        assert test.label is not None
        for name, certify in METHODS.items():
            taken = certify(calib, test, bound, split)
            if taken is None or not taken.any():
                found[name].append((0.0, math.nan))
                continue
            hits = float(test.label[taken].sum())
            found[name].append((hits / float(test.label.sum()), hits / float(taken.sum())))
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    """Resplit, certify, judge, and fill the page in."""
    given = arguments(__doc__, needs=SETS, resplits=20)
    lines, means = [], []
    for name in SETS:
        rows = read(given.folder / name)
        assert rows.label is not None
        for bound in bounds(rows.score, rows.label):
            found = judge(rows, bound, given.resplits).values()
            recalls = [seen[:, 0].mean() for seen in found]
            counts = [
                f"({np.isnan(seen[:, 1]).sum()}, {(seen[:, 1] < float(bound)).sum()})"
                for seen in found
            ]
            cells = [f"{one:.3f} {count}" for one, count in zip(recalls, counts, strict=True)]
            lines.append([name, bound, *cells])
            means.append(recalls)
            print(name, bound, flush=True)
    lines.append(["mean", "", *(f"{mean:.3f}" for mean in np.mean(means, axis=0))])
    setting = (
        f"Rows of `calib` and `test` together, split in halves {given.resplits} times at random; a "
        f"boundary is certified on one half (precision >= the bound with confidence {CONFIDENCE}) "
        "and judged on the other. `auto`, `logistic` and `st` are methods of `calibkit boundary "
        "--confidence`; MAPIE 1.6 controls the precision of one threshold, one of "
        f"{THRESHOLDS} quantiles of the scores, by Holm's correction. Recall on the test half, 0 "
        "where nothing was certified; in brackets the resplits with nothing certified and those "
        "with a test precision below the bound (the test half is a sample itself, so that a "
        "true precision just above the bound shows below it often)."
    )
    fill(
        "certified",
        setting=paragraph(setting),
        recall=table(["data", "bound", *METHODS], lines),
    )


if __name__ == "__main__":
    main()
