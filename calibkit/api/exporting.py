"""`export`: a model as SQL, polars or plain Python."""

from __future__ import annotations

from calibkit.api.functions import options_function
from calibkit.exports import run
from calibkit.files.frames import open_frame
from calibkit.options.export import ExportOptions


@options_function(ExportOptions)
def export(options: ExportOptions) -> str:
    """Return a model as code that needs no calibkit: SQL, polars, or plain Python.

    SQL is one SELECT of every column of the table and the columns that `apply` would add. Python has
    a function `apply`: of a polars frame, or of one row as a dictionary.

    Returns
    -------
    str
        The text that ``calibkit export`` writes.

    Examples
    --------
    >>> import calibkit as ck
    >>> model = ck.fit_boundary(ck.simulate_posterior(2_000, seed=1), precision=0.8, method="st")
    >>> text = ck.export(model, to="sql", dialect="postgres", table="risk.scores")
    >>> 'FROM "risk"."scores"' in text
    True
    """
    rows = options.check_on
    return run.export(options, None if rows is None else open_frame(rows, "check_on")).text
