"""Every format, every way to name inputs, and every way they can be wrong."""

from __future__ import annotations

import gc
import gzip
import json
import os
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from calibkit.errors import DataError, ResourceError, UsageError
from calibkit.files.explain import reading
from calibkit.files.formats import Dialect, Opening, sniff_format
from calibkit.files.sources import open_source
from calibkit.files.table import check_rows
from calibkit.files.told import Told
from calibkit.files.values import counts_of, kinds_of
from calibkit.runtime.memory import Memory
from tests.cli.score_files import encode

FRAME = pl.DataFrame(
    {"score": [0.25, 0.5, 0.75], "label": [0, 1, 1], "name": ["a", "b,c", 'd"e\nf']}
)


def encoded(kind: str, frame: pl.DataFrame = FRAME) -> bytes:
    return encode(frame, {"stream": ".arrows"}.get(kind, f".{kind}"))


def put(folder: Path, name: str, data: bytes | str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


@pytest.mark.parametrize(("kind", "memory"), [("parquet", None), ("arrow", Memory(1))])
def test_a_pipe_is_read_once_and_stays_as_long_as_its_rows(
    kind: str, memory: Memory | None, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(encoded(kind),))
    writer.start()
    source = open_source([str(pipe)], Opening(memory=memory))
    writer.join()
    gc.collect()
    assert source.read().equals(FRAME)
    assert source.read(["label"]).equals(FRAME.select("label"))


# Several files


def test_a_file_is_named_as_it_stands_before_its_name_is_a_pattern(tmp_path: Path) -> None:
    for name in ("a[1].csv", "a1.csv"):
        put(tmp_path, name, f"file\n{name}\n")
    assert open_source([f"{tmp_path}/a[1].csv"]).read()["file"].to_list() == ["a[1].csv"]
    assert open_source([f"{tmp_path}/a[0-9].csv"]).read()["file"].to_list() == ["a1.csv"]
    with pytest.raises(UsageError, match=r"a2\.csv: no such file.*a1\.csv"):
        open_source([f"{tmp_path}/a2.csv"])


def test_glob_and_folder_are_sorted_and_hidden_files_skipped(tmp_path: Path) -> None:
    for name in ["b.csv", "a.csv", "sub/c.csv"]:
        put(tmp_path, name, f"file\n{name}\n")
    for name in ["_SUCCESS", ".hidden.csv", "_temporary/d.csv", ".crc/e.csv"]:
        put(tmp_path, name, "junk")
    assert open_source([str(tmp_path)]).read()["file"].to_list() == ["a.csv", "b.csv", "sub/c.csv"]
    assert open_source([f"{tmp_path}/*.csv"]).read()["file"].to_list() == ["a.csv", "b.csv"]
    everywhere = open_source([f"{tmp_path}/**/*.csv"])
    assert everywhere.read()["file"].to_list() == ["a.csv", "b.csv", "sub/c.csv"]


def test_folder_keys_become_columns(tmp_path: Path) -> None:
    put(tmp_path, "day=2/rate=0.5/who=a%20b/x.csv", "v\n1\n")
    put(tmp_path, "day=10/rate=1/who=__HIVE_DEFAULT_PARTITION__/x.csv", "v\n2\n3\n")
    source = open_source([str(tmp_path)])
    rows = [(None, 2, 10, 1.0), (None, 3, 10, 1.0), ("a b", 1, 2, 0.5)]
    assert source.read(["who", "v", "day", "rate"]).rows() == rows
    assert source.schema["day"] == pl.Int64() and source.schema["rate"] == pl.Float64()
    put(tmp_path, "y.csv", "v\n1\n")
    with pytest.raises(DataError, match="no folder day=") as caught:
        open_source([str(tmp_path)])
    assert caught.value.column == "day"
    put(tmp_path, "other/v=1/x.csv", "v\n7\n")
    other = open_source([str(tmp_path / "other")])
    assert (other.schema, other.read().rows()) == ({"v": pl.Int64()}, [(7,)])


def test_numbers_of_text_shards_are_unified_in_any_order_of_columns(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", "v,w\n1,\n")
    put(tmp_path, "b.csv", "w,v\n3,0.5\n")
    put(tmp_path, "c.ndjson", '{"v": 2, "w": null}\n')
    source = open_source([str(tmp_path)])
    assert source.schema == {"v": pl.Float64(), "w": pl.Int64()}
    assert source.read().rows() == [(1.0, None), (0.5, 3), (2.0, None)]
    assert source.split()[0].read()["v"].dtype == pl.Float64
    large, small = "v\n12345678901234567890\n", "v\n1\n"
    for texts, values in (
        ((large, small), [int(large[2:]), 1]),
        ((small, large), [1, int(large[2:])]),
    ):
        paths = [put(tmp_path, f"{place}.csv", text) for place, text in enumerate(texts)]
        assert open_source(paths).read()["v"].to_list() == values


@pytest.mark.parametrize(
    ("second", "column", "says"),
    [("v\n1\n", "w", "no column 'w'"), ("v,w,x\n1,2,3\n", "x", "no column 'x'")],
)
def test_missing_or_additional_column(tmp_path: Path, second: str, column: str, says: str) -> None:
    one, two = put(tmp_path, "a.csv", "v,w\n1,2\n"), put(tmp_path, "b.csv", second)
    with pytest.raises(DataError, match=says) as caught:
        open_source([one, two])
    assert one in caught.value.message
    assert two in caught.value.message
    assert caught.value.column == column


@pytest.mark.parametrize("swapped", [False, True])
def test_text_among_numbers_of_another_shard_is_named(tmp_path: Path, swapped: bool) -> None:
    good = put(tmp_path, "a.csv", "v\n1\n")
    bad = put(tmp_path, "b.csv", "v\n1\nn/a\nx\n")
    with pytest.raises(DataError, match="'n/a'") as caught:
        open_source([bad, good] if swapped else [good, bad])
    assert (caught.value.file, caught.value.column) == (bad, "v")
    assert (caught.value.rows, caught.value.first_rows) == (2, [2, 3])


def test_types_of_files_must_agree(tmp_path: Path) -> None:
    wide = pl.DataFrame({"v": [1.0]})
    one = put(tmp_path, "a.parquet", encoded("parquet", wide))
    two = put(tmp_path, "b.parquet", encoded("parquet", wide.cast(pl.Float32)))
    with pytest.raises(DataError, match="Float32, but Float64"):
        open_source([one, two])
    text, number = (
        put(tmp_path, "text.csv", "v\n1\nabc\n"),
        put(tmp_path, "number.csv", "v\n1\n2\n"),
    )
    for files in ([text, number], [number, text]):
        with pytest.raises(DataError, match=r"^[^ ]*text.csv: .* is String, but Int64 in .*number"):
            open_source(files)


# CSV


def csv_frame(folder: Path, text: str | bytes, dtype: str = "float64") -> pl.DataFrame:
    return open_source([put(folder, "x.csv", text)], Opening(dialect=Dialect(dtype=dtype))).read()


@pytest.mark.parametrize(
    ("late", "expected"),
    [("1.5", 1.5), ("", None), ('""', None), ("nan", "nan"), ("x", "x"), ("inf", np.inf)],
)
def test_late_values_change_the_type_of_an_integer_column(
    tmp_path: Path, late: str, expected: object
) -> None:
    frame = csv_frame(tmp_path, "v,w\n" + "1,2\n" * 20_000 + f"{late},3\n")
    value = frame["v"][-1]
    assert np.isnan(value) if expected == "nan" else value == expected
    assert frame.height == 20_001
    assert frame["w"].dtype == pl.Int64


@pytest.mark.few(7)
@pytest.mark.parametrize(
    ("late", "expected"),
    [
        ("7", 7.0), ("1,5e3", 1500.0), (" 1,5 ", 1.5), ("inf", np.inf), ("1.234", "1.234"),
        ("1.234,5", 1234.5), ("", None), ("nan", None), ("NA", None), ("1.25", "1.25"), ("x", "x"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("memory", [None, Memory(1)])
@pytest.mark.parametrize("asked", [None, ","])
def test_late_values_among_decimal_commas(
    tmp_path: Path, late: str, expected: object, memory: Memory | None, asked: Any
) -> None:
    if late == "1.234" and asked:
        expected = 1234.0  # nothing else tells that points stand between thousands
    text = "v;w;u\n" + "0,25;2;1,234\n" * 20_000 + f"{late};3;5,678\n"
    path = put(tmp_path, "x.csv", text)
    source = open_source([path], Opening(memory=memory, dialect=Dialect(decimal=asked)))
    frame = source.read()
    assert frame["v"].to_list()[-2:] == ["0,25" if isinstance(expected, str) else 0.25, expected]
    assert frame["w"].dtype == pl.Int64
    if not isinstance(expected, str):
        assert frame["u"].to_list()[-2:] == [1.234, 5.678]
        assert source.told == Told(marks=(",",), taken=",")
        assert source.remarks == [
            f"Read {path} with semicolons between fields; decimal commas in 'v', 'u'"
            f"{'; marks of thousands in ' + repr('v') if '.' in late else ''}"
            f"{'; missing values as text in ' + repr('v') if 'A' in late.upper() else ''}."
        ]


@pytest.mark.parametrize(
    "word", ["nan", "NaN", "inf", "-inf", "Infinity", "1e-5", "1E5", ".5", "5.", "+1.0", "-0.0"]
)
@pytest.mark.parametrize("first", [True, False])
def test_float_spellings(tmp_path: Path, word: str, first: bool) -> None:
    rows = [word, "0.25"] if first else ["0.25", word]
    values = csv_frame(tmp_path, "v,w\n" + "".join(f"{row},1\n" for row in rows))["v"]
    assert values.dtype == pl.Float64
    read = values[0 if first else 1]
    assert np.float64(read).tobytes() == np.float64(word).tobytes() or np.isnan(read)


LONG = "x" * 200_000


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            'i,f,b,s,n,e,j\n1,2.5,true,x,,"",12345678901234567890\n"",,False,"a,b",,"",\n',
            [
                (1, 2.5, True, "x", None, "", 12345678901234567890),
                (None, None, False, "a,b", None, "", None),
            ],
        ),
        ("v,w\n" + ",2\n" * 20_000 + "7,3\n", [*[(None, 2)] * 20_000, (7, 3)]),
        ("v;w\n1.234,5;1.234\n", [(1234.5, "1.234")]),  # the point is no decimal mark
        ("v,w\n1,2\n\n\r\n", [(1, 2)]),
        ("v,w\n1,2\n,\n", [(1, 2), (None, None)]),
        (f"v,w\n{LONG},\n\n", [(LONG, None)]),
        (f'v,w\n"{LONG}",1\nb,\n', [(LONG, 1), ("b", None)]),
        ('v,w\n"a",1\nb\rc,2\r\nd,\r\n', [("a", 1), ("b\rc", 2), ("d", None)]),
    ],
    ids=["types", "late", "point", "blank lines", "empty fields", "long", "quoted", "returns"],
)
def test_rows_of_text(tmp_path: Path, text: str, rows: list[tuple[Any, ...]]) -> None:
    frame = csv_frame(tmp_path, text)
    whole = pl.DataFrame(rows, schema=frame.columns, orient="row", infer_schema_length=None)
    assert_frame_equal(frame, whole)


def test_a_remark_names_three_columns_and_counts_more(tmp_path: Path) -> None:
    for count, said in ((3, "'a', 'b', 'c'."), (5, "'a', 'b', 'c' and 2 more.")):
        path = put(tmp_path, "x.csv", f"{';'.join('abcde'[:count])}\n{';'.join(['0,5'] * count)}\n")
        (remark,) = open_source([path]).remarks
        assert remark.endswith(f"decimal commas in {said}")


FIELDS, OBJECTS = ("x.csv", "another number of fields"), ("x.ndjson", "not a JSON object")


@pytest.mark.parametrize(
    ("name", "says", "text", "rows"),
    [
        (*FIELDS, "v,w\n1,2\n3\n4,5\n6\n", [2, 4]),
        (*FIELDS, "v,w\n1,2\n3,4,5\n", [2]),
        (*FIELDS, "v,w\n1,2\n\n3,4\n", [2]),
        (*FIELDS, 'v,w\n"a\nb",2\n3\n', [2]),
        (*FIELDS, "v,w\n" + "1,2\n" * 20_000 + "3\n", [20_001]),
        (*FIELDS, "v,w\n" + "1,2\n" * 20_000 + "3,4,5\n", [20_001]),
        (*FIELDS, 'v,w\n"a,b",\n"c"\n', [2]),
        (*FIELDS, "v\n1\n2,3\n\n\n", [2]),
        (*FIELDS, "v,w\n1,2\n3,4,5\n\n", [2]),
        (*OBJECTS, '{"v": 1}\n{"v": NaN}\n{"v": NaN}\n', [2, 3]),
        (*OBJECTS, '{"v": 1}\n{"v": ', [2]),
        (*OBJECTS, "[1, 2]\n", [1]),
        (*OBJECTS, '{"v": 1}\n7\n', [2]),
        (*OBJECTS, '{"v": 1}\r\n\r\n \r\n7\r\n', [2]),
    ],
)
def test_ragged_rows(tmp_path: Path, name: str, says: str, text: str, rows: list[int]) -> None:
    with pytest.raises(DataError, match=says) as caught:
        open_source([put(tmp_path, name, text)])
    assert (caught.value.first_rows, caught.value.rows) == (rows, len(rows))


NOISE = random.Random(1).randbytes(9000).hex().encode()


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        *(("x.csv", text, "empty") for text in ("v,w\n", "v,w", "", "\n \n")),
        *(("x.ndjson", text, "empty") for text in ("", "\n\n", " ")),
        ("x.csv", "v,v\n1,2\n", "column 'v' 2 times"),
        ("x.csv", "v,,\n1,2,3\n", "column '' 2 times"),
        ("x.csv", b"v,w\n1,\xff\xfe\x81\n", "utf-8"),
        ("x.csv", encoded("parquet"), "parquet data"),
        ("x.csv", encoded("arrow"), "arrow data"),
        ("x.csv", bytes(range(256)) * 50, "utf-8"),
        ("x.csv", gzip.compress(b"v\n" + NOISE)[:-99], "trunc"),
        ("x.csv", 'v,w\n1,"x\n2,y\n', "corrupt"),
        ("x.csv", "score,label\r0.5,1\r0.6,0\r", "end in a carriage return alone"),
        ("x.csv", "# of may\nscore,label\n0.5,1\n0.6,0\n", "is the first line the header"),
        ("x.csv", "score,label\n0.5,1\n0.6,0,7\n0.6,0\n", "correct the row, or quote"),
        ("x.ndjson", 'null\n{"v": 1}\n', "not a JSON object .first: row 1"),
        ("x.csv", "a,b\n" + "1,2\n" * 9 + '1"7,2\n' + "3,4\n" * 9, "close the quotation mark"),
        ("x.parquet", "v,w\n1,2\n" * 20, "not of its format"),
        ("x.arrow", "v,w\n1,2\n" * 20, "not of its format"),
        *(
            (f"x.{kind}", encoded(kind)[:end], "truncated|empty")
            for kind in ("parquet", "arrow")
            for end in (0, 3, 8, -1)
        ),
    ],
)
def test_malformed_files(tmp_path: Path, name: str, data: bytes | str, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        open_source([put(tmp_path, name, data)]).read()
    assert caught.value.file == str(tmp_path / name)


def test_float32_narrows_fractions_only(tmp_path: Path) -> None:
    frame = csv_frame(tmp_path, "v,w,x\n0.1,1,nan\n2,2,0.1\n", dtype="float32")
    assert frame.dtypes == [pl.Float32, pl.Int64, pl.Float32]
    assert frame["v"][0] == np.float32(0.1)


@given(
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=40),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=40),
    st.booleans(),
)
def test_floats_written_and_read_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, narrow: list[float], wide: list[float], as_text: bool
) -> None:
    folder = tmp_path_factory.mktemp("floats")
    for values, kind, dtype in ((narrow, pl.Float32, "float32"), (wide, pl.Float64, "float64")):
        frame = pl.DataFrame({"v": [*values, 0.5], "w": 1}, schema_overrides={"v": kind})
        text = encoded("csv", frame)
        if as_text:  # the slower way, by which the whole file decides the types
            text += b"nan,1\n"
        read = csv_frame(folder, text, dtype=dtype)["v"].to_numpy()[: frame.height]
        assert read.tobytes() == frame["v"].to_numpy().tobytes()


# NDJSON


def test_json_types_of_the_whole_file(tmp_path: Path) -> None:
    text = '{"v": 1}\n' * 20_000 + '{"v": 1.5, "w": 2}\n\n'
    frame = open_source([put(tmp_path, "x.jsonl", text)]).read()
    assert (frame.row(-1), frame.height) == ((1.5, 2), 20_001)
    path = put(tmp_path, "x.jsonl", b'\xef\xbb\xbf{"v": 0.1, "w": 1}\n')
    narrow = open_source([path], Opening(dialect=Dialect(dtype="float32"))).read()
    assert narrow.dtypes == [pl.Float32, pl.Int64]
    assert sniff_format(b'\xef\xbb\xbf \n {"a": 1}') == "ndjson"


def test_columns_of_json_are_in_the_order_of_the_first_line(tmp_path: Path) -> None:
    names = ["score", *(f"c{k}" for k in range(40)), "^label$"]
    lines = "\n" + json.dumps(dict.fromkeys(names, 1)) + '\n{"z": 1, "b": 2}\n'
    found = open_source([put(tmp_path, "x.ndjson", lines)]).read()
    assert found.columns == [*names, "b", "z"]


def test_a_file_that_changed_while_it_was_read_is_refused(tmp_path: Path) -> None:
    source = open_source([put(tmp_path, "x.parquet", encoded("parquet"))])
    put(tmp_path, "x.parquet", encoded("parquet", FRAME.head(2)))
    with pytest.raises(DataError):
        source.read()
    check_rows("a.csv", 3, 3)
    with pytest.raises(DataError, match=r"a\.csv: 2 rows instead of 3: the file changed"):
        check_rows("a.csv", 2, 3)


# What is not there, or not to be read


@pytest.mark.parametrize("text", ["0.5,1\n0.6,0\n", "0.5,1,de\n0.6,0,it\n"])
def test_missing_header_is_suspected(tmp_path: Path, text: str) -> None:
    source = open_source([put(tmp_path, "x.csv", text)])
    with pytest.raises(UsageError, match="header line missing"):
        source.require(["score"])


def test_not_found(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    put(tmp_path, "x.csv", "v\n1\n")
    for names, said in (
        *(([name], "no ") for name in ("none.csv", "none/*.csv", "*.cvs", "x.csv/y.csv")),
        ([], "no input"),
        (["empty"], "no file in this folder"),
    ):
        with pytest.raises(UsageError, match=said):
            open_source([str(tmp_path / name) for name in names])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(5, "Input/output error"), ResourceError),
        (PermissionError(13, "Permission denied"), UsageError),
        (OSError("Input/output error (os error 5)"), ResourceError),
        (pl.exceptions.ComputeError("failed: Permission denied (os error 13)"), UsageError),
        (pl.exceptions.PanicException("boom"), DataError),
        (pl.exceptions.ComputeError(""), DataError),
        (MemoryError(), ResourceError),
        (EOFError(), None),
    ],
)
def test_what_goes_wrong_while_reading(error: BaseException, kind) -> None:
    with pytest.raises(kind or EOFError) as caught, reading("x.csv"):
        raise error
    assert kind is None or caught.value.file == "x.csv"


def test_a_file_that_asks_for_more_memory_than_it_can_fill_is_damaged(tmp_path: Path) -> None:
    small = put(tmp_path, "small.arrow", b"x" * 100)
    with pytest.raises(DataError, match="corrupt"), reading(small):
        raise MemoryError("malloc of size 68719476736 failed")
    with pytest.raises(ResourceError, match="memory ran out"), reading(small):
        raise MemoryError("malloc of size 4096 failed")


def test_names_are_no_patterns(tmp_path: Path) -> None:
    frame = pl.DataFrame({"^s.*$": [1, 2], "score": [0.5, 0.25], "*": ["a", "b"]})
    for suffix in ("parquet", "csv"):
        path = tmp_path / f"odd.{suffix}"
        frame.write_parquet(path) if suffix == "parquet" else frame.write_csv(path)
        source = open_source([str(path)])
        assert source.read(["*", "^s.*$"]).equals(frame.select(frame["*"], frame["^s.*$"]))
        assert source.read(["score"]).columns == ["score"]
        with pytest.raises(UsageError, match="form of a pattern"):
            source.require(["^s.*$"], "--score")


def test_a_column_with_an_odd_name_or_none(tmp_path: Path) -> None:
    path = put(tmp_path, "odd.ndjson", '{"": 1, "score": 0.5}\n')
    assert open_source([path]).read(["score", ""]).rows() == [(0.5, 1)]
    assert csv_frame(tmp_path, '"a ""b""",w\n1,2\n').columns == ['a "b"', "w"]


NUMBERS = ["1", "-2", "0.5", "0,5", "1.234", "1,234", "1.234,5", "1,234.5", "1e5"]
TEXTS = [*NUMBERS, "NA", "", "nan", "true", "x"]


@given(
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=6),
    st.lists(st.sampled_from(TEXTS), max_size=6),
    st.sampled_from([None, ".", ","]),
    st.sampled_from([(), (".",), (",",), (".", ",")]),
)
def test_first_rows_only_save_counting(
    first: list[str], more: list[str], decimal: Any, votes: tuple[str, ...]
) -> None:
    dialect = Dialect(decimal=decimal)
    rows = pl.LazyFrame({"a": [*first, *more]}, schema={"a": pl.String})
    head = counts_of(rows.head(len(first)), ["a"], dialect, {})
    found = [counts_of(rows, ["a"], dialect, known) for known in ({}, head)]
    assert kinds_of(found[0], dialect, votes) == kinds_of(found[1], dialect, votes)


@pytest.mark.parametrize("sample", [b"score;label;na", b"score;label\n0,5;1\n0,25;", b"a;b\n1;2\n"])
def test_a_delimiter_is_told_from_what_a_sample_holds(sample: bytes) -> None:
    """Also of a header that is longer than the sample, and of a last line that is cut off."""
    assert Dialect().settled(sample, "csv").delimiter == ";"
