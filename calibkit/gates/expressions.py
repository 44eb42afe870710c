"""Gate expressions: what must not hold of a result, such as ``auc<0.8`` or ``new/auc < old/auc``.

    EXPRESSION = ADDRESS (< | <= | > | >=) (NUMBER | ADDRESS)
    ADDRESS    = [SCORE/][SLICE/]METRIC[.low | .high | .delta]      in metrics
               = NAME/NAME/…                                       in models and other results

``*`` stands for any text within a segment.  Text in double quotes is taken as it is (``""`` within
them is one quote).  What an address means in which result is said in `calibkit.gates.figures`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from calibkit.errors import UsageError

#: What may follow a metric's name after a dot.
PARTS = ("low", "high", "delta")

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
#: Text in quotes, or one character without.
_QUOTES = re.compile(r'"((?:[^"]|"")*)"|(.)', re.DOTALL)
_SPECIAL = re.compile(r'[/<>"*]|^=')

#: Characters as typed, each with whether it stood in quotes.
_Marked = list[tuple[str, bool]]


@dataclass(frozen=True)
class Segment:
    """One name of an address: the texts between its stars (one text: no star)."""

    texts: tuple[str, ...]

    @classmethod
    def of(cls, name: str) -> Segment:
        """Return the segment that is exactly one name."""
        return cls((name,))

    @property
    def wild(self) -> bool:
        """Whether it has a star."""
        return len(self.texts) > 1

    def matches(self, name: str) -> bool:
        """Return whether a name is meant."""
        pattern = ".*".join(map(re.escape, self.texts))
        return re.fullmatch(pattern, name, re.DOTALL) is not None

    def __str__(self) -> str:
        return "*".join(quoted(text) if text else "" for text in self.texts)


#: A lone star.
ANY = Segment(("", ""))


@dataclass(frozen=True)
class Address:
    """Where a number stands in a result; `part` is one of `PARTS`, or empty."""

    segments: tuple[Segment, ...]
    part: str = ""

    def __str__(self) -> str:
        return "/".join(map(str, self.segments)) + (f".{self.part}" if self.part else "")


@dataclass(frozen=True)
class Expression:
    """What makes a gate fail: a comparison that must not hold."""

    left: Address
    comparison: str
    right: float | Address

    def __str__(self) -> str:
        right = self.right if isinstance(self.right, Address) else repr(self.right)
        return f"{self.left}{self.comparison}{right}"


def quoted(name: str) -> str:
    """Return a name as it has to be typed in an address."""
    ending = name.rpartition(".")[2] if "." in name else ""
    if _SPECIAL.search(name) or ending in PARTS or name != name.strip() or not name:
        return '"' + name.replace('"', '""') + '"'
    return name


def address_text(place: Sequence[str], part: str = "") -> str:
    """Return the address of one place, as it has to be typed."""
    return str(Address(tuple(map(Segment.of, place)), part))


def parse_all(texts: Sequence[str]) -> tuple[Expression, ...]:
    """Return the expressions of a gate; `UsageError` if there are none, else see `parse`."""
    if not texts:
        raise UsageError("a gate needs --fail-if EXPR, such as --fail-if 'auc<0.75'.")
    return tuple(map(parse, texts))


def parse(text: str) -> Expression:
    """Return the expression that was typed; a `UsageError` says where text is none."""
    marked = _mark(text)
    at = next((i for i, (char, quote) in enumerate(marked) if char in "<>" and not quote), None)
    if at is None:
        raise _refuse(text, "it has no comparison <, <=, > or >=")
    wide = at + 1 < len(marked) and marked[at + 1] == ("=", False)
    comparison = marked[at][0] + ("=" if wide else "")
    before, after = _strip(marked[:at]), _strip(marked[at + len(comparison) :])
    if any(char in "<>" and not quote for char, quote in after):
        raise _refuse(text, "it has more than one comparison; repeat --fail-if instead")
    if not before or not after:
        side = "right" if before else "left"
        raise _refuse(text, f"nothing is to the {side} of {comparison}")
    left = _address(before, text)
    plain = "".join(char for char, _ in after)
    if not any(quote for _, quote in after):
        if _NUMBER.fullmatch(plain):
            if abs(float(plain)) == float("inf"):
                raise _refuse(text, f"{plain} is beyond the range of numbers")
            return Expression(left, comparison, float(plain) + 0.0)  # -0 is 0
        if plain.lower().lstrip("+-") in {"nan", "inf", "infinity"}:
            raise _refuse(text, f"{plain} is no number to compare with")
    return Expression(left, comparison, _address(after, text))


def _mark(text: str) -> _Marked:
    """Return the characters with whether each was quoted; an empty pair of quotes marks nothing."""
    marked: _Marked = []
    for quote, plain in _QUOTES.findall(text):
        if plain == '"':
            raise _refuse(text, "a double quote is not closed")
        marked += [(char, False) for char in plain]
        marked += [(char, True) for char in quote.replace('""', '"')]
    return marked


def _strip(marked: _Marked) -> _Marked:
    kept = [i for i, (char, quote) in enumerate(marked) if quote or not char.isspace()]
    return marked[kept[0] : kept[-1] + 1] if kept else []


def _address(marked: _Marked, text: str) -> Address:
    pieces: list[_Marked] = [[]]
    for char, quote in marked:
        if char == "/" and not quote:
            pieces.append([])
        else:
            pieces[-1].append((char, quote))
    pieces, found = [_strip(piece) for piece in pieces], ""
    for part in PARTS:
        if pieces[-1][-len(part) - 1 :] == [(char, False) for char in f".{part}"]:
            pieces[-1], found = pieces[-1][: -len(part) - 1], part
            break
    if not all(pieces):
        raise _refuse(text, "a name is empty; an address is [SCORE/][SLICE/]METRIC")
    return Address(tuple(map(_segment, pieces)), found)


def _segment(marked: _Marked) -> Segment:
    texts = [""]
    for char, quote in marked:
        if char == "*" and not quote:
            texts.append("")
        else:
            texts[-1] += char
    # Stars beside each other mean no more than one.
    inner = [text for text in texts[1:-1] if text]
    return Segment((texts[0], *inner, texts[-1]) if len(texts) > 1 else (texts[0],))


def _refuse(text: str, why: str) -> UsageError:
    return UsageError(
        f"--fail-if {text!r}: {why}. Expected [SCORE/][SLICE/]METRIC[.low|.high|.delta], one of "
        "< <= > >=, then a number or an address; names with / < > in double quotes."
    )
