"""NannyML's confidence-based estimates of draws: ``estimate_peers.py FOLDER``, where it is installed.

A draw is an .npz file with score, pred and label of fitting rows, and score and pred of new ones; on
standard output go the version and, by file, precision, recall and AUC.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import nannyml
import numpy as np
import pandas as pd

METRICS = ["precision", "recall", "roc_auc"]


def estimates(path: Path) -> list[float]:
    """Return what CBPE says of the new rows, all as one chunk."""
    draw = np.load(path)
    fitted = pd.DataFrame({name: draw[name] for name in ("score", "pred", "label")})
    new = pd.DataFrame({name: draw[f"new_{name}"] for name in ("score", "pred")})
    estimator = nannyml.CBPE(
        y_pred_proba="score",
        y_pred="pred",
        y_true="label",
        problem_type="classification_binary",
        metrics=METRICS,
        chunk_number=1,
    )
    found = estimator.fit(fitted).estimate(new).filter(period="analysis").to_df()
    return [float(found[metric, "value"].iloc[0]) for metric in METRICS]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = {path.stem: estimates(path) for path in sorted(Path(sys.argv[1]).glob("*.npz"))}
    print(json.dumps({"version": nannyml.__version__, "found": found}))
