"""Result files: read whatever calibkit writes as JSON, and lay two of them side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from calibkit.errors import ModelError
from calibkit.gates.expressions import Expression
from calibkit.gates.figures import Outcome, figures, judge, nothing_matched

Content = dict[str, Any]


def read_result(path: str) -> Content:
    """Return the content of a JSON result; ``-`` reads standard input.

    Models and metrics are held to their structure; of any other object (what `calibkit diff` and
    `calibkit drift` write) the numbers are taken as they are.

    Raises
    ------
    UsageError
        No such file, or no permission to read it.
    ModelError
        A file that is no JSON object, an unknown kind of model or a newer version.
    """
    from calibkit.files.sources import read_bytes
    from calibkit.metrics.result import Metrics
    from calibkit.models import decode, decode_object

    data = read_bytes(path)
    content = decode_object(data, path)
    if "kind" in content and "version" in content:
        return decode(data, path).as_dict()
    if isinstance(content.get("metrics"), dict) and "signature" in content:
        return Metrics.from_json(data, path).as_dict()
    return content


def check_files(
    contents: Mapping[str, Content], expressions: Sequence[Expression]
) -> list[tuple[str, Outcome]]:
    """Return what becomes of gate expressions on several results, each with its file.

    An expression has to mean something in at least one file, and then in every file of the same
    kind: one gate may hold metrics and models to different expressions, but no metric goes missing
    unseen.

    Raises
    ------
    UsageError
        For an expression that means nothing in a file where it should.
    """
    results = {file: figures(content) for file, content in contents.items()}
    found: list[tuple[str, Outcome]] = []
    for expression in expressions:
        judged = {file: judge(result, expression) for file, result in results.items()}
        kinds = {results[file].kind for file, outcomes in judged.items() if outcomes}
        if not kinds:
            only = next(iter(results)) if len(results) == 1 else None
            raise nothing_matched(expression, list(results.values()), only)
        for file, outcomes in judged.items():
            if not outcomes and results[file].kind in kinds:
                raise nothing_matched(expression, [results[file]], file)
            found += [(file, outcome) for outcome in outcomes]
    return found


def side_by_side(first: Content, second: Content) -> Content:
    """Return two results as one: ``{"a": …, "b": …, "delta": …}`` wherever either has a value.

    Of metrics the values of `metrics` are compared, of anything else every value by its path (lists
    by place).  `a` or `b` is None where only the other has a value; `delta` is b - a, None unless
    both are numbers.

    Raises
    ------
    ModelError
        For results of different kinds.
    """
    kinds = [figures(first).kind, figures(second).kind]
    if kinds[0] != kinds[1]:
        raise ModelError(
            f"the first file holds {_described(kinds[0])}, the second {_described(kinds[1])}; "
            "compare two of one kind"
        )
    if kinds[0] == "metrics":
        first, second = first["metrics"], second["metrics"]
    values = dict(_values(first)), dict(_values(second))
    merged: Content = {}
    for path in dict.fromkeys([*values[0], *values[1]]):
        a, b = values[0].get(path), values[1].get(path)
        place = merged
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = {"a": a, "b": b, "delta": _difference(a, b)}
    return merged


def _described(kind: str) -> str:
    known = {"metrics": "metrics", "result": "no metrics or model", "diff": "a comparison"}
    return known.get(kind, f"a model of kind {kind!r}")


def _values(content: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what nested objects and lists hold, with paths; an empty one holds nothing."""
    if isinstance(content, dict):
        for name, inner in content.items():
            yield from _values(inner, (*path, name))
    elif isinstance(content, list):
        for place, inner in enumerate(content):
            yield from _values(inner, (*path, str(place)))
    else:
        yield path, content


def _difference(a: object, b: object) -> float | None:
    if isinstance(a, bool) or isinstance(b, bool):
        return None
    if isinstance(a, int | float) and isinstance(b, int | float):
        difference = b - a
        return difference if abs(difference) < float("inf") else None
    return None
