"""What a validation found: as it is printed and written, and while it is being found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from calibkit.arrays import Bools, Floats
from calibkit.columns.patterns import find_features, match_columns, natural_key
from calibkit.columns.rows import FloatArray, OffendingRows, RowFinder, missing_mask, numeric_column
from calibkit.errors import CalibkitError, DataError, UsageError
from calibkit.files.frames import names as listed
from calibkit.files.sources import Source
from calibkit.models.model import Shown
from calibkit.options.validate import ValidateOptions

#: How bad a finding is: a fit refuses the rows; a fit would run, and its result needs a second
#: look; worth knowing.
LEVELS: Final = ("error", "warning", "note")


class Finding(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that was found.

    Attributes
    ----------
    level
        ``error``, ``warning`` or ``note``.
    check
        What was looked at: one of the words of docs/validate.md.
    message
        What is wrong, the value seen, and what to do.
    column, file
        Where, if it is known.
    rows, first_rows
        How many rows it is about, and the first of them, from 1 within `file`.
    """

    level: str
    check: str
    message: str
    column: str | None = None
    rows: int | None = None
    file: str | None = None
    first_rows: list[int] = []


def refused(level: str, check: str, message: str, error: CalibkitError) -> Finding:
    """Return the finding that a reader refused rows, or a file, with where they are."""
    place = error.column, error.rows, error.file, error.first_rows
    return Finding(level, check, message, *place)


class Checked(Struct, frozen=True, forbid_unknown_fields=True):
    """A column that was looked at.

    Attributes
    ----------
    role, column, dtype
        What it is for, its name and its type.
    missing, distinct
        Rows without a value; how many distinct values there are.
    low, high
        The least and the largest number; None where there is none, or where it is infinite.
    """

    role: str
    column: str
    dtype: str
    missing: int
    distinct: int | None = None
    low: float | None = None
    high: float | None = None


class Report(Shown, Struct, kw_only=True, forbid_unknown_fields=True):
    """What a validation found.

    Attributes
    ----------
    rows, files
        Of the inputs.
    columns
        What was looked at.
    findings
        Errors first, then warnings, then notes.
    errors, warnings, notes
        How many there are of each.
    """

    rows: int
    files: list[str]
    columns: list[Checked]
    findings: list[Finding]
    errors: int = 0
    warnings: int = 0
    notes: int = 0

    def __post_init__(self) -> None:
        self.findings = sorted(self.findings, key=lambda one: LEVELS.index(one.level))
        self.errors, self.warnings, self.notes = (
            sum(one.level == level for one in self.findings) for level in LEVELS
        )

    @property
    def ok(self) -> bool:
        """Whether the data can be used: no error was found."""
        return not self.errors


T = TypeVar("T")

PROBS, COUNTS = "prob_*", "count_*"

#: Columns that are looked at without being named, where the inputs have them; options of others; of
#: them what says how rows are parted, and alone is nothing to look at.
_ALWAYS: Final = ("score", "label", "uncertainty")
_PARTING: Final = ("groups", "time", "by")
_COLUMNS: Final = (*_ALWAYS, "weight", *_PARTING)
#: Of each role its option, and the pattern that is looked at without being named.
_PATTERNS: Final = (
    ("member", "members", "score_*"),
    ("probs", "probs", PROBS),
    ("counts", "counts", COUNTS),
    ("feature", "features", "feature_*"),
)


def _roles_of(options: ValidateOptions, source: Source) -> dict[str, list[str]]:
    """Return the columns of each role that are looked at."""
    found: dict[str, list[str]] = {}
    for role in _COLUMNS:
        named = listed(getattr(options, role))
        if not named and role in _ALWAYS:  # found as by a fit: an uncertainty by its exact name
            alike = (
                one if role == "uncertainty" else one.strip().casefold() for one in source.schema
            )
            named = [role] if role in alike else []
        source.require(named, f"--{role}")
        found[role] = named
    if options.positive is not None:
        source.as_written(found["label"])
    taken = {name for columns in found.values() for name in columns}
    for role, option, default in _PATTERNS:
        patterns = listed(getattr(options, option))
        wanted = patterns or [default for name in source.schema if fnmatchcase(name, default)][:1]
        if role == "feature":
            columns = find_features(source, wanted, {}) if wanted else []
        else:
            matched = (match_columns(source, one, f"--{option}") for one in wanted)
            columns = [name for one in matched for name in one.columns]
        found[role] = [name for name in dict.fromkeys(columns) if patterns or name not in taken]
    if not any(columns for role, columns in found.items() if role not in _PARTING):
        known = ", ".join(repr(name) for name in sorted(source.schema, key=natural_key)[:20])
        raise UsageError.of(
            source.file,
            f"no column to check: none is named and none has a default "
            f"name such as 'score' or 'label'; the columns are {known}",
        )
    return {role: columns for role, columns in found.items() if columns}


class Values(Struct, frozen=True):
    """A column without the rows that lack a value."""

    column: pl.Series
    where: RowFinder  # finds these rows in the inputs
    present: Bools  # which rows of the inputs have a value

    def placed(self, values: NDArray[np.generic]) -> Floats:
        """Return one number for each row of the inputs, NaN where it lacks one."""
        found = np.full(self.present.size, np.nan)
        found[self.present] = values
        return found


class Findings:
    """What was found so far; checks of single columns add what they find, and go on.

    `score` and `label` are numbers where they can be read, one for each row of the inputs.  Raises
    `UsageError`: a column that was named and is not there, or nothing to look at.
    """

    def __init__(self, options: ValidateOptions, source: Source) -> None:
        self.options, self.source = options, source
        self.roles = _roles_of(options, source)
        names = dict.fromkeys(name for columns in self.roles.values() for name in columns)
        self.frame = source.read(list(names))
        self.found: list[Finding] = []
        self.columns: list[Checked] = []
        self.score: dict[str, Floats] = {}
        self.label: Floats | None = None

    def add(self, level: str, check: str, message: str | None, *where: Any) -> None:
        """Add a finding about a column, or about all of them, unless its message is None."""
        if message is not None:
            self.found.append(Finding(level, check, message, *where))

    def attempt(self, level: str, check: str, work: Callable[[], T]) -> T | None:
        """Return what `work` gives; None, after adding why, if it refuses."""
        try:
            return work()
        except DataError as error:
            said = error.message.removeprefix(f"{error.file}: ")
            said = said.removeprefix(f"column {error.column!r}: ")  # a finding has both already
            if isinstance(error, OffendingRows):
                *_, problem, seen, advice = error.about
                value = f" (value {seen})" if seen not in ("None", "") else ""
                value = "" if f"({seen}" in problem else value
                said = f"{problem}{value}; {advice}" if advice else f"{problem}{value}"
            self.found.append(refused(level, check, said, error))
        return None

    def rows(
        self, level: str, check: str, values: Values, offends: Bools, problem: str, advice: str = ""
    ) -> None:
        """Add a finding about the rows that offend, if there are any."""
        refuse, column = values.where.check, values.column
        self.attempt(level, check, lambda: refuse(column, offends, problem, advice))

    def of(self, role: str, single: str = "") -> Iterator[Values]:
        """Yield the columns of a role that have a value; rows without text are never left out.

        Where values have to be `single`, which says why, a column of lists is a finding instead.
        """
        for name in self.roles.get(role, ()):
            values = self.present(name, role)
            if values is None:
                continue
            kind = values.column.dtype
            if single and kind.is_nested():
                self.add("error", "type", f"{kind} {single}", name)
            else:
                yield values

    def present(self, name: str, role: str) -> Values | None:
        """Return the rows of a column that have a value, after saying how many lack one.

        Such rows are left out by an option (a warning) or refused (an error), but for those of a
        feature.  Empty text is no label, and names no part of the rows.
        """
        option, asked = "--on-missing", self.options.on_missing
        if role == "label":
            option, asked = "--unlabelled", self.options.unlabelled
        dropped, needed = asked == "drop", role != "feature"
        column, where = self.frame[name], RowFinder(self.source)
        absent = missing_mask(column, empty=role in ("label", *_PARTING))
        present = np.ones(column.len(), bool) if absent is None else ~absent
        missing = int(np.count_nonzero(~present))
        kept = column if absent is None else column.filter(pl.Series(present))
        numbers = kept.cast(pl.Float64) if kept.dtype.is_numeric() else pl.Series(dtype=pl.Float64)
        finite = [
            end if isinstance(end, float) and math.isfinite(end) else None
            for end in (numbers.min(), numbers.max())
        ]
        distinct = None if kept.dtype.is_nested() else kept.n_unique()
        looked = Checked(role, column.name, str(column.dtype), missing, distinct, *finite)
        self.columns.append(looked)
        level = ("warning" if dropped else "error") if needed else "note"
        advice = f"fill these rows, or leave them out by {option} drop" if needed else ""
        advice = f"left out by {option} drop" if dropped else advice
        if missing:
            said = f"no value in {missing / present.size:.2%} of the rows"
            whole = Values(column, where, present)
            self.rows(level, "missing", whole, ~present, said, advice)
        if not kept.len():
            return None
        if absent is not None:
            where = RowFinder(self.source, np.flatnonzero(present))
        return Values(kept, where, present)

    def numbers(
        self,
        values: Values,
        low: float = -np.inf,
        high: float = np.inf,
        infinite: str = "error",
        advice: str = "",
    ) -> FloatArray | None:
        """Return values as numbers, after looking at type and range; None for other types."""
        column, where = values.column, values.where
        array = self.attempt("error", "type", lambda: numeric_column(column, where, finite=False))
        if array is None:
            return None
        outside = (array < low) | (array > high)
        reach = f"[{low:g}, {high:g}{']' if np.isfinite(high) else ')'}"
        self.rows("error", "range", values, outside, f"not in {reach}", advice)
        only = "only the order of these scores matters"
        what = "correct these rows" if infinite == "error" else only
        self.rows(infinite, "range", values, np.isinf(array) & ~outside, "infinite", what)
        return array

    def constant(self, values: Values, role: str) -> bool:
        """Add that a column has one value, if it has; tell whether it does."""
        column = values.column
        if column.len() < 2 or column.dtype.is_nested() or column.n_unique() > 1:
            return False
        said = f"the {role} is {column[0]} in all rows, so it separates none of them"
        self.add("warning", "constant", said, column.name, column.len())
        return True
