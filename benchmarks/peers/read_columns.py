"""The floor under any process with polars: import it, read some columns, do nothing.

    python read_columns.py FILE [COLUMN ...]

Without columns all are read.
"""

import sys

import polars as pl

print(pl.read_parquet(sys.argv[1], columns=sys.argv[2:] or None).height)
