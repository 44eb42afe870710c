"""Result files: read whatever calibkit writes as JSON, and lay two of them side by side."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from calibkit.errors import ModelError
from calibkit.gates.figures import figures, values
from calibkit.models.model import Shown, decode, decode_object

Content = dict[str, Any]


#: Metrics, a model, a drift, a result as a dictionary, or the file of one.
Result = Shown | Mapping[str, Any] | str | os.PathLike[str]


def content_of(result: Result) -> Content:
    """Return the content of a result; errors of files as `read_result`."""
    if isinstance(result, str | os.PathLike):
        return read_result(os.fspath(result))
    return dict(result) if isinstance(result, Mapping) else result.as_dict()


def read_result(path: str) -> Content:
    """Return the content of a JSON result; ``-`` reads standard input.

    Models and metrics are held to their structure; of any other object (what `calibkit diff` and
    `calibkit drift` write) the numbers are taken as they are.

    Raises `UsageError` for a file that may not be read; `ModelError` for one that is no JSON object,
    of an unknown kind of model or a newer version.
    """
    from calibkit.files.inputs import read_bytes
    from calibkit.measures.result import Metrics

    data = read_bytes(path)
    content = decode_object(data, path)
    if "kind" in content and "version" in content:
        return decode(data, path).as_dict()
    if isinstance(content.get("metrics"), dict) and "signature" in content:
        return Metrics.from_json(data, path).as_dict()
    return content


def side_by_side(first: Content, second: Content) -> Content:
    """Return two results as one: ``{"a": …, "b": …, "delta": …}`` wherever either has a value.

    Of metrics the values of `metrics` are compared, of anything else every value by its path (lists
    by place).  `a` or `b` is None where only the other has a value; `delta` is b - a, None unless
    both are numbers.

    Raises `ModelError` for results of different kinds.
    """
    kinds = [figures(first).kind, figures(second).kind]
    if kinds[0] != kinds[1]:
        raise ModelError(
            f"the first file holds {_described(kinds[0])}, the second {_described(kinds[1])}; "
            "compare two of one kind"
        )
    if kinds[0] == "metrics":
        first, second = first["metrics"], second["metrics"]
    known = dict(values(first)), dict(values(second))
    merged: Content = {}
    for path in dict.fromkeys([*known[0], *known[1]]):
        a, b = (side.get(path) for side in known)
        place = merged
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = {"a": a, "b": b, "delta": _difference(a, b)}
    return merged


def _described(kind: str) -> str:
    known = {"metrics": "metrics", "result": "no metrics or model", "diff": "a comparison"}
    return known.get(kind, f"a model of kind {kind!r}")


def _difference(a: object, b: object) -> float | None:
    if isinstance(a, bool) or isinstance(b, bool):
        return None
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return None
    difference = b - a
    return difference if abs(difference) < float("inf") else None
