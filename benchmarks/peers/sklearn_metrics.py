"""AUC, average precision, log loss, Brier score and calibration curve by scikit-learn.

    python sklearn_metrics.py FILE OUTPUT

Its functions as one would call them, on float64 scores; no intervals, MCE from the curve's bins.
It clips probabilities to another limit than 1e-15 by itself.
"""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
from sklearn import metrics
from sklearn.calibration import calibration_curve

frame = pl.read_parquet(sys.argv[1], columns=["score", "label"])
score = frame["score"].cast(pl.Float64).to_numpy()
label = frame["label"].to_numpy()
rate, mean = calibration_curve(label, score, n_bins=15)
found = {
    "auc": metrics.roc_auc_score(label, score),
    "average_precision": metrics.average_precision_score(label, score),
    "log_loss": metrics.log_loss(label, np.clip(score, 1e-15, 1 - 1e-15)),
    "brier": metrics.brier_score_loss(label, score),
    "mce": np.abs(rate - mean).max(),
}
text = json.dumps({name: float(value) for name, value in found.items()})
Path(sys.argv[2]).write_text(text, encoding="utf-8")
