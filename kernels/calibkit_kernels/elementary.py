"""Exponential and logarithm as polynomials: unlike those of the C library, loops take several at once.

Both are within one unit in the last place, and the same on every processor: nothing in them depends on
how many numbers a loop takes at a time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ._jit import kernel
from .arrays import Floats, Numbers
from .maps import LEAST, inside

#: Numbers that loops work on together: so few stay near.
FEW: Final = 512

_LOG2_E = 1.4426950408889634
#: ln 2 in two parts: products of the first with small integers are exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
#: Adding it rounds a number to an integer, which then stands in the last bits.
_ROUNDING = 1.5 * 2.0**52
_SIGNIFICAND = 52
#: Below, the exponential counts as that of this: 3e-308.
_LEAST = -708.0
#: The bits of 1, of the root of 1/2 and of 2^52; those of a fraction; 2^52 and the bias of exponents.
_ONE, _ROOT_HALF, _TWO_52 = 0x3FF0000000000000, 0x3FE6A09E667F3BCD, 0x4330000000000000
_FRACTION = (1 << _SIGNIFICAND) - 1
_OFFSET = 2.0**52 + 1023.0


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
def log_of(x: float) -> float:
    """Return the logarithm of a positive normal number; NaN stays, and infinity gives NaN.

    It is ``k ln 2 + log(1 + f)`` with ``1 + f`` between the roots of 1/2 and of 2, and with
    ``s = f / (2 + f)`` the last is ``2 atanh(s)``.  The coefficients are those of FreeBSD's ``log``
    (`s_log`, Sun Microsystems, 1993).
    """
    bits = np.float64(x).view(np.int64) + (_ONE - _ROOT_HALF)
    # A whole number in the last bits of 2^52 is the number beside it.
    k = np.int64((bits >> _SIGNIFICAND) + _TWO_52).view(np.float64) - _OFFSET
    f = np.int64((bits & _FRACTION) + _ROOT_HALF).view(np.float64) - 1.0
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
    rest = s * (half + p * z) + k * _LN2_LOW
    return k * _LN2_HIGH - ((half - rest) - f) + (x - x)


@kernel
def logits(p: Numbers, out: Floats) -> None:
    """Write the logit of each probability, moved `LEAST` inside (0, 1) first, to be fitted on.

    Whatever is applied gets the digits of the C library, see `calibkit_kernels.maps.log_odds`.
    """
    for i in range(p.size):
        own = inside(np.float64(p[i]), LEAST)
        out[i] = log_of(own / (1.0 - own))
