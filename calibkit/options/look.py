"""How a picture looks: its size, title and ground."""

from __future__ import annotations

import re
from dataclasses import dataclass

from calibkit.errors import UsageError

#: Sizes that can be drawn, in inches.
LEAST, MOST = 2.5, 40.0

_SIZE = re.compile(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)")


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a picture looks.

    Attributes
    ----------
    width, height
        In inches; a PNG has 200 dots an inch.  None: what suits the kind.
    title
        None: that of the kind; empty: no title.
    dark
        Light lines on dark ground.
    transparent
        Leave the ground out: for pages that have their own.

    Raises
    ------
    UsageError
        For a size outside 2.5 to 40 inches.
    """

    width: float | None = None
    height: float | None = None
    title: str | None = None
    dark: bool = False
    transparent: bool = False

    def __post_init__(self) -> None:
        for name, value in (("width", self.width), ("height", self.height)):
            if value is not None and not LEAST <= value <= MOST:
                raise UsageError(f"--{name} is {value:g} inches; expected {LEAST:g} to {MOST:g}.")


def read_size(
    size: str | None, width: float | None, height: float | None
) -> tuple[float | None, float | None]:
    """Return width and height from ``--size 6x4``, ``--width`` and ``--height``.

    Raises
    ------
    UsageError
        For a size of another form, or one given twice.
    """
    if size is None:
        return width, height
    if width is not None or height is not None:
        raise UsageError("--size is width and height; leave --width and --height out.")
    found = _SIZE.fullmatch(size.strip().lower())
    if found is None:
        raise UsageError(f"--size is {size!r}; expected WIDTHxHEIGHT in inches, such as 6x4.")
    return float(found[1]), float(found[2])
