"""The methods that map scores.

A new one has its fit beside those of its family, a line here, and its entry in
`calibkit.options.calibrate.SCORE_METHODS`; nothing else names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calibkit.maps import curves, lines, steps
from calibkit.maps.method import Method

METHODS: Final[Mapping[str, Method]] = {
    "beta": lines.BETA,
    "platt": lines.PLATT,
    "quadratic": curves.QUADRATIC,
    "spline": curves.SPLINE,
    "isotonic": steps.ISOTONIC,
    "centred-isotonic": steps.CENTRED,
    "histogram": steps.HISTOGRAM,
    "scaling-binning": steps.SCALING_BINNING,
    "venn-abers": steps.VENN_ABERS,
    "temperature": lines.TEMPERATURE,
    "prior-shift": lines.PRIOR_SHIFT,
    "none": lines.NONE,
}
