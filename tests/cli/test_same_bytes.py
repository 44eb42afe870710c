"""The same rows, options and seed give the same bytes, however rows are stored or worked on."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec import structs

from calibkit.registry.states import read_state
from calibkit_cli import main
from tests.cli.score_files import simulate, write
from tests.compat.fits import FITS, rows, words
from tests.conftest import Invoke, printed
from tests.fuzz.harness import run_quietly

BUDGET = ("--memory", "1MB")

#: Command lines without their inputs; test_one_program.py has the fits.
EXACT = {
    "drift of a bundle": ("drift", "bundle.json", "--label", "label"),
    "state of boundary": ("boundary", "--precision", "0.6", "--method", "exact", "--partial"),
    "state of evaluate": ("evaluate", "--partial", "--no-intervals"),
    "state of vad": ("vad", "--members", "score_?", "--partial"),
}

#: Fits of every kind, of which kernels that are not compiled make the same.
INTERPRETED = (
    *("exact", "weights", "logistic", "stochastic", "mist", "vw-dpmt", "beta", "map of weights"),
    *("venn-abers", "votes, vector", "vad of bootstrap", "tree", "alpha", "evaluate", "intervals"),
    *("evaluate votes", "gmt", "intervals of ranks", "confidence", "temperature", "spline"),
)
#: And what they leave out: draws for many rows, pools, margins, models of selections.
BESIDE = {
    "many": "boundary ROWS --precision 0.6 --method exact --weight many",
    "pools": "evaluate ROWS --metrics miscalibration,mce,smooth_ece",
    "applied": "apply FOLDER/exact.json ROWS --keep score --output-format ndjson",
    "selected": "simulate selection --rows 40 --train-rows 60 --inputs 3 --output-format ndjson",
}

#: How the rows are stored and read.
WAYS = ("parquet", "five threads", "reversed", "glob", "ndjson", "arrow", "hive folder")

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
        state = read_state(str(path))
        return replace(state, header=structs.replace(state.header, text=None)).to_bytes()
    return path.read_bytes()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    folder = tmp_path_factory.mktemp("stored")
    inputs = {how: own for how, own in stored(folder, rows(900)).items() if how in WAYS}
    file = inputs["parquet"][0]
    made(folder, ("boundary", file, "--precision", "0.6", "--method", "exact"), "boundary.json")
    made(folder, ("calibrate", file), "cal.json")
    parts = (folder / "cal.json", f"block={folder / 'boundary.json'}")
    assert made(folder, ("bundle", *parts), "bundle.json") == made(folder, ("bundle", *parts))
    return folder, inputs


@pytest.mark.parametrize("name", EXACT)
def test_results_have_the_same_bytes(name: str, kept: tuple[Path, dict[str, list[Any]]]) -> None:
    folder, inputs = kept
    line = EXACT[name]
    place = 2 if line[0] == "drift" else 1  # after the model
    first, rest = line[:place], line[place:]
    found = {how: made(folder, (*first, *given, *rest)) for how, given in inputs.items()}
    if line[0] == "drift":  # states remember their budget
        found["budget"] = made(folder, (*first, *inputs["hive folder"], *rest, *BUDGET))
    assert {how for how, data in found.items() if data != found["parquet"]} == set()


@pytest.mark.parametrize("kind", ["posterior", "selection", "raters", "partitions"])
def test_simulated_rows_follow_from_the_seed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for threads, seed in (("1", "5"), ("4", "5"), ("1", "6")):
        monkeypatch.setenv("CALIBKIT_THREADS", threads)
        line = ("simulate", kind, "--rows", "300", "--seed", seed)
        found.append(made(tmp_path, line, "rows.parquet"))
    assert found[0] == found[1] != found[2]


@pytest.mark.more
def test_reports_pictures_and_exports_have_the_same_bytes(
    kept: tuple[Path, dict[str, list[Any]]],
) -> None:
    folder, inputs = kept
    csv, parquet = inputs["hive folder"], inputs["parquet"]
    for option, name in (("--plot", "p.svg"), ("--report", "r.html"), ("--reliability", "r.csv")):
        found = set()
        for given in (parquet, csv):
            made(folder, ("evaluate", *given, option, folder / name, "--no-intervals"))
            found.add((folder / name).read_bytes())
        assert len(found) == 1 + (option == "--report"), option  # a report names its files
    for language in ("sql", "python", "polars"):
        line = ("export", folder / "bundle.json", "--to", language)
        suffix = "sql" if language == "sql" else "py"
        assert made(folder, line, f"a.{suffix}") == made(folder, line, f"b.{suffix}")


def test_validate_says_the_same(kept: tuple[Path, dict[str, list[Any]]]) -> None:
    _, inputs = kept
    found = []
    for given in (inputs["parquet"][:1], inputs["ndjson"], inputs["glob"]):
        code, said = run_quietly(["validate", *map(str, given), "--json", "--by", "segment"])
        assert code in (0, 1), said
        found.append((code, {**json.loads(said), "files": None}))
    assert found[0] == found[1] == found[2]


@pytest.mark.more
def test_interpreted_kernels_give_the_same_bytes(tmp_path: Path) -> None:
    """The interpreter takes long for what compiled kernels do at once: the fits share a process."""
    frame = rows(80)
    file = write(frame.with_columns(many=frame["weight"] * 10**7), tmp_path / "rows.parquet")
    script = (
        "import json, sys\n"
        "from calibkit_cli.main import run\n"
        "for name, line in json.loads(sys.argv[2]).items():\n"
        "    assert run([*line, '-q', '-o', f'{sys.argv[1]}/{name}.json']) == 0, name\n"
    )
    lines = {name: words(FITS[name], tmp_path, file) for name in INTERPRETED}
    found = []
    for disabled in ("0", "1"):
        out = tmp_path / disabled
        out.mkdir()
        beside = {
            name: line.replace("ROWS", str(file)).replace("FOLDER", str(out)).split()
            for name, line in BESIDE.items()
        }
        printed(script, str(out), json.dumps({**lines, **beside}), NUMBA_DISABLE_JIT=disabled)
        found.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert found[0] == found[1]
    assert len(found[0]) == len(INTERPRETED) + len(BESIDE)


def test_exponentials_are_those_of_every_processor() -> None:
    values = np.random.default_rng(0).normal(size=20_000)
    assert (np.exp(values) == [math.exp(value) for value in values]).all()


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


def tied_rows() -> pl.DataFrame:
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
    frame = tied_rows().cast({"score": pl.Float32, "uncertainty": pl.Float32})
    known = model_bytes(write(frame, tmp_path / "a.parquet"))
    text = write(frame, tmp_path / f"a{suffix}")
    assert model_bytes(text, "--dtype", "float32") == known
    assert model_bytes(text) != known


def test_the_seed_deals_other_folds(tmp_path: Path, model_bytes: Bytes) -> None:
    path = write(tied_rows(), tmp_path / "a.parquet")
    first, again, other = (model_bytes(path, "--seed", seed) for seed in (1, 1, 2))
    assert first == again != other


def test_neither_output_nor_folder_nor_environment_shows(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tied_rows(), tmp_path / "a.parquet")
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
    for name, given in stored(tmp_path, tied_rows()).items():
        done = invoke("bin", *given, "--score-bins 12", *options.split(), "-q", "-o", out)
        assert done.code == 0, done.stderr
        found[name] = out.read_bytes()
    assert {name for name, data in found.items() if data != found["parquet"]} == set()


def test_processes_give_the_same_bytes(tmp_path: Path, command: Callable[..., Any]) -> None:
    path = write(tied_rows(), tmp_path / "a.parquet")
    found = set()
    for seed in ("0", "1"):
        environment = {"PYTHONHASHSEED": seed, "POLARS_MAX_THREADS": str(int(seed) + 1)}
        done = command("boundary", path, "--precision 0.75 --method exact", env=environment)
        assert done.returncode == 0
        found.add(done.stdout)
    assert len(found) == 1


@pytest.mark.parametrize(("numpy", "name"), [("2.0.2", "AVX512_SKX"), ("2.4.1", "X86_V4")])
def test_wide_instructions_are_off_by_the_name_that_numpy_has(
    numpy: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "numpy"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "version.py").write_text(f'"""About."""\nversion = "{numpy}"\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(main.platform, "machine", lambda: "x86_64")
    monkeypatch.delenv("NPY_DISABLE_CPU_FEATURES", raising=False)
    main.same_numbers()
    assert name in os.environ["NPY_DISABLE_CPU_FEATURES"].split()
