"""Specifications as plain values, such as JSON has, and back: what states and plans hold."""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any, TypeVar

import msgspec

from calibkit.errors import ModelError, UsageError
from calibkit.numerics.bounds import Bound

T = TypeVar("T")


def from_plain(value: object, kind: type[T], path: str) -> T:
    """Return the specification that options of a state hold, made by `msgspec.to_builtins`.

    Raises `ModelError` if they hold none, or an impossible one.
    """
    try:
        found = msgspec.convert(_interned(value), kind)
        _check(found, value)
        return found
    except (msgspec.ValidationError, UsageError, TypeError, ValueError, ArithmeticError) as error:
        raise ModelError(f"a damaged state: {error}", file=path) from None


def _check(found: Any, value: Any) -> None:
    """Raise `ValueError` for what a conversion lets pass.

    That is a field that a dataclass does not have (another then has its default), and a bound that
    is not the number it is written as.
    """
    if isinstance(found, tuple | list):
        for item, own in zip(found, value, strict=True):
            _check(item, own)
    elif is_dataclass(found):
        names = {field.name for field in fields(found)}
        unknown = sorted(value.keys() - names)
        if unknown:
            raise ValueError(f"unknown field {unknown[0]!r}")
        for name in names & value.keys():
            _check(getattr(found, name), value[name])
    if isinstance(found, Bound) and Fraction(found.text) != Fraction(
        found.numerator, found.denominator
    ):
        raise ValueError(f"the bound {found.text} is {found.numerator} / {found.denominator}")


def _interned(value: Any) -> Any:
    """Return plain values with the very strings that constants are.

    Models leave out fields that have their default, which for text means the same object.
    """
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, list):
        return [_interned(item) for item in value]
    if isinstance(value, dict):
        return {_interned(name): _interned(item) for name, item in value.items()}
    return value
