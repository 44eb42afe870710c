"""Arrays by what they hold, as annotations name them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Numbers of any type: float32 as well as float64, counts of one byte as well as of eight.
Numbers = NDArray[Any]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Int16s = NDArray[np.int16]
#: Rows, nodes, and cells of a score.
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
#: Labels and parts; levels and codes; tags; keys, hashes and other words.
UInt8s = NDArray[np.uint8]
UInt16s = NDArray[np.uint16]
UInt32s = NDArray[np.uint32]
UInt64s = NDArray[np.uint64]
Bools = NDArray[np.bool_]
