"""The options of maps to probabilities: of scores, and of the logits of class probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final, Literal

from calibkit.errors import UsageError
from calibkit.options.option import option
from calibkit.options.shared import Names, Seed, Threaded

of_method = partial(option, group="Method")

#: How logits of class probabilities are mapped.
LOGIT_MAPS: Final = ("temperature", "vector", "matrix")
#: Methods of class probabilities: these, or to leave them as they are.
CLASS_METHODS: Final = (*LOGIT_MAPS, "none")

#: What is taken of options that were not given and that only some methods have.
DEFAULTS: Final[dict[str, Any]] = {
    "targets": "smoothed",
    "bins": 15,
    "bin_strategy": "equal-mass",
    "split": "same",
}

MOST_BINS: Final = 65_535

#: Penalties of intercept and of weights off the diagonal, or that cross-validation chooses them.
Penalties = float | tuple[float, float] | Literal["cv"]


def penalties(value: Any, flag: str) -> tuple[float, float] | Literal["cv"]:
    """Return one or two penalties as two, or ``"cv"``."""
    if value == "cv":
        return "cv"
    several = isinstance(value, Sequence) and not isinstance(value, str)
    parts = value if several else str(value).split(",")
    try:
        numbers = [float(part) for part in parts]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) not in (1, 2) or not all(0.0 <= number < inf for number in numbers):
        raise UsageError(
            f"{flag} is {value!r}; expected a number or two from 0 up (INTERCEPT[,OFF]), or cv."
        )
    return numbers[0], numbers[1] if len(numbers) == 2 else 0.0


def one_pattern(probs: Names | None) -> str:
    """Return the pattern of one predictor's class probabilities."""
    patterns = tuple(probs or ("prob_*",))
    if len(patterns) > 1:
        raise UsageError("a fit takes one predictor: give --probs one pattern.")
    return patterns[0]


@dataclass(frozen=True, kw_only=True)
class ScoreMethod:
    """What is known of a method that maps scores before it is loaded."""

    step: str  # what a fit does, in words
    fields: tuple[str, ...]  # of its map: see `calibkit.maps.model.ScoreMap`
    options: tuple[str, ...] = ()  # those that not every method has: see `MapOptions`
    #: Whether scores have to be probabilities or their logits: always, or with bins of equal width.
    probabilities: bool | Literal["equal-width"] = False
    fits: bool = True  # whether it learns anything from labels


#: The methods that map scores; `calibkit.maps.methods` holds what each does.
SCORE_METHODS: Final[Mapping[str, ScoreMethod]] = {
    "beta": ScoreMethod(step="fit beta calibration", fields=("a", "b", "c"), probabilities=True),
    "platt": ScoreMethod(step="fit Platt scaling", fields=("a", "b"), options=("targets",)),
    "quadratic": ScoreMethod(
        step="fit quadratic calibration", fields=("logit_knots", "logits", "slopes")
    ),
    "spline": ScoreMethod(step="fit a rising spline", fields=("logit_knots", "logits", "slopes")),
    "isotonic": ScoreMethod(
        step="fit isotonic", fields=("knots", "values"), options=("interpolate",)
    ),
    "centred-isotonic": ScoreMethod(
        step="fit centred isotonic regression", fields=("knots", "values")
    ),
    "histogram": ScoreMethod(
        step="fit histogram",
        fields=("knots", "values"),
        options=("bins", "bin_strategy"),
        probabilities="equal-width",
    ),
    "scaling-binning": ScoreMethod(
        step="fit scaling-binning",
        fields=("a", "b", "knots", "values"),
        options=("bins", "bin_strategy", "split"),
    ),
    "venn-abers": ScoreMethod(
        step="fit venn-abers", fields=("low_knots", "low", "high_knots", "high")
    ),
    "temperature": ScoreMethod(step="fit temperature", fields=("temperature",), probabilities=True),
    "prior-shift": ScoreMethod(
        step="shift the prior",
        fields=("negatives_kept",),
        options=("negatives_kept",),
        probabilities=True,
        fits=False,
    ),
    "none": ScoreMethod(step="leave scores as they are", fields=(), probabilities=True, fits=False),
}

#: The method that chooses one of them.
AUTO: Final = "auto"
AUTOMATIC: Final = ScoreMethod(step="choose a map by cross-validation, and fit it", fields=())


@dataclass(frozen=True, kw_only=True)
class MapOptions(Threaded):
    """What the methods take that map scores; None: not given, which means the default shown."""

    targets: Literal["smoothed", "mle"] | None = of_method(
        "What platt is fitted to: Platt's smoothed targets, or the labels.", shown="smoothed"
    )
    bins: int | None = of_method(
        "Bins of histogram and scaling-binning.", "M", least=1, most=MOST_BINS, shown="15"
    )
    bin_strategy: Literal["equal-mass", "equal-width"] | None = of_method(
        "Bins with equally many rows, or equally wide over [0, 1].", shown="equal-mass"
    )
    split: Literal["same", "thirds"] | None = of_method(
        "The three steps of scaling-binning on the same rows, or on a third each.", shown="same"
    )
    interpolate: bool = of_method(
        "For isotonic: lines between the steps, as scikit-learn draws them.", default=False
    )
    negatives_kept: float | None = of_method(
        "For prior-shift: the share of the negatives that the training rows kept.", "R"
    )
    seed: Seed = 0

    @property
    def bin_count(self) -> int:
        """How many bins there are."""
        return self.bins or int(DEFAULTS["bins"])
