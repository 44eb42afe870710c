"""The options of ``calibrate``, and of all maps to probabilities: of scores, and of class logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Annotated, Any, Final, Literal

from msgspec import Struct

from calibkit.errors import UsageError
from calibkit.options import shared
from calibkit.options.option import one_of
from calibkit.options.shared import of_method

#: How logits of class probabilities are mapped, or that they are left as they are.
CLASS_METHODS: Final = ("temperature", "vector", "matrix", "none")

#: What is taken of options that were not given and that only some methods have.
DEFAULTS: Final[dict[str, Any]] = {
    "targets": "smoothed",
    "bins": 15,
    "bin_strategy": "equal-mass",
    "split": "same",
}

#: Penalties of intercept and of weights off the diagonal, or that cross-validation chooses them.
Penalties = float | tuple[float, float] | Literal["cv"]


def penalties(value: Any, flag: str) -> tuple[float, float] | Literal["cv"]:
    """Return one or two penalties as two, or ``"cv"``."""
    several = not isinstance(value, str) and hasattr(value, "__len__")
    if not several and value == "cv":
        return "cv"
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


class ScoreMethod(Struct, frozen=True):
    """What is known of a method that maps scores before it is loaded."""

    step: str  # what a fit does, in words
    fields: tuple[str, ...]  # of its map: see `calibkit.maps.model.ScoreMap`
    options: tuple[str, ...] = ()  # those that not every method has: see `MapOptions`
    #: Whether scores have to be probabilities or their logits: always, or with bins of equal width.
    probabilities: bool | Literal["equal-width"] = False
    fits: bool = True  # whether it learns anything from labels


#: The methods that map scores; `calibkit.maps.methods` holds what each does.
SCORE_METHODS: Final[Mapping[str, ScoreMethod]] = {
    "beta": ScoreMethod("fit beta calibration", ("a", "b", "c"), probabilities=True),
    "platt": ScoreMethod("fit Platt scaling", ("a", "b"), ("targets",)),
    "quadratic": ScoreMethod("fit quadratic calibration", ("logit_knots", "logits", "slopes")),
    "spline": ScoreMethod("fit a rising spline", ("logit_knots", "logits", "slopes")),
    "isotonic": ScoreMethod("fit isotonic", ("knots", "values"), ("interpolate",)),
    "centred-isotonic": ScoreMethod("fit centred isotonic regression", ("knots", "values")),
    "histogram": ScoreMethod(
        "fit histogram", ("knots", "values"), ("bins", "bin_strategy"), "equal-width"
    ),
    "scaling-binning": ScoreMethod(
        "fit scaling-binning", ("a", "b", "knots", "values"), ("bins", "bin_strategy", "split")
    ),
    "venn-abers": ScoreMethod("fit venn-abers", ("low_knots", "low", "high_knots", "high")),
    "temperature": ScoreMethod("fit temperature", ("temperature",), probabilities=True),
    "prior-shift": ScoreMethod(
        "shift the prior", ("negatives_kept",), ("negatives_kept",), probabilities=True, fits=False
    ),
    "none": ScoreMethod("leave scores as they are", (), probabilities=True, fits=False),
}

#: The method that chooses one of them.
AUTO: Final = "auto"
AUTOMATIC: Final = ScoreMethod(step="choose a map by cross-validation, and fit it", fields=())


class MapOptions(shared.Seeded):
    """What the methods take that map scores; None: not given, which means the default shown."""

    targets: Literal["smoothed", "mle"] | None = of_method(
        "What platt is fitted to: Platt's smoothed targets, or the labels.", shown="smoothed"
    )
    bins: int | None = of_method(
        "Bins of histogram and scaling-binning.", "M", least=1, most=65_535, shown="15"
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


#: Options that mean nothing for class probabilities.
_OF_SCORES: Final = (
    *("targets", "bins", "bin_strategy", "split", "negatives_kept", "interpolate"),
    *("groups", "time", "by", "clip", "out_of_range", "positive", "weight"),
)


class CalibrateOptions(
    MapOptions, shared.LabelledColumns, shared.FitOptions, shared.Folded, shared.JudgedClasses
):
    """Fit a map from scores to probabilities on labelled rows.

    The default compares the methods on held-out rows, and fits the first that is as good as the
    best, up to noise; scores that no map improves are left as they are. No map gives exactly 0 or
    1 unless --clip 0 asks for it: one wrong label there would make the log loss infinite.

    Examples:
      calibkit calibrate calib.parquet -o cal.json
      calibkit calibrate calib.parquet --groups user --optimize brier -o cal.json
      calibkit calibrate calib.csv --method platt --scale logit --score logit -o cal.json
      calibkit calibrate calib.parquet --method venn-abers --by country -o cal.json
      calibkit calibrate votes.parquet --probs 'prob_*' --counts 'count_*' --method vector -o cal.json
    """

    method: str | None = of_method(
        f"{', '.join(SCORE_METHODS)}, or auto, which chooses; for class probabilities: "
        "temperature, vector, matrix, none or auto.",
        "METHOD",
        shown="auto; temperature with --probs",
    )
    optimize: Literal["log_loss", "brier"] | None = of_method(
        "The loss by which auto compares candidates, on held-out rows.", shown="log_loss"
    )
    regularization: Penalties | None = of_method(
        "Penalties for vector and matrix scaling; cv: chosen by cross-validation.",
        "INTERCEPT[,OFF]|cv",
        read=penalties,
        shown="cv",
    )
    by: Annotated[str | None, shared.Segmented] = None
    min_rows: int = of_method(
        "With --by: values with fewer rows use the map of all rows.", "N", default=100, least=1
    )
    clip: float | None = of_method(
        "Keep results this far from 0 and 1; 0: as they are.", "EPS", least=0, shown="1/(rows+2)"
    )
    out_of_range: Literal["error", "clip"] | None = shared.of_input(
        "Probabilities outside [0, 1], now and when applied: refuse or clip them.", shown="error"
    )

    def check(self) -> None:
        """Refuse what the method, or the kind of rows, does not have."""
        for name in self._given(("optimize", "groups", "time")):
            if self.named != AUTO:
                raise UsageError(f"--{name} goes with --method auto, not with {self.named}.")
        if self.of_classes:
            self._check_classes()
            return
        if self.regularization is not None:
            raise UsageError("--regularization goes with --probs, for vector and matrix scaling.")
        one_of((*SCORE_METHODS, AUTO), self.named, "--method")
        self.check_folds()
        own = {name for entry in SCORE_METHODS.values() for name in entry.options}
        for name in self._given(sorted(own - set(self.entry.options))):
            having = [other for other, entry in SCORE_METHODS.items() if name in entry.options]
            raise UsageError(
                f"--{name.replace('_', '-')} goes with --method {' and '.join(having)}, not with "
                f"{self.named}."
            )
        if self.clip is not None and not self.clip < 0.5:
            raise UsageError(f"--clip is {self.clip:g}; expected 0 or more, below 0.5.")
        if "negatives_kept" in self.entry.options:
            self._check_shift()
        self._check_scale()

    def _check_classes(self) -> None:
        for name in self._given(_OF_SCORES):
            raise UsageError(
                f"--{name.replace('_', '-')} is for scores, not for class probabilities; leave it out."
            )
        _ = self.pattern  # read here, so that several are refused at once
        known = (*CLASS_METHODS, AUTO)
        if self.named not in known:
            raise UsageError(
                f"--method {self.method} is not for class probabilities (--probs); use one of "
                f"{', '.join(known)}."
            )
        if self.penalties is not None and self.named in ("temperature", "none"):
            raise UsageError("--regularization goes with --method vector and matrix.")

    def _given(self, names: Any) -> list[str]:
        return [name for name in names if getattr(self, name) not in (None, False)]

    def _check_shift(self) -> None:
        kept = self.negatives_kept
        if kept is None:
            raise UsageError(
                f"--method {self.named} needs --negatives-kept R: the share of the negatives that the "
                "training rows kept."
            )
        if not 0.0 < kept <= 1.0:
            raise UsageError(f"--negatives-kept is {kept:g}; expected above 0, at most 1.")
        if self.by is not None:
            raise UsageError(f"--method {self.named} fits nothing, so leave --by out.")

    def _check_scale(self) -> None:
        needs = self.entry.probabilities
        width = needs == "equal-width" and self.bin_strategy == needs
        if self.scale == "raw" and (needs is True or width):
            what = "--bin-strategy equal-width" if width else f"--method {self.named}"
            other = "--bin-strategy equal-mass" if width else "--method auto, platt or spline"
            raise UsageError(
                f"{what} needs probabilities or their logits; with --scale raw use {other}."
            )
        if self.out_of_range == "clip" and self.scale != "probability":
            raise UsageError(
                f"--out-of-range clip is for probabilities, not for --scale {self.scale}."
            )

    @property
    def segments(self) -> list[str]:
        """The columns that rows are set apart or dealt by."""
        return [name for name in (self.by, self.groups, self.time) if name is not None]

    @property
    def named(self) -> str:
        """The method."""
        return self.method or ("temperature" if self.of_classes else AUTO)

    def chosen(self, name: str) -> CalibrateOptions:
        """Return the options of a fit by one of the methods that are compared."""
        return replace(self, method=name, optimize=None, groups=None, time=None)

    @property
    def entry(self) -> ScoreMethod:
        """What is known of the method of scores."""
        return AUTOMATIC if self.named == AUTO else SCORE_METHODS[self.named]

    @property
    def penalties(self) -> tuple[float, float] | None:
        """Penalties of a map of class probabilities; None chooses them by cross-validation."""
        return self.regularization if isinstance(self.regularization, tuple) else None

    def steps(self) -> list[str]:
        """Return in words what the fit will do."""
        if self.of_classes:
            if self.named in (AUTO, "none"):
                return [self.entry.step]
            chosen = self.penalties is None and self.named != "temperature"
            how = " with penalties chosen by cross-validation" if chosen else ""
            return [f"fit {self.named} scaling of the logits{how}"]
        said = [self.entry.step]
        if self.by is not None:
            said.append(
                f"do so for each value of {self.by!r} with {self.min_rows} rows and more, and for all"
            )
        return said
