"""Work on a Dask cluster: `map` a function over parts, and `reduce` what comes of them to one result.

Functions and parts travel to its workers by plain futures: file names go out, summaries come back.
A task whose worker dies is done again by another one; what has been merged already stays.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from msgspec import Struct

from calibkit.errors import CalibkitError, ResourceError, UsageError, needed
from calibkit.files.explain import first_line
from calibkit.runtime.progress import tell
from calibkit.version import __version__

#: The address that means a cluster of this machine's processes.
LOCAL: Final = "local"

#: Seconds to wait for a scheduler that is to answer, and for one that is to let go.
_CONNECT, _CLOSE = 10, 20
#: Seconds that workers have to end what they do after one has failed.
_FINISH = 60
#: Results that are merged at a time.
_FAN: Final = 8


class OfRows(Protocol):
    """What comes of a part."""

    @property
    def rows(self) -> int:
        """How many rows it is of."""


T = TypeVar("T")
R = TypeVar("R", bound=OfRows)


class DaskEngine:
    """Works on parts; what the work on one raises is raised here, as it was.

    The address is that of a scheduler, or `LOCAL`: a cluster of so many processes.
    """

    def __init__(self, address: str, workers: int = 1) -> None:
        said = "--dask needs the package distributed: install it by `pip install 'calibkit[dask]'`."
        self._dask: Any = needed("distributed", UsageError(said))
        self._address, self._workers = address, workers
        self._cluster: Any = None
        self._client: Any = None

    def __enter__(self) -> Self:
        quiet = logging.getLogger("distributed")
        self._level = quiet.level
        quiet.setLevel(logging.CRITICAL)  # what goes wrong is said once, by an error
        try:
            if self._address == LOCAL:
                self._cluster = self._local_cluster()
            self._client = self._dask.Client(
                self._cluster or self._address, timeout=_CONNECT, set_as_default=False
            )
        except (OSError, ValueError, RuntimeError) as error:
            self.__exit__()
            raise ResourceError(
                f"--dask {self._address}: no Dask scheduler answers there ({first_line(error)}); "
                "start one by `dask scheduler`, or use --dask local"
            ) from error
        return self

    def _local_cluster(self) -> Any:
        # Each worker is one thread; polars would take all processors in each of them.
        own = {"distributed.nanny.pre-spawn-environ": {"POLARS_MAX_THREADS": 1}}
        name = "PYTHONWARNINGS"
        before = os.environ.get(name)
        # The process that Python starts beside workers complains where they are ended at once.
        os.environ[name] = ",".join(filter(None, [before, "ignore:resource_tracker"]))
        try:
            with importlib.import_module("dask").config.set(own):
                return self._dask.LocalCluster(
                    n_workers=self._workers,
                    threads_per_worker=1,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,
                )
        finally:
            del os.environ[name]
            os.environ |= {} if before is None else {name: before}

    def __exit__(self, *error: object) -> None:
        lost = self._client is not None and self._client.status != "running"
        for open_one in (self._client, self._cluster):
            with suppress(Exception):  # a scheduler that is gone cannot be left in good order
                if open_one is not None:
                    open_one.close(timeout=1 if lost else _CLOSE)
        if not lost:
            logging.getLogger("distributed").setLevel(self._level)

    @property
    def at_once(self) -> int:
        """The threads of all workers that there are."""
        return sum(self._client.nthreads().values())

    def map(self, function: Callable[[T], R], parts: Sequence[T]) -> Iterable[R]:
        """Begin to work on all parts; the results come, in order, when they are asked for."""
        work = partial(_of_one_version, function, __version__)
        return Results(self, self._client.map(work, parts, pure=False), parts)

    def reduce(self, merge: Callable[[Sequence[R]], R], results: Iterable[R], room: float = 0) -> R:
        """Return the results of `map` as one.

        They come here while others are still worked on, as long as there is `room` for their rows; the
        others are merged in a tree on the workers, of which only the last one comes.
        """
        assert isinstance(results, Results)
        left, here, rows, known = dict(enumerate(results.futures)), dict[int, R](), 0, 0
        # Ahead of other parts: a worker would tell the rows of all of its parts at its end.
        sizes = self._client.map(attrgetter("rows"), results.futures, pure=False, priority=1)
        place_of = {size.key: place for place, size in enumerate(sizes)}
        for batch in self._dask.as_completed(sizes, loop=self._client.loop).batches():
            places = [place_of[size.key] for size in batch]
            for place, size in zip(places, batch, strict=True):
                with self.explained(results.parts[place]):
                    rows += size.result()
            if rows <= room:
                came = self._gathered([left.pop(place) for place in places])
                here.update(zip(places, came, strict=True))
            known += len(batch)
            tell(rows, rows * len(sizes) // known)
        futures = list(left.values())
        while len(futures) > 1:
            groups = [futures[start : start + _FAN] for start in range(0, len(futures), _FAN)]
            futures = [self._client.submit(merge, group, pure=False) for group in groups]
        found = [here[place] for place in sorted(here)] + self._gathered(futures)
        return merge(found) if len(found) > 1 else found[0]

    def _gathered(self, futures: Sequence[Any]) -> list[Any]:
        """Return results straight from workers; through the scheduler where these are out of reach."""
        with self.explained():
            found: list[Any] = self._client.gather(futures, direct=True)
        return found

    def finish(self, futures: Sequence[Any]) -> None:
        """Wait until nobody is at work any more: what is written late would stay behind."""
        if self._client.status == "running":
            with suppress(Exception):
                self._dask.wait(futures, timeout=_FINISH)

    @contextmanager
    def explained(self, part: object = None) -> Iterator[None]:
        """Say of what goes wrong with the cluster what to do, and of which part it is."""
        name = getattr(part, "name", None)
        try:
            yield
        except CalibkitError:
            raise
        except MemoryError as error:
            raise ResourceError(
                "memory ran out on a worker; give it less at a time by --memory"
            ) from error
        except (CancelledError, ImportError) as error:
            if isinstance(error, CancelledError) and self._client.status != "running":
                raise self._lost("its scheduler went away") from error
            raise UsageError(
                f"the workers of {self._address} cannot load calibkit ({first_line(error)}); "
                "install the same version there."
            ) from error
        except self._dask.KilledWorker as error:
            raise ResourceError(
                f"{name or 'a merge of states'}: every worker that took it died, perhaps for lack "
                "of memory; give workers more, or less at a time by --memory",
                file=name,
            ) from error
        except OSError as error:
            raise self._lost(first_line(error)) from error

    def _lost(self, reason: str) -> ResourceError:
        return ResourceError(
            f"the Dask cluster {self._address} was lost while it worked ({reason}); "
            "nothing was written: run again when it is back"
        )


class Results(Struct, Generic[R], frozen=True):
    """The results of parts, on the workers until they are asked for."""

    engine: DaskEngine
    futures: list[Any]
    parts: Sequence[Any]

    def __iter__(self) -> Iterator[R]:
        rows = 0
        try:
            for place, part in enumerate(self.parts, start=1):
                with self.engine.explained(part):
                    found: R = self.futures[place - 1].result()
                self.futures[place - 1] = None  # the worker may forget it
                rows += found.rows
                tell(rows, rows * len(self.parts) // place)
                yield found
        except CalibkitError:
            self.engine.finish([future for future in self.futures if future is not None])
            raise


def _of_one_version(function: Callable[[T], R], version: str, part: T) -> R:
    """Do the work on a part where the versions of both sides are one."""
    if version != __version__:
        raise UsageError(
            f"a worker has calibkit {__version__}, but this is calibkit {version}; install the "
            "same version everywhere."
        )
    return function(part)
