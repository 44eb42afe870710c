"""The isotonic map of predicted disagreements of more rows than fit: found in two passes, exactly.

The map is the concave hull of cumulated rows and shares.  A first pass counts both in equal cells of
the predictions.  Most cells cannot hold a corner of the hull, however their rows lie: these stay one
point in the second pass, which tells apart only the predictions in the others.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import ResourceError
from calibkit.raters.alpha_cal import SHARE_UNITS, share_units, steps_of
from calibkit.raters.model import DisagreementMap
from calibkit_kernels.isotonic import concave_hull

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Into how many cells predictions are cut.
_CELLS: Final = 1 << 16
#: Rows of cells that may hold a corner, at most.
_MOST_OPEN: Final = 1 << 22

#: What a table holds: a cell, a prediction in it (-1: all of them), the least and the greatest
#: prediction, rows, and the sum of their shares.
SCHEMA: Final = {
    "cell": pl.Int64,
    "phi": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "rows": pl.Int64,
    "units": pl.Int64,
}


def cells_of(phi: Floats, counts: Counts, told_apart: list[int]) -> pl.DataFrame:
    """Return the table of some rows, of which those with two votes count."""
    several = counts.sum(axis=1) >= 2
    phi, units = phi[several], share_units(counts[several])
    cell = np.minimum((phi * _CELLS).astype(np.int64), _CELLS - 1)
    apart = np.isin(cell, np.array(told_apart, np.int64))
    columns = {
        "cell": cell,
        "phi": np.where(apart, phi, -1.0),
        "low": phi,
        "high": phi,
        "rows": np.ones(phi.size, np.int64),
        "units": units,
    }
    return cut_cells(pl.DataFrame(columns, schema=SCHEMA))


def cut_cells(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with one row for each cell, or prediction in it, sorted."""
    return (
        table.group_by("cell", "phi")
        .agg(
            pl.col("low").min(),
            pl.col("high").max(),
            pl.col("rows").sum(),
            pl.col("units").sum(),
        )
        .sort("cell", "phi")
        .select(*SCHEMA)
    )


def open_cells(table: pl.DataFrame) -> list[int]:
    """Return the cells whose rows may hold a corner of the hull.

    Raises
    ------
    ResourceError
        Where these are too many rows.
    """
    rows = table["rows"].to_numpy()[::-1].astype(np.int64)
    units = table["units"].to_numpy()[::-1].astype(np.int64)
    cells = table["cell"].to_numpy()[::-1].tolist()
    single = (table["low"] == table["high"]).to_numpy()[::-1]
    selected, hits = np.cumsum(rows), np.cumsum(units)
    vertices = np.empty(rows.size, np.int64)
    ends = vertices[: concave_hull(selected, hits, vertices)]
    # The side of the hull over each cell, from one corner to the next.
    side = np.searchsorted(ends, np.arange(rows.size))
    x = [0, *selected[ends].tolist()]
    y = [0, *hits[ends].tolist()]
    found, inside = [], 0
    for i, (size, total) in enumerate(zip(rows.tolist(), units.tolist(), strict=True)):
        if single[i]:
            continue
        begun, reached = int(selected[i]) - size, int(hits[i]) - total
        a, b = int(side[i]), int(side[i]) + 1
        # At the highest, all that a cell has comes first: as many rows with a share of one.
        above = (reached + total - y[a]) * (x[b] - x[a]) * SHARE_UNITS
        if above > (y[b] - y[a]) * ((begun - x[a]) * SHARE_UNITS + total):
            found.append(cells[i])
            inside += size
    if inside > _MOST_OPEN:
        raise ResourceError(
            f"memory: the isotonic map of disagreements depends on {inside:,} single rows, more than "
            f"{_MOST_OPEN:,}; leave --disagreement-map out, or fit on a sample of the rows"
        )
    return sorted(found)


def steps_from(table: pl.DataFrame) -> DisagreementMap:
    """Return the isotonic map of all rows, from a table that tells apart what `open_cells` said."""
    low, high = table["low"].to_numpy(), table["high"].to_numpy()
    return steps_of(low, high, table["rows"].to_numpy(), table["units"].to_numpy())
