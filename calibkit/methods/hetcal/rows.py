"""The rows of a fit in an order of their own, so that no result depends on that of the files.

They are read twice: one pass says what the columns hold, the next one stores the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import DTypeLike

from calibkit.arrays import Bools, Floats, Int32s, Numbers, UInt8s, UInt64s, blocks
from calibkit.columns.rows import Remark, merge_remarks, weightless
from calibkit.columns.segments import TimeParts, group_parts
from calibkit.columns.weights import ROW, Unit, Weighed, whole_units
from calibkit.errors import DataError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.hetcal.trees import (
    QUANTILE_BINS,
    Bins,
    Categories,
    Features,
    Tree,
    ends_of,
    feature_columns,
    feature_words,
    read_features,
    summarised_bins,
)
from calibkit.models.model import Column
from calibkit.numerics.hashes import row_hashes
from calibkit.options.hetcal import FOLDS, HetcalOptions
from calibkit.options.shared import ColumnOptions
from calibkit.runtime.memory import Memory
from calibkit.runtime.threads import in_order
from calibkit.summaries.passes import Passes
from calibkit.summaries.row_store import (
    MOST_VALUES,
    Arrays,
    ColumnSummaries,
    RowStore,
    category_names,
    count_categories,
)
from calibkit.summaries.score_rows import ScoreRows, read_score_rows
from calibkit.summaries.score_summary import columns_of
from calibkit_kernels import draws
from calibkit_kernels.maps import LEAST, log_odds

#: Row numbers are 32-bit integers.
MOST_ROWS: Final = 2**31

#: Rows that are worked on at a time where something is made of each; sums run over such blocks.
_BLOCK = 1 << 16


class Folds(Struct, frozen=True, dict=True):
    """The part of each row, from 0; those that hold no rows are passed over.

    `forward`: parts follow each other in time.  There is one more, the first is judged by nothing, and
    each other one by what came before it.
    """

    part: UInt8s
    forward: bool = False

    @cached_property
    def present(self) -> list[int]:
        """The parts that hold rows."""
        return np.flatnonzero(np.bincount(self.part)).tolist()

    def judged(self) -> list[int]:
        """Return the parts that are judged: those that hold rows."""
        return [part for part in self.present if part > 0 or not self.forward]

    def held(self, part: int) -> Bools:
        """Return which rows are in a part."""
        return np.equal(self.part, part)

    def used(self, part: int) -> Bools:
        """Return which rows may be learnt from where a part is judged."""
        return np.less(self.part, part) if self.forward else np.not_equal(self.part, part)

    def before(self, part: int) -> Folds:
        """Return the folds of the rows that may be learnt from where a part is judged.

        The other rows, which are to weigh nothing, count to one of these.
        """
        others = [own for own in self.present if own < part or (own > part and not self.forward)]
        dealt = np.where(self.used(part), self.part, np.uint8(others[-1]))
        return Folds(dealt, self.forward)

    def among(self, parts: Sequence[int]) -> Bools:
        """Return which rows are in some of the parts."""
        return np.isin(np.arange(256), parts)[self.part]


class Totals(Struct):
    """What is known of all rows together, added up while they are read.

    `total` and `hits` are the weight of all rows and of the positive ones, in units; `clipped` is how
    many probabilities were moved away from 0 or 1, `hash` the sum of the hashes of the rows; `weight`
    is the weight as it was read.
    """

    options: ColumnOptions
    dtype: str = "float64"
    rows: int = 0
    positives: int = 0
    total: int = 0
    hits: int = 0
    clipped: int = 0
    hash: int = 0
    remarks: list[Remark] = []
    weight: Weighed = field(default_factory=Weighed)

    def add(self, data: ScoreRows, clipped: int, hashes: UInt64s) -> None:
        """Note rows as they were read; their weight in units is added when the unit is known."""
        self.rows += hashes.size
        self.positives += data.positive_rows
        self.clipped += clipped
        self.hash += int(hashes.sum())
        self.dtype, self.options = str(data.score.dtype), data.options
        self.remarks += data.remarks
        if data.weight is not None:
            self.weight.add(data.weight)

    @property
    def unit(self) -> Unit:
        """What a unit of weight is worth."""
        return ROW if self.options.weight is None else self.weight.unit


class HetcalRows(Struct, frozen=True, kw_only=True):
    """Labelled rows with features, sorted by score and then by a hash of all that is used."""

    #: `score, mass`: the linear score (the logit of a probability, or the score as it is), and how
    #: many rows each row counts as.
    score: Floats
    label: UInt8s
    #: `weight, unit`: the weight in whole units, and what one of them is worth.
    weight: Numbers
    #: A word for each row, from which chance decides; see `calibkit.numerics.hashes`.
    key: UInt64s
    mass: Floats
    features: Features
    unit: Unit
    #: How many rows a unit of weight stands for where rows are counted, as in the least leaf,
    #: shrinkage and Platt's targets: its worth, or as much as makes the mean weight one row where a
    #: weight says how many rows one stands for.
    size: float
    folds: Folds | None  # as a column of groups or of times deals the rows; None without
    arrays: Arrays  # makes arrays that are as long as the rows
    totals: Totals
    files: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def options(self) -> ColumnOptions:
        """What the columns are."""
        return self.totals.options

    @property
    def count(self) -> int:
        """How many rows there are, whatever they weigh."""
        return int(self.score.size)

    def blocks(self) -> Iterator[slice]:
        """Yield the rows, some at a time."""
        return blocks(self.count, _BLOCK)

    def learning(self, used: Bools) -> HetcalRows:
        """Return the rows with nothing for the weight of those that are not used."""
        weight = self.made(lambda own: self.weight[own] * used[own], self.weight.dtype)
        mass = self.made(lambda own: self.mass[own] * used[own])
        return replace(self, weight=weight, mass=mass)

    def only(self, kept: Bools) -> HetcalRows:
        """Return some of the rows, in memory; what is known of all together stays that of all."""
        here, known = np.flatnonzero(kept), self.features
        codes = tuple(own[here] for own in known.codes)
        values = None if known.values is None else known.values[here]
        taken = {
            name: getattr(self, name)[here] for name in ("score", "label", "weight", "key", "mass")
        }
        folds = None if self.folds is None else replace(self.folds, part=self.folds.part[here])
        features = replace(known, codes=codes, values=values)
        return replace(self, **taken, features=features, folds=folds, arrays=Arrays())

    def made(self, of: Callable[[slice], Any], dtype: DTypeLike = np.float64) -> Numbers:
        """Return a number for each row, made some rows at a time."""
        found = self.arrays.empty(self.count, dtype)
        for own in self.blocks():
            found[own] = of(own)
        return found

    def ends(self, tree: Tree) -> Int32s:
        """Return the node without children that each row ends in."""
        return ends_of(tree, self.features, self.arrays.empty(self.count, np.int32))

    def leaves(self, tree: Tree) -> tuple[Int32s, int]:
        """Return the leaf of each row, numbered from left to right, and how many there are."""
        numbers, ends = tree.leaves(), self.ends(tree)
        return self.made(lambda own: numbers[ends[own]], np.int32), int(numbers.max()) + 1


class Window(Struct, frozen=True):
    """Rows as they were read, with their features by value."""

    data: ScoreRows
    values: Floats
    categories: Categories

    def hashes(self) -> UInt64s:
        """Return the hash of each row over all that is used of it."""
        return row_hashes(columns_of(self.data) | feature_words(self.values, self.categories))


class Reader(Struct, frozen=True):
    """How rows are read; `known` are features of other rows, whose categories and types they share."""

    options: HetcalOptions
    columns: tuple[Column, ...]
    known: Features | None = None

    @property
    def dealing(self) -> dict[str, str]:
        """The columns that deal rows to folds, by role."""
        named = {"groups": self.options.groups, "time": self.options.time}
        return {role: name for role, name in named.items() if name is not None}

    @property
    def used(self) -> list[str]:
        """All columns that are read."""
        features = [column.name for column in self.columns]
        return [*self.options.columns.roles.values(), *features, *self.dealing.values()]

    def window(self, source: Source) -> Window:
        """Read and check the rows of a window."""
        data = read_score_rows(
            source,
            self.options.columns,
            uncertainty=False,
            finite_scores=True,
            others=list(self.dealing.values()),
            features=[column.name for column in self.columns],
        )
        data.refuse_absent(self.dealing)
        return self.with_features(data, None if self.known is None else self.known.categories)

    def with_features(self, data: ScoreRows, known: Categories | None) -> Window:
        """Return rows with their features, as places among `known` categories or their own."""
        return Window(data, *read_features(data.others, self.columns, data.finder, known))

    def look(
        self, passes: Passes[Window], totals: Totals, times: TimeParts
    ) -> tuple[Features, ColumnSummaries]:
        """Go through the rows once: return the features, and a summary of scores and features."""
        options, known = self.options, self.known
        text = [column.kind == "category" and known is None for column in self.columns]
        counts = [Counter[str]() if one else None for one in text]
        summaries = ColumnSummaries(1 + len(self.columns), options.bins or MOST_VALUES)
        for window in passes:
            data, hashes = window.data, window.hashes()
            linear, clipped = linear_scores(data.score, data.options.measure)
            totals.add(data, clipped, hashes)
            for column, own in zip(self.columns, counts, strict=True):
                if own is not None:
                    own.update(count_categories(data.other(column.name)))
            absent = np.full(linear.size, np.nan)
            numbers = (absent if one else own for one, own in zip(text, window.values, strict=True))
            held: Any = slice(None)  # a row of weight 0 is not there
            if data.weight is not None and not data.weight.all():
                held = data.weight > 0.0
            summaries.add([own[held] for own in (linear, *numbers)], hashes[held])
            if options.time is not None:
                times.add(data.other(options.time), data.finder, data.repeats)
        if known is not None:
            return Features(self.columns, known.categories), summaries
        categories = [None if one is None else category_names(one) for one in counts]

        def bins(column: tuple[int, tuple[str, ...] | None]) -> Bins:
            place, names = column
            if names is not None:
                return Bins(np.arange(float(len(names))))
            return summarised_bins(summaries, place, options.bins or QUANTILE_BINS)

        summaries.settle()  # once, before several threads ask for samples
        found = in_order(options.workers, bins, enumerate(categories, 1))
        return Features(self.columns, tuple(categories), tuple(found)), summaries

    def stored(
        self, window: Window, features: Features, unit: Unit, times: TimeParts
    ) -> dict[str, Numbers]:
        """Return the columns of a window as they are stored."""
        groups, time, data = self.options.groups, self.options.time, window.data
        if tuple(window.categories) != features.categories:
            window = self.with_features(data, features.categories)
        hashes = window.hashes()
        weight: Numbers = np.ones(data.labels.size, np.uint8)
        if data.weight is not None:
            weight = whole_units(data.weight, unit)
        linear, _ = linear_scores(data.score, data.options.measure)
        found: dict[str, Numbers] = {"score": linear, "label": data.labels}
        found |= {"weight": weight, "hash": hashes}
        if groups is not None:
            found["part"] = group_parts(data.other(groups), FOLDS, self.options.seed, data.finder)
        elif time is not None:
            found["part"] = times.parts(data.other(time), FOLDS + 1)
        if "part" in found:
            draws.absorb(hashes, found["part"].astype(np.uint64), np.uint64(0))
        if self.known is not None:
            found["values"] = window.values.T
        pairs = zip(features.bins, window.values, strict=False)  # known features have no bins
        codes = in_order(self.options.workers, lambda pair: pair[0].codes(pair[1]), pairs)
        return found | {f"code{place:05d}": own for place, own in enumerate(codes)}


def read_hetcal_rows(
    source: Source,
    options: HetcalOptions,
    names: Sequence[str],
    *,
    known: Features | None = None,
    memory: Memory | None = None,
) -> HetcalRows:
    """Read rows with the feature columns that are named.

    `known` are features of other rows, whose categories and types these rows share: these are then held
    by value, else by the codes of their bins.  `memory` is how much room there is; None: enough.
    """
    if source.rows >= MOST_ROWS:
        raise UsageError(
            f"{source.rows:,} rows: a calibration by parts takes fewer than 2^31; fit on a sample"
        )
    reader = Reader(options, known.columns if known else feature_columns(source, names), known)
    passes = Passes(source, reader.used, reader.window, memory)
    totals, times = Totals(options.columns), TimeParts()
    features, scores = reader.look(passes, totals, times)
    if options.weight is not None and totals.weight.top < -1074:
        raise weightless(source.file, options.weight, totals.rows)
    arrays, unit = Arrays(None if passes.whole else memory), totals.unit
    fields: dict[str, DTypeLike | tuple[DTypeLike, int]] = {
        "score": np.float64,
        "label": np.uint8,
        "weight": np.uint8 if unit == ROW and totals.weight.top <= 8 else np.int64,
        **({"part": np.uint8} if reader.dealing else {}),
        **({"values": (np.float64, len(reader.columns))} if known else {}),
        **{f"code{place:05d}": bins.dtype for place, bins in enumerate(features.bins)},
    }
    store = RowStore(fields, totals.rows, arrays, scores)
    for window in passes:
        columns = reader.stored(window, features, unit, times)
        weight = columns["weight"]
        totals.total += int(weight.sum(dtype=np.int64))
        totals.hits += int(weight[columns["label"] == 1].sum(dtype=np.int64))
        store.add(columns)
    remarks = merge_remarks([*totals.remarks, *passes.remarks])
    passes.release()
    found = store.finish()
    # A unit of sampling weights is what makes rows that stand for any as many as there are.
    weighing = int(np.count_nonzero(found["weight"]))
    size = weighing / totals.total if totals.options.sampled else unit.size
    mass = arrays.empty(totals.rows, np.float64)
    np.multiply(found["weight"], size, out=mass)
    part = found.get("part")
    codes = tuple(found[name] for name in sorted(found) if name.startswith("code"))
    return HetcalRows(
        **{name: found[name] for name in ("score", "label", "weight", "key")},
        mass=mass,
        features=replace(features, codes=codes, values=found.get("values")),
        unit=unit,
        size=size,
        folds=None if part is None else Folds(part, options.time is not None),
        arrays=arrays,
        totals=totals,
        files=tuple(source.paths),
        warnings=(*source.warnings, *(remark.text for remark in remarks), *arrays.warnings),
    )


def linear_scores(score: Numbers, scale: str) -> tuple[Floats, int]:
    """Return scores on a linear scale, and how many were moved away from 0 or 1.

    Probabilities are clipped to [1e-6, 1 - 1e-6] before their logit is taken; logits and raw scores
    stay as they are.
    """
    if scale != "probability":
        return score.astype(np.float64), 0
    exact, logits = score.astype(np.float64), np.empty(score.size)
    log_odds(exact, logits)
    return logits, int(np.count_nonzero((exact < LEAST) | (exact > 1.0 - LEAST)))


def need_both_classes(rows: HetcalRows) -> None:
    """Raise `DataError` where no row, or every row, is positive."""
    if 0 < rows.totals.positives < rows.count:
        return
    file, column = next(iter(rows.files), None), rows.options.label
    which = "no" if rows.totals.positives == 0 else "every"
    raise DataError.of(
        file,
        f"column {column!r}: {which} row is positive; a calibration "
        "map needs rows of both classes; name the positive class by --positive VALUE if labels are not "
        "0/1",
        column=column,
        rows=rows.count,
    )
