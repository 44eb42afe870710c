"""The score files as inputs of networks, and as features of `hetcal`, for the study of Durfee et al."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pages import score_files

#: Left out, as in the paper: how long a call lasted is known only after the call.
DROPPED = {"bank": ("duration", "day_of_week")}
#: The most frequent levels of a category have a column each.
LEVELS = 30


@dataclass(frozen=True)
class Prepared:
    """The rows of a set: as features of `hetcal`, and as inputs of a network."""

    frames: dict[str, pl.DataFrame]
    names: list[str]
    inputs: dict[str, NDArray[np.float32]]


@cache
def prepared(folder: Path, name: str) -> Prepared:
    """Return the rows of a set; a fifth of the training rows is kept for validation."""
    parts = ("train", "calib", "test")
    frames = dict(zip(parts, score_files(folder / name, parts), strict=True))
    columns = frames["train"].columns
    names = columns[columns.index("uncertainty") + 1 :]
    names = [column for column in names if column not in DROPPED.get(name.partition("_")[0], ())]
    frames = {part: frame.select("label", *names) for part, frame in frames.items()}
    order = np.random.default_rng(0).permutation(frames["train"].height)
    held = frames["train"].height // 5
    frames["validation"] = frames["train"][order[:held]]
    frames["train"] = frames["train"][order[held:]]
    blocks: dict[str, list[NDArray[np.float32]]] = {part: [] for part in frames}
    for column in names:
        text = frames["train"][column].dtype == pl.String
        for part, block in (levels if text else numbers)(frames, column).items():
            blocks[part].append(block)
    return Prepared(frames, names, {part: np.hstack(block) for part, block in blocks.items()})


def levels(frames: dict[str, pl.DataFrame], column: str) -> dict[str, NDArray[np.float32]]:
    """Return a column a level, for the most frequent levels of the training rows."""
    counts = frames["train"][column].value_counts().sort(["count", column], descending=True)
    known = counts[column][:LEVELS].to_list()
    return {
        part: np.column_stack([frame[column].eq_missing(level).to_numpy() for level in known])
        .astype(np.float32)
        for part, frame in frames.items()
    }  # fmt: skip


def numbers(frames: dict[str, pl.DataFrame], column: str) -> dict[str, NDArray[np.float32]]:
    """Return a standardised column, whole numbers by their logarithm; a missing one is the mean."""
    found = {part: frame[column].cast(pl.Float64).to_numpy() for part, frame in frames.items()}
    if frames["train"][column].dtype.is_integer():
        found = {part: np.sign(x) * np.log1p(np.abs(x)) for part, x in found.items()}
    mean, spread = np.nanmean(found["train"]), np.nanstd(found["train"])
    return {
        part: np.nan_to_num((x - mean) / (spread or 1.0))[:, None].astype(np.float32)
        for part, x in found.items()
    }
