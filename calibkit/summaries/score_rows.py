"""Score, label, uncertainty and weight as checked arrays: the columns that nearly every command uses.

`calibkit.columns.rows` reads columns together, drops rows as asked, and turns each column into an array
or refuses it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Floats, Int64s, Numbers, UInt8s
from calibkit.columns import rows as readers
from calibkit.columns.rows import FloatArray, Remark, RowFinder
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.models.model import Column, Resolution
from calibkit.numerics.hashes import data_hash
from calibkit.options.shared import ColumnOptions
from calibkit_kernels.tally import assign_levels

#: What score rows may have a column for; over these the hash of rows that were made coarser is known.
ROLES: Final = ("score", "uncertainty", "label", "weight")

_DEFAULT_UNCERTAINTY: Final = "uncertainty"
_NO_UNCERTAINTY: Final = "no column 'uncertainty': one uncertainty level (K = 1)"


class CellGrid(Struct, frozen=True):
    """Bins of several columns by their inner edges, rising, and the cells that they make."""

    names: tuple[str, ...]
    edges: tuple[Floats, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many bins each column has."""
        return tuple(own.size + 1 for own in self.edges)

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(np.prod(self.shape))

    def of(self, columns: Sequence[Numbers]) -> Floats:
        """Return the cell of each row, numbered with the bin of the last column moving fastest."""
        found = np.zeros(columns[0].size, np.int64)
        place = np.empty(columns[0].size, np.uint16)
        for values, own in zip(columns, self.edges, strict=True):
            assign_levels(values, -np.inf, own, place)
            found = found * (own.size + 1) + place
        return found.astype(np.float64)


class ScoreRows(Struct, frozen=True, kw_only=True):
    """The columns of a score file, checked; None: not there, or not asked for.

    Scores and uncertainties are float32 where the column is, else float64 as weights are; labels are 0
    and 1.  Where equal rows were counted, `times` is how many rows each of these stands for, `weight`
    that of all of them together, and `weight_each` that of each of them.
    """

    score: FloatArray
    uncertainty: FloatArray | None
    label: UInt8s | None
    weight: Floats | None
    options: ColumnOptions  # with the uncertainty column resolved (None: there is none)
    rows_read: int  # how many rows the inputs have, with those that were dropped
    warnings: tuple[str, ...]  # what the user has to be told, whatever the verbosity
    notes: tuple[str, ...] = ()  # what a summary should say
    others: pl.DataFrame = pl.DataFrame()  # further columns, as they were read
    finder: RowFinder  # finds the rows in the inputs
    remarks: tuple[Remark, ...] = ()  # the warnings that are about a number of rows or values
    level_edges: tuple[float, ...] | None = None  # of uncertainty, the inner ones, if given
    cells: CellGrid | None = None  # of several uncertainties, if `uncertainty` is the cell of a row
    times: Int64s | None = None
    weight_each: Floats | None = None
    resolution: Resolution | None = None  # of rows that were counted; None: results lose nothing
    moved: bool = False  # whether values are others than were read: coarser, or the edges of levels
    #: Those that are known already, by their roles in alphabetical order; if `moved`, of the rows as
    #: they were.
    hashes: Mapping[str, str] = {}

    @property
    def source(self) -> Source:
        """The inputs."""
        return self.finder.source

    @property
    def rows(self) -> int:
        """How many rows there are, whatever they weigh."""
        return int(self.score.size if self.times is None else self.times.sum())

    @property
    def repeats(self) -> Floats | None:
        """How often each row stands there, were rows written out: 1 for any that stands for others."""
        weight = self.weight
        return weight if weight is None or not self.options.sampled else np.sign(weight)

    @property
    def labels(self) -> UInt8s:
        """The labels, of rows that are read with them."""
        assert self.label is not None
        return self.label

    @property
    def details(self) -> tuple[str, ...]:
        """What is said of the rows to those who ask for more."""
        return (f"{self.rows:,} rows used of {self.rows_read:,} read",)

    def other(self, name: str) -> pl.Series:
        """Return a column that is read along."""
        return self.others[name]

    def refuse_absent(self, beside: Mapping[str, str]) -> None:
        """Refuse rows without a segment, group or time: columns by role, see `columns_beside`.

        A fit does so by itself; rows of a window will have lost their places by then.
        """
        for role, name in beside.items():
            readers.need_single(self.other(name), self.finder, empty=role == "by")

    @property
    def positive_rows(self) -> int:
        """How many of the rows are positive, whatever they weigh."""
        if self.times is None:
            return int(np.count_nonzero(self.labels))
        return int(self.times[self.labels == 1].sum())

    def fingerprint(self, used: Mapping[str, Numbers]) -> str:
        """Return the hash of the rows over some columns, by role; see `row_hash.data_hash`.

        Of rows whose values were moved it is the hash of the rows as they were, over score, label,
        uncertainty and weight.
        """
        if self.times is not None:
            used = {role: values for role, values in used.items() if role != "weight"}
            used |= {} if self.weight_each is None else {"weight": self.weight_each}
        if self.moved:
            return self.hashes[",".join(sorted(used.keys() & set(ROLES)))]
        return self.hashes.get(",".join(sorted(used))) or data_hash(used, self.times)

    def only(self, rows: Int64s) -> ScoreRows:
        """Return some of the rows, named by their place."""
        columns = ((name, getattr(self, name)) for name in (*ROLES, "times", "weight_each"))
        found: dict[str, Any] = {name: own[rows] for name, own in columns if own is not None}
        found["others"] = self.others[rows] if self.others.width else self.others
        for name in found.keys() & {"score", "uncertainty", "weight"}:
            found[name].flags.writeable = False  # as they are read: kernels are compiled for that
        found["finder"] = self.finder.only(rows)
        return replace(self, **found, hashes=self.hashes if self.moved else {})


def label_and_weight(options: ColumnOptions) -> dict[str, Column]:
    """Return what models say of the columns of labels and of weights, by role."""
    found = {"label": Column(options.label, positive=options.positive)}
    if options.weight is not None:
        found["weight"] = Column(options.weight, kind=options.weight_kind)
    return found


C = TypeVar("C", bound=ColumnOptions)


def read_score_rows(
    source: Source,
    options: ColumnOptions,
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
    `positive` that no row has is a warning if it need not occur (one shard of many may hold none).  The
    `others`, read along, count for `on_missing`; missing values of `features` mean something: they
    drop no row.

    Raises `UsageError`: a column is not there, or one column has two roles; `DataError`: values
    that are missing, out of range or of the wrong type.
    """
    options = resolve(source, options, label=label, uncertainty=uncertainty)
    numeric = [options.score, options.uncertainty, options.weight]
    used = [name for name in (*numeric, *others) if name is not None]
    rows = readers.read_rows(
        source,
        [*used, *features, *([options.label] if label else [])],
        missing=used if options.on_missing == "drop" else (),
        unlabelled=options.label if label and options.unlabelled == "drop" else None,
    )
    frame, where = rows.frame, rows.where
    score = readers.score_column(frame[options.score], where, options.scale, finite=finite_scores)
    spread = None if options.uncertainty is None else frame[options.uncertainty]
    weight = None if options.weight is None else frame[options.weight]
    labels, odd = None, tuple[str, ...]()
    if label:
        must_occur = positive_must_occur and source.whole  # a window may hold no positive row
        labels, odd = readers.label_column(
            frame[options.label], where, positive=options.positive, must_occur=must_occur
        )
    return ScoreRows(
        score=score,
        uncertainty=None if spread is None else readers.numeric_column(spread, where),
        label=labels,
        weight=None if weight is None else readers.weight_column(weight, where),
        options=options,
        rows_read=rows.rows_read,
        warnings=(*source.warnings, *(remark.text for remark in rows.remarks), *odd),
        remarks=rows.remarks,
        notes=(_NO_UNCERTAINTY,) if uncertainty and spread is None else (),
        others=frame.select(frame[name] for name in dict.fromkeys([*others, *features])),
        finder=where,
    )


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
        _refuse_second(column, option, first)
        first[column] = option
    return dataclasses.replace(options, uncertainty=name)


def columns_beside(
    source: Source, options: object, *roles: str, taken: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the columns that options name for some roles beside those of `resolve`, by role.

    A role is the name of its option.  A column that is not there is refused, and one of those that
    are `taken`, by the option that names them.  Times that are text become dates.
    """
    found: dict[str, str] = {}
    for role in roles:
        if (name := getattr(options, role)) is not None:
            option = f"--{role.replace('_', '-')}"
            source.require([name], option)
            _refuse_second(name, option, taken or {})
            found[role] = name
    source.as_dates([name for role, name in found.items() if role == "time"])
    return found


def _refuse_second(column: str, option: str, taken: Mapping[str, str]) -> None:
    if column in taken:
        raise UsageError(
            f"column {column!r} has another role: it is both {taken[column]} and {option}; name two "
            "columns",
            column=column,
        )
