"""The same numbers on every processor: what libraries must know before they are loaded."""

from __future__ import annotations

import os
import platform

#: Wide instructions for which numpy has exponentials and logarithms of its own, with other last digits.
_WIDE = "X86_V4 AVX512_ICL AVX512_SPR"

#: The matrix products that every 64-bit processor of the last ten years can compute.
_PRODUCTS = "Haswell"


def same_numbers() -> None:
    """Make numpy compute as on a processor without wide instructions, unless the user says otherwise.

    A machine that has them would differ from one without in the last digit of an exponential, and with
    it in the hash of a row, its fold, and all that follows.
    """
    if platform.machine().lower() in ("x86_64", "amd64"):
        os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", _WIDE)
        os.environ.setdefault("OPENBLAS_CORETYPE", _PRODUCTS)
    # numpy would start a thread a processor, with 30 MB each, for matrix products; here they are small.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
