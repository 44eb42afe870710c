"""The same metrics by a plain numpy script with one sort, and with intervals.

    python numpy_metrics.py FILE OUTPUT

AUC with DeLong's interval, average precision, log loss and Brier score with standard errors, ECE and
MCE over 15 bins.  Arrays are given up as soon as they have served.
"""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl

frame = pl.read_parquet(sys.argv[1], columns=["score", "label"])
order = np.argsort(frame["score"].to_numpy())[::-1]
score = frame["score"].to_numpy()[order].astype(np.float64)
label = frame["label"].to_numpy()[order].astype(np.float64)
del frame, order
size = score.size

last = np.flatnonzero(np.append(score[1:] != score[:-1], True))
hits, rows = np.cumsum(label)[last], last + 1.0
del last
average_precision = np.dot(np.diff(hits, prepend=0.0), hits / rows) / hits[-1]
misses = rows - hits
del rows
total_hits, total_misses = hits[-1], misses[-1]
group_hits, group_misses = np.diff(hits, prepend=0.0), np.diff(misses, prepend=0.0)
of_positive = 1 - (misses - group_misses / 2) / total_misses
of_negative = (hits - group_hits / 2) / total_hits
del hits, misses
auc = np.dot(of_positive, group_hits) / total_hits
of_positive -= auc
of_negative -= auc
of_positive *= of_positive
of_negative *= of_negative
variance = (
    np.dot(of_positive, group_hits) / (total_hits - 1) / total_hits
    + np.dot(of_negative, group_misses) / (total_misses - 1) / total_misses
)
del of_positive, of_negative, group_hits, group_misses

chance = np.clip(score, 1e-15, 1 - 1e-15)
chance = np.where(label > 0, chance, 1 - chance)
loss = -np.log(chance, out=chance)
log_loss, log_loss_error = loss.mean(), loss.std() / np.sqrt(size)
del chance, loss
square = label - score
square *= square
brier, brier_error = square.mean(), square.std() / np.sqrt(size)
del square

bins = np.minimum((score * 15).astype(np.int8), 14)
count = np.bincount(bins, minlength=15)
gap = np.abs(np.bincount(bins, weights=label - score, minlength=15))
held = count > 0

found = {
    "auc": auc,
    "auc_low": auc - 1.96 * np.sqrt(variance),
    "auc_high": auc + 1.96 * np.sqrt(variance),
    "average_precision": average_precision,
    "log_loss": log_loss,
    "log_loss_error": log_loss_error,
    "brier": brier,
    "brier_error": brier_error,
    "ece": gap.sum() / size,
    "mce": (gap[held] / count[held]).max(),
}
text = json.dumps({name: float(value) for name, value in found.items()})
Path(sys.argv[2]).write_text(text, encoding="utf-8")
