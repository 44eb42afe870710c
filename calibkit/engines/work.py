"""Work on files wherever an engine says: states made and merged, models applied.

A file is a shard, or a large one several: it is cut between row groups, so that its parts can be read
by themselves.  Neither a method nor what reads rows is loaded here before the work has begun elsewhere:
loading them takes as long as a worker needs for some million rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, pairwise
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from calibkit.engines.dask import LOCAL, DaskEngine
from calibkit.errors import CalibkitError, DataError, UsageError
from calibkit.files.formats import TEXT_FORMATS, Mark, Opening, suffix_format
from calibkit.files.paths import STDIN, Named, find_files, is_remote
from calibkit.files.table import check_rows
from calibkit.files.told import NOTHING, Noted, together
from calibkit.files.told import Told as TextTold
from calibkit.options.apply import ApplyOptions
from calibkit.runtime.memory import Memory
from calibkit.runtime.progress import Count
from calibkit.runtime.threads import later, warm_up

if TYPE_CHECKING:
    from calibkit.files.sources import Source
    from calibkit.models.model import Model
    from calibkit.summaries.states import Run, State

#: Files of fewer bytes are read in one piece.
_SMALL_BYTES: Final = 2**22
#: The rows of a large row group: where a file elsewhere, whose groups are not looked at, may be cut.
_GROUP: Final = 2**20
#: A part has so many rows at least: what comes of it takes longer than its task costs.
_FEWEST_ROWS: Final = 2**18
#: A file is large that is so many times a worker's share.
_LARGE: Final = 1.25


class Stretch(Struct, frozen=True):
    """Some rows of a file that has so many: the number of the first, from 0, and how many they are."""

    first: int
    rows: int
    of: int


class Shard(Struct, frozen=True):
    """A file of the inputs, or a part of one: the rows of a stretch; None: all.

    Its path leads there whatever the folder that a worker runs in.
    """

    file: Named
    stretch: Stretch | None = None

    @property
    def name(self) -> str:
        """What the user calls it: for messages, and for models that name files."""
        return self.file.known_as


class ShardOpening(Opening, frozen=True):
    """How shards are opened."""

    memory: Memory

    def open(self, shard: Shard) -> Source:
        """Return a shard's rows, which messages call by the name that the user knows."""
        from calibkit.files.sources import open_source

        try:
            source = open_source([shard.file], self)
            if shard.stretch is None:
                return source
            check_rows(shard.name, shard.stretch.of, source.rows)
            return source.stretch(shard.stretch.first, shard.stretch.rows)
        except CalibkitError as error:
            error.message = error.message.replace(shard.file, shard.name)
            error.file = shard.name
            raise

    def of_worker(self, address: str, threads: int) -> ShardOpening:
        """Return how a worker opens them: of this machine, a process a thread, all share the memory."""
        if address != LOCAL:
            return self
        return replace(self, memory=replace(self.memory, bytes=self.memory.bytes // threads))

    def told_together(self, engine: DaskEngine, shards: Sequence[Shard]) -> ShardOpening:
        """Return how shards are opened where the decimal marks of one settle those of all."""
        dialect = self.dialect
        texts = [s for s in shards if (self.input_format or suffix_format(s.file)) in TEXT_FORMATS]
        if dialect.decimal is not None or len(texts) < 2:
            return self
        looks = engine.map(partial(_look, self, to_cut=False), texts)
        marks = {mark for look in looks for mark in look.marks}
        return replace(self, dialect=replace(dialect, marks=tuple(sorted(marks))))


def shards_of(inputs: Sequence[str]) -> list[Shard]:
    """Return the files that the inputs of a command name: none is standard input."""
    found = find_files(inputs)
    if STDIN in found:
        raise UsageError("--dask reads files: standard input (-) has no name that workers know.")
    return [Shard(path.from_anywhere()) for path in found]


def divided(engine: DaskEngine, shards: Sequence[Shard], opening: ShardOpening) -> list[Shard]:
    """Return files with the large ones among them in parts, so that all workers have a part each.

    Only those that are much more than a worker's share are looked at.
    """
    workers = engine.at_once
    sizes = {shard: size_to_cut(shard.file, opening.input_format) for shard in shards}
    total = sum(sizes[shard] for shard in shards)
    large = [shard for shard, size in sizes.items() if size * workers >= _LARGE * total > 0]
    if workers < 2 or not large:
        return list(shards)
    looks = dict(zip(large, engine.map(partial(_look, opening, to_cut=True), large), strict=True))
    share = max(sum(looks[shard].rows for shard in large) / workers, _FEWEST_ROWS)
    found: list[Shard] = []
    for shard in shards:
        count = round(looks[shard].rows / share) if shard in looks else 1
        parts = stretches(looks[shard].cuts, count) if count > 1 else []
        found += [replace(shard, stretch=part) for part in parts] if len(parts) > 1 else [shard]
    return found


def size_to_cut(path: str, format_name: str | None) -> float:
    """Return the bytes of a large file of a format that can be read from the middle on, else 0.

    Infinity stands for files elsewhere, which are not asked.  CSV and NDJSON tell types and row
    numbers from the beginning on only, and Arrow files are checked as a whole before polars reads
    them.
    """
    if (format_name or suffix_format(path)) != "parquet":
        return 0
    if is_remote(path):
        return inf
    with suppress(OSError):  # what is wrong with it is said where it is read
        size = Path(path).stat().st_size
        return size if size >= _SMALL_BYTES else 0
    return 0


class Look(Struct, frozen=True):
    """How many rows a file has, after how many it may be cut, and its certain decimal marks."""

    rows: int = 0
    cuts: tuple[int, ...] = ()
    marks: tuple[Mark, ...] = ()


def _look(opening: ShardOpening, shard: Shard, *, to_cut: bool) -> Look:
    """Return what a file tells that is to be cut, or read alike; nothing of one that is damaged."""
    with suppress(Exception):  # what is wrong with a file is said where its rows are read
        source = opening.open(shard)
        told = source.told
        places = cuts(shard.file, source.rows) if to_cut else ()
        return Look(source.rows, places, () if told is None else told.marks)
    return Look()


def cuts(path: str, rows: int) -> tuple[int, ...]:
    """Return after how many rows a Parquet file may be cut, its `rows` the last of them."""
    if is_remote(path):
        return (*range(_GROUP, rows, _GROUP), rows)
    import pyarrow.parquet as pq

    found = pq.read_metadata(path)
    groups = (found.row_group(place).num_rows for place in range(found.num_row_groups))
    return tuple(accumulate(groups))


def stretches(cuts: Sequence[int], count: int) -> list[Stretch]:
    """Return a file of some cuts in at most so many parts, as equal as the cuts allow."""
    rows = cuts[-1]
    wanted = (rows * place / count for place in range(1, count))
    ends = {0, rows, *(min(cuts, key=lambda cut: abs(cut - row)) for row in wanted)}
    return [Stretch(first, end - first, rows) for first, end in pairwise(sorted(ends))]


class StateTask(Struct, frozen=True):
    """The work on a shard whose result is a state.

    `make` returns the state of a source; it travels, so it is a function of a module with arguments.
    """

    make: Callable[[Source], State]
    opening: ShardOpening

    def __call__(self, shard: Shard) -> State:
        """Return the state of a shard."""
        return self.make(self.opening.open(shard))


def _state(method: Callable[[], Run[Any, Any]], options: Any, source: Source) -> State:
    return method().state(options, source)


def state_on_cluster(
    method: Callable[[], Run[Any, Any]],
    options: Any,
    shards: Sequence[Shard],
    opening: ShardOpening,
    address: str,
    *,
    divide: bool,
) -> State:
    """Return the state of the rows of all files; see `state_of_all`.

    `method` loads what makes states: `calibkit.registry.methods.run` of a command.  The memory of
    the opening is that of this machine; a local cluster has a process for each thread.
    """

    def load() -> None:
        method()
        later(2, warm_up)

    threads: int = options.workers
    task = StateTask(partial(_state, method, options), opening.of_worker(address, threads))
    with DaskEngine(address, threads) as cluster:
        return state_of_all(
            cluster, task, shards, of_rows=options.of_rows, divide=divide, meanwhile=load
        )


def state_of_all(
    engine: DaskEngine,
    task: StateTask,
    shards: Sequence[Shard],
    *,
    of_rows: bool = False,
    divide: bool = True,
    meanwhile: Callable[[], object] = warm_up,
) -> State:
    """Return the state of the rows of all shards.

    Large files are worked on in parts, and each file tells by itself how its text is written.  Where
    that fails the whole files are, read alike: only these tell what is wrong with them, how often and
    where; and whether anything is.  States `of_rows` are merged here, where the fit needs all of
    them.  `divide` says whether large files may be worked on in parts, `meanwhile` what is done here
    once the work has begun.
    """

    def state(task: StateTask, work: Sequence[Shard]) -> State:
        states = engine.map(task, work)
        meanwhile()
        from calibkit.summaries.states import join_states

        room = inf if of_rows else task.opening.memory.entries
        return dataclasses.replace(engine.reduce(join_states, states, room), path=shards[0].name)

    work = divided(engine, shards, task.opening) if divide else shards
    try:
        return state(task, work)
    except (UsageError, DataError):
        opening = task.opening.told_together(engine, shards)
        if len(work) == len(shards) and opening == task.opening:
            raise
    return state(replace(task, opening=opening), shards)


class Order(Shard, frozen=True):
    """A shard, the file that it becomes, and where to write this until all are there."""

    output: str = ""
    place: str = ""


class Told(Struct, frozen=True):
    """What is known of a file that was written: its rows, added columns, warnings, how it was read."""

    rows: int
    added: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    text: TextTold | None = None
    noted: Noted = NOTHING


class ApplyTask(Struct, frozen=True):
    """The work on a shard whose result is a file: a model applied as options say."""

    model: Model
    options: ApplyOptions
    opening: ShardOpening

    def __call__(self, order: Order) -> Told:
        """Write a shard's rows with the added columns; return what is to be told."""
        from calibkit.apply import apply
        from calibkit.files.sinks import write_frames
        from calibkit.models.lineage import footer

        source = self.opening.open(order)
        plan = apply.plan_application(self.model, source, self.options)
        said: list[str] = []
        count, about = Count(), footer(plan.made_by) or None
        frames = count.passing(plan.frames(self.opening.memory, 1, said.append))
        write_frames(frames, order.output, metadata=about, place=order.place)
        return Told(count.rows, tuple(plan.added), tuple(said), source.told, source.noted)


def apply_on_cluster(
    task: ApplyTask,
    shards: Sequence[Shard],
    outputs: Sequence[str],
    address: str,
    threads: int,
    tell: Callable[[str], None],
) -> Told:
    """Apply a model to files; each becomes another, and all appear together or not at all.

    The memory of the task is that of this machine; a local cluster has a process for each thread.
    `tell` is called with each warning before a file appears.
    """
    from calibkit.files.sinks import Transaction

    own = replace(task, opening=task.opening.of_worker(address, threads))
    with Transaction() as transaction, DaskEngine(address, threads) as cluster:
        transaction.make_folders(outputs)
        absolute = [str(Path(output).absolute()) for output in outputs]
        orders = [
            Order(one.file, None, output, transaction.expect(output))
            for one, output in zip(shards, absolute, strict=True)
        ]
        try:
            made = list(cluster.map(own, orders))
            together((shard.name, told.text) for shard, told in zip(shards, made, strict=True))
        except DataError:
            opening = own.opening.told_together(cluster, shards)
            if opening == own.opening:
                raise
            made = list(cluster.map(replace(own, opening=opening), orders))
        for shard, told in zip(shards, made, strict=True):
            for remark in told.warnings:
                tell(f"{shard.name}: {remark}")
    noted = NOTHING.beside(*(told.noted for told in made))
    return Told(sum(told.rows for told in made), made[0].added, noted=noted)
