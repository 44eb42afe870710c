"""The same metrics by a plain numpy script with one sort, and with intervals.

    python numpy_metrics.py FILE OUTPUT

AUC with DeLong's interval, average precision, log loss and Brier score with standard errors, ECE and
MCE over 15 bins.
"""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl

frame = pl.read_parquet(sys.argv[1], columns=["score", "label"])
score = frame["score"].cast(pl.Float64).to_numpy()
label = frame["label"].to_numpy().astype(np.float64)

order = np.argsort(-score, kind="stable")
falling, positive = score[order], label[order]
last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
hits, rows = np.cumsum(positive)[last], last + 1.0
group_hits, group_rows = np.diff(hits, prepend=0.0), np.diff(rows, prepend=0.0)
misses = group_rows - group_hits
total_hits, total_misses = hits[-1], rows[-1] - hits[-1]

above_hits = hits - group_hits
below_misses = total_misses - np.cumsum(misses)
of_positive = (below_misses + misses / 2) / total_misses
of_negative = (above_hits + group_hits / 2) / total_hits
auc = np.dot(of_positive, group_hits) / total_hits
variance = (
    np.dot((of_positive - auc) ** 2, group_hits) / (total_hits - 1) / total_hits
    + np.dot((of_negative - auc) ** 2, misses) / (total_misses - 1) / total_misses
)
average_precision = np.dot(group_hits, hits / rows) / total_hits

clipped = np.clip(score, 1e-15, 1 - 1e-15)
loss = -np.where(label > 0, np.log(clipped), np.log(1 - clipped))
square = (label - score) ** 2

bins = np.minimum((score * 15).astype(np.int64), 14)
count = np.bincount(bins, minlength=15)
gap = np.abs(
    np.bincount(bins, weights=label, minlength=15) - np.bincount(bins, weights=score, minlength=15)
)
held = count > 0

root = np.sqrt(score.size)
found = {
    "auc": auc,
    "auc_low": auc - 1.96 * np.sqrt(variance),
    "auc_high": auc + 1.96 * np.sqrt(variance),
    "average_precision": average_precision,
    "log_loss": loss.mean(),
    "log_loss_error": loss.std() / root,
    "brier": square.mean(),
    "brier_error": square.std() / root,
    "ece": gap.sum() / score.size,
    "mce": (gap[held] / count[held]).max(),
}
text = json.dumps({name: float(value) for name, value in found.items()})
Path(sys.argv[2]).write_text(text, encoding="utf-8")
