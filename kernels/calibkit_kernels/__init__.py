"""The ground floor: arrays in, arrays out.

Kernels know nothing of frames, files or messages and import nothing but numpy and numba.
"""

from __future__ import annotations

from collections.abc import Callable

#: Called before a kernel is compiled, with how many this process compiled before it, and with its
#: name and types, as ``signatures.txt`` has them.
before_compiling: Callable[[int, str], None] | None = None
