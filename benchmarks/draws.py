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


def two_scores(rows: int, place: int) -> pl.DataFrame:
    """Return two scores with their uncertainty, nearly all distinct."""
    random = np.random.default_rng([7, place, rows])
    logit = random.normal(-1.0, 2.0, rows)
    score = 1 / (1 + np.exp(-logit))
    other = 1 / (1 + np.exp(-logit - random.normal(0, 0.3, rows)))
    columns = {"score": score, "other": other, "uncertainty": random.gamma(2.0, 0.5, rows)}
    frame = pl.DataFrame({name: values.astype(np.float32) for name, values in columns.items()})
    return frame.with_columns(label=(random.random(rows) < score).astype(np.int8))


def kinds(rows: int, place: int) -> pl.DataFrame:
    """Return a score with features that say where it is wrong, one of them of text."""
    random = np.random.default_rng([rows, place])
    score, kind = random.normal(-1.0, 1.5, rows), random.integers(0, 4, rows)
    features = random.normal(size=(10, rows)).round(3)
    features[1] = random.integers(0, 50, rows)
    slope = np.where(features[0] > 0.4, 0.5, 1.1) + 0.1 * kind
    chance = 1.0 / (1.0 + np.exp(0.02 * features[1] - slope * score - 0.1 * features[2]))
    columns = {
        "score": 1.0 / (1.0 + np.exp(-score)),
        "label": (random.random(rows) < chance).astype(np.uint8),
        **{f"feature_{j}": values for j, values in enumerate(features)},
        "feature_kind": np.array(["north", "east", "south", "west"])[kind],
    }
    return pl.DataFrame(columns)


def shard(place: int) -> pl.DataFrame:
    """Return a million rows of two scores whose uncertainty lowers the truth."""
    random = np.random.default_rng([11, place])
    score, spread = random.beta(0.3, 3.0, BLOCK), random.gamma(2.0, 1.0, BLOCK)
    truth = np.clip(score * (1.3 - 0.2 * spread), 0.0, 1.0)
    noise = np.exp(random.normal(0.0, 0.3, BLOCK))
    columns = {
        "score": score,
        "other": score * noise / (1 - score + score * noise),
        "uncertainty": spread,
        "label": (random.random(BLOCK) < truth).astype(np.uint8),
    }
    return pl.DataFrame(columns)


KINDS = {
    one.__name__: one for one in (distinct, several, features, histograms, two_scores, kinds, shard)
}
#: Rows of a group in Parquet, where it is not polars that says.
GROUPS = {"two_scores": 1 << 18, "kinds": 1 << 18}


if __name__ == "__main__":
    kind, *numbers, path = sys.argv[1:]
    KINDS[kind](*map(int, numbers)).write_parquet(path, row_group_size=GROUPS.get(kind))
