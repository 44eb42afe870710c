"""Models as JSON: canonical, read back exactly, and refused by name when they are none."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.errors import ModelError
from calibkit.methods.boundary.result.application import decide
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_json, threshold_value
from calibkit.models import model as models
from calibkit.models.model import canonical_text, decode, load
from tests.library.samples import example, fit, score_rows

LEVELS, SCORE_FIRST, DELETED = "levels", "score first", object()
FITS: dict[str, dict[str, Any]] = {
    LEVELS: {"precision": "0.7"},
    "one level": {"recall": "0.5", "uncertainty_bins": 1},
    "single threshold": {"precision": "0.7", "method": "st", "uncertainty_bins": 3},
    "grid": {"precision": "0.6", "score_bins": 5},
    SCORE_FIRST: {"precision": "0.6", "score_bins": 5, "order": "score-uncertainty"},
    "weights": {"recall": "0.4", "folds": 0},
}


def fitted(name: str) -> BoundaryModel:
    table = example(120, seed=4)
    weight = np.random.default_rng(1).random(120) if name == "weights" else None
    rows = score_rows(**table, weight=weight, scale="probability")
    return fit(rows, test=rows, tags={"team": "fraud"}, **FITS[name]).model


MODELS = {name: fitted(name) for name in FITS}


@pytest.mark.parametrize("name", FITS)
def test_models_are_canonical_text_that_is_read_back(name: str, tmp_path: Path) -> None:
    model, path = MODELS[name], tmp_path / "model.json"
    text = model.to_json()
    content = json.loads(text)
    canonical = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert text.decode() == canonical
    assert content["kind"] == "boundary" and content["version"] == 1
    assert not {"NaN", "Infinity"} & set(canonical.replace(",", " ").split())
    assert model.as_dict() == content
    model.save(path)
    assert path.read_bytes() == text
    # Any layout of the same content is the same model.
    again = decode(json.dumps(content, indent=None).encode())
    assert decode(text) == again == load(str(path)) == BoundaryModel.from_json(text) == model
    assert again.to_json() == text


@given(st.floats())
def test_thresholds_in_json(value: float) -> None:
    text = canonical_text(threshold_json(value))
    again = threshold_value(json.loads(text))
    assert again == value or (math.isnan(again) and math.isnan(value))
    assert (threshold_json(value) is None) == math.isnan(value)


# ---------------------------------------------------------------- refused


def content_of(name: str = LEVELS) -> dict[str, Any]:
    return copy.deepcopy(MODELS[name].as_dict())


def refused(content: Any, match: str) -> None:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(ModelError, match=match) as caught:
        decode(data, "model.json")
    assert caught.value.file == "model.json"
    assert caught.value.code == 3
    assert "Traceback" not in caught.value.message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"kind": "boundary"}',
        b'{"kind": 3, "version": 1}',
        b'{"kind": "boundary", "version": "1"}',
        b'{"kind": "boundary", "version": 1.5}',
        b"\xff\xfe\x00",
        b'{"kind": "\xff", "version": 1}',
        b"[" * 1_000_000,
        b'{"kind": ' * 100_000,
        b'{"kind": "boundary", "version": 1, "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"kind": "boundary", "version": ' + b"9" * 5000 + b"}",
    ],
    ids=range(15),
)
def test_what_is_no_model_is_refused(data: bytes) -> None:
    refused(data, "model")


def test_numbers_beyond_floats_are_refused() -> None:
    digits = b"9" * 400
    refused(b'{"kind": "boundary", "version": 1, "rows": ' + digits + b"}", "of 300 digits")


def test_a_newer_version_is_named_whatever_else_it_holds() -> None:
    refused({"kind": "boundary", "version": 9, "surface": []}, "version 9")


def test_every_unknown_or_missing_field_is_refused_by_name() -> None:
    content = content_of()
    for field in ("surface", "__class__"):
        refused({**content, field: 1}, field)
        refused({**content, "fit": {**content["fit"], field: 1}}, field)
    for field in set(content) - {"provenance", "tags", "order", "kind", "version"}:
        refused({k: v for k, v in content.items() if k != field}, field)
    for field in content["fit"]:
        left = {k: v for k, v in content["fit"].items() if k != field}
        refused({**content, "fit": left}, field)


def test_models_of_another_kind_are_refused() -> None:
    class Other(models.Model):
        KIND = "other"

    with pytest.raises(ModelError, match="kind 'boundary'; a 'other' model"):
        Other.from_json(MODELS[LEVELS].to_json())


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        (LEVELS, {"version": 2}, "version 2 of kind 'boundary'.*reads version 1"),
        (LEVELS, {"version": 0}, "version 0"),
        (LEVELS, {"columns": {}}, "score column"),
        (LEVELS, {"columns": {"score": {"name": "s"}}}, "uncertainty column"),
        (LEVELS, {"order": "sideways"}, "one of uncertainty-score, score-uncertainty"),
        (LEVELS, {"take": [1]}, "take"),
        (LEVELS, {"score_edges": [0.5]}, "score_edges"),
        (LEVELS, {"score_thresholds": []}, "1 to 65535"),
        (LEVELS, {"score_thresholds": [0.1, "high", None]}, "'high'"),
        (LEVELS, {"score_thresholds": [0.1, 0.2]}, "uncertainty_edges"),
        (LEVELS, {"uncertainty_edges": [0.5]}, "uncertainty_edges"),
        (LEVELS, {"uncertainty_edges": [0.5, 0.4]}, "decrease"),
        (LEVELS, {"uncertainty_edges": [0.5, [0.4]]}, "not a number"),
        (LEVELS, {"uncertainty_edges": [0.5, None]}, "uncertainty_edges"),
        (LEVELS, {"uncertainty_min": None}, "uncertainty_min"),
        (LEVELS, {"uncertainty_min": [0.5]}, "uncertainty_min"),
        (LEVELS, {"uncertainty_min": 1e999}, "model"),
        (SCORE_FIRST, {"score_min": DELETED}, "score_min"),
        (SCORE_FIRST, {"score_edges": DELETED}, "score_edges"),
        (SCORE_FIRST, {"take": DELETED}, "take"),
        (SCORE_FIRST, {"take": None}, "take"),
        (SCORE_FIRST, {"take": []}, "take"),
        (SCORE_FIRST, {"take": [1, 6, 0]}, "0 to 5"),
        (SCORE_FIRST, {"take": [1, -1, 0]}, "0 to 5"),
        (SCORE_FIRST, {"take": [1, 2]}, "uncertainty_edges"),
        (SCORE_FIRST, {"score_edges": [0.5]}, "uncertainty_edges"),
        (SCORE_FIRST, {"score_edges": [0.5, 0.4, 0.6, 0.7]}, "decrease"),
        (SCORE_FIRST, {"uncertainty_edges": [[0.1, 0.2]] * 4}, "uncertainty_edges"),
        (SCORE_FIRST, {"uncertainty_edges": [0.1] * 5}, "list"),
        (SCORE_FIRST, {"uncertainty_edges": [[0.2, 0.1]] * 5}, "decrease"),
        (SCORE_FIRST, {"uncertainty_min": 0.1}, "uncertainty_min"),
        (SCORE_FIRST, {"uncertainty_min": [0.1] * 4}, "uncertainty_min"),
        (SCORE_FIRST, {"uncertainty_min": [None] + [0.1] * 4}, "uncertainty_edges"),
        (SCORE_FIRST, {"columns": {"score": {"name": "s"}}}, "uncertainty column"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(
    name: str, change: dict[str, Any], match: str
) -> None:
    content = {**content_of(name), **change}
    refused({key: value for key, value in content.items() if value is not DELETED}, match)


# ---------------------------------------------------------------- anything at all

plain_value = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["-inf", "inf", "", "score", "boundary", "score-uncertainty"])
    | st.text(max_size=4)
)
several = st.lists(plain_value, max_size=4) | st.dictionaries(st.text(max_size=4), plain_value)
json_value = plain_value | several | st.lists(several, max_size=2)


def places(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to every value inside a JSON value."""
    found = [before] if before else []
    if isinstance(value, dict):
        return found + [p for key, child in value.items() for p in places(child, (*before, key))]
    if isinstance(value, list):
        return found + [p for i, child in enumerate(value) for p in places(child, (*before, i))]
    return found


@settings(max_examples=80)
@given(name=st.sampled_from(sorted(FITS)), data=st.data())
def test_changed_models_are_refused_or_work(name: str, data: st.DataObject) -> None:
    content = content_of(name)
    for _ in range(data.draw(st.integers(1, 2))):
        *path, last = data.draw(st.sampled_from(places(content)))
        inner = content
        for step in path:
            inner = inner[step]
        kind = data.draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if kind == "replace":
            inner[last] = data.draw(json_value)
        elif kind == "remove":
            del inner[last]
        elif isinstance(inner, list):
            inner.insert(last, data.draw(json_value))
        else:
            inner[data.draw(st.text(max_size=4))] = data.draw(json_value)
        if not places(content):
            break
    try:
        model = decode(json.dumps(content).encode())
    except ModelError as error:
        assert error.message
        return
    assert decode(model.to_json()) == model
    assert isinstance(model, BoundaryModel)
    score = np.array([-np.inf, 0.0, 0.3, 1.0, np.inf])
    decision, margin = decide(model, score, np.array([-9.0, 0, 0.5, 3, 99]))
    assert set(decision.tolist()) <= {0, 1} and margin.size == score.size
