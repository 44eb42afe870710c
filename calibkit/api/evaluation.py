"""`evaluate` and `report`: metrics of scores, decisions and class probabilities."""

from __future__ import annotations

from calibkit.api.functions import python_function, tell
from calibkit.evaluation.evaluate import Evaluated
from calibkit.evaluation.run import fit
from calibkit.files.sources import Source
from calibkit.measures.result import Metrics
from calibkit.options.evaluate import EvaluateOptions
from calibkit.reports.evaluated import page_of
from calibkit.runtime.threads import later, warm_up


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
    return page_of(options, source, _evaluated(source, options, curves=True)).decode()


def _evaluated(source: Source, options: EvaluateOptions, *, curves: bool = False) -> Evaluated:
    later(options.workers, warm_up)
    found = fit(options, source, curves=curves)
    tell(found.warnings, EvaluateOptions)
    return found
