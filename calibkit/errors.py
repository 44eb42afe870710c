"""Every error a user can meet, and the exit code it ends the command with.

    CalibkitError                 70  (never raised itself)
    ├── CheckError                 1  an export that does not do what its model does
    ├── UsageError                 2  an option, file or column that is not there; an impossible pair
    │   └── MissingFileError       2  a file that is not there
    ├── DataError                  3  what is inside the files
    │   └── ModelError             3  a model or state that cannot be read
    ├── InfeasibleError            4  no boundary selects a row and meets the bound
    └── ResourceError              5  disk full, memory, read error: worth another try

Python's own errors stand beside them: `UsageError` and `DataError` are a `ValueError`,
`MissingFileError` is a `FileNotFoundError`, `ResourceError` an `OSError`.  So whoever catches those
round our own code lets a `CalibkitError` pass first.

Exit codes without a class here: 0 done, 1 also where a gate failed, 70 internal error, 130 interrupted,
143 terminated, 141 broken pipe.  Only the command line turns an error into text and exit code.

What a user should know though all went well is a `CalibkitWarning` in Python, and a line on standard
error from the command line.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Self

#: How many offending rows a message names.
FIRST_ROWS = 5


class CalibkitError(Exception):
    """A failure with a message for the user.

    Parameters
    ----------
    message
        What is wrong, with the value seen, what was expected and what to do.
    file, column
        Where, if it is known.
    rows
        How many rows offend.
    first_rows
        The numbers of the first of them, counted from 1 within `file` (a header does not count).
    """

    code = 70

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        column: str | None = None,
        rows: int | None = None,
        first_rows: Sequence[int] = (),
    ) -> None:
        super().__init__(message)
        self.file = file if file is None else str(file)  # a path may know more than its text
        self.column = column
        self.rows = rows
        self.first_rows = [int(row) for row in first_rows[:FIRST_ROWS]]

    @property
    def message(self) -> str:
        """What is wrong: the text of the error."""
        return str(self.args[0])

    @message.setter
    def message(self, text: str) -> None:
        self.args = (text,)

    @classmethod
    def of(cls, file: str | None, problem: str, **where: Any) -> Self:
        """Return the error about a file, whose name (if it has one) the message begins with."""
        return cls(f"{file}: {problem}" if file else problem, file=file, **where)

    def as_dict(self) -> dict[str, object]:
        """Return the error as the object that ``--json`` prints."""
        return {
            "code": self.code,
            "message": self.message,
            "file": self.file,
            "column": self.column,
            "rows": self.rows,
            "first_rows": self.first_rows,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes as the nearest of the classes of this module."""
        kind = next(one for one in type(self).__mro__ if one.__module__ == __name__)
        content = self.as_dict()
        del content["code"]
        return partial(kind, **content), ()


class CheckError(CalibkitError):
    """What was asked to be checked does not hold: exit code 1, as that of a gate."""

    code = 1


class UsageError(CalibkitError, ValueError):
    """The command cannot mean what it says: exit code 2."""

    code = 2


class MissingFileError(UsageError, FileNotFoundError):
    """A file that was named is not there: exit code 2."""


class DataError(CalibkitError, ValueError):
    """The content of a file is not what the command needs: exit code 3."""

    code = 3


class ModelError(DataError):
    """A model file that cannot be read, or not by this version: exit code 3."""


class InfeasibleError(CalibkitError):
    """No boundary selects a row and meets the bound: exit code 4."""

    code = 4
    #: The least review that would do, where that is what the bound is too low for.
    least = 0.0


class ResourceError(CalibkitError, OSError):
    """The machine, not the data, is at fault: exit code 5."""

    code = 5


class CalibkitWarning(UserWarning):
    """What a user should know of a result: ``warnings.simplefilter("error", …)`` stops at it."""


def needed(package: str, refusal: CalibkitError) -> Any:
    """Return a package that may be missing; raise what is said of it then."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise refusal from error


#: What other fields call metrics and bounds: no spelling leads from one name to the other.
SYNONYMS = {
    "sensitivity": "recall",
    "tpr": "recall",
    "ppv": "precision",
    "tnr": "specificity",
    "roc_auc": "auc",
    "auprc": "pr_auc",
    "brier_score": "brier",
}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean …?)"`` for the known names near `name`, else an empty string."""
    lowered, asked = {other.lower(): other for other in known}, name.lower()
    word = asked.lstrip("-")
    same = asked.removesuffix(word) + SYNONYMS.get(word, word)
    close = difflib.get_close_matches(asked, lowered, n=3, cutoff=0.6)
    found = [same] if same in lowered else close
    if not found:
        return ""
    return " (did you mean " + ", ".join(repr(lowered[match]) for match in found) + "?)"
