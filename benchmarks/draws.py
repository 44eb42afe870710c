"""Random rows of the benchmarks, in a process of their own: ``draws.py KIND NUMBER ... FILE``.

A kind is a function here, and the numbers are what it takes.
"""

from __future__ import annotations

import sys

import numpy as np
import polars as pl
from datasets import FEATURES

BLOCK = 1_000_000
#: Votes of a histogram.
VOTES = 10


def distinct(rows: int) -> pl.DataFrame:
    """Return scores that are nearly all distinct."""
    score, uncertainty = np.empty(rows, np.float32), np.empty(rows, np.float32)
    label = np.empty(rows, np.int8)
    for block, start in enumerate(range(0, rows, BLOCK)):
        size = min(BLOCK, rows - start)
        random = np.random.default_rng([1, block])
        own = slice(start, start + size)
        truth = random.beta(0.5, 1.5, size)
        noise = random.gamma(2.0, 0.5, size)
        logit = np.log(truth) - np.log1p(-truth) + noise * random.standard_normal(size)
        score[own] = 1.0 / (1.0 + np.exp(-logit))
        uncertainty[own] = noise
        label[own] = random.random(size) < truth
    return pl.DataFrame({"score": score, "uncertainty": uncertainty, "label": label})


def several(rows: int) -> pl.DataFrame:
    """Return the same with a rough copy of the uncertainty and one that says nothing."""
    frame = distinct(rows)
    random = np.random.default_rng(2)
    noise = np.exp(0.5 * random.standard_normal(rows, np.float32))
    rough = frame["uncertainty"].to_numpy() * noise
    return frame.with_columns(spread=rough, age=random.random(rows, np.float32))


def features(rows: int) -> pl.DataFrame:
    """Return scores that miss a product, a wave and a step of the features."""
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, FEATURES)).astype(np.float32)
    truth = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) + x[:, 3] - 0.5 * (x[:, 4] > 1)
    label = random.random(rows) < 1 / (1 + np.exp(-truth))
    seen = 1.5 * (x[:, 3] + 0.5 * np.sin(3 * x[:, 2]) + 0.5 * random.normal(size=rows))
    score = (1 / (1 + np.exp(-seen))).astype(np.float32)
    columns = {f"feature_{j}": x[:, j] for j in range(FEATURES)}
    return pl.DataFrame({"label": label.astype(np.int8), "score": score, **columns})


def histograms(rows: int, width: int, classes: int) -> pl.DataFrame:
    """Return class probabilities, votes and features that say how far raters agree."""
    random = np.random.default_rng(1)
    z = random.dirichlet(np.ones(classes), rows)
    u = random.normal(size=(rows, width))
    log_alpha0 = u @ (0.2 * random.normal(size=width)) if width else random.normal(size=rows)
    share = random.gamma(np.maximum(z * np.exp(log_alpha0)[:, None], 1e-3))
    share /= share.sum(axis=1, keepdims=True)
    y = random.multinomial(VOTES, share)
    columns = {f"prob_{k}": z[:, k] for k in range(classes)}
    columns |= {f"count_{k}": y[:, k] for k in range(classes)}
    columns |= {f"feature_{k}": u[:, k] for k in range(width)}
    return pl.DataFrame(columns)


KINDS = {one.__name__: one for one in (distinct, several, features, histograms)}


if __name__ == "__main__":
    kind, *numbers, path = sys.argv[1:]
    KINDS[kind](*map(int, numbers)).write_parquet(path)
