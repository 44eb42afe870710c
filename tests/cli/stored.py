"""The same rows stored in many ways, for tests that no way of storing shows in a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tests.cli.score_files import simulate, write


def many_columns(rows: int = 900) -> pl.DataFrame:
    """Return rows with a column for every command, many of them alike in score and uncertainty."""
    random = np.random.default_rng(12)
    frame = simulate(rows, seed=12)
    score = frame["score"].to_numpy().round(2).clip(0.01, 0.99)
    shares = random.integers(1, 20, (rows, 3)) / 1.0
    shares /= shares.sum(axis=1, keepdims=True)
    votes = random.multinomial(3, [0.2, 0.3, 0.5], rows)
    return frame.with_columns(
        score=pl.Series(score),
        uncertainty=pl.col("uncertainty").round(1),
        segment=pl.Series(random.choice(["a", "b", "é"], rows)),
        user=pl.Series(random.integers(0, rows // 3, rows)),
        time=pl.Series(np.arange(rows) // 4),
        class_label=pl.Series(random.integers(0, 3, rows)),
        x=pl.Series(random.normal(size=rows).round(2)),
        **{f"score_{k}": pl.Series((score ** (1 + k / 9)).round(6)) for k in range(4)},
        **{f"prob_{k}": pl.Series(shares[:, k]) for k in range(3)},
        **{f"count_{k}": pl.Series(votes[:, k]) for k in range(3)},
    )


def stored(folder: Path, frame: pl.DataFrame) -> dict[str, list[Any]]:
    """Store rows in a few ways, each of several kinds; return inputs and options that read them."""
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    for k in range(3):
        write(shuffled[k::3], folder / "parts" / f"{k}.csv")
        write(frame[k::3], folder / "hive" / f"day={k}" / "rows.parquet")
    parts = [folder / "parts" / f"{k}.csv" for k in (2, 0, 1)]
    return {
        "parquet": [write(frame, folder / "rows.parquet"), "--threads", "1"],
        "again, four threads": [folder / "rows.parquet", "--threads", "4"],
        "csv in three files": [*parts, "--threads", "2"],
        "glob": [folder / "parts" / "*.csv"],
        "folder of key=value": [folder / "hive", "--threads", "3"],
        "ndjson, reversed": [write(frame.reverse(), folder / "rows.ndjson")],
        "arrow, other columns first": [
            write(shuffled.select(reversed(frame.columns)), folder / "rows.arrow")
        ],
    }
