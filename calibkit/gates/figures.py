"""Gates: what must not hold of a result, such as ``auc<0.8`` or ``new/auc < old/auc``.

    EXPRESSION = ADDRESS (< | <= | > | >=) (NUMBER | ADDRESS)
    ADDRESS    = [SCORE/][SLICE/]METRIC[.low | .high | .delta]      in metrics
               = NAME/NAME/…                                       in models and other results

``*`` stands for any text within a segment.  Text in double quotes is taken as it is (``""`` within
them is one quote).

In metrics (``metrics.json``) a number stands at SCORE/SLICE/METRIC.  An address without a score means
all scores, without a slice the slice ``all``; one name before the metric may be either.  ``.low`` and
``.high`` are the ends of its interval.  Differences stand at B-A/SLICE/METRIC; ``.delta`` reaches them
whatever the scores, and by B alone.  In what `calibkit diff` writes of metrics, ``.delta`` is the
difference and no part the second file's number.  Anywhere else an address is the path of names and
list places from the top, and ``.low``, ``.high``, ``.delta`` one more name of it.

To the right of a comparison ``*`` stands for what the left has in that place, and a missing score for
the left's, where that exists.
"""

from __future__ import annotations

import difflib
import operator
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from calibkit.errors import ModelError, UsageError
from calibkit.files.paths import read_bytes
from calibkit.models.model import Shown, decode, decode_object
from calibkit.numerics.bounds import is_decimal

#: What may follow a metric's name after a dot.
PARTS = ("low", "high", "delta")

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_QUOTES = re.compile(r'"((?:[^"]|"")*)"')
_SPECIAL = re.compile(r'[/<>"*]|^=')

#: While an expression is taken apart, a character that no text has stands for each text in quotes.
_QUOTED = 0xD800


class Segment(Struct, frozen=True):
    """One name of an address: the texts between its stars (one text: no star)."""

    texts: tuple[str, ...]

    @property
    def wild(self) -> bool:
        """Whether it has a star."""
        return len(self.texts) > 1

    def matches(self, name: str) -> bool:
        """Return whether a name is meant."""
        return re.fullmatch(".*".join(map(re.escape, self.texts)), name, re.DOTALL) is not None

    def __str__(self) -> str:
        return "*".join(quoted(text) if text else "" for text in self.texts)


#: A lone star.
ANY = Segment(("", ""))


class Address(Struct, frozen=True):
    """Where a number stands in a result; `part` is one of `PARTS`, or empty."""

    segments: tuple[Segment, ...]
    part: str = ""

    def __str__(self) -> str:
        return "/".join(map(str, self.segments)) + (f".{self.part}" if self.part else "")


class Expression(Struct, frozen=True):
    """What makes a gate fail: a comparison that must not hold."""

    left: Address
    comparison: str
    right: float | Address

    def __str__(self) -> str:
        bound = self.right
        right = bound if isinstance(bound, Address) else repr(bound).removesuffix(".0")
        return f"{self.left}{self.comparison}{right}"


def quoted(name: str) -> str:
    """Return a name as it has to be typed in an address."""
    ending = name.rpartition(".")[2] if "." in name else ""
    if _SPECIAL.search(name) or ending in PARTS or name != name.strip() or not name:
        return '"' + name.replace('"', '""') + '"'
    return name


def address_text(place: Sequence[str], part: str = "") -> str:
    """Return the address of one place, as it has to be typed."""
    return str(Address(tuple(Segment((name,)) for name in place), part))


def parse_all(texts: Sequence[str]) -> tuple[Expression, ...]:
    """Return the expressions of a gate; `UsageError` if there are none, else see `parse`."""
    if not texts:
        raise UsageError("a gate needs --fail-if EXPR, such as --fail-if 'auc<0.75'.")
    return tuple(map(parse, texts))


def parse(text: str) -> Expression:
    """Return the expression that was typed; a `UsageError` says where text is none."""
    quotes: dict[int, str] = {}

    def taken(found: re.Match[str]) -> str:
        place = _QUOTED + len(quotes)
        quotes[place] = found[1].replace('""', '"')
        return chr(place) if found[1] else ""

    plain = _QUOTES.sub(taken, text)
    if '"' in plain:
        raise _refuse(text, "a double quote is not closed")
    pieces = [piece.strip() for piece in re.split("([<>]=?)", plain)]
    if len(pieces) < 3:
        raise _refuse(text, "it has no comparison <, <=, > or >=")
    if len(pieces) > 3:
        raise _refuse(text, "it has more than one comparison; repeat --fail-if instead")
    before, comparison, after = pieces
    if not before or not after:
        side = "right" if before else "left"
        raise _refuse(text, f"nothing is to the {side} of {comparison}")
    left = _address(before, quotes, text)
    if is_decimal(after):
        if abs(float(after)) == float("inf"):
            raise _refuse(text, f"{after} is beyond the range of numbers")
        return Expression(left, comparison, float(after) + 0.0)  # -0 is 0
    if after.lower().lstrip("+-") in {"nan", "inf", "infinity"}:
        raise _refuse(text, f"{after} is no number to compare with")
    return Expression(left, comparison, _address(after, quotes, text))


def _address(plain: str, quotes: dict[int, str], text: str) -> Address:
    *pieces, last = (piece.strip() for piece in plain.split("/"))
    part = next((part for part in PARTS if last.endswith(f".{part}")), "")
    pieces.append(last.removesuffix(f".{part}") if part else last)
    if not all(pieces):
        raise _refuse(text, "a name is empty; an address is [SCORE/][SLICE/]METRIC")
    # Stars beside each other mean no more than one.
    names = (re.sub(r"\*+", "*", piece).split("*") for piece in pieces)
    segments = (Segment(tuple(part.translate(quotes) for part in name)) for name in names)
    return Address(tuple(segments), part)


def _refuse(text: str, why: str) -> UsageError:
    return UsageError(
        f"--fail-if {text!r}: {why}. Expected [SCORE/][SLICE/]METRIC[.low|.high|.delta], one of "
        "< <= > >=, then a number or an address; names with / < > in double quotes."
    )


Place = tuple[str, ...]
Value = float | None
Content = dict[str, Any]

#: Metrics, a model, a drift, a result as a dictionary, or the file of one.
Result = Shown | Mapping[str, Any] | str | os.PathLike[str]

#: The slice meant where none is named.
_ALL = Segment(("all",))


class Outcome(Struct, frozen=True):
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


class Figures(Struct, frozen=True, dict=True):
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

    def find(self, address: Address, left: Place | None = None) -> dict[Place, Value]:
        """Return what an address means, to the right of a comparison with the place `left`.

        A number is None where it is not defined.
        """
        found, part = dict[Place, Value](), address.part
        patterns = list(self._patterns(address.segments, left))
        for place, parts in self.table.items():
            # A metric without an interval has ends that are not defined.
            known = part in parts or (self.kind == "metrics" and part in ("low", "high"))
            if known and any(self._meant(place, pattern, part) for pattern in patterns):
                found[place] = parts.get(part)
        if not found and left is not None and self.named:
            return self.find(address)
        return found

    def _patterns(
        self, segments: tuple[Segment, ...], left: Place | None
    ) -> Iterator[tuple[Segment, ...]]:
        """Yield the full patterns that an address may stand for."""
        full = [segments]
        if self.named and len(segments) < 3:
            score = ANY if left is None else Segment((left[0],))
            *before, metric = segments
            full = [(one, _ALL, metric) for one in before or [score]]
            full += [(score, one, metric) for one in before]
        for pattern in full:
            if left is None or len(left) < len(pattern):
                yield pattern
                continue
            # A star stands for what the left has in its place.
            yield tuple(
                Segment((name,)) if segment.wild and segment.matches(name) else segment
                for segment, name in zip(pattern, left, strict=False)
            )

    def _meant(self, place: Place, pattern: tuple[Segment, ...], part: str) -> bool:
        if len(place) != len(pattern):
            return False
        if place[0] in self.pairs and part != "delta" and pattern[0].wild:
            return False  # differences are no scores
        if all(segment.matches(name) for segment, name in zip(pattern, place, strict=True)):
            return True
        score = self.judged.get(place[0]) if part == "delta" else None
        return score is not None and self._meant((score, *place[1:]), pattern, "")


def figures(content: Mapping[str, Any]) -> Figures:
    """Return the numbers of a result: of metrics, a model, a comparison or any other JSON object."""
    if "kind" not in content and isinstance(content.get("metrics"), dict):
        return Figures("metrics", _metric_table(content), named=True)
    leaves = list(_leaves(content))
    if leaves and all(path[1:] and path[-1] in ("a", "b", "delta") for path, _ in leaves):
        sides: dict[Place, dict[str, Value]] = {}
        for path, value in leaves:
            part = "" if path[-1] == "b" else path[-1]
            sides.setdefault(path[:-1], {})[part] = value
        return Figures("diff", sides, named=all(len(place) == 3 for place in sides))
    kind = content.get("kind")
    table: dict[Place, dict[str, Value]] = {}
    for path, value in leaves:
        table.setdefault(path, {})[""] = value
        if path[-1] in PARTS:
            table.setdefault(path[:-1], {})[path[-1]] = value
    return Figures(kind if isinstance(kind, str) else "result", table, named=False)


def judge(found: Figures, expression: Expression) -> list[Outcome]:
    """Return what becomes of an expression at each place it means; none if there is no such."""
    right, compare = expression.right, COMPARISONS[expression.comparison]
    outcomes, any_right = list[Outcome](), not isinstance(right, Address)
    for place, value in found.find(expression.left).items():
        rights: dict[str | None, Value]
        if isinstance(right, Address):
            bounds = found.find(right, place)
            any_right |= bool(bounds)
            rights = {address_text(own, right.part): bound for own, bound in bounds.items()}
            rights = rights or {str(right): None}
        else:
            rights = {None: right}
        for name, bound in rights.items():
            failed = value is None or bound is None or compare(value, bound)
            left = address_text(place, expression.left.part)
            sides = left, value, expression.comparison, name, bound
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
            raise _nothing_matched(expression, results)
        for file, outcomes in judged.items():
            if not outcomes and results[file].kind in kinds:
                raise _nothing_matched(expression, {file: results[file]})
            found += [(file, outcome) for outcome in outcomes]
    return found


def check(content: Mapping[str, Any], expressions: Sequence[Expression]) -> list[Outcome]:
    """Return what becomes of gate expressions on one result; errors as `check_files`."""
    return [outcome for _, outcome in check_files({"": content}, expressions)]


def _nothing_matched(expression: Expression, files: Mapping[str, Figures]) -> UsageError:
    """Return the error for an expression that means nothing in the results of some files."""
    sides, results = (expression.left, expression.right), files.values()
    addresses = [side for side in sides if isinstance(side, Address)]
    lost = [a for a in addresses if not any(found.find(a) for found in results)]
    address = lost[0] if lost else addresses[-1]
    wanted, name = str(address), str(address.segments[-1])
    # Where the metric is there, what is missing is its score or its slice.
    full = [place for found in results for place in found.table if quoted(place[-1]) == name]
    known = dict.fromkeys(map(address_text, full)) or dict.fromkeys(
        address_text(place[-1:] if found.named else place)
        for found in results
        for place in found.table
    )
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    hint = f" (did you mean {', '.join(near)}?)" if near else ""
    if not near and known:
        shown = list(known)[:8]
        hint = f" (known: {', '.join(shown)}{', …' if len(known) > len(shown) else ''})"
    file = next(iter(files)) if len(files) == 1 else ""
    return UsageError.of(file or None, f"--fail-if {expression}: there is no {wanted}{hint}.")


def _metric_table(content: Mapping[str, Any]) -> dict[Place, dict[str, Value]]:
    table = {place: {"": value} for place, value in _leaves(content["metrics"])}
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
    if isinstance(result, Mapping):
        return dict(result)
    return result.as_dict() if hasattr(result, "as_dict") else read_result(os.fspath(result))


def read_result(path: str) -> Content:
    """Return the content of a JSON result; ``-`` reads standard input.

    Models and metrics are held to their structure; of any other object (what `calibkit diff` and
    `calibkit drift` write) the numbers are taken as they are.
    """
    from calibkit.measures.result import Metrics

    data = read_bytes(path)
    content = decode_object(data, path)
    if isinstance(content.get("kind"), str) and "version" in content:  # no diff of two models
        return decode(data, path).as_dict()
    if isinstance(content.get("metrics"), dict) and "signature" in content:
        return Metrics.from_json(data, path).as_dict()
    return content


#: What a comparison says of a value.
_SIDES = ("a", "b", "delta")


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
    inner = {path[:end] for side in known for path in side for end in range(len(path))}
    merged: Content = {}
    for path in dict.fromkeys([*known[0], *known[1]]):
        a, b = (side.get(path) for side in known)
        if a is b is None and path in inner:  # nothing here, an object there
            continue
        if path in inner and any((*path, name) in inner.union(*known) for name in _SIDES):
            raise ModelError(
                f"{'/'.join(path)} is a value in one file and in the other an object with a key "
                "'a', 'b' or 'delta', which a comparison has itself"
            )
        numbers = [isinstance(one, int | float) and not isinstance(one, bool) for one in (a, b)]
        delta: Any = b - a if all(numbers) else None  # type: ignore[operator]
        finite = delta is not None and abs(delta) < float("inf")
        place = merged
        for name in path[:-1]:
            place = place.setdefault(name, {})
        own = place.setdefault(path[-1], {})  # of the other side it may be a list
        own.update(a=a, b=b, delta=delta if finite else None)
    return merged


def _described(kind: str) -> str:
    known = {"metrics": "metrics", "result": "no metrics or model", "diff": "a comparison"}
    return known.get(kind, f"a model of kind {kind!r}")
