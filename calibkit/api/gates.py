"""`gate` and `diff`: results judged, and laid side by side."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from calibkit.errors import UsageError
from calibkit.files.frames import Names, names
from calibkit.gates.expressions import parse
from calibkit.gates.figures import Outcome, check
from calibkit.gates.results import read_result, side_by_side


class Written(Protocol):
    """What stands in a result file: metrics, a model, a drift, a report."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain dictionaries."""


#: Metrics, a model, a drift, a result as a dictionary, or the file of one.
Result = Written | Mapping[str, Any] | str | os.PathLike[str]


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
    expressions = [parse(text) for text in names(fail_if)]
    if not expressions:
        raise UsageError("a gate needs --fail-if EXPR, such as --fail-if 'auc<0.75'.")
    return check(_content(result), expressions)


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
    return side_by_side(_content(first), _content(second))


def _content(result: Result) -> dict[str, Any]:
    if isinstance(result, str | os.PathLike):
        return read_result(os.fspath(result))
    return dict(result) if isinstance(result, Mapping) else result.as_dict()
