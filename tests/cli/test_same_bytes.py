"""Every command gives the same bytes however the rows are stored, dealt out or worked on."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibkit.files.told import NOTHING
from calibkit.registry.states import read_state
from calibkit.summaries.states import read_so
from tests.cli.score_files import write
from tests.cli.stored import many_columns, stored
from tests.conftest import ROOT, clean_environment
from tests.fuzz.harness import run_quietly

VOTES = ("--probs", "prob_*", "--counts", "count_*")
BUDGET = ("--memory", "1MB")

#: Command lines without their inputs; test_one_program.py has the fits.
EXACT = {
    "matrix of votes": ("calibrate", *VOTES, "--method", "matrix", "--regularization", "0.1"),
    "evaluate boundary": ("evaluate", "--boundary", "boundary.json", "--no-intervals"),
    "drift": ("drift", "boundary.json", "--label", "label"),
    "drift of a bundle": ("drift", "bundle.json", "--label", "label"),
    "state of boundary": ("boundary", "--precision", "0.6", "--method", "exact", "--partial"),
    "state of evaluate": ("evaluate", "--partial", "--no-intervals"),
    "state of vad": ("vad", "--members", "score_?", "--partial"),
}

#: Models that the fixture makes.
MODELS = ("boundary.json", "bundle.json")


def made(folder: Path, words: tuple[object, ...], out: str = "out.json") -> bytes:
    """Run a command whose models are in a folder; return what it wrote there."""
    path = folder / ("out.state" if "--partial" in words and out == "out.json" else out)
    path.unlink(missing_ok=True)
    named = [str(folder / word) if word in MODELS else str(word) for word in words]
    code, said = run_quietly([*named, "-q", "-o", str(path)])
    assert code == 0, (words, said)
    if path.suffix == ".state":  # which says, of text alone, how it was read
        return read_so(read_state(str(path)), None, NOTHING).to_bytes()
    return path.read_bytes()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    folder = tmp_path_factory.mktemp("stored")
    inputs = stored(folder, many_columns())
    rows = inputs["parquet"][0]
    made(folder, ("boundary", rows, "--precision", "0.6", "--method", "exact"), "boundary.json")
    made(folder, ("calibrate", rows), "cal.json")
    parts = (folder / "cal.json", f"block={folder / 'boundary.json'}")
    assert made(folder, ("bundle", *parts), "bundle.json") == made(folder, ("bundle", *parts))
    return folder, inputs


def budgeted(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a budget far below what the libraries take, where there is such an option."""
    takes = words[0] in ("boundary", "calibrate", "vad", "evaluate", "drift", "alpha-cal")
    return BUDGET if takes and "--partial" not in words else ()  # states remember their budget


@pytest.mark.few(4)
@pytest.mark.parametrize("name", EXACT)
def test_results_have_the_same_bytes(name: str, kept: tuple[Path, dict[str, list[Any]]]) -> None:
    folder, inputs = kept
    words = EXACT[name]
    place = 2 if words[0] == "drift" else 1  # after the model
    first, rest = words[:place], words[place:]
    found = {how: made(folder, (*first, *given, *rest)) for how, given in inputs.items()}
    csv = inputs["csv in three files"]
    found["small budget"] = made(folder, (*first, *csv, *rest, *budgeted(words)))
    assert {how for how, data in found.items() if data != found["parquet"]} == set()


def test_tables_do_not_depend_on_threads_and_budgets(
    kept: tuple[Path, dict[str, list[Any]]],
) -> None:
    folder, inputs = kept
    for model in ("boundary.json", "bundle.json"):
        found = set()
        for threads in ("1", "4"):
            for more in ((), BUDGET):
                words = ("apply", model, inputs["parquet"][0], "--threads", threads, *more)
                found.add(made(folder, words, "rows.csv"))
        assert len(found) == 1


@pytest.mark.parametrize("kind", ["posterior", "selection", "raters", "partitions"])
def test_simulated_rows_follow_from_the_seed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for threads, seed in (("1", "5"), ("4", "5"), ("1", "6")):
        monkeypatch.setenv("CALIBKIT_THREADS", threads)
        words = ("simulate", kind, "--rows", "300", "--seed", seed)
        found.append(made(tmp_path, words, "rows.parquet"))
    assert found[0] == found[1] != found[2]


@pytest.mark.more
def test_reports_pictures_and_exports_have_the_same_bytes(
    kept: tuple[Path, dict[str, list[Any]]],
) -> None:
    folder, inputs = kept
    csv, parquet = inputs["csv in three files"], inputs["parquet"]
    for option, name in (("--plot", "p.svg"), ("--report", "r.html"), ("--reliability", "r.csv")):
        found = set()
        for given in (parquet, csv):
            words = ("evaluate", *given, option, folder / name, "--no-intervals")
            made(folder, words)
            text = (folder / name).read_text(encoding="utf-8")
            found.add(text.replace("parts/*.csv", "rows.parquet"))
        assert len(found) == 1 + (option == "--report"), option  # a report names its files
    for language in ("sql", "python", "polars"):
        words = ("export", folder / "bundle.json", "--to", language)
        suffix = "sql" if language == "sql" else "py"
        assert made(folder, words, f"a.{suffix}") == made(folder, words, f"b.{suffix}")


def test_validate_says_the_same(kept: tuple[Path, dict[str, list[Any]]]) -> None:
    _, inputs = kept
    found = []
    for given in (inputs["parquet"][:1], inputs["ndjson, reversed"], inputs["glob"]):
        code, said = run_quietly(["validate", *map(str, given), "--json", "--by", "segment"])
        assert code in (0, 1), said
        found.append((code, {**json.loads(said), "files": None}))
    assert found[0] == found[1] == found[2]


@pytest.mark.more
def test_interpreted_kernels_give_the_same_bytes(tmp_path: Path) -> None:
    rows = write(many_columns(80), tmp_path / "rows.parquet")
    script = ROOT / "tests" / "cli" / "every_fit.py"
    found = {}
    for disabled in ("0", "1"):
        out = tmp_path / disabled
        out.mkdir()
        environment = {**clean_environment(), "NUMBA_DISABLE_JIT": disabled}
        line = [sys.executable, script, rows, out]
        done = subprocess.run(line, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        found[disabled] = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
    assert found["0"] == found["1"]
    assert len(found["0"]) > 12


def test_exponentials_are_those_of_every_processor() -> None:
    values = np.random.default_rng(0).normal(size=20_000)
    assert (np.exp(values) == [math.exp(value) for value in values]).all()
