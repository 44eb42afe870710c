"""An output that is one of the inputs is refused everywhere; ``apply --in-place`` is the safe way."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import polars as pl
import pytest

from tests.cli.score_files import scores, write
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
    if how == "same":
        return str(path)
    if how == "dot":
        return f"{path.parent}/./{path.name}"
    link = path.with_name(f"{how}-{path.name}")
    if how == "symbolic":
        link.symlink_to(path)
    else:
        link.hardlink_to(path)
    return str(link)


# Names in turn: what tells that they are of one file is the same for every line.
@pytest.mark.parametrize(
    ("line", "how"), list(zip(LINES.values(), cycle(NAMES), strict=False)), ids=LINES
)
def test_an_output_that_is_an_input(
    line: str, how: str, folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    files = {"F": "rows.parquet", "M": "m.json", "N": "n.json", "S": "s.state", "ROWS": "r.parquet"}
    paths = {}
    for word, name in files.items():
        source = folder / ("rows.parquet" if word == "ROWS" else name)
        paths[word] = tmp_path / name
        paths[word].write_bytes(source.read_bytes())
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
     "export - --to sql --check -", "boundary - --test - --recall 0.5", "bundle a=- b=-"],
)  # fmt: skip
def test_standard_input_twice(line: str, invoke: Invoke) -> None:
    invoke(*line.split()).refused(2, "standard input (-) can be read once only")


def test_a_model_where_an_output_of_each_input_would_be(
    folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    (tmp_path / "a.json").write_bytes((folder / "m.json").read_bytes())
    (tmp_path / "in").mkdir()
    rows = write(scores(), tmp_path / "in" / "a.csv")
    invoke(
        *("boundary", rows, "--precision", "0.5"),
        *("--uncertainty-edges", tmp_path / "a.json", "-o", f"{tmp_path}/"),
    ).refused(2, "written over")
    assert invoke("apply", tmp_path / "a.json", rows, "-q", "-o", f"{tmp_path}/").code == 0


@pytest.mark.parametrize("words", ["show M", "apply M F --output-format csv"])
def test_standard_output_that_is_added_to_an_input(
    words: str, folder: Path, tmp_path: Path, command: Callable[..., object]
) -> None:
    paths = {"M": tmp_path / "m.json", "F": tmp_path / "rows.parquet"}
    for path in paths.values():
        path.write_bytes((folder / path.name).read_bytes())
    for path in list(paths.values())[: len(words.split()) - 1]:
        size = path.stat().st_size
        if words.startswith("show") and path.name != "m.json":
            continue
        with path.open("ab") as out:
            ended = command(
                *(paths.get(word, word) for word in words.split()),
                capture_output=False,
                stdout=out,
            )
        assert ended.returncode == 2  # type: ignore[attr-defined]
        assert path.stat().st_size == size


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.csv.gz", "a.ndjson", "a.arrow", "a.dat"])
def test_in_place(name: str, folder: Path, tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / name
    if name == "a.csv.gz":
        path.write_bytes(gzip.compress(scores().write_csv().encode()))
    else:
        whole = write(scores(), path.with_suffix(".csv") if name == "a.dat" else path)
        whole.rename(path)
    path.chmod(0o640)
    read = ("--input-format", "csv") if name == "a.dat" else ()
    wanted = tmp_path / "wanted.csv"
    line = ("apply", folder / "m.json", path, *read)
    assert invoke(*line, "-q", "-o", wanted).code == 0
    ended = invoke(*line, "--in-place")
    assert (ended.code, ended.stdout) == (0, b"")
    assert ended.stderr.endswith(f"{scores().height:,} rows in 1 file written over.\n")
    again = tmp_path / "again.csv"
    kept = ("--keep", "*", "--overwrite-columns")
    assert invoke(*line, *kept, "-q", "-o", again).code == 0
    assert sorted(pl.read_csv(again).columns) == sorted(pl.read_csv(wanted).columns)
    assert pl.read_csv(again).select(pl.read_csv(wanted).columns).equals(pl.read_csv(wanted))
    assert path.stat().st_mode & 0o777 == 0o640
    assert invoke(*line, "--in-place").code == 2  # the columns are there
    assert invoke(*line, "--in-place", "--overwrite-columns", "-q").code == 0


def test_in_place_writes_all_or_none(folder: Path, tmp_path: Path, invoke: Invoke) -> None:
    good = write(scores(), tmp_path / "a.csv")
    bad = write(scores().with_columns(score=pl.lit(2.0)), tmp_path / "b.csv")
    before = good.read_bytes(), bad.read_bytes()
    assert invoke("apply", folder / "m.json", tmp_path, "--in-place").code == 3
    assert (good.read_bytes(), bad.read_bytes()) == before
    assert sorted(tmp_path.iterdir()) == [good, bad]
    bad.unlink()
    told = invoke("apply", folder / "m.json", tmp_path, "--in-place", "--json").result()
    assert told["rows"] == scores().height
    assert told["columns_added"] == ["decision", "margin"]


@pytest.mark.parametrize(
    "more", [("F", "-o", "x.csv"), ("F", "--output-format", "csv"), ("-",), ("s3://b/a.csv",)]
)
def test_in_place_of_what_cannot_be(
    more: tuple[str, ...], folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    path = write(scores(), tmp_path / "a.csv")
    words = [path if word == "F" else word for word in more]
    invoke("apply", folder / "m.json", *words, "--in-place").refused(2, "--in-place")
