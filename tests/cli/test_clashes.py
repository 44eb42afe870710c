"""An output that is one of the inputs is refused everywhere; ``apply --in-place`` is the safe way."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from shutil import copy
from typing import Any

import polars as pl
import pytest

from tests.cli.score_files import encode, scores, write
from tests.conftest import Invoke, make

#: Lines in which F is a file that is read, and written by its last option.
LINES = {
    "bin": "bin F --score-bins 3 -o F",
    "boundary": "boundary F --precision 0.5 -o F",
    "boundary --test": "boundary ROWS --precision 0.5 --test F -o F",
    "boundary --frontier": "boundary F --precision 0.5 --method exact --frontier F",
    "boundary --uncertainty-edges": "boundary ROWS --precision 0.5 --uncertainty-edges M -o M",
    "calibrate": "calibrate F -o F",
    "calibrate --partial": "calibrate F --partial -o F",
    "vad --calibrator": "vad ROWS --members score --calibrator M -o M",
    "hetcal --train": "hetcal ROWS --train F --features x -o F",
    "apply": "apply M F -o F",
    "apply --selected": "apply M F --selected -o F",
    "apply, its model": "apply M ROWS --output-format csv -o M",
    "apply, its model in a folder": "apply M ROWS --output-format csv -o M",
    "evaluate": "evaluate F -o F",
    "evaluate --boundary": "evaluate ROWS --boundary M -o M",
    "evaluate --reliability": "evaluate F --reliability F",
    "evaluate --report": "evaluate ROWS --boundary M --report M",
    "drift": "drift M F -o F",
    "drift, its model": "drift M ROWS -o M",
    "validate": "validate F -o F",
    "export": "export M --to sql -o M",
    "export --check": "export M --to sql --check F -o F",
    "bundle": "bundle only=M -o M",
    "diff": "diff M M -o M",
    "diff, the second": "diff N M -o M",
    "merge": "merge S -o S",
    "plot": "plot roc F -o F",
    "plot --data": "plot roc F -o p.svg --data F",
}

#: Other names of one file.
NAMES = ("same", "dot", "symbolic", "hard")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows, models and a state."""
    made = tmp_path_factory.mktemp("clashes")
    rows = write(scores(), made / "rows.parquet")
    for name, more in (("m.json", ()), ("n.json", ()), ("s.state", ("--partial",))):
        make(made / name, "boundary", rows, "--precision 0.5 --method exact --folds 0", *more)
    return made


def other_name(path: Path, how: str) -> str:
    """Return another name of a file."""
    link = path.with_name(f"{how}-{path.name}")
    if how == "symbolic":
        link.symlink_to(path)
    elif how == "hard":
        link.hardlink_to(path)
    return {"same": str(path), "dot": f"{path.parent}/./{path.name}"}.get(how, str(link))


# Names in turn: what tells that they are of one file is the same for every line.
@pytest.mark.parametrize(
    ("line", "how"), list(zip(LINES.values(), cycle(NAMES), strict=False)), ids=LINES
)
def test_an_output_that_is_an_input(
    line: str, how: str, folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    files = {"F": "rows.parquet", "M": "m.json", "N": "n.json", "S": "s.state"}
    paths = {word: Path(copy(folder / name, tmp_path)) for word, name in files.items()}
    paths["ROWS"] = Path(copy(paths["F"], tmp_path / "r.parquet"))
    before = {path: path.read_bytes() for path in paths.values()}
    *words, last = line.split()
    given = []
    for word in words:
        name, equals, model = word.rpartition("=")
        given.append(f"{name}{equals}{paths.get(model, model)}")
    ended = invoke(*given, other_name(paths[last], how))
    ended.refused(2, "would be written over; name another output")
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "line",
    ["apply - -", "evaluate - --boundary -", "drift - -", "watch - - --state s", "diff - -",
     "export - --to sql --check -", "boundary - - --precision 0.6",
     "boundary - --test - --recall 0.5", "bundle a=- b=-"],
)  # fmt: skip
def test_standard_input_twice(line: str, invoke: Invoke) -> None:
    invoke(*line.split()).refused(2, "standard input (-) can be read once only")


def test_a_model_where_an_output_of_each_input_would_be(folder: Path, invoke: Invoke) -> None:
    Path("a.json").write_bytes((folder / "m.json").read_bytes())
    Path("in").mkdir()
    rows = write(scores(), "in/a.csv")
    invoke(
        *("boundary", rows, "--precision", "0.5"),
        *("--uncertainty-edges", Path("a.json"), "-o", "./"),
    ).refused(2, "written over")
    assert invoke("apply", "a.json", rows, "-q", "-o", "./").code == 0


@pytest.mark.parametrize(
    ("line", "added"),
    [
        ("show M", "M"),
        ("apply M F --output-format csv", "M"),
        ("apply M F --output-format csv", "F"),
    ],
)
def test_standard_output_that_is_added_to_an_input(
    line: str, added: str, folder: Path, tmp_path: Path, command: Callable[..., Any]
) -> None:
    files = {"M": "m.json", "F": "rows.parquet"}
    paths = {word: Path(copy(folder / name, tmp_path)) for word, name in files.items()}
    size = paths[added].stat().st_size
    with paths[added].open("ab") as out:
        words = (paths.get(word, word) for word in line.split())
        ended = command(*words, capture_output=False, stdout=out)
    assert (ended.returncode, paths[added].stat().st_size) == (2, size)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.csv.gz", "a.ndjson", "a.arrow", "a.dat"])
def test_in_place(name: str, folder: Path, invoke: Invoke) -> None:
    path = Path(name)
    path.write_bytes(encode(scores(), name[1:].replace(".dat", ".csv")))
    path.chmod(0o640)
    read = ("--input-format", "csv") if name == "a.dat" else ()
    line = ("apply", folder / "m.json", path, *read)
    wanted = invoke(*line, "-q", "-o out.csv").result()
    ended = invoke(*line, "--in-place")
    assert (ended.code, ended.stdout) == (0, b"")
    assert ended.stderr.endswith(f"{scores().height:,} rows in 1 file written over.\n")
    again = invoke(*line, "--keep", "*", "--overwrite-columns", "-q", "-o out.csv").result()
    assert set(again.columns) == set(wanted.columns)
    assert again.select(wanted.columns).equals(wanted)
    assert path.stat().st_mode & 0o777 == 0o640
    assert invoke(*line, "--in-place").code == 2  # the columns are there
    assert invoke(*line, "--in-place", "--overwrite-columns", "-q").code == 0


def test_in_place_writes_all_or_none(folder: Path, tmp_path: Path, invoke: Invoke) -> None:
    good = write(scores(), tmp_path / "a.csv")
    bad = write(scores().with_columns(score=pl.lit(2.0)), tmp_path / "b.csv")
    before = good.read_bytes(), bad.read_bytes()
    line = ("apply", folder / "m.json")
    assert invoke(*line, tmp_path, "--in-place").code == 3
    assert (good.read_bytes(), bad.read_bytes()) == before
    assert sorted(tmp_path.iterdir()) == [good, bad]
    for more in ((good, "-o", "x.csv"), (good, "--output-format csv"), ("-",), ("s3://b/a.csv",)):
        invoke(*line, *more, "--in-place").refused(2, "--in-place")
    told = invoke(*line, good, "--in-place", "--json").result()
    assert told["rows"] == scores().height
    assert told["columns_added"] == ["decision", "margin"]
