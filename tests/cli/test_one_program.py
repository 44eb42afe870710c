"""A fit is the same whatever the memory, the threads, the files, the shards and the engine.

One fit of every kind is made plainly; then one thing at a time is varied.  ``make same-bytes`` does
all of it on more rows, `make test` what finds most.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from tests.budgets import little_memory
from tests.cli.score_files import recount, simulate, write
from tests.compat.fits import FITS, MODELS, PRECISION, ROWS, rows, words
from tests.fuzz.harness import run_quietly

ALL = os.environ.get("SAME_BYTES") == "1"
#: So many rows there are; so many fit into the little budget, and so many entries of a table:
#: scores, uncertainties, labels and segments or weights have at most 234 combinations.
COUNT, ROOM, ENTRIES = (3000, 300, 300) if ALL else (300, 80, 240)


def made(folder: Path, line: Sequence[object], out: str = "out.json") -> bytes:
    """Return what a command wrote."""
    path = folder / out
    path.unlink(missing_ok=True)
    code, said = run_quietly([*map(str, line), "-q", "-o", str(path)])
    assert code == 0, said
    return path.read_bytes()


class Bench:
    """A folder with the rows stored in many ways, and the models that other fits read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        frame = rows(COUNT)
        self.file = write(frame, folder / ROWS)
        shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
        self.shuffled = write(shuffled, folder / "shuffled.parquet")
        self.parts = {
            count: [
                write(part, folder / f"{count}-{k}.csv")
                for k, part in enumerate(_split(whole, count))
            ]
            for count, whole in ((1, frame), (2, frame), (7, shuffled))
        }
        for model, fit in MODELS.items():
            (folder / model).write_bytes(self.plain(fit))
        self.plain = cache(self.plain)  # type: ignore[method-assign]

    def fit(self, name: str, *inputs: object) -> bytes:
        """Return the model that a fit makes of inputs, options among them."""
        return made(self.folder, words(FITS[name], self.folder, *inputs))

    def plain(self, name: str) -> bytes:
        """Return the model of a fit on one file, in memory, by one thread."""
        return self.fit(name, self.file, "--threads", "1")

    def merged(self, name: str, count: int) -> bytes:
        """Return the model of a fit whose rows were read in shards, merged last to first."""
        states = []
        for part in self.parts[count]:
            states.append(self.folder / f"{part.stem}.state")
            line = [*words(FITS[name], self.folder, part), "--partial"]
            made(self.folder, line, states[-1].name)
        return made(self.folder, ["merge", *reversed(states)])


def _split(frame: pl.DataFrame, count: int) -> list[pl.DataFrame]:
    """Return the rows in parts of unequal size."""
    edges = [0, *(round(frame.height * ((k + 1) / count) ** 1.5) for k in range(count))]
    return [frame[low:high] for low, high in pairwise(edges)]


def _budget(bench: Bench, name: str) -> bytes:
    with little_memory(ROOM, ENTRIES) as budget:
        return bench.fit(name, bench.file, *budget)


#: What is varied: how the model of a fit is made.
WAYS: dict[str, Callable[[Bench, str], bytes]] = {
    "budget": _budget,
    "threads 2": lambda bench, name: bench.fit(name, bench.file, "--threads", "2"),
    "threads 4": lambda bench, name: bench.fit(name, bench.file, "--threads", "4"),
    "shuffled": lambda bench, name: bench.fit(name, bench.shuffled),
    "2 files": lambda bench, name: bench.fit(name, *bench.parts[2]),
    "7 shuffled files": lambda bench, name: bench.fit(name, *bench.parts[7], "--threads", "4"),
    "1 shard": lambda bench, name: bench.merged(name, 1),
    "2 shards": lambda bench, name: bench.merged(name, 2),
    "7 shards": lambda bench, name: bench.merged(name, 7),
}
#: Of these each varies several things at once; where one fails, ``make same-bytes`` tells which.
#: Every kind of fit is made within a budget but one that takes seconds, as is every fourth variant of
#: one (of weights, in time), every sixteenth fit in each other way; `make test-more` makes the rest.
MOST_FOUND = ("budget", "7 shuffled files", "2 shards")

#: Fits that a cluster makes too; all of them where there is time.
ON_A_CLUSTER = (
    *("exact", "isotonic", "tandem", "evaluate"),
    *("evaluate votes", "tree", "boosted", "alpha of features"),
)


def _later(name: str, place: int, way: int) -> list[pytest.MarkDecorator]:
    """Return the mark of what `make test` leaves out of `MOST_FOUND`."""
    variant = " of " in name or " in " in name
    slow = name == "partition chosen"
    left_out = (place + 8 * way - 2) % 16 if way else slow or (variant and place % 4)
    return [pytest.mark.more] if not ALL and left_out else []


#: Each fit with each variation.
CASES = [
    pytest.param(name, way, id=f"{name}-{way}", marks=_later(name, place, k))
    for place, name in enumerate(FITS)
    for k, way in enumerate(WAYS if ALL else MOST_FOUND)
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize(("name", "way"), CASES)
def test_one_fit(name: str, way: str, bench: Bench) -> None:
    assert WAYS[way](bench, name) == bench.plain(name)


@pytest.mark.parametrize("name", FITS if ALL else ON_A_CLUSTER)
def test_on_a_cluster(name: str, bench: Bench, address: str) -> None:
    assert bench.fit(name, *bench.parts[2], "--dask", address) == bench.plain(name)


#: Fits on scores of which no two are alike.
CONTINUOUS = {
    "exact": f"{PRECISION} --method exact --folds 0",
    "recall": "boundary --recall 0.5 --method exact --folds 0",
    "st": f"{PRECISION} --method st --folds 0",
    "weights": f"{PRECISION} --method exact --weight weight --folds 0",
}


@pytest.fixture(scope="module")
def continuous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = simulate(300, seed=5).with_columns(pl.col("uncertainty").round())
    return write(frame, tmp_path_factory.mktemp("continuous") / "rows.csv")


@pytest.mark.parametrize("name", CONTINUOUS)
def test_coarse_scores_are_counted_exactly(name: str, continuous: Path, tmp_path: Path) -> None:
    """Counts hold for the model as written, and no boundary on the rows beats its bound."""
    line = words(CONTINUOUS[name], tmp_path, continuous)
    exact, coarse_forms = json.loads(made(tmp_path, line))["fit"], set()
    for room in (100, 120, 200):
        with little_memory(room) as budget:
            coarse_forms.add(made(tmp_path, [*line, *budget]))
    (model,) = map(json.loads, coarse_forms)  # there is one coarse form
    coarse, frame = model["fit"], pl.read_csv(continuous)
    found = recount(model, frame, frame["weight"].to_list() if name == "weights" else None)
    assert {key: coarse["in_sample"][key] for key in found} == found
    assert "resolution" in coarse and "resolution" not in exact
    assert coarse["in_sample"]["objective_value"] <= coarse["upper_bound"] + 1e-12
    assert exact["in_sample"]["objective_value"] <= coarse["upper_bound"] + 1e-12
    assert (coarse["rows"], coarse["positives"]) == (exact["rows"], exact["positives"])
