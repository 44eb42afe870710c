"""Large files in parts on a cluster: the bytes and the words of a run on the whole files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import polars as pl
import pytest

from calibkit.engines.parts import divided
from calibkit.engines.serial import SerialEngine
from tests.cli.score_files import simulate
from tests.conftest import Outcome

Invoke = Callable[..., Outcome]

GROUP, ROWS = 60, 900

#: Command lines without inputs; of the last ones few rows fit, so that they fit in rounds.
LINES: dict[str, list[Any]] = {
    "bin": ["bin", "--score-bins", 20, "--weight", "weight"],
    "boundary": ["boundary", "--precision", 0.7, "--folds", 2, "--provenance", "names"],
    "boundary, segments": ["boundary", "--precision", 0.6, "--method", "exact", "--by", "site"],
    "boundary, coarse": ["boundary", "--precision", 0.7, "--method", "exact", "--memory", "1MB"],
    "calibrate": ["calibrate", "--method", "isotonic", "--by", "site", "--weight", "weight"],
    "calibrate, coarse": ["calibrate", "--method", "isotonic", "--memory", "1MB"],
    "evaluate": ["evaluate", "--by", "site", "--groups", "id", "--no-intervals"],
    "vad": ["vad", "--members", "score,score_b", "--by", "site", "--weight", "weight"],
    "hetcal": ["hetcal", "--features", "uncertainty,site", "--max-depth", 2, "--min-leaf", 30,
               "--shrinkage", 10, "--groups", "id"],
    "alpha-cal": ["alpha-cal", "--probs", "p_*", "--counts", "c_*", "--features", "uncertainty"],
    "hetcal, rounds": ["hetcal", "--features", "uncertainty,site", "--max-depth", 2, "--min-leaf",
                       30, "--shrinkage", 10, "--weight", "weight", "--memory", "1MB"],
    "alpha-cal, rounds": ["alpha-cal", "--probs", "p_*", "--counts", "c_*", "--features",
                          "uncertainty", "--map", "temperature", "--memory", "1MB"],
    "calibrate, rounds": ["calibrate", "--probs", "p_*", "--counts", "c_*", "--method", "vector",
                          "--regularization", 1, "--memory", "1MB"],
}  # fmt: skip


class Places(SerialEngine):
    """The engine of this process, which is given as many parts as some workers would get."""

    def __init__(self, workers: int) -> None:
        self.at_once = workers


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Let ``--dask local`` work in this process; return the numbers of parts that files have."""
    monkeypatch.setattr("calibkit.files.stretches._SMALL_BYTES", 10_000)
    monkeypatch.setattr("calibkit.engines.parts._FEWEST_ROWS", GROUP)
    monkeypatch.setattr("calibkit.memory.FEWEST_ENTRIES", 200)
    monkeypatch.setattr("calibkit.memory._FEWEST_ROWS", 200)
    found: list[int] = []

    def told(*asked: Any) -> Any:
        work = divided(*asked)
        found.extend(len(getattr(item, "parts", "1")) for item in work)
        return work

    monkeypatch.setattr("calibkit.engines.parts.divided", told)

    def prepare(workers: int) -> list[int]:
        monkeypatch.setattr("calibkit_cli.cluster.engine", lambda *_: Places(workers))
        found.clear()
        return found

    return prepare


def rows(seed: int = 5) -> pl.DataFrame:
    """Return rows of which whole parts lack values, weigh nothing, or are of one class."""
    random = np.random.default_rng(seed)
    frame = simulate(ROWS, seed=seed).sort("label").with_columns(pl.col("weight").cast(pl.Float64))
    probs = random.dirichlet(np.ones(3), ROWS)
    votes = np.array([random.multinomial(n, p) for n, p in zip([3, 0, 2] * (ROWS // 3), probs)])
    place = pl.int_range(pl.len())
    return frame.with_columns(
        score=pl.when(place.is_in([7, 300])).then(None).otherwise(pl.col("score")),
        score_b=pl.when(place % 400 == 1).then(float("nan")).otherwise(pl.col("score") ** 1.1),
        weight=pl.when(place < 2 * GROUP).then(0.0).otherwise(pl.col("weight")),
        label=pl.when(place >= ROWS - 3 * GROUP // 2).then(None).otherwise(pl.col("label")),
        site=pl.Series(random.choice(["x", "y"], ROWS)),
        id=pl.col("id") // 3,
        **{f"p_{k}": probs[:, k] for k in range(3)},
        **{f"c_{k}": votes[:, k] for k in range(3)},
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows().write_parquet("large.parquet", row_group_size=GROUP)
    return tmp_path


def outcome(invoke: Invoke, line: list[Any], inputs: list[str]) -> tuple[Outcome, bytes]:
    """Return what a command line on a cluster comes to, and the file that it writes."""
    command, *options = line
    place = Path(f"made{'.parquet' if command == 'bin' else '.json'}")
    done = invoke(command, *inputs, *options, "--dask", "local", "--threads", 2, "-q", "-o", place)
    content = place.read_bytes() if place.exists() else b""
    place.unlink(missing_ok=True)
    return done, content


@pytest.mark.parametrize("name", LINES)
def test_the_same_bytes_and_words(
    name: str, folder: Path, invoke: Invoke, parts: Callable[[int], list[int]]
) -> None:
    line = [*LINES[name], "--on-missing", "drop"]
    if "--label" in line or not {"vad", "alpha-cal"}.intersection(line) and "--probs" not in line:
        line += ["--unlabelled", "drop"]
    counts = parts(1)
    whole, made = outcome(invoke, line, ["large.parquet"])
    assert (whole.code, counts) == (0, [1]), whole.stderr
    for workers in (2, 5):
        counts = parts(workers)
        done, again = outcome(invoke, line, ["large.parquet"])
        assert counts == [workers]
        assert done == whole
        assert again == made


def test_scratch(folder: Path, invoke: Invoke, parts: Callable[[int], list[int]]) -> None:
    pass
