"""Streams, names and models as an attacker, or an accident, leaves them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from tests.cli.score_files import scores, write
from tests.conftest import Invoke, clean_environment, make
from tests.warm import program as warm_program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows and a model."""
    made = tmp_path_factory.mktemp("attacked")
    rows = write(scores(), made / "a.csv")
    make(made / "m.json", "boundary", rows, "--precision 0.5 --method exact --folds 0")
    return made


def shell(folder: Path, line: str, *, warm: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell, `calibkit` being the command; not `warm`: as a user starts it."""
    program = str(warm_program()) if warm else f"{sys.executable} -m calibkit_cli"
    return subprocess.run(
        ["sh", "-c", line.replace("calibkit", program)],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "line",
    [
        "boundary a.csv --precision 0.5 --method st --folds 0 -q",
        "boundary a.csv --precision 0.5 --method st --folds 0 -q --json",
        "apply m.json a.csv",
        "apply m.json a.csv -o x.csv --json",
        "show m.json",
        "show --schema boundary",
        "evaluate a.csv --no-intervals",
        "bin a.csv --score-bins 3",
        "export m.json --to sql",
        "validate a.csv",
        "simulate posterior --rows 5",
        "diff m.json m.json",
        "--version",
        "--help",
        "apply --help",
    ],
)
def test_a_standard_output_that_is_full(line: str, folder: Path) -> None:
    ended = shell(folder, f"calibkit {line} > /dev/full")
    assert ended.returncode == 5, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("apply m.json a.csv >&-", "could not be written"),
        ("apply m.json a.csv -q -o x.csv --json >&-", "standard output"),
        ("show m.json >&-", "standard output"),
        ("--help >&-", "standard output"),
        ("apply m.json - <&-", "read error"),
        ("show - <&-", "read error"),
    ],
)
def test_a_standard_stream_that_is_closed(line: str, said: str, folder: Path) -> None:
    ended = shell(folder, f"calibkit {line}", warm=False)
    assert ended.returncode == 5, ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_closed_standard_output_that_is_not_needed(folder: Path) -> None:
    ended = shell(folder, "calibkit apply m.json a.csv -q -o there.csv >&-", warm=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (folder / "there.csv").stat().st_size > 100


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_an_input_whose_name_is_no_utf8(suffix: str, tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / os.fsdecode(b"b\xff." + suffix.encode())
    write(scores(), tmp_path / f"a.{suffix}").rename(path)
    invoke("boundary", path, "--precision", "0.5").refused(2, "not UTF-8")
    assert invoke("boundary", tmp_path, "--precision", "0.5").code == 2


def test_an_output_with_a_name_too_long(folder: Path, invoke: Invoke) -> None:
    line, long = ("apply", folder / "m.json", folder / "a.csv", "-q -o"), "x" * 251 + ".csv"
    assert invoke(*line, Path(long)).code == 0
    invoke(*line, f"y{long}").refused(2, "255 bytes")


def test_names_in_markdown_and_in_csv(invoke: Invoke) -> None:
    nasty = "<img src=x onerror=alert(1)>[a](b)|`*"
    rows = scores().with_columns(
        pl.Series("g", [nasty, "b"] * (scores().height // 2)), pl.lit("k").alias("=1+1")
    )
    path = write(rows, "a.parquet")
    options = ("--no-intervals", "--min-rows", "1", "-q")
    said = invoke("evaluate", path, "--by", "g", *options, "-o m.md")
    assert said.code == 0, said.stderr
    text = Path("m.md").read_text()
    assert "g:&lt;img src=x onerror=alert(1)&gt;\\[a\\](b)\\|\\`\\*" in text
    assert "<img" not in text
    made = ("-o", Path("m.csv"), "--reliability", Path("r.csv"))
    assert invoke("evaluate", path, "--by", "=1+1", *options, *made).code == 0
    for name in ("m.csv", "r.csv"):
        cells = Path(name).read_text().replace("\n", ",").split(",")
        assert not [cell for cell in cells if cell.startswith(("=", "@", "+"))]
    assert "'=1+1:k" in Path("m.csv").read_text()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "csv": bytes,
    "csv.gz": gzip.compress,
    "csv.zst": lambda data: bytes(pa.compress(data, "zstd", asbytes=True)),
}


@pytest.mark.parametrize("suffix", PACKED)
def test_a_line_without_an_end(suffix: str, invoke: Invoke) -> None:
    rows = b"score,label\n" + b"0.5,1\n0.25,0\n" * 100
    path = Path(f"long.{suffix}")
    path.write_bytes(PACKED[suffix](rows + b"0.5," + b"1" * (2**22 + 9) + b"\n" + rows))
    line = ("boundary", path, "--precision", "0.5", "--method", "st", "-q")
    told = invoke(*line, "--memory", "1MB")
    told.refused(5, f"long.{suffix}: the line that begins at byte {len(rows):,} has more")
    assert invoke(*line, "--memory", "1GB").code == 3  # it fits: what it holds is no label
    path.write_bytes(PACKED[suffix](rows + b"0.5," + b"1" * (2**21) + b"\n" + rows))
    assert invoke(*line, "--memory", "1MB").code == 3


@pytest.mark.parametrize("suffix", PACKED)
def test_a_quotation_mark_that_is_not_closed(suffix: str, invoke: Invoke) -> None:
    rows = b'score,label,"a ""name"""\n' + b'0.5,1,"two\nlines"\n0.25,0,x\n' * 2**15
    path = Path(f"open.{suffix}")
    line = ("boundary", path, "--precision", "0.5", "--method", "st", "-q", "--memory", "1MB")
    path.write_bytes(PACKED[suffix](rows))
    assert invoke(*line).code == 0
    rest = b"".join(b"0.%d,1,x\n" % place for place in range(2**19))
    path.write_bytes(PACKED[suffix](rows + b'0.5,1,"never\n' + rest))
    place = f"the row that begins in line {3 * 2**15 + 2:,}, at byte {len(rows):,}, has more than"
    invoke(*line).refused(5, f"open.{suffix}: {place}")


def test_a_file_that_unpacks_to_a_thousand_times_its_size(invoke: Invoke) -> None:
    text = b"score,label\n" + b"0.5,1\n" * 2**20
    Path("a.csv").write_bytes(text)
    Path("a.csv.zst").write_bytes(PACKED["csv.zst"](text))
    line = ("boundary", "--precision", "0.5", "--method", "st", "-q", "--memory", "1MB")
    invoke(*line, "a.csv.zst").refused(5, "unpacks to more than 1,000 times its size")
    assert invoke(*line, "a.csv").code == 0


def test_more_threads_than_processors(folder: Path, invoke: Invoke) -> None:
    line = ("boundary", folder / "a.csv", "--precision", "0.5", "--method", "st", "-q")
    few = invoke(*line, "--threads", "1")
    ended = invoke(*line, "--threads", "100000")
    assert (ended.code, ended.stdout) == (0, few.stdout)
    assert "Warning: --threads 100000 is more than" in ended.stderr
    assert invoke(*line, "--threads", "100000", "--warnings", "error").code == 3


def test_a_key_that_stands_twice(folder: Path, invoke: Invoke) -> None:
    text = (folder / "m.json").read_text().rstrip()
    levels = len(json.loads(text)["score_thresholds"])
    path = Path("twice.json")
    path.write_text(f'{text[:-1]}, "score_thresholds": {json.dumps([None] * levels)}}}')
    twice = invoke("apply", path, folder / "a.csv")
    twice.refused(3, "'score_thresholds' stands in one object twice")
