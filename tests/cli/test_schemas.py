"""The JSON Schemas of files: published as they are, met by all that is written, not by other files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from calibkit.models.model import SCALES
from calibkit.options.shared import Scale
from calibkit.registry.methods import KINDS, schemas
from calibkit.registry.states import read_state
from calibkit.summaries.states import KEY
from docs.write_schemas import FOLDER, texts
from tests.cli.score_files import scores, write
from tests.conftest import ROOT, Invoke
from tests.json_schema import problems

KNOWN = {name: json.loads(json.dumps(schema())) for name, schema in schemas().items()}
STORED = sorted((ROOT / "tests" / "compat").rglob("*.json"))


def content(path: Path) -> Any:
    return json.loads(path.read_bytes())


def alike(text: str) -> Any:
    """Return a schema with its alternatives in one order: that of msgspec depends on its version."""

    def ordered(found: dict[str, Any]) -> dict[str, Any]:
        if "anyOf" in found:
            found["anyOf"].sort(key=lambda one: json.dumps(one, sort_keys=True))
        return found

    return json.loads(text, object_hook=ordered)


def test_schemas_are_published_as_they_are() -> None:
    published = {path.name: alike(path.read_text(encoding="utf-8")) for path in FOLDER.iterdir()}
    assert published == {name: alike(text) for name, text in texts().items()}, "make docs"


@pytest.mark.parametrize("name", KNOWN)
def test_a_schema_is_shown(name: str, invoke: Invoke) -> None:
    shown = invoke("show", "--schema", name)
    assert (shown.code, json.loads(shown.stdout)) == (0, KNOWN[name])


def test_every_stored_file_meets_its_schema_and_no_other() -> None:
    met = set()
    for path in STORED:
        found = content(path)
        if "kind" in found or "signature" in found:
            own = found.get("kind", "metrics")
            assert problems(found, KNOWN[own]) == [], path
            others = (name for name in KNOWN if name not in (own, "drift"))
            assert all(problems(found, KNOWN[name]) for name in others), path
            met.add(own)
    assert met == {*KINDS, "metrics"}


@pytest.mark.parametrize(
    ("path", "value"),
    [("kind", "vad"), ("version", 99), ("method", "teapot"), ("more", 1), ("fit", None)],
)
def test_a_damaged_model_does_not_meet_it(path: str, value: object) -> None:
    model = content(ROOT / "tests" / "compat" / "0.1.0" / "boundary_exact.json")
    assert problems({**model, path: value}, KNOWN["boundary"])
    assert problems({key: one for key, one in model.items() if key != "fit"}, KNOWN["boundary"])


def test_models_know_every_scale() -> None:
    assert get_args(get_args(Scale)[0]) == SCALES


def test_what_other_commands_write(invoke: Invoke) -> None:
    rows = write(scores(), "a.parquet")
    model, out, state = (Path(name) for name in ("m.json", "out.json", "a.state"))
    assert invoke("boundary", rows, "--precision", "0.5", "--method", "st", "-o", model).code == 0
    assert invoke("drift", model, rows, "--label", "label", "-q", "-o", out).code == 0
    assert problems(content(out), KNOWN["drift"]) == []
    assert invoke("watch", model, rows, "--state", state, "-q", "-o", out).code == 0
    assert problems(content(out), KNOWN["watch"]) == []
    assert problems(content(state), KNOWN["watch-state"]) == []
    options = ("--no-intervals", "--partial", "-q", "-o", state)
    assert invoke("evaluate", rows, *options).code == 0
    with pa.ipc.open_file(state) as file:
        header = json.loads(file.schema.metadata[KEY.encode()])
    assert problems(header, KNOWN["state"]) == []
    assert read_state(str(state)).header.kind == header["kind"]
