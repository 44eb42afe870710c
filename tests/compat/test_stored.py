"""Models and states that earlier versions wrote are read, and mean what they meant."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from calibkit import __version__
from calibkit.registry.methods import KINDS
from calibkit.registry.methods import STATES as STATE_KINDS
from calibkit.registry.states import read_state
from tests.compat.frozen import FOLDER as FROZEN
from tests.compat.frozen import close
from tests.compat.write import HERE, STATES, key, suffix_of
from tests.conftest import Invoke

FOLDERS = sorted(path for path in HERE.iterdir() if (path / "rows.csv").exists())
MODELS = [
    path
    for folder in FOLDERS
    for path in sorted(folder.glob("*.json"))
    if not path.stem.endswith("_merged")
]
METRICS = [path for path in sorted(FROZEN.glob("*.json")) if b'"signature"' in path.read_bytes()]
MERGED = [(path.parent, path.stem) for folder in FOLDERS for path in sorted(folder.glob("*.state"))]


@pytest.mark.parametrize("model", MODELS, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_stored_models_give_what_they_gave(model: Path, tmp_path: Path, invoke: Invoke) -> None:
    out = tmp_path / "out.csv"
    rows = model.parent / "rows.csv"
    said = invoke("apply", model, rows, *key(model.stem), "--keep", "id", "-q", "-o", out)
    assert said.code == 0, said.stderr
    expected = pl.read_csv(model.with_suffix(".csv"))
    assert close(expected.to_dict(as_series=False), pl.read_csv(out).to_dict(as_series=False))
    assert invoke("show", model).code == 0


@pytest.mark.parametrize(("folder", "name"), MERGED, ids=lambda part: getattr(part, "name", part))
def test_stored_states_are_merged_since_0_2(
    folder: Path, name: str, tmp_path: Path, invoke: Invoke
) -> None:
    suffix = suffix_of(name)
    out = tmp_path / f"out{suffix}"
    said = invoke("merge", folder / f"{name}.state", "-q", "-o", out)
    if folder.name.startswith("0.1."):
        kind = STATES[name].split()[0]
        said.refused(3, f"make it again from its rows: calibkit {kind}")
        return
    assert said.code == 0, said.stderr
    known = folder / f"{name}_merged{suffix}"
    if suffix == ".csv":
        frames = [pl.read_csv(path).to_dict(as_series=False) for path in (known, out)]
        assert close(*frames)
        return
    contents = [json.loads(path.read_bytes()) for path in (known, out)]
    for content in contents:  # these name the version that merged
        content.pop("provenance", None)
        content.pop("signature", None)
        content.setdefault("tags", {})  # left out of calibrators before 0.1.0
    assert close(*contents)


@pytest.mark.parametrize("metrics", METRICS, ids=lambda path: path.stem)
def test_stored_metrics_are_read(metrics: Path, tmp_path: Path, invoke: Invoke) -> None:
    content = json.loads(metrics.read_bytes())["metrics"]
    score, name = next((score, "all") for score in content)
    metric, value = next(
        (metric, value)
        for metric, value in content[score][name].items()
        if value is not None and ":" not in metric and "[" not in metric
    )
    address = f'"{score}"/{name}/{metric}'
    assert invoke("gate", metrics, "--fail-if", f"{address}<{value}").code == 0
    assert invoke("gate", metrics, "--fail-if", f"{address}<={value}").code == 1
    assert invoke("diff", metrics, metrics, "-q", "-o", tmp_path / "diff.json").code == 0
    assert json.loads((tmp_path / "diff.json").read_bytes())[score][name][metric]["delta"] == 0


def test_every_kind_is_stored() -> None:
    kinds = {json.loads(path.read_bytes())["kind"] for path in MODELS}
    assert kinds == set(KINDS)


@pytest.mark.skipif(
    ".dev" in __version__ or __version__.startswith("0.1."),
    reason="a release stores its states: make compat",
)
def test_a_release_stores_every_kind_of_state() -> None:
    states = (HERE / __version__).glob("*.state")
    assert {read_state(str(path)).header.kind for path in states} == set(STATE_KINDS)
