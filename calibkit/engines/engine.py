"""What an engine does: `map` a function over parts, and `reduce` what comes of them to one result.

Functions and parts may travel to other machines: file names go out, summaries come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from calibkit import __version__
from calibkit.errors import CalibkitError, DataError, InfeasibleError, ResourceError, UsageError
from calibkit.progress import Progress, silent

T = TypeVar("T")

#: Results that are merged at a time.
FAN: Final = 8

_CLASSES = (UsageError, DataError, InfeasibleError, ResourceError)


@dataclass(frozen=True)
class Done:
    """What comes of a part: how many rows it had, and whatever the function returns."""

    rows: int
    value: Any = None


Function = Callable[[T], Done]
Merge = Callable[[Sequence[Done]], Done]


class Engine(Protocol):
    """Works on parts; what the work on one raises is raised here, as it was."""

    @property
    def at_once(self) -> int:
        """How many parts are worked on at a time."""

    def map(
        self, function: Function[T], parts: Sequence[T], progress: Progress = silent
    ) -> Iterable[Done]:
        """Return the results of all parts, in their order, as they are asked for."""

    def reduce(self, merge: Merge, results: Iterable[Done]) -> Done:
        """Return all results of `map` as one, merged a few at a time, wherever they are."""


class LocalEngine:
    """Works in this process, or by an executor of `concurrent.futures`; see `Engine`."""

    def __init__(self, executor: Executor | None = None, at_once: int = 1) -> None:
        self._executor = executor
        self.at_once = at_once

    def map(
        self, function: Function[T], parts: Sequence[T], progress: Progress = silent
    ) -> Iterator[Done]:
        """Yield the results."""
        work = partial(travelled, function, __version__)
        found = map(work, parts) if self._executor is None else self._executor.map(work, parts)
        rows = 0
        for place in range(1, len(parts) + 1):
            try:
                done = next(found)
            except TravellingError as error:
                raise arrived(error) from None
            rows += done.rows
            progress(rows, rows * len(parts) // place)
            yield done

    def reduce(self, merge: Merge, results: Iterable[Done]) -> Done:
        """Return the results as one; few are held."""
        held: list[Done] = []
        for done in results:
            held.append(done)
            if len(held) == FAN:
                held = [merge(held)]
        return merge(held) if len(held) > 1 else held[0]


class TravellingError(Exception):
    """An error of the library on its way between machines, as plain values."""

    def __init__(self, content: dict[str, object]) -> None:
        super().__init__(content)
        self.content = content


def travelled(function: Callable[[T], Done], version: str, part: T) -> Done:
    """Do some work where its errors have to travel: what they know comes along.

    Parameters
    ----------
    function, part
        The work.
    version
        The calibkit that asks.

    Raises
    ------
    TravellingError
        For an error of the library, for memory that ran out, and where versions differ.
    """
    try:
        if version != __version__:
            raise UsageError(
                f"a worker has calibkit {__version__}, but this is calibkit {version}; install the "
                "same version everywhere."
            )
        return function(part)
    except CalibkitError as error:
        raise TravellingError(error.as_dict()) from None
    except MemoryError:
        message = "memory ran out on a worker; give it less at a time by --memory"
        raise TravellingError({"code": ResourceError.code, "message": message}) from None


def arrived(error: TravellingError) -> CalibkitError:
    """Return the error of the library that has travelled."""
    known = {kind.code: kind for kind in _CLASSES}
    content = dict(error.content)
    kind = known.get(int(str(content.pop("code", 0))), CalibkitError)
    return kind(str(content.pop("message", "")), **content)  # type: ignore[arg-type]  # as `as_dict`
