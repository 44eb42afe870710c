"""The same rows, options and seed give the same bytes, however they are stored or worked on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibkit_cli import main
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke

Bytes = Callable[..., bytes]


@pytest.fixture
def model_bytes(tmp_path: Path, invoke: Invoke) -> Bytes:
    """Fit on inputs and return the model's bytes."""

    def call(*given: object) -> bytes:
        output = tmp_path / "model.json"
        done = invoke("boundary", *given, "--precision 0.75 --method exact -q -o", output)
        assert done.code == 0, done.stderr
        return output.read_bytes()

    return call


def rows() -> pl.DataFrame:
    """Return rows with ties and repeated rows, long enough for several blocks of a sort."""
    frame = simulate(4000, seed=11)
    rounded = frame.head(1500).with_columns(
        pl.col("score").round(2), pl.col("uncertainty").round(1)
    )
    frame = pl.concat([frame.slice(1500), rounded, rounded.head(200)])
    return frame.with_columns(eighth=pl.col("weight") / 8)


def stored(folder: Path, frame: pl.DataFrame) -> dict[str, list[Any]]:
    """Store rows in many ways; return the inputs and options that read each of them."""
    parquet = [write(frame, folder / "rows.parquet")]
    parts = [write(frame[k::3], folder / "parts" / f"{k}.parquet") for k in range(3)]
    for k in range(3):
        write(frame[k::3], folder / "hive" / f"day={k}" / "scores.csv")
    suffixes = ("csv", "csv.gz", "tsv.zst", "ndjson", "arrow", "arrows")
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    return {
        "parquet": parquet,
        "again": parquet,
        "one thread": [*parquet, "--threads", "1"],
        "two threads": [*parquet, "--threads", "2"],
        "five threads": [*parquet, "--threads", "5"],
        "shuffled": [write(shuffled, folder / "s.parquet")],
        "sorted": [write(frame.sort("score"), folder / "sorted.parquet")],
        "reversed": [write(frame.reverse(), folder / "r.csv")],
        "columns reversed": [write(frame.select(reversed(frame.columns)), folder / "c.csv")],
        "three files": parts,
        "three files in another order": parts[::-1],
        "glob": [folder / "parts" / "*.parquet"],
        **{suffix: [write(frame, folder / f"rows.{suffix}")] for suffix in suffixes},
        "hive folder": [folder / "hive"],
    }


@pytest.mark.parametrize("suffix", [".csv", ".ndjson"])
def test_float32_text_is_float32(tmp_path: Path, suffix: str, model_bytes: Bytes) -> None:
    frame = rows().cast({"score": pl.Float32, "uncertainty": pl.Float32})
    known = model_bytes(write(frame, tmp_path / "a.parquet"))
    text = write(frame, tmp_path / f"a{suffix}")
    assert model_bytes(text, "--dtype", "float32") == known
    assert model_bytes(text) != known


def test_the_seed_deals_other_folds(tmp_path: Path, model_bytes: Bytes) -> None:
    path = write(rows(), tmp_path / "a.parquet")
    first, again, other = (model_bytes(path, "--seed", seed) for seed in (1, 1, 2))
    assert first == again != other


def test_neither_output_nor_folder_nor_environment_shows(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(rows(), tmp_path / "a.parquet")
    found = set()
    for folder, threads, zone in (("x", "1", "UTC"), ("y", "2", "Asia/Tokyo")):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        monkeypatch.setenv("CALIBKIT_THREADS", threads)
        monkeypatch.setenv("TZ", zone)
        found.add(invoke("boundary", os.path.relpath(path), "--precision 0.75 --json").stdout)
    assert len(found) == 1


@pytest.mark.parametrize(
    "options", ["", "--weight weight --order score-uncertainty --strategy equal-width"]
)
def test_grids_have_the_same_bytes(tmp_path: Path, options: str, invoke: Invoke) -> None:
    found, out = {}, tmp_path / "grid.parquet"
    for name, given in stored(tmp_path, rows()).items():
        done = invoke("bin", *given, "--score-bins 12", *options.split(), "-q", "-o", out)
        assert done.code == 0, done.stderr
        found[name] = out.read_bytes()
    assert {name for name, data in found.items() if data != found["parquet"]} == set()


def test_processes_give_the_same_bytes(tmp_path: Path, command: Callable[..., Any]) -> None:
    path = write(rows(), tmp_path / "a.parquet")
    found = set()
    for seed in ("0", "1"):
        environment = {"PYTHONHASHSEED": seed, "POLARS_MAX_THREADS": str(int(seed) + 1)}
        done = command("boundary", path, "--precision 0.75 --method exact", env=environment)
        assert done.returncode == 0
        found.add(done.stdout)
    assert len(found) == 1


@pytest.mark.parametrize(("numpy", "name"), [("2.0.2", "AVX512_SKX"), ("2.4.1", "X86_V4")])
def test_wide_instructions_are_off_by_the_name_that_numpy_has(
    numpy: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "version", lambda _: numpy)
    monkeypatch.setattr(main.platform, "machine", lambda: "x86_64")
    monkeypatch.delenv("NPY_DISABLE_CPU_FEATURES", raising=False)
    main.same_numbers()
    assert name in os.environ["NPY_DISABLE_CPU_FEATURES"].split()
