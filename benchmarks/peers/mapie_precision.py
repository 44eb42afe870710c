"""A threshold with certified precision by MAPIE: ``mapie_precision.py FILE PRECISION CONFIDENCE``."""

import sys
import warnings

import numpy as np
import polars as pl
from mapie.risk_control import BinaryClassificationController

THRESHOLDS = 100

frame = pl.read_parquet(sys.argv[1], columns=["score", "label"])
score = frame["score"].to_numpy().astype(np.float64)
controller = BinaryClassificationController(
    lambda scores: np.column_stack([1.0 - scores, scores]),
    risk="precision",
    target_level=float(sys.argv[2]),
    confidence_level=float(sys.argv[3]),
    list_predict_params=np.unique(np.quantile(score, np.arange(THRESHOLDS) / THRESHOLDS)),
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns where nothing can be certified
    controller.calibrate(score, frame["label"].to_numpy())
print(controller.best_predict_param)
