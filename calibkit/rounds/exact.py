"""Whole numbers as text: sums of any size, in states and plans."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from calibkit.errors import ModelError

#: More bits than any sum of products of two float64 has in units of the smallest one, and more digits.
_MOST_SHIFT: Final = 4400
_MOST_DIGITS: Final = 1200
_NUMBER: Final = re.compile(r"-?[0-9a-f]+(\+[0-9]{1,4})?", re.ASCII)

#: Named lists of whole numbers, which add up place by place.
Whole = dict[str, list[int]]


def whole_text(number: int) -> str:
    """Return a whole number in hexadecimal; ``+n`` behind it stands for n more bits that are 0."""
    shift = (number & -number).bit_length() - 1
    return f"{number >> shift:x}+{shift}" if shift > 8 else f"{number:x}"


def whole_of(text: object) -> int:
    """Return the number that a text stands for; raises `ModelError` for one that is none."""
    if isinstance(text, str) and len(text) <= _MOST_DIGITS and _NUMBER.fullmatch(text):
        digits, _, shift = text.partition("+")
        if int(shift or "0") <= _MOST_SHIFT:
            return int(digits, 16) << int(shift or "0")
    raise ModelError(f"damaged: {str(text)[:40]!r} is no whole number")


def as_text(sums: Whole) -> dict[str, list[str]]:
    """Return sums as what a file holds."""
    return {name: [whole_text(number) for number in numbers] for name, numbers in sums.items()}


def from_text(value: Any) -> Whole:
    """Return the sums that a file holds.

    Raises
    ------
    ModelError
        For anything that is none.
    """
    try:
        found = msgspec.convert(value, dict[str, list[str]])
    except msgspec.ValidationError as error:
        raise ModelError(f"damaged: {error}") from None
    return {name: [whole_of(text) for text in texts] for name, texts in found.items()}


def added(one: Whole, other: Whole) -> Whole:
    """Return the sums of both; raises `ModelError` where they are not of the same question."""
    if {name: len(own) for name, own in one.items()} != {
        name: len(own) for name, own in other.items()
    }:
        raise ModelError("damaged: sums that do not answer the same question")
    return {
        name: [a + b for a, b in zip(numbers, other[name], strict=True)]
        for name, numbers in one.items()
    }
