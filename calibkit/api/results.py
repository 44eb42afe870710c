"""What rows say (`evaluate`, `report`, `validate`, `watch`, `bin`); results judged (`gate`, `diff`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibkit.api.functions import python_function, tell
from calibkit.api.words import in_python
from calibkit.options.bin import BinOptions
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.validate import ValidateOptions
from calibkit.options.watch import WatchOptions

if TYPE_CHECKING:
    import polars as pl

    from calibkit.evaluation.findings import Evaluated
    from calibkit.files.frames import Names
    from calibkit.files.sources import Source
    from calibkit.gates.figures import Outcome, Result
    from calibkit.measures.result import Metrics
    from calibkit.methods.watch.watch import Watched
    from calibkit.validation.findings import Report


@python_function(EvaluateOptions)
def evaluate(source: Source, options: EvaluateOptions) -> Metrics:
    """Judge scores by labels: ranking, calibration and decisions, with intervals.

    Returns
    -------
    Metrics
        The content of metrics.json: ``metrics[score][slice][metric]``, ``intervals``,
        ``differences``; ``to_json()`` are the bytes that ``calibkit evaluate`` writes.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> found = ck.evaluate(rows, scores=["score"], metrics=["auc", "log_loss"])
    >>> round(found.metrics["score"]["all"]["auc"], 2)
    0.83
    """
    return _evaluated(source, options).metrics


@python_function(EvaluateOptions)
def report(source: Source, options: EvaluateOptions) -> str:
    """Judge scores by labels, and return the findings as an HTML page for people.

    Figures with their intervals, pictures and the story of the boundary, in one file that needs no
    other; more pictures with the extra ``plot``.

    Returns
    -------
    str
        The page that ``calibkit evaluate --report`` writes.

    Examples
    --------
    >>> import calibkit as ck
    >>> page = ck.report(ck.simulate_posterior(500, seed=1), metrics=["auc"])
    >>> page.startswith("<!doctype html>")
    True
    """
    from calibkit.reports.evaluated import page_of

    return page_of(options, source, _evaluated(source, options, curves=True)).decode()


def _evaluated(source: Source, options: EvaluateOptions, *, curves: bool = False) -> Evaluated:
    from calibkit.evaluation.evaluate import evaluate
    from calibkit.runtime.threads import later, warm_up

    later(options.workers, warm_up)
    found = evaluate(options, source, curves=curves)
    tell(found.warnings, EvaluateOptions)
    return found


@python_function(ValidateOptions)
def validate(source: Source, options: ValidateOptions) -> Report:
    """Look at rows as the other functions would, and report all that is wrong or odd with them.

    Returns
    -------
    Report
        ``ok`` (no errors), ``findings`` (``level``, ``check``, ``message``, ``column``, ``rows``,
        ``first_rows``) and ``columns``, see docs/validate.md.

    Examples
    --------
    >>> import calibkit as ck
    >>> report = ck.validate({"score": [0.2, 1.5, None], "label": [0, 1, 1]})
    >>> report.ok, [(one.check, one.column, one.first_rows) for one in report.findings]
    (False, [('missing', 'score', [3]), ('range', 'score', [2])])
    """
    from calibkit.validation.run import validate

    return validate(options, source)


@python_function(WatchOptions)
def watch(source: Source, options: WatchOptions) -> Watched:
    """Test that a deployed boundary keeps its promises on new labelled rows, valid at every look.

    What was counted is read from the file of the state, if it is there, and written to it.

    Returns
    -------
    Watched
        ``alarm``, ``tests``, ``period`` and ``advice``, see docs/watch.md; ``to_json()`` are the bytes
        that ``calibkit watch`` writes.

    Examples
    --------
    >>> import tempfile
    >>> import calibkit as ck
    >>> model = ck.fit_boundary(ck.simulate_posterior(2_000, seed=1), recall=0.5, method="st")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tonight = ck.simulate_posterior(2_000, seed=2)
    ...     found = ck.watch(tonight, model=model, state=f"{folder}/watch.state", recall=0.4)
    >>> found.alarm, found.period, [test.name for test in found.tests]
    (False, 1, ['recall'])
    """
    from calibkit.files.sinks import write_bytes
    from calibkit.methods.watch.watch import watch

    found = watch(options, source)
    tell(found.warnings, WatchOptions)
    write_bytes(found.state.to_json(), options.state)
    return found


@python_function(BinOptions)
def bin(source: Source, options: BinOptions) -> pl.DataFrame:
    """Count rows and positive rows over a grid of uncertainty bins by score bins.

    The rows have a score, a label 0/1 and perhaps an uncertainty.

    Returns
    -------
    polars.DataFrame
        One row a cell: its limits, ``count``, ``positives``, ``positivity``, ``mean_score``; with
        ``add_level`` the rows themselves, with a column ``level``.

    Examples
    --------
    >>> import calibkit as ck
    >>> grid = ck.bin(ck.simulate_posterior(1_000, seed=1), uncertainty_bins=2, score_bins=5)
    >>> grid.height, int(grid["count"].sum())
    (10, 1000)
    """
    if options.add_level:
        import polars as pl

        from calibkit.apply.levels import with_levels
        from calibkit.runtime.memory import memory_budget

        run, placed = with_levels(options, source, memory_budget(None), options.workers)
        said = list(placed.warnings)
        rows = pl.concat(run.frames(said.append))
        tell(tuple(said), BinOptions)
        return rows
    from calibkit.bins.run import fit

    binned = fit(options, source)
    tell(binned.warnings, BinOptions)
    return binned.frame


@in_python()
def gate(result: Result, fail_if: Names) -> list[Outcome]:
    """Judge a result: return an outcome for every place where an expression was tried.

    Parameters
    ----------
    result
        Metrics, a model, what `diff` returned, or the file of one.
    fail_if
        Expressions such as ``"auc<0.75"`` or ``"country:*/precision<0.6"``, see docs/gate.md.

    Returns
    -------
    list of Outcome
        ``failed``, ``expression`` and ``text`` of each; a number that is not defined fails.

    Raises
    ------
    UsageError
        An expression that cannot be read, or that finds nothing.

    Examples
    --------
    >>> import calibkit as ck
    >>> metrics = ck.evaluate(ck.simulate_posterior(1_000, seed=1), metrics=["auc"])
    >>> [outcome.failed for outcome in ck.gate(metrics, "auc<0.6")]
    [False]
    """
    from calibkit.files.frames import names
    from calibkit.gates.figures import check, content_of, parse_all

    return check(content_of(result), parse_all(names(fail_if)))


@in_python()
def diff(first: Result, second: Result) -> dict[str, Any]:
    """Lay two results of one kind side by side: ``{"a": …, "b": …, "delta": …}`` of every number.

    Parameters
    ----------
    first, second
        Metrics or models, before and after; see `gate`.

    Raises
    ------
    UsageError
        Results of different kinds.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(1_000, seed=1)
    >>> metrics = ck.evaluate(rows, metrics=["auc"])
    >>> ck.diff(metrics, metrics)["score"]["all"]["auc"]["delta"]
    0.0
    """
    from calibkit.gates.figures import content_of, side_by_side

    return side_by_side(content_of(first), content_of(second))
