"""The standard normal distribution: probabilities and quantiles."""

from __future__ import annotations

from calibkit_kernels import normal as kernels


def normal_cdf(z: float) -> float:
    """Return the probability that a standard normal variable is at most `z`.

    Exact to about 1e-15 of its value, far into the lower tail too; NaN for NaN.
    """
    return float(kernels.normal_cdf(float(z)))


def normal_quantile(p: float) -> float:
    """Return the z that a standard normal variable exceeds with probability ``1 - p``.

    Exact to about 1e-15 of its value; infinite at 0 and 1, NaN outside [0, 1].
    """
    return float(kernels.normal_quantile(float(p)))


def critical_value(confidence: float) -> float:
    """Return how many standard errors a two-sided interval reaches to either side.

    Parameters
    ----------
    confidence
        The confidence of the interval, above 0 and below 1: 1.96 standard errors for 0.95.
    """
    return -normal_quantile((1.0 - confidence) / 2.0)
