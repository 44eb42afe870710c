"""What a validation found, as it is printed and written."""

from __future__ import annotations

from typing import Final

import msgspec

from calibkit.errors import DataError
from calibkit.models.model import Shown

#: How bad a finding is: a fit refuses the rows; a fit would run, and its result needs a second
#: look; worth knowing.
ERROR: Final = "error"
WARNING: Final = "warning"
NOTE: Final = "note"


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


def refused(level: str, check: str, message: str, error: DataError) -> Finding:
    """Return the finding that a reader refused rows, with where they are."""
    place = error.column, error.rows, error.file, error.first_rows
    return Finding(level, check, message, *place)


class Checked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class Report(Shown, msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
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
        order = (ERROR, WARNING, NOTE)
        self.findings = sorted(self.findings, key=lambda one: order.index(one.level))
        self.errors, self.warnings, self.notes = (
            sum(one.level == level for one in self.findings) for level in order
        )

    @property
    def ok(self) -> bool:
        """Whether the data can be used: no error was found."""
        return not self.errors
