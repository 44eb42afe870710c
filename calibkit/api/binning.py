"""`bin`: rows counted over uncertainty bins and score bins."""

from __future__ import annotations

import polars as pl

from calibkit.api.functions import python_function, tell
from calibkit.bins import run
from calibkit.files.sources import Source
from calibkit.options.bin import BinOptions


@python_function(BinOptions)
def bin(source: Source, options: BinOptions) -> pl.DataFrame:
    """Count rows and positive rows over a grid of uncertainty bins by score bins.

    The rows have a score, a label 0/1 and perhaps an uncertainty.

    Returns
    -------
    polars.DataFrame
        One row a cell: its limits, ``count``, ``positives``, ``positivity``, ``mean_score``.

    Examples
    --------
    >>> import calibkit as ck
    >>> grid = ck.bin(ck.simulate_posterior(1_000, seed=1), uncertainty_bins=2, score_bins=5)
    >>> grid.height, int(grid["count"].sum())
    (10, 1000)
    """
    binned = run.fit(options, source)
    tell(binned.warnings, BinOptions)
    return binned.frame
