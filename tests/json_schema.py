"""A small validator of JSON Schema: the keywords that calibkit's schemas use, and no others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}

#: Keywords that say something of a value by themselves: of which type, and whether it is as they ask.
_CHECKS: dict[str, tuple[type[Any] | tuple[type[Any], ...], Callable[[Any, Any], bool]]] = {
    "type": (object, lambda value, asked: _TYPES[asked](value)),
    "const": (object, lambda value, asked: value == asked),
    "enum": (object, lambda value, asked: value in asked),
    "pattern": (str, lambda value, asked: re.search(asked, value) is not None),
    "minimum": ((int, float), lambda value, asked: value >= asked),
    "maximum": ((int, float), lambda value, asked: value <= asked),
    "minItems": (list, lambda value, asked: len(value) >= asked),
    "maxItems": (list, lambda value, asked: len(value) <= asked),
    "required": (dict, lambda value, asked: set(asked) <= set(value)),
}
_NESTED = {"properties", "additionalProperties", "items", "prefixItems", "anyOf", "$ref"}
_WORDS = {"$schema", "$defs", "title", "description", "default"}


def problems(value: Any, schema: dict[str, Any]) -> list[str]:
    """Return where a value is not what a schema asks, as paths with what is wrong."""
    return list(_problems(value, schema, schema, "$"))


def _problems(value: Any, schema: Any, whole: dict[str, Any], path: str) -> Iterator[str]:
    if schema is False:
        yield f"{path} is not known"
    if not isinstance(schema, dict):
        return
    unknown = set(schema) - set(_CHECKS) - _NESTED - _WORDS
    if unknown:
        raise NotImplementedError(f"keywords {unknown}")
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        yield from _problems(value, whole["$defs"][name], whole, path)
    options = schema.get("anyOf")
    if options is not None and all(list(_problems(value, one, whole, path)) for one in options):
        yield f"{path} is none of {len(options)}"
    wrong = [
        key
        for key, (kind, check) in _CHECKS.items()
        if key in schema and isinstance(value, kind) and not check(value, schema[key])
    ]
    yield from (f"{path}: {key} {schema[key]}" for key in wrong)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for key, one in value.items():
            inner = known.get(key, schema.get("additionalProperties", True))
            yield from _problems(one, inner, whole, f"{path}.{key}")
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        for place, one in enumerate(value):
            inner = first[place] if place < len(first) else schema.get("items", True)
            yield from _problems(one, inner, whole, f"{path}[{place}]")
