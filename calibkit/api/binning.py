"""`bin`: rows counted over uncertainty bins and score bins."""

from __future__ import annotations

import polars as pl

from calibkit.api.options import Missing, Order, Scale, Strategy, at_work, chosen, tell, whole
from calibkit.bins.binning import fit_grid, grid_frame
from calibkit.bins.grid_table import default_bins
from calibkit.files.frames import Frame, open_frame
from calibkit.rows.columns import ColumnOptions, read_score_rows


def bin(
    frame: Frame,
    *,
    uncertainty_bins: int | None = None,
    score_bins: int = 500,
    strategy: Strategy = "equal-mass",
    order: Order = "uncertainty-score",
    score: str = "score",
    scale: Scale = "probability",
    label: str = "label",
    positive: str | None = None,
    unlabelled: Missing = "error",
    uncertainty: str | None = None,
    weight: str | None = None,
    on_missing: Missing = "error",
    threads: int | None = None,
) -> pl.DataFrame:
    """Count rows and positive rows over a grid of uncertainty bins by score bins.

    Parameters
    ----------
    frame
        Rows with a score, a label 0/1 and perhaps an uncertainty.
    uncertainty_bins, score_bins, strategy, order
        The grid; no uncertainty bins said: 3, or 1 for rows without uncertainty.
    score, scale, label, positive, unlabelled, uncertainty, weight, on_missing, threads
        As the options of ``calibkit bin``, which docs/bin.md explains.

    Returns
    -------
    polars.DataFrame
        One row a cell: its limits, ``count``, ``positives``, ``positivity``, ``mean_score``.

    Raises
    ------
    UsageError
        An option, a column or a pair of options that is impossible.
    DataError
        Values that are missing, out of range or of the wrong type.

    Examples
    --------
    >>> import calibkit as ck
    >>> grid = ck.bin(ck.simulate_posterior(1_000, seed=1), uncertainty_bins=2, score_bins=5)
    >>> grid.height, int(grid["count"].sum())
    (10, 1000)
    """
    chosen("--strategy", strategy, Strategy)
    chosen("--order", order, Order)
    whole("--uncertainty-bins", uncertainty_bins, 1)
    whole("--score-bins", score_bins, 1)
    columns = ColumnOptions(
        score=score,
        scale=scale,
        label=label,
        positive=positive,
        unlabelled=unlabelled,
        uncertainty=uncertainty,
        weight=weight,
        on_missing=on_missing,
    )
    count = at_work(threads)
    rows = read_score_rows(open_frame(frame), columns)
    bins = uncertainty_bins or default_bins(rows.options)
    grid = fit_grid(rows, bins, score_bins, strategy=strategy, order=order, threads=count)
    tell(rows.warnings)
    return grid_frame(grid)
