"""The methods that map scores.

A new one has a file of its own, a line here, and its entry in `calibkit.options.maps.SCORE_METHODS`;
nothing else names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calibkit.maps import (
    beta,
    histogram,
    isotonic,
    none,
    platt,
    prior_shift,
    quadratic,
    scaling_binning,
    spline,
    temperature,
    venn_abers,
)
from calibkit.maps.method import Method

METHODS: Final[Mapping[str, Method]] = {
    "beta": beta.METHOD,
    "platt": platt.METHOD,
    "quadratic": quadratic.METHOD,
    "spline": spline.METHOD,
    "isotonic": isotonic.METHOD,
    "centred-isotonic": isotonic.CENTRED,
    "histogram": histogram.METHOD,
    "scaling-binning": scaling_binning.METHOD,
    "venn-abers": venn_abers.METHOD,
    "temperature": temperature.METHOD,
    "prior-shift": prior_shift.METHOD,
    "none": none.METHOD,
}
