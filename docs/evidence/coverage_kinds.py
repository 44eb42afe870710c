"""Rows of every kind that a certificate takes, from a generator that knows the truth about them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[Any]

SHOPS = ("store", "web")
#: What is certified of them.
_OPTIONS: tuple[dict[str, Any], ...] = (
    {"precision": 0.55, "recall": 0.3, "fpr": 0.2},
    {"precision": 0.6, "weight": "load"},
    {"recall": 0.4, "weight": "load", "weight_kind": "sampling"},
    {"precision": 0.55, "groups": "user"},
    {"capacity": 0.2, "groups": "user"},
    {"recall": 0.4, "value": "amount"},
    {"precision": 0.6, "prevalence": 0.4},
    {"precision": 0.55, "by": "shop", "bound": "each"},
    {"recall": 0.4, "by": "shop"},
    {"fpr": 0.1, "time": "day"},
    {"recall": 0.4, "by": "shop", "max_gap": "recall:0.15"},
    {"precision": 0.6, "recall": 0.5, "review_capacity": 0.4},
    {"precision": 0.6, "review_capacity": 0.2},
    {"precision": 0.6, "uncertainty": ["uncertainty", "amount"]},
)


def _typed(given: dict[str, Any]) -> str:
    """Return options as they are typed."""
    values = {name: ",".join(own) if isinstance(own, list) else own for name, own in given.items()}
    return " ".join(f"--{name.replace('_', '-')} {own}" for name, own in values.items())


#: The same by how it is typed.
KINDS = {_typed(given): given for given in _OPTIONS}


def kind_rows(rows: int, seed: int) -> tuple[pl.DataFrame, Floats]:
    """Return rows in groups that share their luck, and the true probability of each.

    Weights are larger for positive rows, values for high scores.
    """
    stream = np.random.default_rng(seed)
    user = np.repeat(np.arange(rows), stream.integers(1, 6, rows))[:rows]
    logit = -1.0 + stream.standard_normal(rows) + stream.standard_normal(rows)[user]
    spread = np.exp(0.5 * stream.standard_normal(rows))
    score = 1 / (1 + np.exp(-logit - spread * stream.standard_normal(rows)))
    truth = 1 / (1 + np.exp(-logit))
    label = (stream.random(rows) < truth).astype(np.int64)
    columns = {
        "score": score,
        "uncertainty": spread,
        "label": label,
        "load": np.where(stream.random(rows) < 0.2, 2.5, 0.75) * np.where(label == 1, 1.2, 0.8),
        "amount": np.where(stream.random(rows) < 0.1, 50.0, 5.0) * (1.0 + score),
        "user": user,
        "day": np.arange(rows),
        "shop": np.where(stream.random(rows) < 0.4, "store", "web"),
    }
    return pl.DataFrame(columns), truth


def rates(frame: pl.DataFrame, truth: Floats, taken: Floats, given: dict[str, Any]) -> Any:
    """Return the true rates of a selection as the options count them."""
    weight = frame["load"].to_numpy() if "weight" in given else np.ones(truth.size)
    # A weight says something of the label, a value does not.
    hit = frame["label"].to_numpy() if "weight" in given else truth
    value = weight * hit * (frame["amount"].to_numpy() if "value" in given else 1.0)
    hits, others = weight * hit, weight * (1 - hit)
    if "prevalence" in given:
        hits = hits / hits.sum() * given["prevalence"]
        others = others / others.sum() * (1 - given["prevalence"])
    caught, wrong = hits[taken].sum(), others[taken].sum()
    return {
        "precision": caught / (caught + wrong) if taken.any() else 1.0,
        "recall": value[taken].sum() / value.sum(),
        "fpr": -wrong / others.sum(),
        "capacity": -(caught + wrong) / (hits.sum() + others.sum()),
    }


@cache
def _fresh(rows: int) -> tuple[pl.DataFrame, Floats]:
    return kind_rows(rows, 10**6)


def kept(model: Any, rows: int, given: dict[str, Any]) -> bool:
    """Return whether all promises of a model hold on so many fresh rows, by their true rates."""
    frame, truth = _fresh(rows)
    decision = model.apply(frame)["decision"].to_numpy()
    taken, parts = decision == 1, [np.ones(truth.size, bool)]
    if "review_capacity" in given:
        block, review = decision == "block", decision == "review"
        seen = rates(frame, truth, block, given) | {"review_capacity": -review.mean()}
        seen["recall"] = rates(frame, truth, block | review, given)["recall"]
        signed = {name: -own if name == "review_capacity" else own for name, own in given.items()}
        return all(seen[name] >= own for name, own in signed.items())
    if "max_gap" in given:
        shop = frame["shop"].to_numpy()
        own = [truth[taken & (shop == name)].sum() / truth[shop == name].sum() for name in SHOPS]
        if abs(own[0] - own[1]) > float(given["max_gap"].partition(":")[2]):
            return False
    if given.get("bound") == "each":
        shop, failed = frame["shop"].to_numpy(), model.fit.certificate.failed
        parts = [shop == name for name in SHOPS if name not in failed]
    for part in parts:
        found = rates(frame.filter(part), truth[part], taken[part], given)
        for name in ("precision", "recall", "fpr", "capacity"):
            sign = -1.0 if name in ("fpr", "capacity") else 1.0
            if name in given and found[name] < sign * given[name]:
                return False
    return True
