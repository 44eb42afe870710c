"""Write docs/evidence/certified.md: certified boundaries on real files beside MAPIE's controller.

    python docs/evidence/write_certified.py [FOLDER] [--resplits N]

The same files, bounds and resplits as write_auto.py.  Needs MAPIE 1.6 (``pip install mapie``),
which calibkit itself does not.
"""

from __future__ import annotations

import argparse
import math
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from boundary_study import DATA, ROOT, part, row
from numpy.typing import NDArray
from write_auto import SETS, bounds, read

from calibkit.columns.columns import ScoreRows
from calibkit.errors import InfeasibleError
from calibkit.methods.boundary.certificate.certificate import certify_boundary
from calibkit.methods.boundary.result.decide import decide
from calibkit.options.boundary import AUTO, BoundaryOptions

PAGE = ROOT / "docs" / "evidence" / "certified.md"
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


def main() -> None:
    """Read the folder, resplit and judge, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--resplits", type=int, default=20)
    given = parser.parse_args()
    if not given.folder.is_dir():
        raise SystemExit(f"{given.folder} is not there: nothing written")
    tables = []
    for name in SETS:
        rows = read(given.folder / name)
        for bound in bounds(rows):
            tables.append((name, bound, judge(rows, bound, given.resplits)))
            print(name, bound, flush=True)
    PAGE.write_text(page(tables, given.resplits), encoding="utf-8")


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


def page(tables: Sequence[tuple[str, str, dict[str, NDArray[np.float64]]]], resplits: int) -> str:
    """Return the text of the page."""
    lines = [
        "# Certified boundaries on real files",
        "",
        "<!-- Written by `make evidence-certified`; edit docs/evidence/write_certified.py instead. -->",
        "",
        *textwrap.wrap(
            f"Rows of `calib` and `test` together, split in halves {resplits} times at random; a "
            f"boundary is certified on one half (precision >= the bound with confidence {CONFIDENCE}) "
            "and judged on the other. `auto`, `logistic` and `st` are methods of `calibkit boundary "
            "--confidence`; MAPIE 1.6 controls the precision of one threshold, one of "
            f"{THRESHOLDS} quantiles of the scores, by Holm's correction. Recall on the test half, 0 "
            "where nothing was certified; in brackets the resplits with nothing certified and those "
            "with a test precision below the bound (the test half is a sample itself, so that a "
            "true precision just above the bound shows below it often).",
            99,
        ),
        "",
        row(["data", "bound", *METHODS]),
        row(["---"] * (2 + len(METHODS))),
    ]
    for name, bound, found in tables:
        cells = []
        for seen in found.values():
            none = int(np.isnan(seen[:, 1]).sum())
            below = int((seen[:, 1] < float(bound)).sum())
            cells.append(f"{seen[:, 0].mean():.3f} ({none}, {below})")
        lines.append(row([name, bound, *cells]))
    means = [
        f"{np.mean([found[name][:, 0].mean() for _, _, found in tables]):.3f}" for name in METHODS
    ]
    lines.append(row(["mean", "", *means]))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
