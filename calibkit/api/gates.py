"""`gate` and `diff`: results judged, and laid side by side."""

from __future__ import annotations

from typing import Any

from calibkit.api.words import in_python
from calibkit.files.frames import Names, names
from calibkit.gates.expressions import parse_all
from calibkit.gates.figures import Outcome, check
from calibkit.gates.results import Result, content_of, side_by_side


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
    return side_by_side(content_of(first), content_of(second))
