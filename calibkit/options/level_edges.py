"""Edges of uncertainty levels that are given: the same levels for every shard."""

from __future__ import annotations

import itertools
import math
from typing import Any

from calibkit.errors import ModelError, UsageError
from calibkit.files.inputs import read_bytes
from calibkit.models.model import Model, decode_as, decode_object


def edges_of(value: Any, flag: str) -> tuple[float, ...]:
    """Return inner edges that are given as numbers, as a boundary, or as a file of one of these.

    Parameters
    ----------
    value
        Numbers that rise, the model of a boundary, or the name of a file: a JSON list or a model.
    flag
        What messages call them, where they are no file.

    Raises
    ------
    UsageError
        No such file, or none of these.
    """
    name = flag
    if isinstance(value, Model):
        value = value.as_dict().get("uncertainty_edges")
    elif not isinstance(value, list | tuple):
        name = str(value)
        value = _read(name)
    if not _rises(value):
        raise UsageError(
            f"{name}: edges of uncertainty levels are finite numbers that rise, at least one; this "
            f"is {str(value)[:60]}",
            file=None if name == flag else name,
        )
    return tuple(float(edge) for edge in value)


def _read(path: str) -> Any:
    data = read_bytes(path)
    try:
        found = decode_object(data, path).get("uncertainty_edges") if data[:1] == b"{" else None
        return decode_as(data, list[float], "a list") if found is None else found
    except ModelError as error:
        raise UsageError(
            f"{path}: no edges of uncertainty levels ({error}); give a JSON list of rising numbers, "
            "or the model of a boundary",
            file=path,
        ) from None


def _rises(edges: Any) -> bool:
    if not isinstance(edges, list | tuple) or not edges:
        return False
    if not all(isinstance(edge, int | float) and math.isfinite(edge) for edge in edges):
        return False
    return all(one <= other for one, other in itertools.pairwise(edges))
