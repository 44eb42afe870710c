"""The numbers of a result by their addresses: of metrics, models, differences, any JSON object.

In metrics (``metrics.json``) a number stands at SCORE/SLICE/METRIC.  An address without a score means
all scores, without a slice the slice ``all``; one name before the metric may be either.  ``.low`` and
``.high`` are the ends of its interval.  Differences stand at B-A/SLICE/METRIC; ``.delta`` reaches them
whatever the scores, and by B alone.  In what `calibkit diff` writes of metrics, ``.delta`` is the
difference and no part the second file's number.  Anywhere else an address is the path of names and list
places from the top, and ``.low``, ``.high``, ``.delta`` one more name of it.

To the right of a comparison ``*`` stands for what the left has in that place, and a missing score for
the left's, where that exists.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from calibkit.errors import ModelError, UsageError
from calibkit.files.paths import read_bytes
from calibkit.gates.expressions import ANY, COMPARISONS, Address, Expression, Segment, address_text
from calibkit.models.model import Shown, decode, decode_object

Place = tuple[str, ...]
Value = float | None
Content = dict[str, Any]

#: Metrics, a model, a drift, a result as a dictionary, or the file of one.
Result = Shown | Mapping[str, Any] | str | os.PathLike[str]

#: The slice meant where none is named.
_ALL = Segment.of("all")


@dataclass(frozen=True)
class Found:
    """A number that an address means; None where it is not defined."""

    place: Place
    part: str
    value: Value

    def __str__(self) -> str:
        return address_text(self.place, self.part)


@dataclass(frozen=True)
class Outcome:
    """What became of an expression at one place."""

    expression: str  # as typed, in its shortest form
    address: str  # the left side's place and number (None: not defined)
    value: Value
    comparison: str  # ``<``, ``<=``, ``>`` or ``>=``
    bound_address: str | None  # the right side: a place (None for a plain number) and its number
    bound: Value
    failed: bool  # whether the comparison holds, or a side of it is not defined

    @property
    def text(self) -> str:
        """One line: ``model/all/auc = 0.71 < 0.75: failed``."""
        if self.value is None or self.bound is None:
            missing = self.address if self.value is None else self.bound_address
            return f"{missing} is not defined: failed"
        left, right = f"{self.value:.6g}", f"{self.bound:.6g}"
        if left == right and self.value != self.bound:
            left, right = repr(self.value), repr(self.bound)  # six digits make them look equal
        bound = right if self.bound_address is None else f"{self.bound_address} = {right}"
        if self.failed:
            return f"{self.address} = {left} {self.comparison} {bound}: failed"
        return f"{self.address} = {left}, not {self.comparison} {bound}: passed"

    def as_dict(self) -> dict[str, object]:
        """Return the outcome as the object that ``--json`` prints."""
        return asdict(self)


@dataclass(frozen=True)
class Figures:
    """All numbers of one result."""

    kind: str  # ``metrics``, ``diff``, a model's kind, or ``result``
    #: Of each place its numbers by part; the empty part is the number itself.
    table: Mapping[Place, Mapping[str, Value]]
    named: bool  # whether places are SCORE/SLICE/METRIC

    @cached_property
    def pairs(self) -> frozenset[str]:
        """The names of the pairs of scores whose differences are known."""
        if self.kind != "metrics":
            return frozenset()
        return frozenset(place[0] for place, parts in self.table.items() if "delta" in parts)

    @cached_property
    def judged(self) -> Mapping[str, str]:
        """Of each pair of scores the first, which the second is the baseline of."""
        scores = {place[0] for place in self.table} - self.pairs
        return {
            f"{score}-{baseline}": score
            for score in scores
            for baseline in scores
            if f"{score}-{baseline}" in self.pairs
        }

    def find(self, address: Address, left: Place | None = None) -> list[Found]:
        """Return what an address means, to the right of a comparison with the place `left`."""
        found, part = [], address.part
        patterns = list(self._patterns(address.segments, left))
        for place, parts in self.table.items():
            if any(self._meant(place, pattern, part) for pattern in patterns):
                if part in parts:
                    found.append(Found(place, part, parts[part]))
                elif self.kind == "metrics" and part in ("low", "high"):
                    found.append(Found(place, part, None))  # a metric without an interval
        if not found and left is not None and self.named:
            return self.find(address)
        return found

    def _patterns(
        self, segments: tuple[Segment, ...], left: Place | None
    ) -> Iterator[tuple[Segment, ...]]:
        """Yield the full patterns that an address may stand for."""
        full = [segments]
        if self.named and len(segments) < 3:
            score = ANY if left is None else Segment.of(left[0])
            *before, metric = segments
            full = [(one, _ALL, metric) for one in before or [score]]
            full += [(score, one, metric) for one in before]
        for pattern in full:
            if left is None or len(left) < len(pattern):
                yield pattern
                continue
            # A star stands for what the left has in its place.
            yield tuple(
                Segment.of(name) if segment.wild and segment.matches(name) else segment
                for segment, name in zip(pattern, left, strict=False)
            )

    def _meant(self, place: Place, pattern: tuple[Segment, ...], part: str) -> bool:
        if len(place) != len(pattern):
            return False
        if place[0] in self.pairs and part != "delta" and pattern[0].wild and self.named:
            return False  # differences are no scores
        if all(segment.matches(name) for segment, name in zip(pattern, place, strict=True)):
            return True
        score = self.judged.get(place[0]) if part == "delta" and self.named else None
        return score is not None and self._meant((score, *place[1:]), pattern, "")


def figures(content: Mapping[str, Any]) -> Figures:
    """Return the numbers of a result: of metrics, a model, a comparison or any other JSON object."""
    if "kind" not in content and isinstance(content.get("metrics"), dict):
        return Figures("metrics", _metric_table(content), named=True)
    leaves = list(_leaves(content))
    if leaves and all(path[-1] in ("a", "b", "delta") for path, _ in leaves):
        sides: dict[Place, dict[str, Value]] = {}
        for path, value in leaves:
            part = "" if path[-1] == "b" else path[-1]
            sides.setdefault(path[:-1], {})[part] = value
        return Figures("diff", sides, named=all(len(place) == 3 for place in sides))
    kind = content.get("kind")
    table: dict[Place, dict[str, Value]] = {}
    for path, value in leaves:
        table.setdefault(path, {})[""] = value
        if path[-1] in ("low", "high", "delta"):
            table.setdefault(path[:-1], {})[path[-1]] = value
    return Figures(kind if isinstance(kind, str) else "result", table, named=False)


def judge(found: Figures, expression: Expression) -> list[Outcome]:
    """Return what becomes of an expression at each place it means; none if there is no such."""
    right, compare = expression.right, COMPARISONS[expression.comparison]
    outcomes, any_right = list[Outcome](), not isinstance(right, Address)
    for left in found.find(expression.left):
        rights: list[tuple[str | None, Value]]
        if isinstance(right, Address):
            bounds = found.find(right, left.place)
            any_right |= bool(bounds)
            rights = [(str(bound), bound.value) for bound in bounds] or [(str(right), None)]
        else:
            rights = [(None, right)]
        for name, bound in rights:
            failed = left.value is None or bound is None or compare(left.value, bound)
            sides = str(left), left.value, expression.comparison, name, bound
            outcomes.append(Outcome(str(expression), *sides, failed))
    return outcomes if any_right else []


def check_files(
    contents: Mapping[str, Mapping[str, Any]], expressions: Sequence[Expression]
) -> list[tuple[str, Outcome]]:
    """Return what becomes of gate expressions on several results, each with its file.

    An expression has to mean something in at least one file, and then in every file of the same kind,
    else it is a `UsageError`: one gate may hold metrics and models to different expressions, but no
    metric goes missing unseen.
    """
    results = {file: figures(content) for file, content in contents.items()}
    found: list[tuple[str, Outcome]] = []
    for expression in expressions:
        judged = {file: judge(result, expression) for file, result in results.items()}
        kinds = {results[file].kind for file, outcomes in judged.items() if outcomes}
        if not kinds:
            only = next(iter(results)) if len(results) == 1 else None
            raise _nothing_matched(expression, list(results.values()), only)
        for file, outcomes in judged.items():
            if not outcomes and results[file].kind in kinds:
                raise _nothing_matched(expression, [results[file]], file)
            found += [(file, outcome) for outcome in outcomes]
    return found


def check(content: Mapping[str, Any], expressions: Sequence[Expression]) -> list[Outcome]:
    """Return what becomes of gate expressions on one result; errors as `check_files`."""
    return [outcome for _, outcome in check_files({"": content}, expressions)]


def _nothing_matched(
    expression: Expression, results: Sequence[Figures], file: str | None = None
) -> UsageError:
    """Return the error for an expression that means nothing in some results."""
    addresses = [expression.left]
    if isinstance(expression.right, Address):
        addresses.append(expression.right)
    lost = [a for a in addresses if not any(found.find(a) for found in results)]
    wanted = str(lost[0] if lost else addresses[-1])
    known = dict.fromkeys(
        address_text(place[-1:] if found.named else place)
        for found in results
        for place in found.table
    )
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    hint = f" (did you mean {', '.join(near)}?)" if near else ""
    if not near and known:
        shown = list(known)[:8]
        hint = f" (known: {', '.join(shown)}{', …' if len(known) > len(shown) else ''})"
    where = f"{file}: " if file else ""
    said = f"{where}--fail-if {expression}: there is no {wanted}{hint}."
    return UsageError(said, file=file or None)


def _metric_table(content: Mapping[str, Any]) -> dict[Place, dict[str, Value]]:
    table: dict[Place, dict[str, Value]] = {}
    for place, value in _leaves(content["metrics"]):
        table[place] = {"": value}
    for path, end in _leaves(content.get("intervals") or {}):
        table.setdefault(path[:-1], {"": None})[path[-1]] = end
    for path, value in _leaves(content.get("differences") or {}):
        parts = table.setdefault(path[:-1], {})
        if path[-1] == "value":
            parts[""] = parts["delta"] = value
        else:
            parts[path[-1]] = value
    return table


def values(content: object, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield what nested objects and lists hold, with paths; an empty one holds nothing."""
    if isinstance(content, dict):
        for name, inner in content.items():
            yield from values(inner, (*path, str(name)))
    elif isinstance(content, list):
        for place, inner in enumerate(content):
            yield from values(inner, (*path, str(place)))
    else:
        yield path, content


def _leaves(content: object) -> Iterator[tuple[Place, Value]]:
    """Yield the numbers among the values."""
    for path, value in values(content):
        if value is None or isinstance(value, bool | int | float):
            yield path, None if value is None else value + 0
        elif value in ("inf", "-inf"):  # JSON has no infinity
            yield path, float(value)


def content_of(result: Result) -> Content:
    """Return the content of a result; errors of files as `read_result`."""
    if isinstance(result, str | os.PathLike):
        return read_result(os.fspath(result))
    return dict(result) if isinstance(result, Mapping) else result.as_dict()


def read_result(path: str) -> Content:
    """Return the content of a JSON result; ``-`` reads standard input.

    Models and metrics are held to their structure; of any other object (what `calibkit diff` and
    `calibkit drift` write) the numbers are taken as they are.
    """
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
    both are numbers.  Results of different kinds are a `ModelError`.
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
