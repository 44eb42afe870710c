"""Votes of several raters beside the class probabilities of a model."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from calibkit.numerics.hashes import stream
from calibkit.options.simulate import RatersOptions
from calibkit.simulate.streams import simulated

IDEAL_COLUMNS: Final = ("id", "prob_0", "prob_1", "count_0", "count_1")
MODES_COLUMNS: Final = (
    *IDEAL_COLUMNS,
    "true_probability",
    "mode",
    *(f"feature_{kind}" for kind in range(10)),
)

# Numbers of the random streams of a block; part of what a seed means.
_TRUTH, _VOTES, _KIND = range(3)

_CONCENTRATION: Final = 20.0


def beta_parameters(kind: int) -> tuple[float, float]:
    """Return the Beta distribution of the share of raters for class 1, for one of ten kinds of row.

    Kinds 0 and 1 are clear cases, all raters alike; on kinds 2 to 5 raters agree about each row,
    but which way cannot be seen in the kind; on kinds 6 to 9 they disagree about every row.
    """
    if kind < 2:
        share, strength = 0.01 + 0.98 * kind, _CONCENTRATION
    elif kind < 6:
        share, strength = 0.2 * (kind - 1), 1.0 / _CONCENTRATION
    else:
        share, strength = 0.2 * (kind - 5), _CONCENTRATION
    return share * strength, (1.0 - share) * strength


def simulate(options: RatersOptions) -> pl.DataFrame:
    """Return votes of raters on two classes, with the class probabilities of a model.

    ``ideal``: the probability of class 1 is uniform and the model knows it, so calibration and
    dispersion loss are 0.  ``modes``: ten kinds of row, see `beta_parameters`; the model knows the
    mean of each kind only, and the kind is given as ten indicator features.

    Mimori et al., "Diagnostic uncertainty calibration", section 3.4 and appendix B (``ideal``),
    appendix E (``modes``).  Equation 52 gives clear cases a Beta distribution with a parameter of
    0; here their shares are 0.01 and 0.99.
    """
    seed, raters = options.seed, options.raters

    def block(number: int, size: int, kept: object) -> dict[str, Any]:
        truth_stream = stream(seed, _TRUTH, number)
        beside: dict[str, Any] = {}
        if options.design == "ideal":
            truth = predicted = truth_stream.random(size)
        else:
            kind = stream(seed, _KIND, number).integers(0, 10, size)
            first, second = np.array([beta_parameters(k) for k in range(10)]).T
            truth = truth_stream.beta(first[kind], second[kind])
            predicted = (first / (first + second))[kind]
            modes = ["clear"] * 2 + ["epistemic"] * 4 + ["aleatoric"] * 4
            beside["true_probability"] = truth
            beside["mode"] = [modes[k] for k in kind]
            beside |= {f"feature_{k}": (kind == k).astype(np.int8) for k in range(10)}
        votes = stream(seed, _VOTES, number).binomial(raters, truth)
        return {
            "prob_0": 1.0 - predicted,
            "prob_1": predicted,
            "count_0": raters - votes,
            "count_1": votes,
            **beside,
        }

    return simulated(options, IDEAL_COLUMNS if options.design == "ideal" else MODES_COLUMNS, block)
