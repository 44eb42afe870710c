"""LightGBM with the logit as offset and feature: ``lightgbm_trees.py FILE TREES``."""

import sys

import lightgbm as lgb
import numpy as np
import polars as pl

frame = pl.read_parquet(sys.argv[1])
p = np.clip(frame["score"].to_numpy().astype(float), 1e-6, 1 - 1e-6)
logit = np.log(p / (1 - p))
x = np.column_stack([frame.select("^feature_.*$").to_numpy(), logit])
settings = {
    "objective": "binary",
    "learning_rate": 0.05,
    "num_leaves": 31,
    "min_data_in_leaf": 20,
    "feature_fraction": 0.5,
    "verbose": -1,
}
data = lgb.Dataset(x, frame["label"].to_numpy(), init_score=logit)
lgb.train(settings, data, int(sys.argv[2]))
