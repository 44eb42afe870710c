"""Models of trees and of selected ensembles with one thing wrong: refused, and what is wrong named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import calibkit as ck
from calibkit.errors import ModelError
from calibkit.models.model import decode

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def tree() -> bytes:
    rows = ck.simulate_posterior(300, seed=3)
    return ck.fit_hetcal(
        rows, features=["evidence"], max_depth=1, min_leaf=50, shrinkage=0.0
    ).to_json()


@pytest.fixture(scope="module")
def vad() -> bytes:
    rows = ck.simulate_posterior(300, seed=3)
    return ck.fit_vad(rows, members=["score", "true_*"]).to_json()


def leaf(model: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = model["maps"][0]
    return found


def steps(knots: list[float], values: list[float]) -> Change:
    def change(model: dict[str, Any]) -> None:
        own = leaf(model)
        own.pop("a"), own.pop("b")
        own.update(knots=knots, values=values)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m["tree"][0].pop("feature"), "neither 'feature' nor 'leaf'"),
        (lambda m: m["maps"].append(m["maps"][0]), "2 leaves, but 3 maps"),
        (lambda m: m["tree"][0].pop("cut"), "'cut' belongs to numbers only"),
        (lambda m: m["tree"][0].update(left_categories=["a"]), "belong to text only"),
        (lambda m: leaf(m).pop("a"), "'a' and 'b', or 'knots' and 'values'"),
        (steps([0.0, 1.0], [0.5]), "as many values as knots"),
        (steps([], []), "as many values as knots"),
        (steps([1.0, 1.0], [0.2, 0.5]), "knots must increase"),
        (steps([0.0, 1.0], [0.2, 1.5]), "are probabilities"),
    ],
)
def test_trees_that_contradict_themselves(change: Change, said: str, tree: bytes) -> None:
    model = json.loads(tree)
    change(model)
    with pytest.raises(ModelError, match=re.escape(said)):
        decode(json.dumps(model).encode())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda m: m["columns"].update(by={"name": "g"}),
            "'groups' and a column 'by' go together",
        ),
        (lambda m: m["fit"].update(lambda_test=0.5), "'train' and 'lambda_test' go together"),
    ],
)
def test_ensembles_that_contradict_themselves(change: Change, said: str, vad: bytes) -> None:
    model = json.loads(vad)
    change(model)
    with pytest.raises(ModelError, match=re.escape(said)):
        decode(json.dumps(model).encode())
