"""The engine that works on a Dask cluster, by plain futures: items go out, results come back.

A task whose worker dies is done again by another one; what has been merged already stays.  Results
are merged on the workers, in a tree, so that only the last one comes to this process.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from operator import attrgetter
from typing import Any, Final, Self, TypeVar

from calibkit.engines.protocol import (
    Divided,
    Done,
    ShardError,
    arrived,
    guarded,
    merged_parts,
    parts_of,
    settled,
)
from calibkit.errors import CalibkitError, ResourceError, UsageError
from calibkit.progress import Progress, silent

T = TypeVar("T")

#: The address that means a cluster of this machine's processes.
LOCAL: Final = "local"

#: Results that are merged at a time.
_FAN: Final = 8

#: Seconds to wait for a scheduler that is to answer, and for one that is to let go.
_CONNECT, _CLOSE = 10, 20
#: Seconds that workers have to end what they do after one has failed.
_FINISH = 60


class DaskEngine:
    """Works on a Dask cluster; see `calibkit.engines.protocol.Engine`.

    Parameters
    ----------
    address
        Of the scheduler, or `LOCAL`.
    workers
        How many processes a local cluster has.

    Raises
    ------
    UsageError
        Where `distributed` is not installed.
    ResourceError
        Where no scheduler answers.
    """

    def __init__(self, address: str, workers: int = 1) -> None:
        self._dask = _distributed()
        self._address, self._workers = address, workers
        self._cluster: Any = None
        self._client: Any = None

    def __enter__(self) -> Self:
        quiet = logging.getLogger("distributed")
        self._level = quiet.level
        quiet.setLevel(logging.CRITICAL)  # what goes wrong is said once, by an error
        try:
            target: Any = self._address
            if target == LOCAL:
                target = self._cluster = self._local_cluster()
            self._client = self._dask.Client(target, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError, RuntimeError) as error:
            self.__exit__()
            raise ResourceError(
                f"--dask {self._address}: no Dask scheduler answers there ({_first_line(error)}); "
                "start one by `dask scheduler`, or use --dask local"
            ) from error
        return self

    def _local_cluster(self) -> Any:
        # Each worker is one thread; polars would take all processors in each of them.
        own = {"distributed.nanny.pre-spawn-environ": {"POLARS_MAX_THREADS": 1}}
        with importlib.import_module("dask").config.set(own), _quiet_helpers():
            return self._dask.LocalCluster(
                n_workers=self._workers,
                threads_per_worker=1,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )

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

    def fold(
        self,
        task: Callable[[T], Done],
        merge: Callable[[Sequence[Done]], Done],
        items: Sequence[T | Divided[T]],
        progress: Progress = silent,
    ) -> Done:
        """Merge the results in a tree of which each node takes a few."""
        pieces = [part for item in items for part in parts_of(item)]
        leaves = self._submit(task, pieces)
        coming = iter(leaves)
        joined: list[Any] = []
        level: list[Any] = []
        for item in items:
            own = [next(coming) for _ in parts_of(item)]
            if isinstance(item, Divided):
                done = self._tree(partial(merged_parts, merge), own)
                own = [self._call(partial(settled, task, item.whole), done)]
                joined.append((own[0], item.whole))
            level += own
        last = self._tree(merge, level)
        self._watch(leaves, pieces, progress, joined)
        found: Done = self._result(last)
        return found

    def _tree(self, merge: Callable[[Sequence[Done]], Done], level: list[Any]) -> Any:
        """Merge a few results at a time until they are one."""
        while len(level) > 1:
            groups = [level[start : start + _FAN] for start in range(0, len(level), _FAN)]
            level = [self._call(merge, group) if len(group) > 1 else group[0] for group in groups]
        return level[0]

    def each(
        self, task: Callable[[T], Done], items: Sequence[T], progress: Progress = silent
    ) -> list[Done]:
        """Return the result of each item."""
        futures = self._submit(task, items)
        try:
            self._watch(futures, items, progress)
            return [self._result(future) for future in futures]
        except CalibkitError:
            # Who is still at work would write after the caller has cleared up.
            if self._client.status == "running":
                with suppress(Exception):
                    self._dask.wait(futures, timeout=_FINISH)
            raise

    def _submit(self, task: Callable[[T], Done], items: Sequence[T]) -> list[Any]:
        found: list[Any] = self._client.map(partial(guarded, task), items, pure=False)
        return found

    def _call(self, work: Callable[[Any], Done], of: Any) -> Any:
        return self._client.submit(guarded, work, of, pure=False)

    def _watch(
        self,
        futures: Sequence[Any],
        items: Sequence[Any],
        progress: Progress,
        joined: Sequence[tuple[Any, Any]] = (),
    ) -> None:
        """Wait until all items are done, telling how many rows they had; stop at a failure.

        `joined` are the results of divided items with these: they are waited for, and not counted.
        """
        sizes = self._client.map(attrgetter("rows"), futures, pure=False)
        item_of = {size.key: item for size, item in zip(sizes, items, strict=True)}
        whole_of = {done.key: item for done, item in joined}
        rows = count = 0
        waiting = self._dask.as_completed(
            [*sizes, *(done for done, _ in joined)], loop=self._client.loop
        )
        for future in waiting:
            if future.key not in whole_of:
                rows += self._result(future, getattr(item_of[future.key], "name", None))
                count += 1
                progress(rows, rows * len(futures) // count)
            elif future.status != "finished":
                self._result(future, getattr(whole_of[future.key], "name", None))

    def _result(self, future: Any, name: str | None = None) -> Any:
        try:
            return future.result()
        except ShardError as error:
            raise arrived(error) from None
        except CancelledError as error:
            raise self._lost("its scheduler went away") from error
        except ImportError as error:
            raise UsageError(
                f"the workers of {self._address} cannot load calibkit ({_first_line(error)}); "
                "install the same version there."
            ) from error
        except self._dask.KilledWorker as error:
            raise ResourceError(
                f"{name or 'a merge of states'}: every worker that took it died, perhaps for lack "
                "of memory; give workers more, or less at a time by --memory",
                file=name,
            ) from error
        except OSError as error:
            raise self._lost(_first_line(error)) from error

    def _lost(self, reason: str) -> ResourceError:
        return ResourceError(
            f"the Dask cluster {self._address} was lost while it worked ({reason}); "
            "nothing was written: run again when it is back"
        )


@contextmanager
def _quiet_helpers() -> Iterator[None]:
    """Let the process that Python starts beside workers not complain where they are ended at once."""
    name = "PYTHONWARNINGS"
    before = os.environ.get(name)
    os.environ[name] = ",".join(filter(None, [before, "ignore:resource_tracker"]))
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise UsageError(
            "--dask needs the package distributed: install it by `pip install 'calibkit[dask]'`."
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
