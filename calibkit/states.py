"""States as files: read, and put together."""

from __future__ import annotations

from collections.abc import Sequence

from calibkit.files.inputs import find_files
from calibkit.summaries.states import State, merge_states, read_state


def merge_files(inputs: Sequence[str], expect: int | None = None) -> tuple[list[str], State]:
    """Return the files that inputs stand for, and the state of the rows of all of them.

    Parameters
    ----------
    inputs
        Files, globs or folders, or ``-`` for standard input.
    expect
        How many shards there must be in all; None: any number.

    Raises
    ------
    UsageError
        No such file, or no permission to read it.
    ModelError, DataError
        As `read_state` and `merge_states`.
    """
    paths = [path for path, _ in find_files(inputs)]
    return paths, merge_states([read_state(path) for path in paths], expect)
