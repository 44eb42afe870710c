"""Options typed as text: shares, bounds and names of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calibkit.errors import UsageError, nearest
from calibkit.measures import cells, decisions, multiclass, registry
from calibkit.measures import votes as raters
from calibkit.numerics.bounds import Bound, decimal_bound

#: Metrics that take a bound, and the option that gives it.
WITH_BOUND = {
    "recall_at_precision": "--recall-at-precision",
    "precision_at_recall": "--precision-at-recall",
}


@dataclass(frozen=True)
class Share:
    """A share of the rows, and how it was typed."""

    text: str
    bound: Bound


def read_shares(texts: Sequence[str]) -> tuple[Share, ...]:
    """Return the shares of ``--top``.

    Raises
    ------
    UsageError
        For text that is no number above 0 and up to 1, or one given twice.
    """
    found: dict[Bound, Share] = {}
    for text in texts:
        bound = decimal_bound(text, "--top")
        if not bound.numerator:
            raise UsageError(f"--top is {text}; expected a share above 0, up to 1.")
        if bound in found:
            raise UsageError(f"--top has {found[bound].text} and {text}, which are one share.")
        found[bound] = Share(text, bound)
    return tuple(found.values())


def read_bounds(precisions: Sequence[str], recalls: Sequence[str]) -> dict[str, list[Bound]]:
    """Return the bounds of the metrics that take one, as their options give them."""
    given = zip(WITH_BOUND.items(), (precisions, recalls), strict=True)
    return {name: [_bound(text, option) for text in texts] for (name, option), texts in given}


def read_prevalence(text: str) -> str:
    """Return the base rate to which classes are reweighted, in its shortest decimal form.

    Raises
    ------
    UsageError
        For text that is no number between 0 and 1.
    """
    bound = decimal_bound(text, "--prevalence")
    if not 0 < bound.numerator < bound.denominator:
        raise UsageError(f"--prevalence is {text}; expected more than 0 and less than 1.")
    return str(bound)


def read_metrics(texts: Sequence[str], bounds: Mapping[str, list[Bound]]) -> tuple[str, ...] | None:
    """Return the names of the metrics wanted, None for all.

    A bound that stands in a name, as in ``recall_at_precision:0.9``, is added to `bounds`.

    Raises
    ------
    UsageError
        For names that are not known, all of them in one message.
    """
    plain = (
        set(registry.metrics()) | decisions.METRICS.keys() | multiclass.METRICS.keys()
    ) - bounds.keys()
    wanted, unknown = [], []
    for text in texts:
        name, _, parameter = text.partition(":")
        if name in bounds and parameter:
            bound = _bound(parameter, name)
            bounds[name].append(bound)
            wanted.append(f"{name}:{bound}")
        elif name in bounds:
            if not bounds[name]:
                raise UsageError(f"--metrics {name} needs a bound, such as {name}:0.9.")
            wanted += [f"{name}:{bound}" for bound in bounds[name]]
        elif (
            text in plain
            or (name in cells.NAMES and parameter.isdecimal())
            or text.partition("[")[0] in raters.METRICS
        ):
            wanted.append(text)
        else:
            unknown.append(text)
    if unknown:
        known = sorted(
            plain | {*raters.METRICS} | bounds.keys() | {f"{name}:J" for name in cells.NAMES}
        )
        hints = "".join(f" {text!r}{nearest(text, known)}" for text in unknown)
        raise UsageError(f"--metrics: not known:{hints}; the metrics are {', '.join(known)}.")
    return tuple(dict.fromkeys(wanted)) if texts else None


def _bound(text: str, name: str) -> Bound:
    bound = decimal_bound(text, name)
    if not bound.numerator:
        raise UsageError(f"{name} is {text}; expected more than 0, at most 1.")
    return bound
