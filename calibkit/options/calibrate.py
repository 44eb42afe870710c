"""The options of ``calibrate``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from calibkit.errors import UsageError, nearest
from calibkit.options import maps, shared
from calibkit.options.maps import AUTO, SCORE_METHODS, MapOptions, of_method
from calibkit.options.shared import of_input

#: Options that mean nothing for class probabilities.
_OF_SCORES: Final = (
    *("targets", "bins", "bin_strategy", "split", "negatives_kept", "interpolate"),
    *("groups", "time", "by", "clip", "out_of_range", "positive", "weight"),
)

#: Options of the choice among methods.
_OF_CHOICES: Final = ("optimize", "groups", "time")


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(MapOptions, shared.LabelledColumns, shared.FitOptions):
    """What `calibrate` fits, and on which columns."""

    method: str | None = of_method(
        f"{', '.join(SCORE_METHODS)}, or auto, which chooses; for class probabilities: "
        "temperature, vector, matrix, none or auto.",
        "METHOD",
        shown="auto; temperature with --probs",
    )
    optimize: Literal["log_loss", "brier"] | None = of_method(
        "The loss by which auto compares candidates, on held-out rows.", shown="log_loss"
    )
    regularization: maps.Penalties | None = of_method(
        "Penalties for vector and matrix scaling; cv: chosen by cross-validation.",
        "INTERCEPT[,OFF]|cv",
        read=maps.penalties,
        shown="cv",
    )
    groups: shared.Groups = None
    time: shared.Time = None
    by: shared.By = None
    min_rows: int = of_method(
        "With --by: values with fewer rows use the map of all rows.", "N", default=100, least=1
    )
    clip: float | None = of_method(
        "Keep results this far from 0 and 1; 0: as they are.", "EPS", least=0, shown="1/(rows+2)"
    )
    out_of_range: Literal["error", "clip"] | None = of_input(
        "Probabilities outside [0, 1], now and when applied: refuse or clip them.", shown="error"
    )
    probs: shared.Probs = None
    counts: shared.Counts = None

    def check(self) -> None:
        """Refuse what the method, or the kind of rows, does not have."""
        for name in self._given(_OF_CHOICES):
            if self.named != AUTO:
                raise UsageError(f"--{name} goes with --method auto, not with {self.named}.")
        if self.of_classes:
            self._check_classes()
            return
        if self.regularization is not None:
            raise UsageError("--regularization goes with --probs, for vector and matrix scaling.")
        known = (*SCORE_METHODS, AUTO)
        if self.named not in known:
            raise UsageError(
                f"--method {self.method!r} is not known{nearest(self.named, known)}; use "
                f"one of {', '.join(known)}."
            )
        if self.groups is not None and self.time is not None:
            raise UsageError("give --groups or --time: folds follow one of them.")
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
        maps.one_pattern(self.probs)
        known = (*maps.CLASS_METHODS, AUTO)
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
            raise UsageError(
                f"{what} needs probabilities or their logits; with --scale raw use platt, isotonic, "
                "venn-abers, or histogram with bins of equal mass."
            )
        if self.out_of_range == "clip" and self.scale != "probability":
            raise UsageError(
                f"--out-of-range clip is for probabilities, not for --scale {self.scale}."
            )

    @property
    def of_classes(self) -> bool:
        """Whether the rows hold class probabilities."""
        return bool(self.probs or self.counts)

    @property
    def of_rows(self) -> bool:
        """Whether a state holds the rows themselves: a map of class probabilities needs them all."""
        return self.of_classes

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
    def entry(self) -> maps.ScoreMethod:
        """What is known of the method of scores."""
        return maps.AUTOMATIC if self.named == AUTO else SCORE_METHODS[self.named]

    @property
    def penalties(self) -> tuple[float, float] | None:
        """Penalties of a map of class probabilities; None chooses them by cross-validation."""
        return self.regularization if isinstance(self.regularization, tuple) else None

    @property
    def pattern(self) -> str:
        """The pattern of the class probabilities."""
        return maps.one_pattern(self.probs)

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
