"""Score, label, uncertainty and weight as checked arrays: the columns that nearly every command uses.

`calibkit.columns.numeric` turns one column into an array or refuses it, `calibkit.columns.rows` reads
columns together and drops rows as asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.names import ScoreColumns
from calibkit.columns.numeric import (
    FloatArray,
    label_column,
    numeric_column,
    on_scale,
    weight_column,
)
from calibkit.columns.resolution import Resolution
from calibkit.columns.rows import Remark, RowFinder, read_rows
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.numerics.row_hash import data_hash
from calibkit_kernels.tally import assign_levels

#: The roles over which the hash of rows that were made coarser is known.
HASHED: Final = ("label", "score", "uncertainty", "weight")

#: Scores beyond this are no probabilities that were rounded badly.
_LEAST_PERCENT: Final = 2
_DEFAULT_UNCERTAINTY: Final = "uncertainty"
_NO_UNCERTAINTY: Final = "no column 'uncertainty': one uncertainty level (K = 1)"


@dataclass(frozen=True)
class CellGrid:
    """Bins of several columns by their inner edges, rising, and the cells that they make."""

    names: tuple[str, ...]
    edges: tuple[NDArray[np.float64], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many bins each column has."""
        return tuple(own.size + 1 for own in self.edges)

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(np.prod(self.shape))

    def of(self, columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """Return the cell of each row, numbered with the bin of the last column moving fastest."""
        found = np.zeros(columns[0].size, np.int64)
        place = np.empty(columns[0].size, np.uint16)
        for values, own in zip(columns, self.edges, strict=True):
            assign_levels(values, -np.inf, own, place)
            found = found * (own.size + 1) + place
        return found.astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class ScoreRows:
    """The columns of a score file, checked.

    Parameters
    ----------
    score, uncertainty, label, weight, others
        Scores and uncertainties are float32 where the column is, else float64 as weights are; labels
        are 0 and 1 as uint8; others are as they were read.  None: not there, or not asked for.
    options
        The options, with the uncertainty column resolved (None: there is none).
    rows_read, dropped
        How many rows the inputs have, and how many of them were dropped.
    warnings, notes
        What the user has to be told, whatever the verbosity, and what a summary should say; `remarks`
        are those of the warnings that are about a number of rows or values.
    level_edges
        The inner edges of the uncertainty levels, where they are given.
    cells
        Of several uncertainties the grid whose cells are the `uncertainty` of rows.
    times
        How many rows each of these stands for, where equal rows were counted; `weight` is then that
        of all of them together.
    weight_each
        The weight of each of the rows that a row stands for, where they are weighted.
    resolution
        How coarse values became where equal rows were counted; None where results lose nothing.
    moved
        Whether values are others than were read: coarser ones, or the edges of levels.
    hashes
        Hashes that are known already, by their roles in alphabetical order; where values were `moved`
        those of the rows as they were.
    """

    score: FloatArray
    uncertainty: FloatArray | None
    label: NDArray[np.uint8] | None
    weight: NDArray[np.float64] | None
    options: ScoreColumns
    rows_read: int
    dropped: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()
    others: pl.DataFrame | None = None
    where: RowFinder | None = None
    remarks: tuple[Remark, ...] = ()
    level_edges: tuple[float, ...] | None = None
    cells: CellGrid | None = None
    times: NDArray[np.int64] | None = None
    weight_each: NDArray[np.float64] | None = None
    resolution: Resolution | None = None
    moved: bool = False
    hashes: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> Source | None:
        """The inputs."""
        return None if self.where is None else self.where.source

    @property
    def file(self) -> str | None:
        """The first input, for messages."""
        return self.source.parts[0].path if self.source else None

    @property
    def rows(self) -> int:
        """How many rows there are, whatever they weigh."""
        return int(self.score.size if self.times is None else self.times.sum())

    @property
    def labels(self) -> NDArray[np.uint8]:
        """The labels, of rows that are read with them."""
        assert self.label is not None
        return self.label

    @property
    def finder(self) -> RowFinder:
        """Where the rows are, of rows that are read from inputs."""
        assert self.where is not None
        return self.where

    def other(self, name: str) -> pl.Series:
        """Return a column that is read along."""
        assert self.others is not None
        return self.others[name]

    @property
    def positive_rows(self) -> int:
        """How many of the rows are positive, whatever they weigh."""
        if self.times is None:
            return int(np.count_nonzero(self.labels))
        return int(self.times[self.labels == 1].sum())

    def fingerprint(self, used: Mapping[str, NDArray[Any]]) -> str:
        """Return the hash of the rows over some columns, by role; see `row_hash.data_hash`.

        Of rows whose values were moved it is the hash of the rows as they were, over score, label,
        uncertainty and weight.
        """
        if self.times is not None:
            used = {role: values for role, values in used.items() if role != "weight"}
            used |= {} if self.weight_each is None else {"weight": self.weight_each}
        if self.moved:
            return self.hashes[",".join(role for role in HASHED if role in used)]
        return self.hashes.get(",".join(sorted(used))) or data_hash(used, self.times)

    def only(self, rows: NDArray[np.int64]) -> ScoreRows:
        """Return some of the rows, named by their place."""
        where = None if self.where is None else self.where.only(rows)
        found: dict[str, Any] = {
            name: own[rows]
            for name in (
                "score",
                "uncertainty",
                "label",
                "weight",
                "others",
                "times",
                "weight_each",
            )
            if (own := getattr(self, name)) is not None
        }
        for name in found.keys() & {"score", "uncertainty", "weight"}:
            found[name].flags.writeable = False  # as they are read: kernels are compiled for that
        return replace(self, **found, where=where, hashes=self.hashes if self.moved else {})


C = TypeVar("C", bound=ScoreColumns)


def read_score_rows(
    source: Source,
    options: ScoreColumns,
    *,
    label: bool = True,
    uncertainty: bool = True,
    finite_scores: bool = False,
    positive_must_occur: bool = True,
    others: Sequence[str] = (),
    features: Sequence[str] = (),
) -> ScoreRows:
    """Read and check score, label, uncertainty and weight; of a window of rows as of all.

    `label` and `uncertainty` say whether these columns are used at all.  With `finite_scores` infinite
    ones are refused under ``logit`` and ``raw`` too: where scores are summed, not only ordered.  A
    `positive` that no row has is a warning if it need not occur (one shard of many may hold none).  Of
    the `others`, read along, numeric ones count for `on_missing`; missing values of `features` mean
    something: they drop no row.

    Raises `UsageError`: a column is not there, or one column has two roles; `DataError`: values
    that are missing, out of range or of the wrong type.
    """
    options = resolve(source, options, label=label, uncertainty=uncertainty)
    numeric = [options.score, options.uncertainty, options.weight]
    used = [name for name in (*numeric, *others) if name is not None]
    rows = read_rows(
        source,
        [*used, *features, *([options.label] if label else [])],
        missing=used if options.on_missing == "drop" else (),
        unlabelled=options.label if label and options.unlabelled == "drop" else None,
    )
    frame, where = rows.frame, rows.where
    score = score_column(frame[options.score], where, options.scale, finite=finite_scores)
    spread = None if options.uncertainty is None else frame[options.uncertainty]
    weight = None if options.weight is None else frame[options.weight]
    labels, remarks = None, tuple[str, ...]()
    if label:
        must_occur = positive_must_occur and source.whole  # a window may hold no positive row
        labels, remarks = label_column(
            frame[options.label], where, positive=options.positive, must_occur=must_occur
        )
    return ScoreRows(
        score=score,
        uncertainty=None if spread is None else numeric_column(spread, where),
        label=labels,
        weight=None if weight is None else weight_column(weight, where),
        options=options,
        rows_read=rows.rows_read,
        dropped=rows.dropped,
        warnings=(*source.warnings, *rows.warnings, *remarks),
        remarks=rows.remarks,
        notes=(_NO_UNCERTAINTY,) if uncertainty and spread is None else (),
        others=frame.select(frame[name] for name in dict.fromkeys([*others, *features]))
        if others or features
        else None,
        where=where,
    )


def score_column(
    column: pl.Series, where: RowFinder, scale: str, *, finite: bool = False
) -> FloatArray:
    """Return scores as their scale allows them; `finite`: infinite ones are refused anyway."""
    advice = "percentages lie in [0, 100]; use --scale logit or --scale raw for other scores"
    if scale == "probability":
        advice = "probabilities lie in [0, 1]; use --scale logit or --scale raw for other scores"
        if column.dtype.is_numeric() and _LEAST_PERCENT < cast(float, column.max() or 0.0) <= 100:
            advice = "probabilities lie in [0, 1]; use --scale percent for scores from 0 to 100"
    return on_scale(column, where, scale, advice, finite=finite)


def resolve(source: Source, options: C, *, label: bool, uncertainty: bool) -> C:
    """Return the options with the default uncertainty column filled in.

    A column that is not there, or that has two roles, is refused.
    """
    if options.weight_kind != "frequency" and options.weight is None:
        raise UsageError(f"--weight-kind {options.weight_kind} says what --weight is; name it.")
    roles = [("--score", options.score)]
    roles += [("--label", options.label)] if label else []
    roles += [("--weight", options.weight)] if options.weight is not None else []
    if label and options.positive is not None:
        source.as_written([options.label])
    name = options.uncertainty if uncertainty else None
    taken = {column for _, column in roles}
    if uncertainty and name is None and _DEFAULT_UNCERTAINTY in source.schema.keys() - taken:
        name = _DEFAULT_UNCERTAINTY
    roles += [("--uncertainty", name)] if name is not None else []
    first: dict[str, str] = {}
    for option, column in roles:
        source.require([column], option)
        if column in first:
            raise UsageError(
                f"column {column!r} is both {first[column]} and {option}; name two columns",
                column=column,
            )
        first[column] = option
    return replace(options, uncertainty=name)
