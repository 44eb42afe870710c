"""Arrays by what they hold, as annotations name them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Numbers of any type: float32 as well as float64, counts of one byte as well as of eight.
Numbers = NDArray[Any]
Floats = NDArray[np.float64]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
#: Labels, folds and parts; levels and bins; codes; hashes, keys and words.
UInt8s = NDArray[np.uint8]
UInt16s = NDArray[np.uint16]
UInt32s = NDArray[np.uint32]
UInt64s = NDArray[np.uint64]
Bools = NDArray[np.bool_]
