"""The yardstick: the logits of three columns and their covariances, by polars, in one lazy query."""

import sys

import polars as pl

names = ["score_1", "score_2", "score_3"]
clipped = [pl.col(name).clip(1e-6, 1 - 1e-6) for name in names]
links = pl.scan_parquet(sys.argv[1]).select((p / (1 - p)).log() for p in clipped)
pairs = [(a, b) for place, a in enumerate(names) for b in names[place:]]
found = links.select(
    *(pl.col(name).mean().alias(name) for name in names),
    *(pl.cov(a, b, ddof=0).alias(f"{a} {b}") for a, b in pairs),
).collect()
print(found.row(0))
