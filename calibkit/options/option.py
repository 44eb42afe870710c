"""What an option is, and what a class of options can do."""

from __future__ import annotations

import dataclasses
import reprlib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from inspect import get_annotations, signature
from math import inf
from numbers import Integral, Real
from os import PathLike, fspath
from typing import (
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from calibkit.errors import ModelError, UsageError, nearest
from calibkit.numerics.bounds import Bound, decimal_bound

T = TypeVar("T")
Asked = TypeVar("Asked", bound="Options")

#: Where a field keeps its `Option`.
_OPTION: Final = "option"

#: The group of columns, and their order: what rows say, how much they count, to what they belong.
COLUMNS: Final = "Columns"
ROLES: Final = (
    *("key", "scores", "score", "baseline", "scale", "label", "positive", "unlabelled"),
    *("uncertainty", "members", "probs", "counts", "features", "weight", "weight_kind"),
    *("groups", "period", "time", "labelled_at", "by"),
)

#: What `options_of` has found; classes do not change.
_FOUND: Final[dict[Any, tuple[Option, ...]]] = {}


class Option(Struct, frozen=True, kw_only=True):
    """One option of a class: what `option` says of it, and what its field adds."""

    help: str  # what it does, in one or two sentences
    metavar: str | None  # what stands for its value in the help
    group: str | None = None  # the heading under which the help lists it
    flags: tuple[str, ...] = ()  # what is typed; none: the name of the field, with hyphens
    least: float | None = None  # the bounds of a number
    most: float | None = None
    #: The default as the help shows it, where the value itself says too little; False: not at all.
    shown: str | Literal[False] | None = None
    env: str | None = None  # the environment variable that gives it too
    #: Several values may be typed: by repetition alone, or with commas between them too.
    many: Literal["repetition", "commas"] | None = None
    #: Returns the value that a text, or a value given in Python, stands for; it is called with the
    #: value and with what messages call the option.  What it returns passes unchanged.  Of what has
    #: commas between its values: `listed`, unless another is named.
    read: Callable[[Any, str], Any] | None = None
    argument: bool = False  # it is typed without a flag: `metavar` names it
    path: bool = False  # the value names a file, or is rows
    hidden: bool = False  # the help does not list it
    completes: Callable[[str], list[str]] | None = None  # what may complete a text that is begun
    typed: bool = True  # the command line has it too; else it is for Python alone
    name: str = ""  # of the field
    default: Any = None  # its value where none is given
    required: bool = False  # whether one has to be
    kind: Any = None  # its type, without None
    optional: bool = False  # whether None is a value

    @property
    def flag(self) -> str:
        """What messages call it: the flag that is a word."""
        if self.argument:
            return str(self.metavar)
        words = [flag for flag in self.flags if flag.startswith("--")]
        return words[0] if words else "--" + self.name.rstrip("_").replace("_", "-")

    def take(self, value: Any) -> Any:
        """Return a value as the field holds it; an empty list is the default."""
        if value is None and (self.optional or (self.default is None and not self.required)):
            return None
        if self.read is not None:
            read = self.read(value, self.flag)
            return self.default if read == () else read
        if get_origin(self.kind) is Literal:
            return one_of(get_args(self.kind), value, self.flag)
        if self.kind in (int, float):
            return self._number(value)
        if self.kind is str and isinstance(value, str | PathLike):
            return str(fspath(value))  # numpy has texts of its own, which no state holds
        if self.kind in (str, bool) and not isinstance(value, self.kind):
            what = "a string" if self.kind is str else "True or False"
            if self.metavar == "NAME":
                what = "the name of a column, or an array of its values"
            raise UsageError(f"{self.flag} is {short(value)}; expected {what}.")
        return value

    def _number(self, value: Any) -> Any:
        wanted = Integral if self.kind is int else Real
        if isinstance(value, wanted) and not isinstance(value, bool):
            number = self.kind(value)
            low = self.least is None or number >= self.least
            if low and (self.most is None or number <= self.most) and abs(number) < inf:
                return number
        what = "a whole number" if self.kind is int else "a number"
        form = "" if self.kind is int else "g"
        least = "" if self.least is None else f", at least {self.least:{form}}"
        most = "" if self.most is None else f", at most {self.most:{form}}"
        raise UsageError(f"{self.flag} is {value!r}; expected {what}{least}{most}.")


def short(value: object) -> str:
    """Return how a message shows a value, which may be a frame or an array."""
    long = not isinstance(value, list | tuple) and "\n" in repr(value)
    return f"a {type(value).__name__}" if long else reprlib.repr(value)


def option(what: str = "", metavar: str | None = None, *, default: Any = None, **said: Any) -> Any:
    """Return the field of a class of options, with its default and its `Option`.

    An option that must be given, and an alias for several classes, is annotated with it instead; its
    default is then that of the class.  One that is annotated with another class of options is as its
    option of that name.
    """
    if said.get("many") == "commas":
        said.setdefault("read", listed)
    if default is not None and "read" in said:
        typed = default if isinstance(default, tuple) else (default,)
        said.setdefault("shown", ",".join(map(str, typed)))
    return field(default=default, metadata={_OPTION: Option(help=what, metavar=metavar, **said)})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Options:
    """What was asked for: the base of every class of options.

    A subclass is a frozen dataclass by this, whose fields are made by `option`; the docstring of one
    that a command takes is the help of the command.  Values are checked when it is made, first each by
    itself, then together by `check`.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # What no class of options needs would take time to make, at every start.
        dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        for option in options_of(type(self)):
            value = getattr(self, option.name)
            taken = option.take(value)
            if taken is not value:
                object.__setattr__(self, option.name, taken)
        self.check()

    def check(self) -> None:
        """Refuse values that contradict each other; a subclass says which."""

    def part(self, kind: type[T], **others: Any) -> T:
        """Return what another class takes too, as one of that, but for some others."""
        names = [name for name in signature(kind).parameters if hasattr(self, name)]
        return kind(**{name: getattr(self, name) for name in names} | others)

    def given(self) -> dict[str, Any]:
        """Return the options whose value is not the default."""
        values = ((option, getattr(self, option.name)) for option in options_of(type(self)))
        return {option.name: value for option, value in values if value != option.default}


def options_of(kind: type[Options]) -> tuple[Option, ...]:
    """Return the options of a class: columns, then its own, then those of its bases in their order."""
    if kind in _FOUND:
        return _FOUND[kind]
    hints = get_type_hints(kind, include_extras=True)
    known = {one.name: one for one in fields(kind)}
    order = dict.fromkeys(name for base in kind.__mro__ for name in get_annotations(base))
    found = [_option_of(known[name], hints[name]) for name in order if name in known]
    return _FOUND.setdefault(kind, tuple(sorted(found, key=_place)))


def _place(option: Option) -> int:
    """Return where an option stands among others: other columns behind those that are named."""
    if option.group != COLUMNS:
        return len(ROLES) + 1
    return ROLES.index(option.name) if option.name in ROLES else len(ROLES)


def _option_of(own: Field[Any], hint: Any) -> Option:
    """Return the option of a field, which stands in the field itself or in its annotation."""
    bare, *beside = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
    said: list[Option] = []
    for one in (*beside, own):
        if isinstance(one, type):
            said += [option for option in options_of(one) if option.name == own.name]
        elif _OPTION in one.metadata:
            said.append(one.metadata[_OPTION])
    if not said:
        raise TypeError(f"the option {own.name} says nothing of itself: make it by `option`")
    kinds = [bare]
    if get_origin(bare) in (Union, types.UnionType):
        kinds = [one for one in get_args(bare) if one is not type(None)]
    required = own.default is MISSING
    return replace(
        said[-1],
        name=own.name,
        default=None if required else own.default,
        required=required,
        kind=kinds[0] if len(kinds) == 1 else bare,
        optional=type(None) in get_args(bare),
    )


def names_of(kind: type[Options]) -> dict[str, str]:
    """Return the name in Python of each flag of a class, without its hyphens in front."""
    return {option.flag.removeprefix("--"): option.name for option in options_of(kind)}


def plain(options: Any, *done: str) -> dict[str, Any]:
    """Return options as what a state holds: values that JSON has, of those that were given.

    A shard is `done` with some, and with the number of threads.
    """
    left = dataclasses.replace(options, threads=None, **dict.fromkeys(done))
    return to_builtins(left.given())


def from_plain(content: Any, kind: type[Asked], path: str, **others: Any) -> Asked:
    """Return the options that a state, called `path`, holds; `others`: those it does not decide."""
    try:
        if not isinstance(content, dict):
            raise TypeError("no options")
        return kind(**{**content, **others})
    except (UsageError, TypeError, ValueError) as error:
        raise ModelError(f"a damaged state: {error}", file=path) from None


def one_of(known: Sequence[str], value: Any, flag: str) -> str:
    """Return one of some known texts."""
    for own in known:
        if value == own:
            return own  # the constant itself: models leave out what is the default
    near = nearest(value, known) if isinstance(value, str) else ""
    raise UsageError(f"{flag} {value!r} is not known{near}; use one of {', '.join(known)}.")


def listed(value: str | Sequence[str], flag: str = "") -> tuple[str, ...]:
    """Return names: one text with commas between them, or several texts as they are."""
    if isinstance(value, str):
        return tuple(filter(None, map(str.strip, value.split(","))))
    if not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
        raise UsageError(f"{flag} is {short(value)}; expected a name, or a list of names.")
    return tuple(map(str, value))


def inside(value: Any, flag: str, expected: str = "a number above 0 and below 1") -> Bound:
    """Return a number above 0 and below 1, with the decimal digits that were typed."""
    bound = above_zero(value, flag, expected)
    if bound.numerator == bound.denominator:
        raise UsageError(f"{flag} is {value}; expected {expected}.")
    return bound


def above_zero(value: Any, flag: str, expected: str, most: int | None = 1) -> Bound:
    """Return a number above 0, up to 1 or another, with the decimal digits that were typed."""
    bound = decimal_bound(value, flag, most=most)
    if not bound.numerator:
        raise UsageError(f"{flag} is {value}; expected {expected}.")
    return bound


def tagged(value: Mapping[str, str] | Sequence[str], flag: str) -> dict[str, str]:
    """Return tags: a dictionary of texts, or texts of the form ``KEY=VALUE``."""
    if isinstance(value, Mapping):
        for key, own in value.items():
            if not isinstance(key, str) or not isinstance(own, str) or not key:
                raise UsageError(f"tags: {key!r}: {own!r} is not a pair of strings.")
        return {str(key): str(own) for key, own in value.items()}
    found: dict[str, str] = {}
    for text in value:
        key, sign, own = text.partition("=")
        if not sign or not key:
            raise UsageError(f"{flag} {text!r} is not of the form KEY=VALUE.")
        if found.setdefault(key, own) != own:
            raise UsageError(f"{flag} {key} has two values, {found[key]!r} and {own!r}; keep one.")
    return found
