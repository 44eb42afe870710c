"""Score rows that do not fit and are needed one by one: in a row store, as the arrays of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import ScoreRows
from calibkit.columns.rows import RowFinder, merge_remarks
from calibkit.numerics.row_hash import row_hashes
from calibkit.runtime.memory import Memory
from calibkit.summaries.arrays import Arrays
from calibkit.summaries.passes import Passes
from calibkit.summaries.row_store import ColumnSummaries, RowStore, buckets, record_type
from calibkit.summaries.score_summary import (
    Seen,
    checked,
    columns_of,
    fixed,
    level_numbers,
    level_values,
)

Columns = dict[str, NDArray[Any]]

#: How further columns are called among the fields of a store.
_OTHER: Final = "other "
#: Rows hashed at a time.
_BLOCK: Final = 65_536


def stored_rows(
    passes: Passes[ScoreRows], memory: Memory | None, edges: Sequence[float] = ()
) -> ScoreRows:
    """Return all rows of some passes, in the order of their score and hash.

    Parameters
    ----------
    passes
        The rows.  Further columns of text are known by their distinct values, each once in memory.
    memory
        How much room there is.
    edges
        What uncertainties are moved down to, if to anything.

    Raises
    ------
    UsageError, DataError
        As the reader.
    ResourceError
        The disk has no room.
    """
    seen, held = Seen(), _Columns()
    for window in passes:
        seen.add(replace(window, where=None))
        held.add(window)
    assert seen.last is not None
    last, arrays = seen.last, Arrays(None if passes.whole else memory)
    fields = {name: values.dtype for name, values in _fields(last, held.known).items()}
    ranges = buckets(record_type(fields), seen.rows, arrays)
    store = RowStore(fields, seen.rows, arrays, held.scores.borders(0, ranges))
    for window in passes:
        columns = _fields(window, held.known)
        if edges and window.uncertainty is not None:
            steps = level_values(edges, window.uncertainty.dtype.type, seen.lowest)
            columns["uncertainty"] = steps[level_numbers(window.uncertainty, edges)]
        store.add({**columns, "hash": _hashes(columns)})
    passes.release()
    found, source = store.finish(), passes.source
    others = [
        _restored(column, found[_OTHER + column.name], held.known) for column in _others(last)
    ]
    remarks = merge_remarks([*seen.remarks, *passes.remarks])
    return checked(
        ScoreRows(
            score=fixed(found["score"]),
            uncertainty=fixed(found.get("uncertainty")),
            label=found.get("label"),
            weight=fixed(found.get("weight")),
            options=last.options,
            rows_read=seen.rows_read + passes.dropped,
            dropped=seen.rows_read + passes.dropped - seen.rows,
            warnings=(*source.warnings, *(remark.text for remark in remarks), *arrays.warnings),
            notes=last.notes,
            others=pl.DataFrame(others) if others else None,
            where=RowFinder(source, counted=True),
            remarks=remarks,
            moved=bool(edges),
            hashes=seen.hashes if edges else {},
        )
    )


class _Columns:
    """What the first pass tells of columns: where the scores lie, and the values of text."""

    def __init__(self) -> None:
        self.scores = ColumnSummaries(1)
        self.known: dict[str, pl.Series] = {}

    def add(self, rows: ScoreRows) -> None:
        """Add the rows of a window."""
        self.scores.add(rows.score[None], _hashes(columns_of(rows)))
        for column in _others(rows):
            if not _is_number(column):
                text = column.cast(pl.String).unique()
                known = self.known.get(column.name, text.clear())
                self.known[column.name] = known.append(text).unique().sort()


def _fields(rows: ScoreRows, known: Mapping[str, pl.Series]) -> Columns:
    """Return what is stored of rows; of text its place among the values that are `known`."""
    found = columns_of(rows)
    for column in _others(rows):
        if _is_number(column):
            found[_OTHER + column.name] = column.to_physical().to_numpy()
            continue
        codes = pl.DataFrame({"text": known[column.name]}).with_row_index("code")
        text = pl.DataFrame({"text": column.cast(pl.String)})
        place = text.join(codes, on="text", how="left", nulls_equal=True, maintain_order="left")
        found[_OTHER + column.name] = place["code"].to_numpy()
    return found


def _restored(like: pl.Series, values: NDArray[Any], known: Mapping[str, pl.Series]) -> pl.Series:
    """Return a further column as it was read; categories have become text."""
    if _is_number(like):
        return pl.Series(like.name, values).cast(like.dtype)
    return known[like.name].gather(values).alias(like.name)


def _others(rows: ScoreRows) -> list[pl.Series]:
    return [] if rows.others is None else rows.others.get_columns()


def _is_number(column: pl.Series) -> bool:
    kind = column.dtype
    return kind.is_integer() or kind.is_float() or kind.is_temporal() or kind == pl.Boolean


def _hashes(columns: Columns) -> NDArray[np.uint64]:
    rows = range(0, next(iter(columns.values())).size, _BLOCK)
    blocks = [row_hashes(columns, slice(low, low + _BLOCK)) for low in rows]
    return np.concatenate([np.empty(0, np.uint64), *blocks])
