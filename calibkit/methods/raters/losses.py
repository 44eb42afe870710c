"""Losses of probabilistic predictions of what several raters say, plugin and debiased.

T. Mimori, K. Sasada, H. Matsui, I. Sato, "Diagnostic uncertainty calibration: towards reliable
machine predictions in medical domain", sections 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.raters.histograms import ONE, BinSums

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Losses:
    """The losses of each target, one number a target; sums over classes are sums over targets.

    Attributes
    ----------
    squared
        Mean squared difference of prediction and a single rater's say; unbiased.
    epistemic, epistemic_plugin
        Mean squared difference of prediction and what raters say on average: unbiased, and with
        the observed share in its place.  The first may be negative.
    calibration, calibration_plugin
        The part of it that bins of equal prediction show: debiased for the scatter of the bins'
        mean labels, and not.  A bin with one row counts 0 when debiased.
    gaps
        Targets x bins: mean label minus mean prediction, 0 in empty bins.
    """

    squared: Floats
    epistemic: Floats
    epistemic_plugin: Floats
    calibration: Floats
    calibration_plugin: Floats
    gaps: Floats

    @property
    def dispersion(self) -> Floats:
        """What the epistemic loss has beyond the calibration loss."""
        return self.epistemic - self.calibration

    @property
    def dispersion_plugin(self) -> Floats:
        """The same of the plugin forms."""
        return self.epistemic_plugin - self.calibration_plugin


def losses(sums: BinSums) -> Losses:
    """Return the losses that sums by bin stand for.

    Bins of equal width; see `histograms.bin_sums`.  Sums are exact, so the result is
    a function of the set of rows.
    """
    targets, bins = sums.rows.shape
    squared, epistemic, apart_only, debiased, plugin = numbers = np.zeros((5, targets))
    gaps = np.zeros((targets, bins))
    for k in range(targets):
        total = int(sums.rows[k].sum())
        apart = int(sums.squared_difference[k].sum())
        spread = int(sums.label[k].sum() - sums.squared_label[k].sum())
        scale = total * ONE
        numbers[0, k] = (apart + spread) / scale
        numbers[1, k] = (apart - int(sums.excess[k].sum())) / scale
        numbers[2, k] = apart / scale
        parts = [_bin_losses(sums, k, b, total) for b in range(bins)]
        numbers[3, k] = fsum(part[0] for part in parts)
        numbers[4, k] = fsum(part[1] for part in parts)
        gaps[k] = [gap for _, _, gap in parts]
    return Losses(squared, epistemic, apart_only, debiased, plugin, gaps)


def _bin_losses(sums: BinSums, k: int, b: int, total: int) -> tuple[float, float, float]:
    """Return the debiased and plugin calibration loss of a bin, and its gap."""
    rows, label = int(sums.rows[k, b]), int(sums.label[k, b])
    if rows == 0:
        return 0.0, 0.0, 0.0
    gap = (label - int(sums.prediction[k, b])) / (rows * ONE)
    plugin = rows / total * (gap * gap)
    if rows == 1:
        return 0.0, plugin, gap
    # The variance from exact sums: nothing cancels, whatever the mean.
    squares = int(sums.squared_label[k, b])
    variance = (rows * squares * ONE - label * label) / (rows * rows * ONE * ONE)
    return plugin - rows / total * variance / (rows - 1), plugin, gap
