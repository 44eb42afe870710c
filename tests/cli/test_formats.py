"""The one grammar of all commands: formats, streams, folders, lists, dry runs, environment."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from tests.cli.score_files import decisions, encode, simulate, write
from tests.conftest import Invoke, clean_environment

Command = Callable[..., subprocess.CompletedProcess[bytes]]

SUFFIXES = [
    ".parquet",
    ".csv",
    ".tsv",
    ".ndjson",
    ".arrow",
    ".csv.gz",
    ".csv.zst",
    ".tsv.gz",
    ".ndjson.zst",
    ".ndjson.gz",
]
FORMATS = ["parquet", "csv", "tsv", "ndjson", "arrow"]
ROWS = simulate(60, seed=2).select("id", "score", "uncertainty")


def read(data: Path | bytes, format_name: str) -> pl.DataFrame:
    """Read by polars alone; text formats also compressed."""
    source = io.BytesIO(data) if isinstance(data, bytes) else data
    if format_name == "parquet":
        return pl.read_parquet(source)
    if format_name == "arrow":
        return pl.read_ipc(source)
    if format_name == "ndjson":
        return pl.read_ndjson(source)
    return pl.read_csv(source, separator="\t" if format_name == "tsv" else ",")


def of_suffix(suffix: str) -> str:
    return suffix.split(".")[1]


def check(model: Path, rows: pl.DataFrame) -> None:
    assert rows.columns == [*ROWS.columns, "decision", "margin"]
    assert_frame_equal(rows.select(ROWS.columns), ROWS, check_exact=True)
    assert rows["decision"].to_list() == decisions(json.loads(model.read_text()), ROWS)


# Formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".arrows"])
def test_inputs(suffix: str, tmp_path: Path, model: Path, invoke: Invoke) -> None:
    path, out = write(ROWS, tmp_path / f"rows{suffix}"), tmp_path / "out.parquet"
    check(model, invoke("apply", model, path, "-o", out).result())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_outputs(suffix: str, tmp_path: Path, model: Path, invoke: Invoke) -> None:
    path, out = write(ROWS, tmp_path / "rows.parquet"), tmp_path / f"out{suffix}"
    assert invoke("apply", model, path, "-o", out).code == 0
    check(model, read(out, of_suffix(suffix)))
    head = out.read_bytes()[:4]
    assert head.startswith(b"\x1f\x8b") == suffix.endswith(".gz")
    assert head.startswith(b"\x28\xb5\x2f\xfd") == suffix.endswith(".zst")


@pytest.mark.parametrize(
    ("suffix", "plain"),
    [
        *((".jsonl", ".ndjson"), (".feather", ".arrow"), (".ipc", ".arrow"), (".pq", ".parquet")),
        (".arrow", ".arrows"),
    ],
)
def test_other_names_of_formats(
    suffix: str, plain: str, tmp_path: Path, model: Path, invoke: Invoke
) -> None:
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(encode(ROWS, plain))
    assert invoke("apply", model, path, "-o", tmp_path / f"out{suffix}").code == 0
    check(model, read(tmp_path / f"out{suffix}", plain[1:].removesuffix("s")))


def test_capital_suffixes(tmp_path: Path, model: Path, invoke: Invoke) -> None:
    path = tmp_path / "ROWS.CSV"
    path.write_bytes(encode(ROWS, ".csv"))
    check(model, invoke("apply", model, path, "-o", tmp_path / "OUT.Parquet").result())


@pytest.mark.parametrize("format_name", FORMATS)
def test_input_format_overrides_the_suffix(
    format_name: str, tmp_path: Path, model: Path, invoke: Invoke
) -> None:
    path = tmp_path / "rows.data"
    path.write_bytes(encode(ROWS, f".{format_name}"))
    line = ["apply", model, path, "-o", tmp_path / "out.csv"]
    invoke(*line).refused(2, "--input-format")
    assert invoke(*line, "--input-format", format_name).code == 0
    check(model, pl.read_csv(tmp_path / "out.csv"))


@pytest.mark.parametrize("format_name", FORMATS)
def test_output_format_overrides_the_suffix(
    format_name: str, tmp_path: Path, model: Path, invoke: Invoke
) -> None:
    path = write(ROWS, tmp_path / "rows.csv")
    out = tmp_path / "out.data"
    assert invoke("apply", model, path, "-o", out, "--output-format", format_name).code == 0
    check(model, read(out, format_name))
    piped = invoke("apply", model, path, "--output-format", format_name)
    check(model, read(piped.stdout, format_name))


def test_a_format_that_does_not_exist(tmp_path: Path, model: Path, invoke: Invoke) -> None:
    path = write(ROWS, tmp_path / "rows.csv")
    for option in ("--input-format", "--output-format"):
        done = invoke("apply", model, path, option, "ods", "-o", tmp_path / "o.csv")
        done.refused(2, "'ods'", "parquet")


def test_odd_but_valid_csv(tmp_path: Path, model: Path, invoke: Invoke) -> None:
    text = "\ufeff" + encode(ROWS, ".csv").decode().replace("\n", "\r\n")
    path = tmp_path / "rows.csv"
    path.write_text(text, newline="")
    check(model, invoke("apply", model, path, "-o", tmp_path / "out.csv").result())
    path.write_text('score,uncertainty,note\n"0.9",1,"a, ""b""\nc"\n0.1,2,\n')
    assert invoke("apply", model, path, "-o", tmp_path / "out.parquet").code == 0
    assert pl.read_parquet(tmp_path / "out.parquet")["note"].to_list() == ['a, "b"\nc', None]


# Streams -------------------------------------------------------------------------------------


@pytest.mark.few(4)
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".ndjson", ".arrow", ".arrows", ".csv.gz"])
def test_from_standard_input_to_standard_output(
    suffix: str, tmp_path: Path, model: Path, command: Command
) -> None:
    path = write(ROWS, tmp_path / f"rows{suffix}")
    with path.open("rb") as file:
        done = command("apply", model, "-", "-o", "-", stdin=file)
    assert (done.returncode, done.stderr) == (0, b"")
    check(model, read(done.stdout, of_suffix(suffix).replace("arrows", "arrow")))


def test_streams_of_named_formats(tmp_path: Path, model: Path, command: Command) -> None:
    line = ["apply", model, "-", "--input-format", "tsv", "--output-format", "ndjson"]
    done = command(*line, input=encode(ROWS, ".tsv"))
    assert (done.returncode, done.stderr) == (0, b"")
    check(model, pl.read_ndjson(io.BytesIO(done.stdout)))


def test_a_model_and_rows_through_pipes(tmp_path: Path, command: Command, model: Path) -> None:
    rows = encode(simulate(200), ".parquet")
    goal = ("--precision", "0.6", "--method", "exact")
    fitted = command("boundary", "-", *goal, "-q", "--folds", "0", input=rows)
    assert fitted.stderr == b""
    path = write(ROWS, tmp_path / "rows.csv")
    done = command("apply", "-", path, input=fitted.stdout)
    assert done.returncode == 0
    check(model, pl.read_csv(io.BytesIO(done.stdout)))
    twice = command("boundary", "-", "-", "--precision", "0.6", input=rows)
    assert twice.returncode == 2
    assert b"once" in twice.stderr


def test_a_reader_that_stops_early(tmp_path: Path, model: Path) -> None:
    path = write(simulate(40_000, seed=3), tmp_path / "rows.csv")
    apply = f'"{sys.executable}" -m calibkit_cli.main apply "{model}" "{path}" -o -'
    line = f"set -o pipefail; {apply} | head -1"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, env=clean_environment(), check=False
    )
    assert (done.returncode, done.stderr) == (141, b"")
    assert done.stdout == b"id,score,uncertainty,label,weight,decision,margin\n"


def test_results_and_words_have_streams_of_their_own(
    tmp_path: Path, model: Path, invoke: Invoke
) -> None:
    path = write(simulate(200), tmp_path / "rows.csv")
    piped = invoke("boundary", path, "--precision", "0.6")
    assert json.loads(piped.stdout)["kind"] == "boundary"
    assert "new data" in piped.stderr
    dashed = invoke("boundary", path, "--precision", "0.6", "-o", "-")
    assert dashed.stdout == piped.stdout
    as_json = invoke("boundary", path, "--precision", "0.6", "--json")
    assert as_json.stdout == piped.stdout
    filed = invoke("boundary", path, "--precision", "0.6", "-o", tmp_path / "b.json")
    assert (filed.stdout, (tmp_path / "b.json").read_bytes()) == (b"", piped.stdout)
    both = invoke("boundary", path, "--precision", "0.6", "-o", tmp_path / "b.json", "--json")
    assert both.stdout == piped.stdout
    assert read(invoke("bin", path, "--score-bins", "2").stdout, "csv").height == 6
    assert read(invoke("bin", path, "--score-bins", "2", "-o", "-").stdout, "csv").height == 6


def on_terminal(*arguments: object, **environment: str) -> tuple[int, str]:
    """Run a command whose standard output and error are a terminal."""
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "calibkit_cli.main", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=its_end,
        stderr=its_end,
        env={**clean_environment(), "TERM": "xterm-256color", "COLUMNS": "120", **environment},
    )
    os.close(its_end)
    found = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not piece:
            break
        found += piece
    os.close(terminal)
    return process.wait(60), found.decode()


def test_on_a_terminal_the_result_is_a_table(tmp_path: Path, model: Path) -> None:
    path = write(ROWS, tmp_path / "rows.parquet")
    code, text = on_terminal("apply", model, path, "--keep", "id,score")
    assert code == 0
    for word in ("id", "score", "decision", "margin", "60 rows"):
        assert word in text
    assert "PAR1" not in text
    assert f"{ROWS['score'][0]:.6g}" in text
    commas = tmp_path / "commas.csv"
    ROWS.write_csv(commas, separator=";", decimal_comma=True)
    code, text = on_terminal("apply", model, commas)
    assert (code, text.count("with semicolons between fields")) == (0, 1)
    labelled = write(simulate(200), tmp_path / "labelled.csv")
    code, text = on_terminal("boundary", labelled, "--precision", "0.6")
    assert code == 0
    assert '"kind"' not in text
    assert text.count("new data") == 1
    assert "score >=" in text


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_no_colours_where_none_are_wanted(
    tmp_path: Path, model: Path, environment: dict[str, str]
) -> None:
    code, text = on_terminal("show", model, **environment)
    assert code == 0
    assert "\x1b[3" not in text  # bold is no colour
    if "TERM" in environment:
        assert "\x1b" not in text
    code, text = on_terminal("apply", model, tmp_path / "nothing.csv", **environment)
    assert code == 2
    assert "\x1b" not in text


# Folders, globs, lists -----------------------------------------------------------------------


def test_folders_become_columns(tmp_path: Path, model: Path, invoke: Invoke) -> None:
    for country, day in (("de", 1), ("de", 2), ("fr", 1)):
        write(ROWS.head(5), tmp_path / "in" / f"country={country}" / f"day={day}" / "x.parquet")
    (tmp_path / "in" / "_SUCCESS").write_text("")
    (tmp_path / "in" / ".hidden.csv").write_text("not,a,table")
    out = tmp_path / "out.parquet"
    rows = invoke("apply", model, tmp_path / "in", "-o", out).result()
    assert rows.columns == [*ROWS.columns, "country", "day", "decision", "margin"]
    assert rows["country"].to_list() == ["de"] * 10 + ["fr"] * 5
    assert rows["day"].to_list() == [1] * 5 + [2] * 5 + [1] * 5
    only = ["--keep", "day", "--overwrite-columns"]
    assert invoke("apply", model, tmp_path / "in", *only, "-o", out).code == 0
    assert pl.read_parquet(out).columns == ["day", "decision", "margin"]


# Dry runs, quiet runs, the environment -------------------------------------------------------


@pytest.mark.parametrize("as_json", [False, True])
def test_dry_runs_write_nothing(as_json: bool, tmp_path: Path, model: Path, invoke: Invoke) -> None:
    path, out = write(simulate(40), tmp_path / "rows.csv"), tmp_path / "out"
    out.mkdir()
    lines: list[tuple[list[Any], list[str]]] = [
        (["bin", path, "-o", out / "g.parquet"], ["score", "3", "500"]),
        (["boundary", path, "--precision", "0.6", "-o", out / "b.json"], ["exact", "0.6", "5"]),
        (["apply", model, path, "-o", out / "a.csv"], ["decision", "margin"]),
    ]
    for line, words in lines:
        done = invoke(*line, "--dry-run", *(["--json"] if as_json else []))
        assert done.code == 0, done.stderr
        text = done.stdout.decode()
        for word in [str(path), "score", "uncertainty", "40", *words]:
            assert word in text
        if as_json:
            assert json.loads(text)["columns"]["score"] == "score"
    assert list(out.iterdir()) == []


def test_dry_runs_find_what_is_wrong(tmp_path: Path, model: Path, invoke: Invoke) -> None:
    path = write(simulate(40), tmp_path / "rows.csv")
    for line in (
        ["bin", path, "--score", "scre"],
        ["boundary", path, "--precision", "0.6", "--label", "labl"],
        ["boundary", path, "--fpr", "0.6", "--method", "gmt"],
        ["apply", model, path, "--uncertainty", "spread"],
        ["apply", model, path, "--keep", "nothing"],
    ):
        assert invoke(*line, "--dry-run").code == 2


def test_quiet_by_option_and_by_environment(
    tmp_path: Path, model: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(simulate(40), tmp_path / "rows.csv")
    lines = [
        ["bin", path, "-o", tmp_path / "g.csv"],
        ["boundary", path, "--precision", "0.6", "-o", tmp_path / "b.json"],
        ["apply", model, path, "-o", tmp_path / "a.csv"],
    ]
    for line in lines:
        assert invoke(*line).stderr != ""
        assert invoke(*line, "-q").stderr == ""
        assert invoke(*line, "--quiet").stderr == ""
    monkeypatch.setenv("CALIBKIT_QUIET", "1")
    for line in lines:
        assert invoke(*line).stderr == ""
        assert "more than once" in invoke(*line[:-2], path, *line[-2:]).stderr


def test_seed_and_threads_by_environment(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(simulate(200), tmp_path / "rows.csv")
    line = ["boundary", path, "--precision", "0.6", "-q", "--json"]
    typed = invoke(*line, "--seed", "7").stdout
    monkeypatch.setenv("CALIBKIT_SEED", "7")
    monkeypatch.setenv("CALIBKIT_THREADS", "1")
    assert invoke(*line).stdout == typed
    assert json.loads(invoke(*line, "--seed", "8").stdout)["provenance"]["options"]["seed"] == 8
    monkeypatch.setenv("CALIBKIT_THREADS", "many")
    invoke(*line[:-1]).refused(2, "CALIBKIT_THREADS")


def test_an_output_replaces_the_last_one_as_a_whole(
    tmp_path: Path, model: Path, invoke: Invoke
) -> None:
    path, out = write(ROWS, tmp_path / "rows.csv"), tmp_path / "out.parquet"
    out.write_text("yesterday")
    kept = tmp_path / "link"
    os.link(out, kept)
    check(model, invoke("apply", model, path, "-o", out).result())
    assert kept.read_text() == "yesterday"  # renamed over, not written into
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == [
        "link",
        "out.parquet",
        "rows.csv",
    ]


def test_metadata_of_grids_only_where_there_is_a_place_for_it(
    tmp_path: Path, invoke: Invoke
) -> None:
    path = write(simulate(40), tmp_path / "rows.csv")
    for suffix in SUFFIXES:
        out = tmp_path / f"grid{suffix}"
        assert invoke("bin", path, "--score-bins", "2", "-o", out).code == 0
        table = read(out, of_suffix(suffix))
        assert {"uncertainty_min", "score_min"} <= set(table.columns)
        assert table["count"].sum() == 40
    metadata = pq.read_metadata(tmp_path / "grid.parquet").metadata
    assert {b"uncertainty_min", b"score_min"} <= set(metadata)


@pytest.mark.few(2)
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".arrows"])
def test_streams_that_do_not_fit_leave_nothing_behind(
    suffix: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = write(simulate(20_000), tmp_path / f"rows{suffix}"), tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    line = ["--method", "isotonic", "--memory", "400KB", "--provenance", "hash", "-o", "-"]
    kept = command("calibrate", path, *line)
    with path.open("rb") as file:
        piped = command("calibrate", "-", *line, stdin=file)
    assert (piped.returncode, piped.stderr) == (0, kept.stderr)
    assert piped.stdout == kept.stdout
    assert not list(folder.iterdir())
