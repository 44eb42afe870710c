"""``--dask``: the same bytes and words as without it, of large files in parts too; what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import calibkit as ck
from calibkit.engines.dask import DaskEngine
from calibkit.engines.work import divided
from calibkit_cli.console import Console
from tests.cli.score_files import simulate
from tests.conftest import Invoke, Outcome
from tests.local_engine import LocalEngine


@pytest.fixture
def shards() -> str:
    random = np.random.default_rng(3)
    frame = simulate(1500).with_columns(
        site=pl.Series(random.choice(["x", "y"], 1500)),
        score_b=(pl.col("score") + pl.Series(random.normal(0, 0.02, 1500))).clip(0, 1),
    )
    for place, (start, end) in enumerate(pairwise([0, 10, 500, 501, 900, 1500])):
        folder = Path("rows") / f"day={place}"
        folder.mkdir(parents=True)
        frame[start:end].write_parquet(folder / "rows.parquet")
    return "rows"


@pytest.mark.parametrize(
    ("line", "output"),
    [
        # What no fit of test_one_program.py on a cluster asks for.
        ("bin rows --score-bins 20", "grid.parquet"),
        ("calibrate rows --by site --provenance names", "cal.json"),
        ("vad rows --members score,score_b --by day --min-rows 2", "vad.json"),
        # A model beside the rows is found by workers.
        ("evaluate rows --boundary model.json --no-intervals", "metrics.json"),
    ],
)
def test_the_same_bytes(shards: str, invoke: Invoke, address: str, line: str, output: str) -> None:
    ck.fit_boundary(shards, precision=0.7, folds=0).save("model.json")
    alone = invoke(*line.split(), "-o", output)
    alone.succeeded()
    expected = Path(output).read_bytes()
    there = invoke(*line.split(), "--dask", address, "-o", output)
    there.succeeded()
    assert Path(output).read_bytes() == expected
    first, other = (done.stderr.splitlines()[-1].split()[0] for done in (alone, there))
    assert first == other


def test_a_bad_shard_has_its_exit_code(shards: str, invoke: Invoke, address: str) -> None:
    bad = Path(shards) / "day=3" / "rows.parquet"
    bad.write_bytes(bad.read_bytes()[:1000])
    done = invoke("evaluate", shards, "--dask", address, "-o", "metrics.json")
    done.refused(3, f"{bad}: the file is truncated")


def test_what_is_refused(
    shards: str, invoke: Invoke, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for options in ("--partial -o x.state", "-o models/", "--test rows/day=1/rows.parquet"):
        invoke("boundary", shards, "--precision 0.7 --dask", address, options).refused(2, "--dask")
    invoke("vad", "-", "--dask", address).refused(2, "standard input")
    invoke("vad", "missing/", "--dask", address).refused(2, "missing")
    monkeypatch.setitem(sys.modules, "distributed", None)
    invoke("vad", shards, "--members score,score_b --dask local").refused(2, "calibkit[dask]")


def test_processes_of_this_machine(shards: str, command: Callable[..., Any]) -> None:
    line = ["vad", shards, "--members", "score,score_b", "-q"]
    assert command(*line, "-o", "alone.json").returncode == 0
    done = command(*line, "--dask", "local", "--threads", 1, "-o", "there.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert Path("there.json").read_bytes() == Path("alone.json").read_bytes()


def test_apply_writes_a_file_for_each(
    shards: str, invoke: Invoke, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ck.fit_boundary(shards, precision=0.7, folds=0).save("model.json")
    invoke("apply", "model.json", shards, "-q", "-o", "alone/").succeeded()
    lines: list[bool] = []
    monkeypatch.setattr(Console, "show_progress", lambda console: lines.append(console.quiet))
    done = invoke("apply", "model.json", shards, "--dask", address, "-o", "there/")
    named = ", ".join(f"there/day={day}/rows.parquet" for day in range(3))
    told = f"1,500 rows in 5 files written to there/: {named} and 2 more.\n"
    assert (done.code, done.stderr) == (0, told)
    assert lines == [False]
    written = {path.relative_to("there"): path.read_bytes() for path in Path("there").rglob("*.*")}
    assert len(written) == 5
    for name, content in written.items():
        assert content == (Path("alone") / name).read_bytes()
    assert invoke("apply", "model.json", shards, "--dask", address, "-o", "a.csv").code == 2


def test_apply_writes_all_or_nothing(shards: str, invoke: Invoke, address: str) -> None:
    ck.fit_calibrator(shards).save("model.json")
    bad = Path(shards) / "day=3" / "rows.parquet"
    pl.read_parquet(bad).with_columns(score=pl.lit(7.0)).write_parquet(bad)
    done = invoke("apply", "model.json", shards, "--dask", address, "-o", "there/")
    done.refused(3, f"{bad}: column 'score': not in [0, 1] in 399 rows")
    assert [path for path in Path("there").rglob("*") if path.is_file()] == []


GROUP, ROWS = 60, 900

#: What returns the cluster of a command.
ENGINE = "calibkit.engines.work.DaskEngine"

#: Command lines without inputs; those of little memory are of fits that have room for few rows.
LINES = {
    "bin": "bin --score-bins 20 --weight weight",
    "boundary": "boundary --precision 0.7 --method mist --provenance names",
    "boundary, segments": "boundary --precision 0.6 --method exact --by site",
    "boundary, coarse": "boundary --precision 0.7 --method exact --memory 1MB",
    "calibrate": "calibrate --method isotonic --by site --weight weight",
    "calibrate, coarse": "calibrate --method isotonic --memory 1MB",
    "evaluate": "evaluate --by site --groups id --no-intervals",
    "vad": "vad --members score,score_b --by site --weight weight",
    "hetcal": "hetcal --features uncertainty,site --max-depth 2 --min-leaf 30 --shrinkage 10 "
    "--groups id",
    "alpha-cal": "alpha-cal --probs p_* --counts c_* --features uncertainty",
    "hetcal, little memory": "hetcal --features uncertainty,site --max-depth 1 --min-leaf 200 "
    "--shrinkage 0 --memory 1MB",
    "alpha-cal, little memory": "alpha-cal --probs p_* --counts c_* --memory 1MB",
    "calibrate, little memory": "calibrate --probs p_* --counts c_* --method temperature "
    "--memory 1MB",
}
#: Options by which some parts have no rows left: then the whole file is read.
NOTHING_LEFT = {"--unlabelled", "score,score_b"}
#: Those that read labels of rows.
LABELLED = ("bin", "boundary", "calibrate", "evaluate", "hetcal")


class Seen:
    """What became of files: in how many parts they were, and which were read again as a whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch.setattr
        self.parts: list[int] = []
        self.again: list[str] = []
        self._patch("calibkit.engines.work.divided", self._divided)

    def with_workers(self, count: int) -> None:
        """Let ``--dask local`` work in this process, as if it were some."""
        self._patch(ENGINE, lambda *_: nullcontext(Places(self, count)))
        self.parts, self.again, self.worked = [], [], False

    def on_a_cluster(self) -> None:
        """Let ``--dask`` work where it says."""
        self.with_workers(0)
        self._patch(ENGINE, DaskEngine)

    def _divided(self, engine: Any, shards: Any, opening: Any) -> Any:
        work = divided(engine, shards, opening)
        firsts = [n for n, part in enumerate(work) if not part.stretch or not part.stretch.first]
        self.parts += [end - start for start, end in pairwise([*firsts, len(work)])]
        return work


class Places(LocalEngine):
    """Some workers in this process, which note what they read again."""

    def __init__(self, seen: Seen, count: int) -> None:
        super().__init__(count)
        self._seen = seen

    def map(self, function: Any, parts: Any, *more: Any) -> Any:
        if not isinstance(function, partial):  # which looks for places to cut
            self._seen.again = [part.name for part in parts] if self._seen.worked else []
            self._seen.worked = True
        return super().map(function, parts, *more)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Return what becomes of files, of which some hundred rows are large ones."""
    monkeypatch.setattr("calibkit.engines.work._SMALL_BYTES", 10_000)
    monkeypatch.setattr("calibkit.engines.work._FEWEST_ROWS", GROUP)
    monkeypatch.setattr("calibkit.runtime.memory.FEWEST_ENTRIES", 200)
    monkeypatch.setattr("calibkit.runtime.memory._FEWEST_ROWS", 200)
    return Seen(monkeypatch)


def rows(seed: int = 5) -> pl.DataFrame:
    """Return rows of which parts lack values or are of one class."""
    random = np.random.default_rng(seed)
    frame = simulate(ROWS, seed=seed).sort("label").with_columns(pl.col("weight").cast(pl.Float64))
    probs = random.dirichlet(np.ones(3), ROWS)
    votes = np.array([random.multinomial(place % 4, p) for place, p in enumerate(probs)])
    place = pl.int_range(pl.len())
    return frame.with_columns(
        score=pl.when(place.is_in([7, 300])).then(None).otherwise(pl.col("score")),
        score_b=pl.when(place.is_between(360, 540) | (place == 1))
        .then(float("nan"))
        .otherwise(pl.col("score") ** 1.1),
        weight=pl.when(place < 2 * GROUP).then(0.0).otherwise(pl.col("weight")),
        label=pl.when(place >= ROWS - 200).then(None).otherwise(pl.col("label")),
        site=pl.Series(random.choice(["x", "y"], ROWS)),
        id=pl.col("id") // 3,
        **{f"p_{k}": probs[:, k] for k in range(3)},
        **{f"c_{k}": votes[:, k] for k in range(3)},
    )


@pytest.fixture
def large() -> str:
    write(rows())
    return "large.parquet"


def write(frame: pl.DataFrame, name: str = "large.parquet") -> None:
    frame.write_parquet(name, row_group_size=GROUP)


def line(name: str) -> list[str]:
    """Return a command line that leaves rows without a value out."""
    labelled = LINES[name].startswith(LABELLED) and "--probs" not in LINES[name]
    drop = "--on-missing drop" + " --unlabelled drop" * labelled
    return f"{LINES[name]} {drop}".split()


def outcome(
    invoke: Invoke, line: list[str], *inputs: str, address: str = "local"
) -> tuple[Outcome, bytes]:
    """Return what a command line on a cluster comes to, and the file that it writes."""
    command, *options = line
    place = Path(f"made{'.parquet' if command == 'bin' else '.json'}")
    done = invoke(command, *inputs, *options, "--dask", address, "--threads", 2, "-q", "-o", place)
    content = place.read_bytes() if place.exists() else b""
    place.unlink(missing_ok=True)
    return done, content


@pytest.mark.few(6)
@pytest.mark.parametrize("name", LINES)
def test_the_same_bytes_and_words(name: str, large: str, invoke: Invoke, seen: Seen) -> None:
    seen.with_workers(1)
    whole = outcome(invoke, line(name), large)
    assert (whole[0].code, seen.parts) == (0, [1]), whole[0].stderr
    for workers in (5,) if "little memory" in name else (2, 5):
        seen.with_workers(workers)
        assert outcome(invoke, line(name), large) == whole
        assert seen.parts == [workers]
        if not NOTHING_LEFT & {*line(name)} or workers == 2:  # else parts have none
            assert seen.again == []


@pytest.mark.parametrize("name", ["bin", "evaluate", "vad", "hetcal", "alpha-cal"])
def test_bad_values_of_all_parts_are_named_together(
    name: str, large: str, invoke: Invoke, seen: Seen
) -> None:
    column = "p_1" if name == "alpha-cal" else "score"
    place = pl.int_range(pl.len())
    bad = pl.when(place.is_in([3, 650, 651, 800])).then(7.0).otherwise(pl.col(column))
    write(rows().with_columns(bad.alias(column), pl.col("label").fill_null(1)))
    seen.with_workers(5)
    done, content = outcome(invoke, line(name), large)
    done.refused(3, f"{large}: column {column!r}: not in [0, 1] in 4 rows (first: rows 4, 651, 652")
    assert (content, seen.again) == (b"", [large])
    seen.with_workers(1)
    assert outcome(invoke, line(name), large)[0] == done


def test_what_only_all_rows_show(large: str, invoke: Invoke, seen: Seen) -> None:
    frame = rows()
    for changed, name, said in (
        ({"label": None}, "calibrate", "all 900 rows lack a value"),
        ({"label": 0}, "boundary", "no positive row"),
        ({"score_b": None}, "vad", "all 900 rows lack a value"),
        ({"weight": 0.0}, "vad", f"{large}: column 'weight': weight 0 in"),
        ({"score": "high"}, "evaluate", "text instead of numbers in 700 rows (first: rows 1, 2, 3"),
    ):
        cast = {key: frame.schema[key] for key in changed if changed[key] is None}
        write(frame.with_columns(pl.lit(v, cast.get(k)).alias(k) for k, v in changed.items()))
        seen.with_workers(1)
        whole, _ = outcome(invoke, line(name), large)
        whole.refused(3, said)
        seen.with_workers(3)
        assert outcome(invoke, line(name), large)[0] == whole
        assert seen.parts == [3]


def test_a_damaged_part(large: str, invoke: Invoke, seen: Seen) -> None:
    content = bytearray(Path(large).read_bytes())
    column = pq.read_metadata(large).row_group(11).column(1)
    assert column.path_in_schema == "score"
    half = column.data_page_offset
    content[half : half + 200] = bytes(200)
    Path(large).write_bytes(content)
    seen.with_workers(4)
    outcome(invoke, line("evaluate"), large)[0].refused(3, f"{large}: the file is truncated")
    assert (seen.parts, seen.again) == ([4], [large])
    Path(large).write_bytes(content[:half])
    outcome(invoke, line("evaluate"), large)[0].refused(3, f"{large}: the file is truncated")


def test_one_file_of_two_in_parts(large: str, invoke: Invoke, seen: Seen) -> None:
    write(rows(seed=6)[:GROUP], "small.parquet")
    write(rows(seed=7), "further.parquet")
    rows(seed=7).write_csv("further.csv")
    for inputs, parts in (
        (["small.parquet", large], [1, 3]),
        ([large, "further.csv"], [3, 1]),
        ([large, "further.parquet", large], [1, 1, 1]),
    ):
        seen.with_workers(1)
        whole = outcome(invoke, line("boundary"), *inputs)
        assert whole[0].code == 0, whole[0].stderr
        seen.with_workers(3)
        assert outcome(invoke, line("boundary"), *inputs) == whole
        assert seen.parts == parts


def test_files_stay_whole_with_training_rows(large: str, invoke: Invoke, seen: Seen) -> None:
    write(rows(seed=6)[200:700], "train.parquet")
    words = [*line("hetcal"), "--train", "train.parquet"]
    seen.with_workers(5)
    done, _ = outcome(invoke, words, large)
    assert (done.code, seen.parts) == (0, []), done.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["calibrate", "vad", "calibrate, little memory"])
def test_on_a_cluster(name: str, large: str, invoke: Invoke, seen: Seen, address: str) -> None:
    seen.with_workers(1)
    whole = outcome(invoke, line(name), large)
    seen.on_a_cluster()
    assert outcome(invoke, line(name), large, address=address) == whole
    assert seen.parts == [2]
    write(rows().with_columns(pl.lit(7.0).alias("score"), pl.lit(7.0).alias("p_0")))
    done, _ = outcome(invoke, line(name), large, address=address)
    done.refused(3, f"{large}: column ")
    seen.with_workers(1)
    assert outcome(invoke, line(name), large)[0] == done
