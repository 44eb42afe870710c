"""What a shell completes where an option takes a name: known here, without loading anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable

#: Methods and measures of ``boundary``, as the library names them.
BOUNDARY_METHODS = (
    *("auto", "exact", "st", "logistic", "stochastic", "mist", "gmt"),
    *("vw-dpmt", "vw-dpmt-mono", "ew-dpmt", "ew-dpmt-mono", "staircase"),
)
MEASURES = (
    *("accuracy", "weighted-accuracy:", "balanced-accuracy", "precision", "f1", "fbeta:"),
    *("jaccard", "mcc", "kappa", "gmean", "fowlkes-mallows", "youden", "lift", "utility:"),
)


def one_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a completer of one name."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def metrics(incomplete: str) -> list[str]:
    """Complete the last of a list of metrics with commas."""
    from calibkit.report.html_glossary import MEANINGS

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in MEANINGS if name.startswith(last)]
