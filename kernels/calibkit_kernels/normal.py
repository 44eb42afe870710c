"""The standard normal distribution, exact to a few units in the last place into its tails.

All of it comes from Mills' ratio M(z) = (1 - Phi(z)) / phi(z), which is smooth and never small: with
t = (z - 5) / (z + 5) the function (1 + z) M(z) of t in [-1, 1] is a polynomial of degree 25 to full
precision.  The change of variable is the one of Shepherd and Laframboise, Chebyshev approximation of
(1 + 2x) exp(x^2) erfc(x) in 0 <= x < infinity, 1981; the coefficients were computed anew.
"""

from __future__ import annotations

import math

from ._jit import kernel

_ROOT_TWO_PI = 2.5066282746310002
_LOG_ROOT_TWO_PI = 0.91893853320467267

#: Chebyshev coefficients of (1 + z) M(z), the first one halved.
_MILLS = (
    1.1579976221305188,
    -0.1633449388451398,
    -0.013683136055781576,
    0.03082200019810004,
    -0.016220073012046806,
    0.005616691016460094,
    -0.0014133933783549216,
    0.0002502625460725661,
    -2.468907239728387e-05,
    -1.0107964061837592e-06,
    7.495419179740575e-07,
    -7.600274268728321e-08,
    -1.1574771441328537e-08,
    3.333386472599855e-09,
    7.538039628162597e-11,
    -1.1104247263743121e-10,
    3.50924377638079e-12,
    3.689495386050192e-12,
    -2.3376697780010583e-13,
    -1.327179751709277e-13,
    9.921707138052552e-15,
    5.276005165232018e-15,
    -3.373096314528629e-16,
    -2.2804332957647044e-16,
    7.49628916845946e-18,
    1.0327916024075081e-17,
)


@kernel
def mills_ratio(z: float) -> float:
    """Return the upper tail of the standard normal over its density, for ``z >= 0``."""
    if z > 1e8:
        return 1.0 / z
    twice = 2.0 * (z - 5.0) / (z + 5.0)
    ahead, after = 0.0, 0.0
    for i in range(len(_MILLS) - 1, 0, -1):
        ahead, after = twice * ahead - after + _MILLS[i], ahead
    return (0.5 * twice * ahead - after + _MILLS[0]) / (1.0 + z)


@kernel
def normal_density(z: float) -> float:
    """Return the density of the standard normal distribution."""
    size = abs(z)
    if size > 39.0:
        return 0.0
    # size^2 / 2 in two parts, the first of them exact: its rounding would show in the tails.
    coarse = math.floor(size * 16.0) / 16.0
    rest = (size - coarse) * (size + coarse)
    return math.exp(-0.5 * coarse * coarse) * math.exp(-0.5 * rest) / _ROOT_TWO_PI


@kernel
def normal_cdf(z: float) -> float:
    """Return the probability that a standard normal variable is at most `z`; NaN for NaN."""
    if z == 0.0:
        return 0.5
    tail = normal_density(z) * mills_ratio(abs(z)) if abs(z) < 39.0 else 0.0
    if z > 0.0:
        return 1.0 - tail
    return tail if z < 0.0 else math.nan


@kernel
def normal_quantile(p: float) -> float:
    """Return the z with ``normal_cdf(z) == p``: infinite at 0 and 1, NaN outside [0, 1].

    Notes
    -----
    Halley steps from a rational guess (Hastings, Approximations for digital computers, 1955): in
    the middle on Phi - 1/2, whose series has positive terms only, in the tails on the logarithm.
    """
    if not 0.0 < p < 1.0:
        if p == 0.0:
            return -math.inf
        return math.inf if p == 1.0 else math.nan
    tail = min(p, 1.0 - p)
    root = math.sqrt(-2.0 * math.log(tail))
    above = 2.515517 + root * (0.802853 + root * 0.010328)
    below = 1.0 + root * (1.432788 + root * (0.189269 + root * 0.001308))
    z = root - above / below
    if tail > 0.3:
        z = _central_quantile(abs(p - 0.5), max(z, 0.0))
    else:
        z = _tail_quantile(math.log(tail), z)
    return z if p >= 0.5 else -z


@kernel
def _central_quantile(share: float, z: float) -> float:
    """Return the z with Phi(z) - 1/2 equal to a share below 0.2, from a guess."""
    for _ in range(3):
        term = z
        ratio = z  # (Phi(z) - 1/2) / phi(z)
        k = 3.0
        while term > 1e-18 * ratio:
            term *= z * z / k
            ratio += term
            k += 2.0
        step = ratio - share / normal_density(z)
        z -= step / (1.0 + 0.5 * z * step)
    return z


@kernel
def _tail_quantile(log_tail: float, z: float) -> float:
    """Return the z whose upper tail has this logarithm, from a guess."""
    for _ in range(3):
        ratio = mills_ratio(z)
        # f = log(1 - Phi(z)) - log_tail; f' = -1/M; f'' = -(1/M - z)/M.
        excess = math.log(ratio) - 0.5 * z * z - _LOG_ROOT_TWO_PI - log_tail
        z += excess * ratio / (1.0 + 0.5 * excess * (1.0 - z * ratio))
    return z
