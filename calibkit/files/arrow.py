"""Arrow files and streams, as far as polars does not read them by itself."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from calibkit.files.delimited import refuse_repeated
from calibkit.files.scratch import Scratch


def refuse_damage(source: Path | bytes, path: str, *, stream: bool) -> None:
    """Refuse what polars panics at, in its own words: repeated names, damaged batches."""
    import pyarrow as pa

    is_file = isinstance(source, Path)
    try:
        with pa.memory_map(str(source)) if is_file else pa.BufferReader(source) as data:
            found = pa.ipc.open_stream(data) if stream else pa.ipc.open_file(data)
            refuse_repeated(list(found.schema.names), path)
            numbered = () if stream else map(found.get_batch, range(found.num_record_batches))
            for batch in found if stream else numbered:
                batch.validate(full=True)
    except pa.ArrowNotImplementedError as error:  # such types come of damage
        raise ValueError(str(error)) from error


def as_file(source: Path, path: str) -> Scratch:
    """Return an Arrow file, which can be read in parts, of the rows of a stream.

    Parameters
    ----------
    source, path
        A file that holds a stream, and its name in messages.

    Raises
    ------
    DataError
        For repeated names.
    ValueError, NotImplementedError, OSError
        Damage; types or dictionaries that files cannot hold.
    """
    import pyarrow as pa

    kept = Scratch()
    with pa.memory_map(str(source)) as data, pa.ipc.open_stream(data) as batches:
        refuse_repeated(list(batches.schema.names), path)
        with closing(kept), pa.ipc.new_file(kept, batches.schema) as made:
            for batch in batches:
                batch.validate(full=True)
                made.write_batch(batch)
    return kept
