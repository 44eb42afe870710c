"""What was typed as one text and means several things: lists, whole numbers, tags."""

from __future__ import annotations

import math
from collections.abc import Iterable

from calibkit.errors import UsageError


def listed(values: Iterable[str] | None) -> list[str]:
    """Return the items of a list option, which takes commas or repetition."""
    parts = (part.strip() for value in values or () for part in value.split(","))
    return [part for part in parts if part]


def whole(text: str | None, name: str, least: int = 1) -> int | None:
    """Return a number that was typed, None where none was.

    Raises
    ------
    UsageError
        For text that is no whole number, or one below `least`.
    """
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < least:
        raise UsageError(f"{name} is {text!r}; expected a whole number, at least {least}, or auto.")
    return int(text)


def tags(values: Iterable[str] | None) -> dict[str, str]:
    """Return the ``--tag KEY=VALUE`` options as a dictionary.

    Raises
    ------
    UsageError
        For a tag without ``=`` or key, or one key with two values.
    """
    found: dict[str, str] = {}
    for text in values or ():
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise UsageError(f"--tag {text!r} is not of the form KEY=VALUE.")
        if found.setdefault(key, value) != value:
            raise UsageError(f"--tag {key} has two values, {found[key]!r} and {value!r}; keep one.")
    return found


def number(text: str, name: str, least: float = 0.0) -> float:
    """Return a finite number that was typed.

    Raises
    ------
    UsageError
        For text that is no number, or one below `least`.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value < math.inf:
        raise UsageError(f"{name} is {text!r}; expected a number, at least {least:g}.")
    return value


def given(text: str | None, name: str) -> float | None:
    """Return a number that was typed, None where none was; see `number`."""
    return None if text is None else number(text, name)


def penalties(text: str, name: str) -> tuple[float, float] | None:
    """Return one or two penalties; None for ``cv``, which chooses them.

    Raises
    ------
    UsageError
        For anything else.
    """
    if text == "cv":
        return None
    parts = text.split(",")
    if len(parts) > 2:
        raise UsageError(f"{name} is {text!r}; expected INTERCEPT, INTERCEPT,OFF_DIAGONAL or cv.")
    found = [number(part, name) for part in parts]
    return found[0], found[-1] if len(found) == 2 else 0.0
