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
from calibkit.methods.boundary.application import decide
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_json, threshold_value
from calibkit.models import model as models
from calibkit.models.model import canonical_text, decode, load
from calibkit.registry.methods import KINDS
from tests.library.samples import example, fit, score_rows

FITS = {
    "levels": {"precision": "0.7"},
    "one level": {"recall": "0.5", "uncertainty_bins": 1},
    "single threshold": {"precision": "0.7", "method": "st", "uncertainty_bins": 3},
    "grid": {"precision": "0.6", "score_bins": 5},
    "score first": {"precision": "0.6", "score_bins": 5, "order": "score-uncertainty"},
    "weights": {"recall": "0.4", "folds": 0},
}


def fitted(name: str) -> BoundaryModel:
    table = example(120, seed=4)
    weight = np.random.default_rng(1).random(120) if name == "weights" else None
    rows = score_rows(**table, weight=weight, scale="probability")
    return fit(rows, test=rows, tags={"team": "fraud"}, **FITS[name]).model


MODELS = {name: fitted(name) for name in FITS}
by_model = pytest.mark.parametrize("name", FITS)


@by_model
def test_models_are_read_back_as_they_were_written(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    text = model.to_json()
    again = decode(text)
    assert again == model
    assert again.to_json() == text
    assert BoundaryModel.from_json(text) == model
    path = tmp_path / "model.json"
    model.save(path)
    assert path.read_bytes() == text
    assert load(str(path)) == model
    # Any layout of the same content is the same model.
    assert decode(json.dumps(json.loads(text), indent=None).encode()) == model


@by_model
def test_the_text_is_canonical(name: str) -> None:
    text = MODELS[name].to_json().decode()
    content = json.loads(text)
    assert text == json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert content["kind"] == "boundary" and content["version"] == 1
    assert not {"NaN", "Infinity"} & set(text.replace(",", " ").split())
    assert MODELS[name].as_dict() == content


@given(st.floats())
def test_thresholds_in_json(value: float) -> None:
    text = canonical_text(threshold_json(value))
    again = threshold_value(json.loads(text))
    assert again == value or (math.isnan(again) and math.isnan(value))
    assert (threshold_json(value) is None) == math.isnan(value)


# ---------------------------------------------------------------- refused


def content_of(name: str = "levels") -> dict[str, Any]:
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
        b"3",
        b'"boundary"',
        b"{}",
        b'{"kind": "boundary"}',
        b'{"kind": 3, "version": 1}',
        b'{"kind": "boundary", "version": "1"}',
        b'{"kind": "boundary", "version": 1.5}',
        b"\xff\xfe\x00",
        b'{"kind": "\xff", "version": 1}',
        b"\x89PNG\r\n\x1a\n",
        b"PAR1" * 10,
        b"score,label\n0.1,1\n",
        b"\0" * 100,
        b"[" * 1_000_000,
        b'{"kind": ' * 100_000,
        b'{"kind": "boundary", "version": 1, "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"kind": "boundary", "version": ' + b"9" * 5000 + b"}",
    ],
    ids=range(21),
)
def test_what_is_no_model_is_refused(data: bytes) -> None:
    refused(data, "model")


def test_other_versions_are_refused_by_name() -> None:
    refused({**content_of(), "version": 2}, "version 2 of kind 'boundary'.*reads version 1")
    refused({**content_of(), "version": 0}, "version 0")
    # A newer version is named as such, whatever else it holds.
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


def test_every_kind_is_the_kind_it_says() -> None:
    for kind in KINDS:
        assert kind == KINDS[kind].structure().KIND


def test_models_of_another_kind_are_refused() -> None:
    class Other(models.Model):
        KIND = "other"

    with pytest.raises(ModelError, match="kind 'boundary'; a 'other' model"):
        Other.from_json(MODELS["levels"].to_json())


LEVELS, SCORE_FIRST = "levels", "score first"


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
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
    refused({**content_of(name), **change}, match)


@pytest.mark.parametrize("field", ["score_min", "score_edges", "take"])
def test_score_first_needs_its_fields(field: str) -> None:
    content = content_of(SCORE_FIRST)
    del content[field]
    refused(content, field)


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


SCORE, UNCERTAINTY = np.array([-np.inf, 0.0, 0.3, 1.0, np.inf]), np.array([-9.0, 0, 0.5, 3, 99])


def check_is_refused_or_works(data: bytes) -> None:
    try:
        model = decode(data)
    except ModelError as error:
        assert error.message
        return
    assert decode(model.to_json()) == model
    assert isinstance(model, BoundaryModel)
    decision, margin = decide(model, SCORE, UNCERTAINTY)
    assert set(decision.tolist()) <= {0, 1} and margin.size == SCORE.size


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
    check_is_refused_or_works(json.dumps(content).encode())


@settings(max_examples=80)
@given(name=st.sampled_from(sorted(FITS)), data=st.data())
def test_damaged_bytes_are_refused_or_work(name: str, data: st.DataObject) -> None:
    text = bytearray(MODELS[name].to_json())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text) - 1))
        if data.draw(st.booleans()):
            text[place] = data.draw(st.integers(0, 255))
        else:
            del text[place : place + data.draw(st.integers(1, 400))]
        if not text:
            break
    check_is_refused_or_works(bytes(text))


def test_numbers_beyond_floats_are_refused() -> None:
    with pytest.raises(ModelError, match="of 300 digits"):
        models.decode(b'{"kind": "boundary", "version": 1, "rows": ' + b"9" * 400 + b"}")
