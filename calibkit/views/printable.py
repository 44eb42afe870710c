"""Text from files and models, made safe to print: a name must not command the terminal."""

from __future__ import annotations

import re

#: Control characters but line feed and tab, and those that turn the direction of what follows.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Return text with control characters as escapes such as ``\x1b``."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
