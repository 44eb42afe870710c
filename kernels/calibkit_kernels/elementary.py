"""Exponential and logarithm as polynomials: unlike those of the C library, loops take several at once.

Both are within one unit in the last place, and the same on every processor: nothing in them depends on
how many numbers a loop takes at a time.
"""

from __future__ import annotations

import numpy as np

from ._jit import kernel

_LOG2_E = 1.4426950408889634
#: ln 2 in two parts: products of the first with small integers are exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
#: Adding it rounds a number to an integer, which then stands in the last bits.
_ROUNDING = 1.5 * 2.0**52
_SIGNIFICAND = 52
#: Below, the exponential counts as that of this: 3e-308.
_LEAST = -708.0
_ROOT_TWO = 1.4142135623730951


@kernel
def exp_down(z: float) -> float:
    """Return the exponential of a number that is not above 0; NaN stays.

    It is ``2^k`` times that of a rest of at most ln(2)/2, which Taylor's polynomial gives.
    """
    z = _LEAST if z < _LEAST else z
    shifted = z * _LOG2_E + _ROUNDING
    whole = shifted - _ROUNDING
    r = (z - whole * _LN2_HIGH) - whole * _LN2_LOW
    p = 1.6059043836821613e-10  # 1 / 13!
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 1.984126984126984e-04
    p = p * r + 1.388888888888889e-03
    p = p * r + 8.333333333333333e-03
    p = p * r + 4.1666666666666664e-02
    p = p * r + 1.6666666666666666e-01
    p = p * r + 0.5
    p = r * r * p + r + 1.0
    # The sum of bit patterns multiplies by a power of two.
    power = np.float64(shifted).view(np.int64) << _SIGNIFICAND
    return np.int64(np.float64(p).view(np.int64) + power).view(np.float64)


@kernel
def log_up(m: float) -> float:
    """Return the logarithm of a number in [1, 2].

    With ``f = m - 1`` and ``s = f / (2 + f)`` it is ``2 atanh(s)``; a number above the root of 2 is
    halved first.  The coefficients are those of FreeBSD's ``log`` (`s_log`, Sun Microsystems, 1993).
    """
    high = m > _ROOT_TWO
    f = (0.5 * m if high else m) - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = 1.479819860511658591e-01
    p = p * z + 1.531383769920937332e-01
    p = p * z + 1.818357216161805012e-01
    p = p * z + 2.222219843214978396e-01
    p = p * z + 2.857142874366239149e-01
    p = p * z + 3.999999999940941908e-01
    p = p * z + 6.666666666666735130e-01
    half = 0.5 * f * f
    rest = s * (half + p * z) + (_LN2_LOW if high else 0.0)
    return (_LN2_HIGH if high else 0.0) - ((half - rest) - f)
