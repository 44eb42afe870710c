"""Warnings of functions whose options are in no class."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from calibkit.api.words import python_words
from calibkit.errors import CalibkitWarning


def tell(remarks: Iterable[str], depth: int = 3) -> None:
    """Warn of each remark once, as the caller of the public function `depth` calls up."""
    for remark in dict.fromkeys(remarks):
        warnings.warn(python_words(remark), CalibkitWarning, stacklevel=depth)
