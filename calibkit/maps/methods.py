"""The methods that map scores: what is known of each before its module is loaded.

The registry of calibrators: a new one has a file of its own and its entry here, and nothing else names
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from calibkit.maps.method import Method


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A method.

    Attributes
    ----------
    load
        Returns the `METHOD` of its module.
    step
        What a fit does, in words.
    fields
        The fields of its map: see `calibkit.maps.score_map.ScoreMap`.
    options
        The options that not every method has: see `calibkit.options.maps.MapOptions`.
    probabilities
        Whether scores have to be probabilities or their logits: always, or with bins of equal width.
    fits
        Whether it learns anything from labels.
    """

    load: Callable[[], Method]
    step: str
    fields: tuple[str, ...]
    options: tuple[str, ...] = ()
    probabilities: bool | Literal["equal-width"] = False
    fits: bool = True


def _beta() -> Method:
    from calibkit.maps.beta import METHOD

    return METHOD


def _platt() -> Method:
    from calibkit.maps.platt import METHOD

    return METHOD


def _isotonic() -> Method:
    from calibkit.maps.isotonic import METHOD

    return METHOD


def _histogram() -> Method:
    from calibkit.maps.histogram import METHOD

    return METHOD


def _scaling_binning() -> Method:
    from calibkit.maps.scaling_binning import METHOD

    return METHOD


def _venn_abers() -> Method:
    from calibkit.maps.venn_abers import METHOD

    return METHOD


def _temperature() -> Method:
    from calibkit.maps.temperature import METHOD

    return METHOD


def _prior_shift() -> Method:
    from calibkit.maps.prior_shift import METHOD

    return METHOD


METHODS: Final[Mapping[str, Entry]] = {
    "beta": Entry(
        load=_beta, step="fit beta calibration", fields=("a", "b", "c"), probabilities=True
    ),
    "platt": Entry(load=_platt, step="fit Platt scaling", fields=("a", "b"), options=("targets",)),
    "isotonic": Entry(load=_isotonic, step="fit isotonic", fields=("knots", "values")),
    "histogram": Entry(
        load=_histogram,
        step="fit histogram",
        fields=("knots", "values"),
        options=("bins", "bin_strategy"),
        probabilities="equal-width",
    ),
    "scaling-binning": Entry(
        load=_scaling_binning,
        step="fit scaling-binning",
        fields=("a", "b", "knots", "values"),
        options=("bins", "bin_strategy", "split"),
    ),
    "venn-abers": Entry(
        load=_venn_abers,
        step="fit venn-abers",
        fields=("low_knots", "low", "high_knots", "high"),
    ),
    "temperature": Entry(
        load=_temperature, step="fit temperature", fields=("temperature",), probabilities=True
    ),
    "prior-shift": Entry(
        load=_prior_shift,
        step="shift the prior",
        fields=("negatives_kept",),
        options=("negatives_kept",),
        probabilities=True,
        fits=False,
    ),
}
