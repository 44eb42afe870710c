"""Read a Parquet file whole: ``polars_read.py FILE``."""

import sys

import polars as pl

print(pl.read_parquet(sys.argv[1]).height)
