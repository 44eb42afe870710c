"""States as files: how one is read, and how several become one."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import msgspec

from calibkit.errors import ModelError, nearest
from calibkit.files.explain import reading
from calibkit.files.paths import STDIN
from calibkit.files.streams import scratched
from calibkit.models.model import decode_as
from calibkit.registry.methods import STATES
from calibkit.registry.methods import state as state_class
from calibkit.summaries import states


class _Start(msgspec.Struct):
    magic: str
    kind: str
    version: int


def read_state(path: str) -> states.State:
    """Return the state in a file; ``-`` is standard input."""
    if path != STDIN:
        return state_of(Path(path), path)
    with reading(path):
        kept = scratched(iter(partial(sys.stdin.buffer.read, 2**20), b""))
    return state_of(kept, path)


def state_of(file: Path, path: str) -> states.State:
    """Return the state of a file, which messages call `path`."""
    with states.opened(file, path) as found:
        text: bytes | None = (found.schema.metadata or {}).get(states.KEY.encode())
    try:
        if text is None:
            raise ModelError("an Arrow file, but not a calibkit state")
        start = decode_as(text, _Start, "a calibkit state", path)
        _check_start(start, path)
        header = decode_as(text, states.Header, f"a {start.kind!r} state", path)
        state = state_class(start.kind).stored(header, file, path)
        shards = header.shards
        if not shards or tuple(sorted(set(shards))) != shards:
            raise ModelError("a damaged state: its shards are not in order")
        state.check()
    except ModelError as error:
        error.file = path
        raise
    return state


def _check_start(start: _Start, path: str) -> None:
    if start.magic != states.MAGIC:
        raise ModelError("this is not a calibkit state")
    if start.kind not in STATES:
        raise ModelError(
            f"unknown kind of state {start.kind!r}{nearest(start.kind, STATES)}; this version knows "
            f"{', '.join(sorted(STATES))}"
        )
    if start.version < states.VERSION:
        raise ModelError(
            "this state was written by calibkit 0.1: make it again from its rows: calibkit "
            f"{start.kind} INPUT … --partial -o {path}"
        )
    if start.version > states.VERSION:
        raise ModelError(
            f"version {start.version} of {start.kind!r} states is unknown here; this calibkit reads "
            f"version {states.VERSION}: update calibkit, or make the state again"
        )
