"""What to fit: the method of a calibrator and its options, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calibkit.errors import UsageError, nearest

METHODS: Final = (
    "beta",
    "platt",
    "isotonic",
    "histogram",
    "scaling-binning",
    "venn-abers",
    "temperature",
    "prior-shift",
)

#: Which options only some methods have.
_OWN: Final = {
    "targets": ("platt",),
    "bins": ("histogram", "scaling-binning"),
    "bin_strategy": ("histogram", "scaling-binning"),
    "split": ("scaling-binning",),
    "negatives_kept": ("prior-shift",),
}
_CHOICES: Final = {
    "targets": ("smoothed", "mle"),
    "bin_strategy": ("equal-mass", "equal-width"),
    "split": ("same", "thirds"),
    "out_of_range": ("error", "clip"),
}
#: Methods whose input is a probability, or its logit.
_NEED_PROBABILITIES: Final = ("beta", "temperature", "prior-shift")

DEFAULT_BINS: Final = 15
MOST_BINS: Final = 65_535


@dataclass(frozen=True, kw_only=True)
class CalibratorSpec:
    """How to fit a calibrator.

    Attributes
    ----------
    method
        One of `METHODS`.
    targets
        ``smoothed`` (Platt's) or ``mle``: what a Platt line is fitted to; None: smoothed.
    bins, bin_strategy
        Of histogram and scaling-binning; None: 15 bins of equal mass.
    split
        ``same`` rows for all steps of scaling-binning, or a third each (``thirds``); None: same.
    negatives_kept
        The share of the negatives that the training rows kept, of prior-shift.
    by
        The column of segments that have a map each.
    min_rows
        Segments of fewer rows use the map of all rows.
    clip
        Results stay this far inside (0, 1); None: 1 / (rows + 2); 0: as they are.
    out_of_range
        Probabilities outside [0, 1]: ``error``, or ``clip`` them.
    seed
        Of the split.
    threads
        How many threads may work.

    Raises
    ------
    UsageError
        For an unknown choice, a number out of range, or an option that the method does not have.
    """

    method: str = "beta"
    targets: str | None = None
    bins: int | None = None
    bin_strategy: str | None = None
    split: str | None = None
    negatives_kept: float | None = None
    by: str | None = None
    min_rows: int = 100
    clip: float | None = None
    out_of_range: str = "error"
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UsageError(
                f"--method {self.method!r} is not known{nearest(self.method, METHODS)}; use one of "
                f"{', '.join(METHODS)}."
            )
        for name, methods in _OWN.items():
            if getattr(self, name) is not None and self.method not in methods:
                raise UsageError(
                    f"--{name.replace('_', '-')} goes with --method {' and '.join(methods)}, not "
                    f"with {self.method}."
                )
        for name, choices in _CHOICES.items():
            _check_choice(name, getattr(self, name), choices)
        if self.bins is not None and not 1 <= self.bins <= MOST_BINS:
            raise UsageError(f"--bins is {self.bins}; expected 1 to {MOST_BINS}.")
        if self.clip is not None and not 0.0 <= self.clip < 0.5:
            raise UsageError(f"--clip is {self.clip:g}; expected 0 or more, below 0.5.")
        if self.method == "prior-shift":
            self._check_prior_shift()
        if self.min_rows < 1:
            raise UsageError(f"--min-rows is {self.min_rows}; expected at least 1.")

    def _check_prior_shift(self) -> None:
        kept = self.negatives_kept
        if kept is None:
            raise UsageError(
                "--method prior-shift needs --negatives-kept R: the share of the negatives that the "
                "training rows kept."
            )
        if not 0.0 < kept <= 1.0:
            raise UsageError(f"--negatives-kept is {kept:g}; expected above 0, at most 1.")
        if self.by is not None:
            raise UsageError("--method prior-shift fits nothing, so leave --by out.")

    def check_scale(self, scale: str) -> None:
        """Raise `UsageError` where the method cannot take scores of a scale."""
        width = self.bin_strategy == "equal-width" and self.method == "histogram"
        if scale == "raw" and (self.method in _NEED_PROBABILITIES or width):
            what = "--bin-strategy equal-width" if width else f"--method {self.method}"
            raise UsageError(
                f"{what} needs probabilities or their logits; with --scale raw use platt, isotonic, "
                "venn-abers, or histogram with bins of equal mass."
            )
        if self.out_of_range == "clip" and scale != "probability":
            raise UsageError(f"--out-of-range clip is for probabilities, not for --scale {scale}.")

    def steps(self) -> list[str]:
        """Return in words what the fit will do."""
        name = {"beta": "beta calibration", "platt": "Platt scaling"}.get(self.method, self.method)
        said = [f"fit {name}" if self.method != "prior-shift" else "shift the prior"]
        if self.by is not None:
            said.append(
                f"do so for each value of {self.by!r} with {self.min_rows} rows and more, and for all"
            )
        return said


def _check_choice(name: str, value: str | None, choices: Sequence[str]) -> None:
    if value is not None and value not in choices:
        raise UsageError(
            f"--{name.replace('_', '-')} {value!r} is not known; use one of {', '.join(choices)}"
        )
