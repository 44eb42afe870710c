"""Score files for the tests of commands, and a reader of boundary models that shares no code.

`decisions` and `margins` follow the documented meaning of a boundary's fields, row by row in plain
Python, so that what ``apply`` writes and what a fit reports can be counted again.
"""

from __future__ import annotations

import gzip
import io
import math
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from tests.conftest import make

Model = dict[str, Any]


def simulate(rows: int = 600, seed: int = 1, *, ties: bool = False) -> pl.DataFrame:
    """Return labelled scores whose reliability falls with the uncertainty."""
    random = np.random.default_rng(seed)
    uncertainty = random.gamma(2.0, 1.0, rows)
    truth = random.normal(0.0, 1.5, rows)
    score = 1.0 / (1.0 + np.exp(-(truth + random.normal(0.0, 0.4, rows) * uncertainty)))
    if ties:
        score, uncertainty = np.round(score, 1), np.round(uncertainty)
    label = random.random(rows) < 1.0 / (1.0 + np.exp(-truth))
    return pl.DataFrame(
        {
            "id": np.arange(rows),
            "score": score,
            "uncertainty": uncertainty,
            "label": label.astype(np.int64),
            "weight": random.integers(0, 4, rows),
        }
    )


def scores(**values: dict[int, Any]) -> pl.DataFrame:
    """Return 40 good rows with some values changed."""
    return changed(simulate(40).with_columns(pl.col("weight").cast(pl.Float64)), **values)


def changed(frame: pl.DataFrame, **given: dict[int, Any]) -> pl.DataFrame:
    """Return rows with some values changed: ``changed(frame, score={3: None})``, rows from 1."""
    for name, values in given.items():
        column = frame[name].to_list()
        for row, value in values.items():
            column[row - 1] = value
        frame = frame.with_columns(pl.Series(name, column, strict=False))
    return frame


def write(frame: pl.DataFrame, path: Path | str) -> Path:
    """Write a frame in the format of the suffix, by polars and pyarrow alone."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(frame, "".join(path.suffixes)))
    return path


def merge_parts(output: Path | str, parts: Iterable[pl.DataFrame], *line: object) -> Path:
    """Return what the states that a command makes of parts of the rows merge into."""
    command, *options = line
    states = [
        make(f"part-{k}.state", command, write(part, f"part-{k}.parquet"), *options, "--partial")
        for k, part in enumerate(parts)
    ]
    return make(output, "merge", *states)


def encode(frame: pl.DataFrame, suffix: str) -> bytes:
    """Return the bytes of a file with this suffix."""
    suffix, compression = suffix.removesuffix(".gz").removesuffix(".zst"), suffix[-3:]
    out = io.BytesIO()
    if suffix == ".parquet":
        frame.write_parquet(out)
    elif suffix == ".arrow":
        frame.write_ipc(out)
    elif suffix == ".arrows":
        frame.write_ipc_stream(out)
    elif suffix == ".ndjson":
        frame.write_ndjson(out)
    else:
        frame.write_csv(out, separator="\t" if suffix == ".tsv" else ",")
    if compression == ".gz":
        return gzip.compress(out.getvalue())
    if compression == "zst":
        packed = pa.BufferOutputStream()
        with pa.CompressedOutputStream(packed, "zstd") as stream:
            stream.write(out.getvalue())
        return bytes(packed.getvalue())
    return out.getvalue()


def threshold_of(model: Model, uncertainty: float | None) -> float | None:
    """Return the threshold that holds at an uncertainty; None is never, -inf always."""
    if len(model["score_thresholds"]) == 1:
        level = 0
    else:
        value = max(rounded(model, "uncertainty", uncertainty), model["uncertainty_min"])
        level = sum(edge <= value for edge in model["uncertainty_edges"])
    threshold = model["score_thresholds"][level]
    return None if threshold is None else float(threshold)


def decision(model: Model, score: float, uncertainty: float | None) -> int:
    """Return whether a boundary is positive for one row."""
    score = rounded(model, "score", score)
    if model.get("order") == "score-uncertainty":
        raised = max(score, model["score_min"])
        column = sum(edge <= raised for edge in model["score_edges"])
        level = 0
        if len(model["take"]) > 1:
            least = model["uncertainty_min"][column]
            value = max(rounded(model, "uncertainty", uncertainty), least)
            level = sum(edge <= value for edge in model["uncertainty_edges"][column])
        return int(column >= len(model["score_edges"]) + 1 - model["take"][level])
    threshold = threshold_of(model, uncertainty)
    return int(threshold is not None and score >= threshold)


def margin(model: Model, score: float, uncertainty: float | None) -> float | None:
    """Return how far a score lies beyond its threshold, None where there is no number for it."""
    threshold, score = threshold_of(model, uncertainty), rounded(model, "score", score)
    if threshold is None or threshold == -math.inf:
        return None
    if score == threshold:
        return 0.0
    if model["columns"]["score"]["scale"] == "probability":
        return _logit(score) - _logit(threshold)
    return score - threshold


def rounded(model: Model, role: str, value: float | None) -> float:
    """Return a value in the dtype of the fit."""
    assert value is not None
    if model["columns"][role]["dtype"] == "float32":
        return float(struct.unpack("f", struct.pack("f", value))[0])
    return float(value)


def _logit(p: float) -> float:
    if p in (0.0, 1.0):
        return math.inf if p else -math.inf
    return math.log(p) - math.log1p(-p)


def decisions(model: Model, frame: pl.DataFrame) -> list[int]:
    """Return the decision of each row."""
    return [decision(model, *row) for row in _values(model, frame)]


def margins(model: Model, frame: pl.DataFrame) -> list[float | None]:
    """Return the margin of each row."""
    return [margin(model, *row) for row in _values(model, frame)]


def _values(model: Model, frame: pl.DataFrame) -> list[tuple[float, float | None]]:
    columns = model["columns"]
    scores = frame[columns["score"]["name"]].to_list()
    if "uncertainty" not in columns:
        return [(score, None) for score in scores]
    return list(zip(scores, frame[columns["uncertainty"]["name"]].to_list(), strict=True))


def recount(model: Model, frame: pl.DataFrame, weights: list[float] | None = None) -> Model:
    """Return the figures of ``fit.in_sample`` counted on rows."""
    labels = frame["label"].to_list()
    chosen = decisions(model, frame)
    weights = weights or [1] * len(labels)
    rows = list(zip(chosen, labels, weights, strict=True))
    selected = sum(w for d, _, w in rows if d)
    hits = sum(w for d, y, w in rows if d and y)
    positives = sum(w for _, y, w in rows if y)
    negatives = sum(weights) - positives
    return {
        "selected": selected,
        "true_positives": hits,
        "precision": hits / selected if selected else None,
        "recall": hits / positives,
        "false_positive_rate": (selected - hits) / negatives if negatives else None,
    }
