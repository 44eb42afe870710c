"""``--scale percent``: scores from 0 to 100 give what their hundredths give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from tests.conftest import Invoke

FITS = {
    "boundary": ["--precision", "0.7", "--method", "exact", "--uncertainty-bins", 2],
    "logistic": ["--precision", "0.7", "--method", "logistic"],
    "calibrate": ["--method", "beta"],
    "auto": ["--method", "auto"],
    "isotonic": ["--method", "isotonic"],
    "vad": ["--members", "score,score_b"],
    "hetcal": ["--features", "size", "--max-depth", 1],
}
COMMANDS = {"logistic": "boundary", "isotonic": "calibrate", "auto": "calibrate"}


@pytest.fixture(scope="module", params=["Float64", "Float32", "Int64"])
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with percentages, and with the same scores as probabilities."""
    random = np.random.default_rng(11)
    score = random.random(700)
    frame = pl.DataFrame(
        {
            "score": (100 * score).round(1),
            "score_b": (100 * np.clip(score + random.normal(0, 0.05, 700), 0, 1)).round(1),
            "label": (random.random(700) < score).astype(np.int64),
            "uncertainty": random.random(700),
            "size": random.random(700),
        }
    )
    kind = getattr(pl, request.param)
    frame = frame.with_columns(pl.col("score", "score_b").cast(kind))
    folder = tmp_path_factory.mktemp("percent")
    frame.write_parquet(folder / "percent.parquet")
    # By numpy: polars multiplies by 0.01.
    parts = [pl.Series(one.name, one.to_numpy() / one.to_numpy().dtype.type(100))
             for one in frame.select("score", "score_b")]  # fmt: skip
    frame.with_columns(parts).write_parquet(folder / "share.parquet")
    return folder


def model(invoke: Invoke, name: str, rows: Path, *more: object) -> dict[str, Any]:
    path, out = rows / f"{'percent' if more else 'share'}.parquet", rows / f"{name}{len(more)}.json"
    return invoke(COMMANDS.get(name, name), path, *FITS[name], *more, "-o", out).result()


@pytest.mark.few(7)
@pytest.mark.parametrize("name", FITS)
def test_models_are_those_of_the_hundredths(name: str, rows: Path, invoke: Invoke) -> None:
    expected, found = model(invoke, name, rows), model(invoke, name, rows, "--scale", "percent")
    assert found["columns"]["score"].pop("scale") == "percent"
    assert found.pop("provenance")["data_hash"] == expected.pop("provenance")["data_hash"]
    expected["columns"]["score"].pop("scale")
    assert found == expected
    applied = []
    for kind, more in (("share", 0), ("percent", 2)):
        fitted, table = rows / f"{name}{more}.json", rows / f"{kind}.parquet"
        applied.append(invoke("apply", fitted, table, "-o", rows / "out.parquet").result())
    assert applied[1].drop("score", "score_b").equals(applied[0].drop("score", "score_b"))
    assert applied[1]["score"].equals(pl.read_parquet(rows / "percent.parquet")["score"])


@pytest.mark.few(5)
@pytest.mark.parametrize("name", FITS)
def test_exports_divide_as_well(name: str, rows: Path, invoke: Invoke) -> None:
    model(invoke, name, rows, "--scale", "percent")
    fitted, table = rows / f"{name}2.json", rows / "percent.parquet"
    for to in ("sql", "polars", "python"):
        done = invoke("export", fitted, "--to", to, "--check", table, "-o", rows / "code.txt")
        assert done.code == 0, done.stderr


@pytest.mark.few(1)
def test_metrics_grids_and_states(rows: Path, invoke: Invoke, tmp_path: Path) -> None:
    for command, more in (
        ("evaluate", ["--score", "score", "--score", "score_b", "--top", "0.1"]),
        ("bin", ["--score-bins", 20]),
    ):
        found = []
        for kind, scale in (("share", []), ("percent", ["--scale", "percent"])):
            out = tmp_path / ("grid.csv" if command == "bin" else "metrics.json")
            done = invoke(command, rows / f"{kind}.parquet", *more, *scale, "-o", out)
            assert done.code == 0, done.stderr
            content = out.read_text()
            found.append(content if command == "bin" else json.loads(content)["metrics"])
        assert found[0] == found[1]
    frame = pl.read_parquet(rows / "percent.parquet")
    states = []
    for place, part in enumerate((frame[:300], frame[300:])):
        part.write_parquet(tmp_path / "part.parquet")
        states.append(tmp_path / f"{place}.state")
        line = ["boundary", tmp_path / "part.parquet", *FITS["boundary"], "--scale", "percent"]
        assert invoke(*line, "--partial", "-o", states[-1]).code == 0
    assert invoke("merge", *states, "-o", tmp_path / "merged.json").code == 0
    model(invoke, "boundary", rows, "--scale", "percent")
    assert (tmp_path / "merged.json").read_bytes() == (rows / "boundary2.json").read_bytes()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_cells_of_a_grid_are_those_of_the_hundredths(
    suffix: str, rows: Path, invoke: Invoke, tmp_path: Path
) -> None:
    found = []
    for kind, more in (("share", []), ("percent", ["--scale", "percent"])):
        table, grid = rows / f"{kind}.parquet", tmp_path / f"{kind}.{suffix}"
        assert invoke("bin", table, "--score-bins", 4, *more, "-o", grid).code == 0
        done = invoke("evaluate", table, *more, "--grid", grid, "--no-intervals", "--json")
        found.append(json.loads(done.stdout)["metrics"]["score"]["all"])
    assert found[0] == found[1]


def test_probabilities_are_watched_as_their_hundredths_are(
    rows: Path, invoke: Invoke, tmp_path: Path
) -> None:
    found = []
    for kind, more in (("share", []), ("percent", ["--scale", "percent"])):
        model(invoke, "boundary", rows, *more)
        fitted, table = rows / f"boundary{len(more)}.json", rows / f"{kind}.parquet"
        words = ("--state", tmp_path / kind, "--precision", 0.5, "--calibration", "--json")
        estimated = json.loads(invoke("drift", fitted, table, "--estimate").stdout)["estimated"]
        found.append((json.loads(invoke("watch", fitted, table, *words).stdout), estimated))
    assert found[0] == found[1]


def test_percentages_are_offered_by_name(rows: Path, invoke: Invoke) -> None:
    table = rows / "percent.parquet"
    for command in ("boundary", "calibrate", "hetcal", "evaluate", "bin", "vad"):
        own = FITS.get(command, [])
        invoke(command, table, *own).refused(3, "--scale percent")
    assert "--scale percent" in invoke("validate", table).stdout.decode()
    assert invoke("validate", table, "--scale", "percent").code == 0
    beyond = pl.read_parquet(table).with_columns(pl.col("score") * 2)
    with pytest.raises(ck.DataError, match=r"not in \[0, 100\]"):
        ck.fit_calibrator(beyond, scale="percent")


def test_thresholds_are_of_the_hundredths(rows: Path, invoke: Invoke) -> None:
    model(invoke, "boundary", rows, "--scale", "percent")
    assert b"score / 100 >= 0." in invoke("show", rows / "boundary2.json").stdout


def test_what_cannot_be_in_percent(rows: Path, invoke: Invoke) -> None:
    table = rows / "percent.parquet"
    clipped = invoke("calibrate", table, "--scale", "percent", "--out-of-range", "clip")
    assert clipped.code == 2
    classes = invoke("evaluate", table, "--probs", "score*", "--scale", "percent")
    classes.refused(2, "--scale percent is not for class probabilities")
