"""The smooth calibration error by relplot.

    python relplot_smooth.py FILE OUTPUT

relplot puts scores on a grid before it smooths, so the third digit is its own.
"""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
from relplot import smECE

frame = pl.read_parquet(sys.argv[1], columns=["score", "label"])
score = frame["score"].cast(pl.Float64).to_numpy()
label = frame["label"].to_numpy().astype(np.float64)
found = {"smooth_ece": float(smECE(score, label))}
Path(sys.argv[2]).write_text(json.dumps(found), encoding="utf-8")
