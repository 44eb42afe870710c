"""Edges of uncertainty levels from a file: the same levels for every shard."""

from __future__ import annotations

import itertools
import math

from calibkit.errors import ModelError, UsageError
from calibkit.files.sources import read_bytes
from calibkit.models import decode_as, decode_object


def read_edges(path: str) -> tuple[float, ...]:
    """Return the inner edges that a file holds: a JSON list of numbers, or a boundary's model.

    Raises
    ------
    UsageError
        No such file, or none of the two.
    """
    data = read_bytes(path)
    try:
        found = decode_object(data, path).get("uncertainty_edges") if data[:1] == b"{" else None
        edges = decode_as(data, list[float], "a list") if found is None else found
    except ModelError as error:
        raise UsageError(
            f"{path}: no edges of uncertainty levels ({error}); give a JSON list of rising numbers, "
            "or the model of a boundary",
            file=path,
        ) from None
    if not _rises(edges):
        raise UsageError(
            f"{path}: edges of uncertainty levels are finite numbers that rise, at least one; this "
            f"is {str(edges)[:60]}",
            file=path,
        )
    return tuple(float(edge) for edge in edges)


def check_order(order: str, edges: tuple[float, ...]) -> None:
    """Refuse edges for levels that each score bin cuts for itself."""
    if edges and order == "score-uncertainty":
        raise UsageError(
            "--order score-uncertainty cuts uncertainties in each score bin anew; leave "
            "--uncertainty-edges out."
        )


def _rises(edges: object) -> bool:
    if not isinstance(edges, list) or not edges:
        return False
    if not all(isinstance(edge, int | float) and math.isfinite(edge) for edge in edges):
        return False
    return all(one <= other for one, other in itertools.pairwise(edges))
