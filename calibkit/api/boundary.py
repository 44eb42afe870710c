"""`fit_boundary`: a decision boundary over score and uncertainty; `compare`: all methods at once."""

from __future__ import annotations

import polars as pl

from calibkit.api.functions import fit_function, python_function, tell
from calibkit.files.sources import Source
from calibkit.methods.boundary import run
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.options.boundary import BoundaryOptions
from calibkit.summaries.runs import Fitted


@fit_function(BoundaryOptions)
def fit_boundary(source: Source, options: BoundaryOptions) -> Fitted[BoundaryModel]:
    """Fit a decision boundary: in each uncertainty level, the rows from one score threshold up.

    The rows have a score, a label 0/1 and, for several levels, an uncertainty (larger = less
    certain); or they are a grid of their counts, as `calibkit.bin` makes it.  The objective is exactly
    one of ``precision``, ``recall``, ``fpr``, ``capacity``, ``maximize`` and ``minimize``.  A float
    stands for its shortest decimal: 0.9 is nine tenths, and the bound is compared in whole numbers.

    Returns
    -------
    BoundaryModel
        The model that ``calibkit boundary`` writes for the same rows and options, byte for byte.  An
        `InfeasibleError` says that no boundary selects a row and meets the bound, or that nothing can
        be certified.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(5_000, seed=1)
    >>> model = ck.fit_boundary(rows, precision=0.8, method="exact", uncertainty_bins=2)
    >>> model.fit.in_sample.precision >= 0.8, len(model.score_thresholds)
    (True, 2)
    """
    return run.fit(options, source)


@python_function(BoundaryOptions)
def compare(source: Source, options: BoundaryOptions) -> pl.DataFrame:
    """Fit a boundary by every method that takes the objective, on the same rows.

    The rows and the options are those of `fit_boundary`; with the method ``auto`` its choice has a
    row of its own.

    Returns
    -------
    polars.DataFrame
        One row a method, those that meet the bound first: what it selects, precision and recall on
        these rows, cross-validated and on the rows of ``test``, and a note.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> table = ck.compare(rows, precision=0.6, uncertainty_bins=2, score_bins=20, folds=0)
    >>> bool((table["precision"].drop_nulls() >= 0.6).all())
    True
    """
    compared = run.compare(options, source)
    tell(compared.inputs.warnings, BoundaryOptions)
    return compared.frame
