"""Applying a model: every row kept, in order, with the model's columns added.

What a kind of model reads and computes is its `Applier`; everything else is the same for all kinds
and stands here: which columns are kept, names that clash, rows that lack a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from polars.selectors import by_name

from calibkit.arrays import Int64s
from calibkit.columns.patterns import matching
from calibkit.columns.rows import NothingLeft, RowFinder, placed, present_in
from calibkit.errors import FIRST_ROWS, DataError, UsageError
from calibkit.files.sinks import row_bytes
from calibkit.files.sources import Source
from calibkit.models.kinds import ACTION, KINDS, LEVEL, PASS, Applier, Reads
from calibkit.models.lineage import agreed, check_makers, model_hash, read_makers
from calibkit.models.model import Model
from calibkit.numerics.bounds import Bound
from calibkit.options.apply import ApplyOptions
from calibkit.options.option import listed
from calibkit.runtime.memory import Memory
from calibkit.summaries.passes import work_through

#: Rows of a batch: enough to hide what each costs by itself, few enough to stay small.
_MOST_ROWS: Final = 2**17
_FEWEST_ROWS: Final = 2**10

#: Copies of a batch that are in memory while it is read, judged and written.
_COPIES: Final = 6


class Applied(Struct, frozen=True):
    """The rows with the added columns, and what the user should be told.

    `gaps` are the numbers in the inputs of those that lack a value, `chosen` says which rows of the
    source these are, from 0 (None: all).  Batches tell of their rows alone.
    """

    frame: pl.DataFrame
    gaps: Int64s
    chosen: Int64s | None = None
    added: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Application(Struct, frozen=True):
    """A model about to be applied to a source, settled before any row is read.

    The columns of the input that are `kept` stay; those `added` have `places` among the columns that
    the applier gives.  `made_by` has the hash of the model that made a column of the result, where it
    is known; `chosen` says which rows of it ``--selected`` keeps (None: all).
    """

    source: Source
    options: ApplyOptions
    applier: Applier
    reads: Reads
    kept: list[str]
    added: list[str]
    places: list[int]
    made_by: dict[str, str] = {}
    chosen: pl.Expr | None = None

    @property
    def read(self) -> list[str]:
        """The columns of the inputs that are read."""
        needed = [*self.reads.needed.values(), *self.reads.optional, *self.kept]
        return list(dict.fromkeys(needed))

    def rows(self, rows: pl.DataFrame, where: RowFinder) -> Applied:
        """Return rows (the columns `read`), all of the inputs or a batch, with the added columns."""
        frame, present, gaps = rows, None, np.empty(0, np.int64)
        where = replace(where, remedy="write null for them by --on-missing null")
        if self.options.on_missing == "null":
            present = present_in([frame[name] for name in self.reads.needed.values()])
        if present is not None:
            gaps = where.numbers(np.flatnonzero(~present))
            frame = frame.filter(pl.Series(present))
            where = where.only(np.flatnonzero(present))
        values = self.applier.values(frame, where, self.reads)
        added = [
            placed(values[place].alias(name), present)
            for name, place in zip(self.added, self.places, strict=True)
        ]
        # In one step: there may be no kept column.  As columns: a name may look like a pattern.
        names = self.source.as_named
        kept = (rows[name].alias(names.get(name, name)) for name in self.kept)
        result = rows.select(*kept, *added)
        if self.chosen is None:
            return Applied(result, gaps)
        chosen = result.select(self.chosen.fill_null(False)).to_series()
        return Applied(result.filter(chosen), gaps, np.flatnonzero(chosen))

    def frames(
        self, memory: Memory, threads: int, tell: Callable[[str], None]
    ) -> Iterator[pl.DataFrame]:
        """Yield all rows with the added columns, some at a time, in their order.

        As many batches are worked on at a time as threads; the rows are those of `apply_model`,
        whatever the batches.  Before the last ones come, the user is told what there is to be told:
        rows of one batch are checked as a whole before any of them is seen.  Once too many rows lack
        a value no more rows come; the others are counted for the message.
        """
        for remark in self.source.warnings:
            tell(remark)
        held, lost, first = None, 0, list[int]()
        batches = self._batches(memory, threads)
        for made in work_through(threads, lambda batch: self.rows(*batch), batches, self.read):
            assert not isinstance(made, NothingLeft)  # no row is dropped here
            lost += made.gaps.size
            first += made.gaps[: FIRST_ROWS - len(first)].tolist()
            if held is not None and not self._too_many(lost):
                yield held
            held = made.frame
        for remark in self.missing_note(lost, first):
            tell(remark)
        if held is not None:
            yield held

    def _batches(self, memory: Memory, threads: int) -> Iterator[tuple[pl.DataFrame, RowFinder]]:
        """Yield the rows some at a time, and what finds them in the inputs."""
        width = row_bytes({name: self.source.schema[name] for name in self.read})
        width += 8 * len(self.added)
        room = memory.room // (width * (_COPIES + threads))
        start = 0
        for window in self.source.windows(self.read, rows=max(_FEWEST_ROWS, min(_MOST_ROWS, room))):
            yield window.read(self.read), RowFinder(self.source, start=start)
            start += window.rows

    def _too_many(self, lost: int) -> bool:
        """Tell whether more rows lack a value than are allowed."""
        most = cast("Bound | None", self.options.max_missing)
        return most is not None and lost * most.denominator > most.numerator * self.source.rows

    def missing_note(self, lost: int, rows: Sequence[int]) -> list[str]:
        """Return what the user should be told of so many rows that lack a value; refuse too many.

        `rows` are the numbers in the inputs of the first of them.
        """
        if not lost:
            return []
        source = self.source
        if self._too_many(lost):
            file, first = source.locate(rows)
            said = (
                f"{lost} of {source.rows} rows lack a value (first: row "
                f"{', '.join(map(str, first))}), more than --max-missing {self.options.max_missing}; "
                "fill these rows, or allow a larger share"
            )
            raise DataError.of(file, said, rows=lost, first_rows=first)
        return [f"{lost} of {source.rows} rows lack a value: null in the added columns"]


def apply_model(model: Model, source: Source, options: ApplyOptions) -> Applied:
    """Return the rows of a source with a model's columns added.

    Raises `UsageError`: a column that is not there, or an added column that exists already;
    `DataError`: missing values (unless they become null), values out of range or of the wrong type.
    """
    plan = plan_application(model, source, options)
    made = plan.rows(source.read(plan.read, rechunk=False), RowFinder(source))
    missing = plan.missing_note(made.gaps.size, made.gaps[:FIRST_ROWS].tolist())
    warnings = (*source.warnings, *missing)
    return replace(made, added=tuple(plan.added), warnings=warnings)


def plan_application(model: Model, source: Source, options: ApplyOptions) -> Application:
    """Return which columns are read, kept and added; refuse what cannot work before reading."""
    applier: Applier = KINDS[model.kind].applier(model)
    request = options.request
    request.refuse_key_of(model.kind)
    reads = applier.reads(source, request)
    check_makers(model, request.columns, source)
    if request.level and LEVEL not in applier.added:
        raise UsageError(
            f"--add-level: a model of kind {model.kind!r} has no uncertainty levels; apply a boundary."
        )
    own = {source.as_named.get(name, name): name for name in source.schema}  # as they are written
    if options.keep is not None:
        known = dict.fromkeys([*own, *source.schema])
        wanted = {name for one in listed(options.keep) for name in matching(known, one, "--keep")}
        own = {written: name for written, name in own.items() if {written, name} & wanted}
    added = list(reads.written or applier.added)
    places = [applier.added.index(name) for name in added]
    if options.column is not None:
        added[0] = options.column
    if len(set(added)) < len(added):
        raise UsageError(f"--column {options.column} is the name of another added column.")
    clash = [name for name in added if name in own]
    if clash and not options.overwrite_columns:
        rename = "rename the added one by --column, " * (clash[0] == added[0])
        raise UsageError(
            f"the input has a column {clash[0]!r} already; {rename}leave the old one out by --keep, or "
            "replace it by --overwrite-columns.",
            column=clash[0],
        )
    chosen = _chosen(applier, added) if options.selected else None
    if options.selected and chosen is None:
        raise UsageError(f"--selected: a model of kind {model.kind!r} decides nothing.")
    kept = [name for written, name in own.items() if written not in added]
    read = {*reads.needed.values(), *reads.optional}
    source.as_written([name for name in kept if name not in read])
    makers = agreed(read_makers(source))
    made_by = {name: makers[name] for name in kept if name in makers}
    made_by |= {name: model_hash(one) for name, one in model.makers(added).items()}
    return Application(source, options, applier, reads, kept, added, places, made_by, chosen)


def _chosen(applier: Applier, added: Sequence[str]) -> pl.Expr | None:
    """Return which rows are selected: those with a positive decision, or any but pass."""
    if applier.added[0] == "decision":
        declined = PASS if getattr(applier, "three_way", False) else 0
        return by_name(added[0]).as_expr() != declined
    if applier.added[-1] == ACTION and any(one.startswith("decision_") for one in applier.added):
        return by_name(added[-1]).as_expr() != PASS
    return None
