"""The yardstick: read three columns and sort the rows by score, in memory."""

import sys

import polars as pl

frame = pl.read_parquet(sys.argv[1], columns=["score", "uncertainty", "label"])
frame.sort("score")
