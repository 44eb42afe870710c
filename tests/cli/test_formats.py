"""The one grammar of all commands: formats, workbooks, streams, folders, dry runs, environment."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.cli.score_files import decisions, encode, simulate, write
from tests.conftest import Invoke, Outcome, clean_environment

Command = Callable[..., subprocess.CompletedProcess[bytes]]

#: Suffixes, and those that say in more usual words what the file is.
SUFFIXES = {
    **{name: name for name in (".parquet", ".csv", ".tsv", ".ndjson", ".arrow", ".csv.gz")},
    **{name: name for name in (".csv.zst", ".tsv.gz", ".ndjson.zst", ".ndjson.gz")},
    ".jsonl": ".ndjson",
    ".feather": ".arrow",
    ".ipc": ".arrow",
    ".pq": ".parquet",
    ".CSV": ".csv",
}
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


def check(model: Path, rows: pl.DataFrame) -> None:
    assert rows.columns == [*ROWS.columns, "decision", "margin"]
    assert_frame_equal(rows.select(ROWS.columns), ROWS, check_exact=True)
    assert rows["decision"].to_list() == decisions(json.loads(model.read_text()), ROWS)


# Formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "plain"), SUFFIXES.items())
def test_suffixes_say_the_format(suffix: str, plain: str, model: Path, invoke: Invoke) -> None:
    path, out = Path(f"rows{suffix}"), Path(f"out{suffix}")
    path.write_bytes(encode(ROWS, plain))
    assert invoke("apply", model, path, "-o", out).code == 0
    check(model, read(out, plain.split(".")[1]))
    head = out.read_bytes()[:4]
    assert head.startswith(b"\x1f\x8b") == suffix.endswith(".gz")
    assert head.startswith(b"\x28\xb5\x2f\xfd") == suffix.endswith(".zst")


@pytest.mark.parametrize("suffix", [".arrow", ".arrows"])
def test_arrow_streams_are_read(suffix: str, model: Path, invoke: Invoke) -> None:
    path = Path(f"rows{suffix}")
    path.write_bytes(encode(ROWS, ".arrows"))
    check(model, invoke("apply", model, path, "-o out.parquet").result())


@pytest.mark.parametrize("format_name", FORMATS)
def test_named_formats_override_the_suffix(format_name: str, model: Path, invoke: Invoke) -> None:
    path, out = Path("rows.data"), Path("out.data")
    path.write_bytes(encode(ROWS, f".{format_name}"))
    line = ["apply", model, path, "--output-format", format_name]
    invoke(*line, "-o", out).refused(2, "--input-format")
    assert invoke(*line, "--input-format", format_name, "-o", out).code == 0
    check(model, read(out, format_name))
    piped = invoke(*line, "--input-format", format_name)
    check(model, read(piped.stdout, format_name))
    for option in ("--input-format", "--output-format"):
        invoke(*line, option, "ods", "-o", out).refused(2, "'ods'", "parquet")


def test_odd_but_valid_csv(model: Path, invoke: Invoke) -> None:
    text = "\ufeff" + encode(ROWS, ".csv").decode().replace("\n", "\r\n")
    path = Path("rows.csv")
    path.write_text(text, newline="")
    check(model, invoke("apply", model, path, "-o out.csv").result())
    path.write_text('score,uncertainty,note\n"0.9",1,"a, ""b""\nc"\n0.1,2,\n')
    assert invoke("apply", model, path, "-o out.parquet").code == 0
    assert pl.read_parquet("out.parquet")["note"].to_list() == ['a, "b"\nc', None]


# Streams -------------------------------------------------------------------------------------


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "suffix", [".parquet", ".csv", ".ndjson", ".arrow", ".arrows", ".csv.gz", ".tsv"]
)
def test_from_standard_input_to_standard_output(suffix: str, model: Path, command: Command) -> None:
    line, format_name = ["apply", model, "-", "-o", "-"], suffix.split(".")[1]
    if suffix == ".tsv":  # which is not told from its first bytes
        line += ["--input-format", "tsv", "--output-format", "ndjson"]
        format_name = "ndjson"
    done = command(*line, input=encode(ROWS, suffix))
    assert (done.returncode, done.stderr) == (0, b"")
    check(model, read(done.stdout, format_name.removesuffix("s")))


def test_a_model_and_rows_through_pipes(command: Command, model: Path) -> None:
    rows = encode(simulate(200), ".parquet")
    goal = "--precision 0.6 --method exact --folds 0 -q"
    fitted = command("boundary", "-", goal, input=rows)
    assert fitted.stderr == b""
    done = command("apply", "-", write(ROWS, "rows.csv"), input=fitted.stdout)
    assert done.returncode == 0
    check(model, pl.read_csv(io.BytesIO(done.stdout)))


def test_a_reader_that_stops_early(model: Path) -> None:
    path = write(simulate(40_000, seed=3), "rows.csv")
    apply = f'"{sys.executable}" -m calibkit_cli.main apply "{model}" "{path}" -o -'
    line = f"set -o pipefail; {apply} | head -1"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, env=clean_environment(), check=False
    )
    assert (done.returncode, done.stderr) == (141, b"")
    assert done.stdout == b"id,score,uncertainty,label,weight,decision,margin\n"


def test_results_and_words_have_streams_of_their_own(model: Path, invoke: Invoke) -> None:
    path = write(simulate(200), "rows.csv")
    line, out = ("boundary", path, "--precision", "0.6"), Path("b.json")
    piped = invoke(*line)
    assert json.loads(piped.stdout)["kind"] == "boundary"
    assert "new data" in piped.stderr
    for more in (["-o", "-"], ["--json"], ["-o", out, "--json"]):
        assert invoke(*line, *more).stdout == piped.stdout
    assert (invoke(*line, "-o", out).stdout, out.read_bytes()) == (b"", piped.stdout)
    for more in ([], ["-o", "-"]):
        assert read(invoke("bin", path, "--score-bins", "2", *more).stdout, "csv").height == 6


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


def test_on_a_terminal_the_result_is_a_table(model: Path) -> None:
    path = write(ROWS, "rows.parquet")
    code, text = on_terminal("apply", model, path, "--keep", "id,score")
    assert code == 0
    for word in ("id", "score", "decision", "margin", "60 rows"):
        assert word in text
    assert "PAR1" not in text
    assert f"{ROWS['score'][0]:.6g}" in text
    commas = Path("commas.csv")
    ROWS.write_csv(commas, separator=";", decimal_comma=True)
    code, text = on_terminal("apply", model, commas)
    assert (code, text.count("with semicolons between fields")) == (0, 1)
    labelled = write(simulate(200), "labelled.csv")
    code, text = on_terminal("boundary", labelled, "--precision", "0.6")
    assert code == 0
    assert '"kind"' not in text
    assert text.count("new data") == 1
    assert "score >=" in text


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_no_colours_where_none_are_wanted(model: Path, environment: dict[str, str]) -> None:
    shown, text = on_terminal("show", model, **environment)
    failed, error = on_terminal("apply", model, Path("nothing.csv"), **environment)
    assert (shown, failed) == (0, 2)
    assert "\x1b[3" not in text  # bold is no colour
    assert "TERM" not in environment or "\x1b" not in text
    assert "\x1b" not in error


# Folders, dry runs, quiet runs, the environment -----------------------------------------------


def test_folders_become_columns(model: Path, invoke: Invoke) -> None:
    for country, day in (("de", 1), ("de", 2), ("fr", 1)):
        write(ROWS.head(5), Path("in") / f"country={country}" / f"day={day}" / "x.parquet")
    line = ["apply", model, "in", "-o out.parquet"]
    rows = invoke(*line).result()
    assert rows.columns == [*ROWS.columns, "country", "day", "decision", "margin"]
    assert rows["country"].to_list() == ["de"] * 10 + ["fr"] * 5
    assert rows["day"].to_list() == [1] * 5 + [2] * 5 + [1] * 5
    kept = invoke(*line, "--keep", "day", "--overwrite-columns").result()
    assert kept.columns == ["day", "decision", "margin"]


LINES = {
    "bin rows.csv -o g.parquet": ["score", "3", "500"],
    "boundary rows.csv --precision 0.6 -o b.json": ["exact", "0.6", "5"],
    "apply models/boundary.json rows.csv -o a.csv": ["decision", "margin"],
}


@pytest.fixture
def labelled(model: Path) -> Path:
    """Return a small file in the folder that commands run in."""
    return write(simulate(40), "rows.csv")


@pytest.mark.parametrize("more", ["", "--json"])
@pytest.mark.parametrize(("line", "words"), LINES.items())
def test_dry_runs_write_nothing(
    line: str, words: list[str], more: str, labelled: Path, invoke: Invoke
) -> None:
    before = set(Path().iterdir())
    done = invoke(*line.split(), "--dry-run", *more.split())
    assert done.code == 0, done.stderr
    text = done.stdout.decode()
    for word in ["rows.csv", "score", "uncertainty", "40", *words]:
        assert word in text
    assert not more or json.loads(text)["columns"]["score"] == "score"
    assert set(Path().iterdir()) == before


@pytest.mark.parametrize(
    "line",
    [
        "bin rows.csv --score scre",
        "boundary rows.csv --precision 0.6 --label labl",
        "boundary rows.csv --fpr 0.6 --method gmt",
        "apply models/boundary.json rows.csv --uncertainty spread",
        "apply models/boundary.json rows.csv --keep nothing",
    ],
)
def test_dry_runs_find_what_is_wrong(line: str, labelled: Path, invoke: Invoke) -> None:
    assert invoke(*line.split(), "--dry-run").code == 2


@pytest.mark.parametrize("line", LINES)
def test_quiet_by_option_and_by_environment(
    line: str, labelled: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = line.split()
    assert invoke(*words).stderr != ""
    assert invoke(*words, "-q").stderr == ""
    assert invoke(*words, "--quiet").stderr == ""
    monkeypatch.setenv("CALIBKIT_QUIET", "1")
    assert invoke(*words).stderr == ""
    assert "more than once" in invoke(*words, labelled).stderr


def test_seed_and_threads_by_environment(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(simulate(200), "rows.csv")
    line = ["boundary", path, "--precision", "0.6", "-q", "--json"]
    typed = invoke(*line, "--seed", "7").stdout
    monkeypatch.setenv("CALIBKIT_SEED", "7")
    monkeypatch.setenv("CALIBKIT_THREADS", "1")
    assert invoke(*line).stdout == typed
    assert json.loads(invoke(*line, "--seed", "8").stdout)["provenance"]["options"]["seed"] == 8
    monkeypatch.setenv("CALIBKIT_THREADS", "many")
    invoke(*line[:-1]).refused(2, "CALIBKIT_THREADS")


def test_an_output_replaces_the_last_one_as_a_whole(model: Path, invoke: Invoke) -> None:
    path, out = write(ROWS, "rows.csv"), Path("out.parquet")
    out.write_text("yesterday")
    kept = Path("link")
    os.link(out, kept)
    check(model, invoke("apply", model, path, "-o", out).result())
    assert kept.read_text() == "yesterday"  # renamed over, not written into
    assert {one.name for one in Path().iterdir()} == {"link", "models", out.name, path.name}


@pytest.mark.few(2)
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".arrows"])
def test_streams_that_do_not_fit_leave_nothing_behind(
    suffix: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = write(simulate(20_000), f"rows{suffix}"), Path("temporary")
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    line = ["--method", "isotonic", "--memory", "400KB", "--provenance", "hash", "-o", "-"]
    kept = command("calibrate", path, *line)
    with path.open("rb") as file:
        piped = command("calibrate", "-", *line, stdin=file)
    assert (piped.returncode, piped.stderr) == (0, kept.stderr)
    assert piped.stdout == kept.stdout
    assert not list(folder.iterdir())


@pytest.fixture
def rows() -> pl.DataFrame:
    random = np.random.default_rng(3)
    score = random.random(300).round(6)
    return pl.DataFrame(
        {
            "score": score,
            "label": (random.random(300) < score).astype(int),
            "note": ["=1+1", "https://example.org"] * 150,
            "day": [datetime(2024, 1, 1) + timedelta(days=k % 40) for k in range(300)],
        }
    )


@pytest.mark.parametrize(("way", "package"), [("in", "fastexcel"), ("out", "xlsxwriter")])
def test_without_the_extra(
    way: str, package: str, rows: pl.DataFrame, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    Path("book.xlsx").write_bytes(b"PK\x03\x04")
    rows.write_parquet("rows.parquet")
    names = ("book.xlsx", "x.csv") if way == "in" else ("rows.parquet", "new.xlsx")
    done = invoke("bin", Path(names[0]), "-o", Path(names[1]))
    done.refused(2, f"{package}; install it by: pip install 'calibkit[excel]'")


@pytest.fixture
def writer() -> Any:
    pytest.importorskip("fastexcel")
    return pytest.importorskip("xlsxwriter")


def test_a_workbook_is_a_table(rows: pl.DataFrame, invoke: Invoke, writer: Any) -> None:
    path, book = Path("rows.parquet"), Path("first.xlsx")
    rows.write_parquet(path)
    fit = ["boundary", "--precision 0.6 --method st --time day -o one.json"]
    model = invoke(*fit, path).result()
    line = ["apply", "one.json", path, "--keep", "*", "-o"]
    for output in (book, Path("again.xlsx")):
        invoke(*line, output).succeeded()
    assert book.read_bytes() == Path("again.xlsx").read_bytes()
    written = pl.read_excel(book, infer_schema_length=None)
    expected = invoke(*line, "same.parquet").result()
    assert written.columns == expected.columns
    for name in ("score", "note"):
        assert written[name].to_list() == expected[name].to_list()
    assert invoke(*fit, book).result() == model


def test_nothing_is_logged_of_a_workbook(command: Command, writer: Any) -> None:
    rows = pl.DataFrame({"score": [0.5, 0.2], "label": [1, 0], "none": ["", ""]})
    rows.write_excel(Path("book.xlsx"))
    done = command("bin", "book.xlsx", "-q", "-o grid.csv")
    assert (done.returncode, done.stderr) == (0, b"")


def test_numbers_as_text_and_bad_workbooks(invoke: Invoke, writer: Any) -> None:
    path, out = Path("book.xlsx"), Path("grid.csv")

    def binned(*lines: list[Any], more: str = "") -> Outcome:
        with writer.Workbook(path) as made:
            sheet = made.add_worksheet()
            for place, line in enumerate(lines):
                sheet.write_row(place, 0, line)
        return invoke("bin", path, *more.split(), "-o", out)

    names: list[Any] = ["score", "label"]
    mixed = [names, *([[0.5, 1], ["NA", 0], [0.25, 0]] * 5)]
    binned(*mixed).refused(3, "no value")
    binned(*mixed, more="--on-missing drop").succeeded()
    grid = out.read_bytes()
    binned(names, *([["0,5", 1], ["0,25", 0]] * 5)).succeeded()
    assert out.read_bytes() == grid
    binned(["score", None, None, "label"], *([[0.5, 7, 8, 1]] * 5)).succeeded()
    binned(["score", "score"], [0.5, 1]).refused(3, "2 times")
    binned(names, [0.5, 1], [], [1.5, 0], []).refused(3, "first: row 2")
    binned(names, [0.5, 1], [], [1.5, 0], more="--on-missing drop").refused(3, "first: row 3")
    binned(names).refused(3)
    path.write_bytes(b"PK\x03\x04 no workbook")
    bad = invoke("bin", path, "-o", out)
    bad.refused(3, "save it again")
    assert bad.stderr.count("\n") == 1
