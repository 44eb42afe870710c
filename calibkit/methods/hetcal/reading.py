"""Reading the rows of a fit: a pass that says what the columns hold, and one that stores the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import DTypeLike, NDArray

from calibkit.columns.columns import ScoreRows, read_score_rows
from calibkit.columns.rows import RowFinder, merge_remarks, weightless
from calibkit.columns.segments import TimeParts, group_parts
from calibkit.columns.weights import ROW, whole_units
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.methods.hetcal.features import (
    QUANTILE_BINS,
    Bins,
    Categories,
    Features,
    feature_columns,
    feature_words,
    read_features,
    summarised_bins,
)
from calibkit.methods.hetcal.rows import Folds, HetcalRows, Totals, linear_scores
from calibkit.models.model import Column
from calibkit.models.scales import measure
from calibkit.numerics.row_hash import row_hashes
from calibkit.options.hetcal import FOLDS, HetcalOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.arrays import Arrays
from calibkit.summaries.passes import Passes
from calibkit.summaries.row_store import MOST_VALUES, CategoryCounts, ColumnSummaries, RowStore
from calibkit_kernels import hashes as hash_kernels

Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]

#: Row numbers are 32-bit integers.
MOST_ROWS: Final = 2**31


@dataclass(frozen=True)
class Window:
    """Rows as they were read: their columns, their linear scores, and their features by value."""

    data: ScoreRows
    label: NDArray[np.uint8]
    where: RowFinder
    others: pl.DataFrame
    linear: Floats
    clipped: int
    values: Floats
    categories: Categories

    def hashes(self, values: Floats, categories: Categories) -> NDArray[np.uint64]:
        """Return the hash of each row over all that is used of it, its features as given."""
        used: Columns = {"score": self.data.score, "label": self.label}
        used |= feature_words(values, categories)
        if self.data.weight is not None:
            used["weight"] = self.data.weight
        return row_hashes(used)

    def values_among(self, known: Categories) -> Floats:
        """Return the features with categories by their places among those that are known."""
        found = self.values
        for place, (own, names) in enumerate(zip(self.categories, known, strict=True)):
            if own is None or names is None or own == names:
                continue
            places = {name: number for number, name in enumerate(names)}
            numbers = np.array([*(places.get(name, np.nan) for name in own), np.nan])
            found = found.copy() if found is self.values else found
            here = np.where(np.isnan(self.values[place]), len(own), self.values[place])
            found[place] = numbers[here.astype(np.int64)]
        return found


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
    columns = known.columns if known else feature_columns(source, names)
    return Reader(source, options, columns, known, memory).rows()


@dataclass(frozen=True)
class Reader:
    """Reads rows; see `read_hetcal_rows`."""

    source: Source
    options: HetcalOptions
    columns: tuple[Column, ...]
    known: Features | None = None
    memory: Memory | None = None

    @property
    def dealing(self) -> list[str]:
        """The columns that deal rows to folds."""
        return [name for name in (self.options.groups, self.options.time) if name is not None]

    @property
    def beside(self) -> list[str]:
        """The columns beside those of scores, labels and weights."""
        return [column.name for column in self.columns] + self.dealing

    @property
    def used(self) -> list[str]:
        """All columns that are read."""
        options = self.options
        return [*filter(None, (options.score, options.label, options.weight)), *self.beside]

    def rows(self) -> HetcalRows:
        """Return the rows: a pass says what the columns hold, the next one stores."""
        passes = Passes(self.source, self.used, self.window, self.memory)
        totals, times = Totals(self.options.columns), TimeParts()
        features, scores = self._look(passes, totals, times)
        arrays, unit = Arrays(None if passes.whole else self.memory), totals.unit
        fields: dict[str, DTypeLike | tuple[DTypeLike, int]]
        fields = {"score": np.float64, "label": np.uint8}
        if self.options.weight is not None:
            fields["weight"] = np.uint8 if unit == ROW and totals.top <= 8 else np.int64
        if self.dealing:
            fields["part"] = np.uint8
        if self.known is not None:
            fields["values"] = np.float64, len(self.columns)
        fields |= {f"code{place:05d}": bins.dtype for place, bins in enumerate(features.bins)}
        store = RowStore(fields, totals.rows, arrays, scores)
        for window in passes:
            weight: NDArray[Any] = np.ones(window.label.size, np.uint8)
            if window.data.weight is not None:
                weight = whole_units(window.data.weight, unit)
            totals.total += int(weight.sum(dtype=np.int64))
            totals.hits += int(weight[window.label == 1].sum(dtype=np.int64))
            store.add({"weight": weight, **self._stored(window, features, times)})
        remarks = merge_remarks([*totals.remarks, *passes.remarks])
        passes.release()
        found = store.finish()
        size = totals.rows / totals.total if totals.options.sampled else unit.size
        weight = found["weight"] if "weight" in found else arrays.empty(totals.rows, np.uint8)
        if "weight" not in found:
            weight[:] = 1
        mass = arrays.empty(totals.rows, np.float64)
        np.multiply(weight, size, out=mass)
        part = found.get("part")
        codes = tuple(found[name] for name in sorted(found) if name.startswith("code"))
        said = (remark.text for remark in remarks)
        return HetcalRows(
            score=found["score"],
            label=found["label"],
            weight=weight,
            key=found["key"],
            mass=mass,
            features=replace(features, codes=codes, values=found.get("values")),
            unit=unit,
            size=size,
            folds=None if part is None else Folds(part, FOLDS, self.options.time is not None),
            arrays=arrays,
            totals=totals,
            files=tuple(self.source.paths),
            warnings=(*self.source.warnings, *said, *arrays.warnings),
        )

    def window(self, source: Source) -> Window:
        """Read and check the rows of a window."""
        data = read_score_rows(
            source,
            self.options.columns,
            uncertainty=False,
            finite_scores=True,
            features=self.beside,
        )
        others, where = data.others, data.where
        known = None if self.known is None else self.known.categories
        assert others is not None and where is not None and data.label is not None
        values, categories = read_features(others, self.columns, where, known)
        linear, clipped = linear_scores(data.score, measure(self.options.scale))
        return Window(data, data.label, where, others, linear, clipped, values, categories)

    def _look(
        self, passes: Passes[Window], totals: Totals, times: TimeParts
    ) -> tuple[Features, ColumnSummaries]:
        """Go through the rows once: return the features, and a summary of scores and features."""
        text = [column.kind == "category" and self.known is None for column in self.columns]
        counts = [CategoryCounts() if one else None for one in text]
        most = self.options.bins or MOST_VALUES
        summaries = ColumnSummaries(1 + len(self.columns), most)
        for window in passes:
            values, where = window.values, window.where
            hashes = window.hashes(values, window.categories)
            totals.add(window.data, window.clipped, hashes)
            for column, own in zip(self.columns, counts, strict=True):
                if own is not None:
                    own.add(window.others[column.name])
            numbers = np.where(np.array(text)[:, None], np.nan, values)
            summaries.add(np.concatenate([window.linear[None], numbers]), hashes)
            if self.options.time is not None:
                times.add(window.others[self.options.time], where)
            if self.options.groups is not None:
                group_parts(window.others[self.options.groups], FOLDS, self.options.seed, where)
        if self.options.weight is not None and totals.top < -1074:
            raise weightless(self.source.parts[0].path, self.options.weight, totals.rows)
        if self.known is not None:
            return Features(self.columns, self.known.categories), summaries
        categories = [None if one is None else one.names() for one in counts]
        found = [
            summarised_bins(summaries, place, self.options.bins or QUANTILE_BINS)
            if names is None
            else Bins(np.arange(float(len(names))))
            for place, names in enumerate(categories, 1)
        ]
        return Features(self.columns, tuple(categories), tuple(found)), summaries

    def _stored(self, window: Window, features: Features, times: TimeParts) -> Columns:
        """Return the columns of a window as they are stored, beside the weight."""
        values = window.values_among(features.categories)
        hashes = window.hashes(values, features.categories)
        found: Columns = {"score": window.linear, "label": window.label, "hash": hashes}
        groups, time = self.options.groups, self.options.time
        if groups is not None:
            found["part"] = group_parts(
                window.others[groups], FOLDS, self.options.seed, window.where
            )
        elif time is not None:
            found["part"] = times.parts(window.others[time], FOLDS + 1)
        if "part" in found:
            hash_kernels.absorb(hashes, found["part"].astype(np.uint64), np.uint64(0))
        if self.known is not None:
            found["values"] = values.T
        for place, bins in enumerate(features.bins):
            found[f"code{place:05d}"] = bins.codes(values[place])
        return found
