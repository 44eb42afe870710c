"""The checks of single columns: each adds what it finds, and goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.numeric import FloatArray, label_column, numeric_column
from calibkit.columns.rows import OffendingRows, RowFinder, missing_mask
from calibkit.errors import DataError
from calibkit.files.sources import Source
from calibkit.validation.report import ERROR, NOTE, WARNING, Checked, Finding, refused

T = TypeVar("T")
Mask = NDArray[np.bool_]

#: A score that so large a share of the rows has, of at least so many, is worth a word.
_MANY_TIES, _ENOUGH = 0.5, 20


@dataclass
class Findings:
    """What was found so far in some inputs."""

    source: Source
    found: list[Finding] = field(default_factory=list)
    columns: list[Checked] = field(default_factory=list)

    def add(
        self,
        level: str,
        check: str,
        message: str,
        column: str | None = None,
        rows: int | None = None,
    ) -> None:
        """Add a finding about a column, or about all of them."""
        self.found.append(
            Finding(level=level, check=check, message=message, column=column, rows=rows)
        )

    def attempt(self, level: str, check: str, work: Callable[[], T]) -> T | None:
        """Return what `work` gives; None, after adding why, if it refuses."""
        try:
            return work()
        except DataError as error:
            said = error.message
            if isinstance(error, OffendingRows):
                value = f" (value {error.value})" if error.value not in ("None", "") else ""
                value = "" if f"({error.value}" in error.problem else value
                advice = f"; {error.advice}" if error.advice else ""
                said = f"{error.problem}{value}{advice}"
            self.found.append(refused(level, check, said, error))
        return None

    def rows(
        self,
        level: str,
        check: str,
        values: Values,
        offends: Mask,
        problem: str,
        advice: str = "",
    ) -> None:
        """Add a finding about the rows that offend, if there are any."""
        if offends.any():
            refuse = values.where.refuse
            self.attempt(level, check, lambda: refuse(values.column, offends, problem, advice))


@dataclass(frozen=True)
class Values:
    """A column without the rows that lack a value.

    Attributes
    ----------
    column, where
        The values; finds their rows in the inputs.
    present
        Which rows of the inputs have one.
    """

    column: pl.Series
    where: RowFinder
    present: Mask

    def placed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return one number for each row of the inputs, NaN where it lacks one."""
        found = np.full(self.present.size, np.nan)
        found[self.present] = values
        return found


def present_values(
    findings: Findings,
    column: pl.Series,
    role: str,
    *,
    dropped: bool = False,
    needed: bool = True,
    empty: bool = False,
    option: str = "--on-missing",
) -> Values | None:
    """Return the rows of a column that have a value, after saying how many lack one.

    Parameters
    ----------
    findings, column, role
        What it is added to, and the column with what it is for.
    dropped, needed
        Whether such rows are left out (a warning) or refused (an error); whether they matter.
    empty
        Whether empty text is no value.
    option
        What leaves such rows out.
    """
    where = RowFinder(findings.source)
    absent = missing_mask(column, empty=empty)
    present = np.ones(column.len(), bool) if absent is None else ~absent
    missing = int(np.count_nonzero(~present))
    kept = column if absent is None else column.filter(pl.Series(present))
    findings.columns.append(
        Checked(
            role=role,
            column=column.name,
            dtype=str(column.dtype),
            missing=missing,
            distinct=None if kept.dtype.is_nested() else kept.n_unique(),
            **_range(kept),
        )
    )
    whole = Values(column, where, present)
    level = (WARNING if dropped else ERROR) if needed else NOTE
    advice = f"fill these rows, or leave them out by {option} drop" if needed else ""
    if dropped:
        advice = f"left out by {option} drop"
    if missing:
        findings.rows(level, "missing", whole, ~present, f"no value in {_share(~present)}", advice)
    if not kept.len():
        return None
    return Values(
        kept,
        where if absent is None else RowFinder(findings.source, np.flatnonzero(present)),
        present,
    )


def numbers(
    findings: Findings,
    values: Values,
    *,
    low: float | None = None,
    high: float | None = None,
    infinite: str = ERROR,
    advice: str = "",
) -> FloatArray | None:
    """Return values as numbers, after looking at their type and range; None for other types."""
    array = findings.attempt(
        ERROR, "type", lambda: numeric_column(values.column, values.where, finite=False)
    )
    if array is None:
        return None
    bottom, top = -np.inf if low is None else low, np.inf if high is None else high
    outside = (array < bottom) | (array > top)
    reach = f"[{bottom:g}, {top:g}]" if high is not None else f"[{bottom:g}, inf)"
    findings.rows(ERROR, "range", values, outside, f"not in {reach}", advice)
    what = "mend these rows" if infinite == ERROR else "only the order of these scores counts"
    findings.rows(infinite, "range", values, np.isinf(array) & ~outside, "infinite", what)
    return array


def constant(findings: Findings, values: Values, role: str) -> bool:
    """Add that a column has one value, if it has; tell whether it does."""
    if values.column.len() < 2 or values.column.dtype.is_nested() or values.column.n_unique() > 1:
        return False
    value = values.column[0]
    findings.add(
        WARNING,
        "constant",
        f"the {role} is {value} in all rows: it tells no two of them apart",
        values.column.name,
        values.column.len(),
    )
    return True


def ties(findings: Findings, values: Values, array: FloatArray) -> None:
    """Add that most rows share one score, or that there are two scores only."""
    if array.size < _ENOUGH:
        return
    distinct, counts = np.unique(array, return_counts=True)
    name = values.column.name
    if distinct.size == 2:
        findings.add(
            WARNING,
            "ties",
            f"two scores only, {distinct[0]:g} and {distinct[1]:g}: is this a decision?",
            name,
            array.size,
        )
    elif distinct.size > 2 and counts.max() >= _MANY_TIES * array.size:
        most = int(counts.argmax())
        findings.add(
            WARNING,
            "ties",
            f"{counts[most] / array.size:.1%} of the rows share the score {distinct[most]:g}: no "
            "threshold parts them",
            name,
            int(counts[most]),
        )


def labels(findings: Findings, values: Values, positive: str | None) -> NDArray[np.uint8] | None:
    """Return labels 0 and 1, after looking at their values and classes; None for others."""
    read = findings.attempt(
        ERROR, "labels", lambda: label_column(values.column, values.where, positive=positive)
    )
    if read is None:
        return None
    found = read[0]
    hits = int(np.count_nonzero(found))
    if hits in (0, found.size):
        word = "positive" if hits else "negative"
        findings.add(
            ERROR,
            "classes",
            f"all rows are {word}: both classes are needed; name the positive one by --positive",
            values.column.name,
            found.size,
        )
    return found


def _range(column: pl.Series) -> dict[str, float | None]:
    """Return the least and the largest number of a column."""
    if not column.len() or not column.dtype.is_numeric():
        return {}
    ends = {"low": column.min(), "high": column.max()}
    return {
        name: float(value) if isinstance(value, int | float) and np.isfinite(value) else None
        for name, value in ends.items()
    }


def _share(mask: Mask) -> str:
    return f"{np.count_nonzero(mask) / mask.size:.2%} of the rows"
