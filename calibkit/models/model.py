"""Models: what a fit writes and ``apply`` reads, as canonical JSON.

This module alone turns models into bytes and back.  A model is data only: no code, no pickle.
Every kind is a strict structure with a version; an unknown kind, a newer version, an unknown or a
missing field is refused by name.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, cast

import msgspec

from calibkit.errors import ModelError, UsageError, nearest
from calibkit.files.told import Told
from calibkit.models.kinds import IN_PYTHON, KINDS, view_of
from calibkit.models.page import Page
from calibkit.models.scales import SCALES, measure

if TYPE_CHECKING:
    from calibkit.files.frames import Array, Frame, Names

_GIANT = re.compile(rb"[0-9]{300}")
#: How metrics.json begins.
_METRICS = re.compile(rb"\s*\{\s*\"differences\"")

#: Where there is more than a page shows: on the command line, and in Python.
_MORE = {"--all shows": "summary() shows", "-o FILE writes": "as_dict() has"}

#: Longer files are no models.
MOST_BYTES = 2**31

#: What schemas are written in.
_SCHEMAS = "https://json-schema.org/draft/2020-12/schema"

#: What is raised about text that is no JSON, or not of a structure.
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: The roles of columns that models read when they are applied; the others are read by fits.
_READ = ("score", "uncertainty", "probs", "by")

D = TypeVar("D")
W = TypeVar("W", bound=Callable[..., Any])


def known(words: Iterable[str]) -> msgspec.Meta:
    """Return what makes a field of text one of some words, for readers and in the schema."""
    listed = list(words)
    return msgspec.Meta(pattern=f"^(?:{'|'.join(listed)})$", extra_json_schema={"enum": listed})


#: What msgspec says of another word.
_WORDS = re.compile(r"`str` matching regex '\^\(\?:(.*)\)\$'")

#: What a part of some counts may not exceed: by name, in the same structure or the nearest around it.
_WHOLES = (
    ("positives", "rows"),
    ("selected", "rows"),
    ("true_positives", "selected"),
    ("true_positives", "positives"),
    ("rows_two_raters", "rows"),
)
_COUNTS = frozenset(name for pair in _WHOLES for name in pair)
#: Of sums of weights.
_ROUNDING = 1e-9


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A column that a fit used.

    `dtype` is what values are rounded to before they are compared with the model's numbers; it is
    left out for labels and weights, which are not compared.  `made_by` is the hash of the model that
    made the column, where the inputs said so (`calibkit.models.lineage`).
    """

    name: str
    dtype: Annotated[str, known(("float64", "float32"))] | None = None
    scale: Annotated[str, known(SCALES)] | None = None
    positive: str | None = None
    kind: Annotated[str, known(("number", "category", "frequency", "sampling"))] | None = None
    made_by: str | None = None

    @property
    def measure(self) -> str:
        """What its scores are once they are read; see `calibkit.models.scales.measure`."""
        return measure(self.scale)

    @property
    def said(self) -> str:
        """What thresholds are compared with, in words."""
        return f"{self.name} / 100" if self.scale == "percent" else self.name


class Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a model comes from: a function of the rows and of the options that shaped the result."""

    calibkit: str
    options: dict[str, Any]
    rows: int
    data_hash: str
    files: list[str] | None = None
    text: Told | None = None


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two numbers between which one lies that only the rows themselves would tell."""

    low: float
    high: float


class Resolution(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How coarse the summary was that a result comes from.

    Attributes
    ----------
    score_bits
        Bits after the exponent that scores kept (probabilities above one half: one minus the score):
        they were moved down by less than ``2**-score_bits`` of themselves, where they are not
        extreme (`calibkit.summaries.counted`).
    uncertainty_bits
        The same of uncertainties.
    level_error
        By which share of the rows the edges of uncertainty levels may miss their quantiles.
    optimum
        Of a boundary: what the best one over the same levels reaches on the rows themselves.
    """

    score_bits: int | None = None
    uncertainty_bits: int | None = None
    level_error: float | None = None
    optimum: Range | None = None


class Shown:
    """What results have in common.

    They say in one line, as text and in a notebook what they are, and are dictionaries and JSON.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {view_of(self).headline(self)}>"

    def _repr_html_(self) -> str:
        return IN_PYTHON["html"]()(self._page(Page(short=True)))

    def summary(self) -> str:
        """Return what the command line prints of it, as text."""
        return self._page(Page()).text()

    def _page(self, page: Page) -> Page:
        """Return a page that shows a result, and says where Python has what it leaves out."""
        from calibkit.words import python_words

        view_of(self).view(self, page)
        for place, part in enumerate(page.parts):
            if isinstance(part, str):
                for option, method in _MORE.items():
                    part = part.replace(option, method)
                page.parts[place] = python_words(part)
        return page

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain dictionaries and lists, as JSON would read it."""
        return msgspec.to_builtins(self)

    def to_json(self) -> bytes:
        """Return the result as canonical JSON: sorted keys, floats that read back exactly."""
        return canonical_json(self.as_dict())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a JSON file, whole or not at all; ``-`` is standard output."""
        from calibkit.files.sinks import write_bytes

        write_bytes(self.to_json(), os.fspath(path))


def _from_above(method: W) -> W:
    """Return a method that does what rooms above this one have given: `calibkit.models.kinds`."""

    @functools.wraps(method)
    def given(*rows: Any, **options: Any) -> Any:
        return IN_PYTHON[method.__name__]()(*rows, **options)

    return cast("W", given)


class Model(Shown, msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What every kind of model has.  Subclasses set `KIND` and `VERSION` and add their own fields."""

    KIND: ClassVar[str] = ""
    VERSION: ClassVar[int] = 1

    kind: str
    version: int
    columns: dict[str, Column]
    provenance: Provenance | None = None
    tags: dict[str, str] = {}

    def check(self) -> None:
        """Raise `ModelError` where the fields contradict each other."""

    def inputs(self) -> dict[str, Column]:
        """Return the columns that it reads when it is applied, by role."""
        return {role: column for role, column in self.columns.items() if role in _READ}

    def makers(self, added: Sequence[str]) -> dict[str, Model]:
        """Return the model that makes each added column: this one, or the part of a bundle."""
        return dict.fromkeys(added, self)

    @_from_above
    def apply(
        self,
        frame: Frame | Array | None = None,
        *,
        score: str | Array | None = None,
        uncertainty: str | Array | None = None,
        probs: str | Array | None = None,
        keep: Names | None = None,
        selected: bool = False,
        add_level: bool = False,
        column: str | None = None,
        overwrite_columns: bool = False,
        key: str | None = None,
        seed: int | None = None,
        on_missing: str = "error",
        max_missing: float | str | None = None,
    ) -> Any:
        """Return every row of a frame, in order, with the model's columns added.

        A frame of polars (also lazy), pandas or pyarrow comes back as one, with the columns and the
        index that it had; a dictionary as one of arrays; a file as a polars frame; anything else as
        a pyarrow table.  An array of scores comes back as an array of the first added column, one
        of class probabilities as one of the calibrated ones, or of alpha0 where nothing calibrates.

        Parameters
        ----------
        frame
            Rows with the columns that the model names (see `columns`), or its scores or class
            probabilities as an array.
        score, uncertainty, probs
            Where such a column is, if not where the model says; or its values, with or without a
            frame.
        keep
            Patterns (shell globs) of the columns to keep; None keeps all.
        selected
            Only the rows with a positive decision.
        add_level
            Of a boundary: also ``level``, the uncertainty level of each row, and of ``mist``
            ``probability``, that of its block.
        column, overwrite_columns
            A name for the first added column; whether it may replace one of that name.
        key, seed
            Of a stochastic boundary: the column whose value decides a row (``"row-number"``: its
            number), and a seed other than the model's.
        on_missing, max_missing
            ``"error"``, or ``"null"`` in the added columns where a value is missing, of this share
            of the rows at most.

        Raises
        ------
        UsageError, DataError
            Columns that are not there; values that are missing or out of range.

        Examples
        --------
        >>> import calibkit as ck
        >>> rows = ck.simulate_posterior(2_000, seed=1)
        >>> model = ck.fit_calibrator(rows, method="platt")
        >>> model.apply(rows.head(3), keep="score").columns
        ['score', 'calibrated']
        """

    @_from_above
    def drift(
        self,
        frame: Frame | None = None,
        *,
        score: str | Array | None = None,
        uncertainty: str | Array | None = None,
        label: str | Array | None = None,
        positive: str | None = None,
        unlabelled: str = "error",
        weight: str | Array | None = None,
        confidence: float = 0.95,
        estimate: bool = False,
        calibrator: Any = None,
        assume: str | None = None,
        threads: int | None = None,
    ) -> Any:
        """Compare new rows with those that a boundary, or those of a bundle, were fitted on.

        Parameters
        ----------
        frame
            The new rows; None: columns are given as arrays, in place of their names.
        score, uncertainty
            Where such a column is, if not where the model says.
        label, positive, unlabelled
            The labels, where there are any, and how they are read.
        weight, confidence
            A column of weights; of the intervals.
        estimate, calibrator, assume
            Whether precision, recall and AUC are estimated without labels, what makes probabilities
            of the scores (a model or its file; None: they are some), and what has not changed:
            ``covariate`` or ``prior``, see docs/drift.md.
        threads
            As of the fits; the result does not depend on it.

        Returns
        -------
        Drift
            Metrics of the new rows beside those of the fit, and how far the rows are from each other.

        Raises
        ------
        UsageError, DataError
            A model that keeps nothing to compare with; columns that are not there; values out of
            range.

        Examples
        --------
        >>> import calibkit as ck
        >>> model = ck.fit_boundary(ck.simulate_posterior(2_000, seed=1), recall=0.5, method="st")
        >>> found = model.drift(ck.simulate_posterior(2_000, seed=2))
        >>> found.metrics.metrics["boundary"]["all"]["psi_score"] < 0.05
        True
        """

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Return the JSON schema of this kind, which other kinds and newer versions do not meet."""
        found = schema_of(cls)
        fields = found["$defs"][cls.__name__]["properties"]
        fields["kind"] = {"const": cls.KIND}
        fields["version"] |= {"minimum": 1, "maximum": cls.VERSION}
        return found

    @classmethod
    def from_json(cls, data: bytes, file: str | None = None) -> Self:
        """Return the model that `data` holds; see `decode`."""
        model = decode(data, file)
        if not isinstance(model, cls):
            raise ModelError(
                f"this is a model of kind {model.kind!r}; a {cls.KIND!r} model was expected",
                file=file,
            )
        return model


def features_of(columns: Iterable[Column]) -> dict[str, Column]:
    """Return columns of features by role: ``feature``, ``feature_2`` and so on."""
    return {
        f"feature_{place + 1}" if place else "feature": column
        for place, column in enumerate(columns)
    }


class _Columns(msgspec.Struct):
    columns: dict[str, Column]


class _Head(msgspec.Struct):
    kind: str
    version: int


def decode(data: bytes, file: str | None = None) -> Model:
    """Return the model that canonical or any other JSON text holds.

    `ModelError` for text that is no model: not JSON, an unknown kind, a newer version, unknown or
    missing fields, values of the wrong type, numbers that contradict each other.
    """
    if len(data) > MOST_BYTES:
        raise ModelError(f"a model file of {len(data)} bytes is not plausible", file=file)
    _refuse_giants(data, file)
    what = "a calibkit model"
    if _METRICS.match(data):
        what += ", but metrics (calibkit gate and diff read them)"
    elif data.startswith(b"ARROW1"):
        what += ", but perhaps a state (calibkit merge reads it)"
    head = decode_as(data, _Head, what, file)
    try:
        if head.kind not in KINDS:
            raise ModelError(
                f"unknown kind of model {head.kind!r}{nearest(head.kind, KINDS)}; "
                f"this version knows {', '.join(sorted(KINDS))}"
            )
        expected: type[Model] = KINDS[head.kind].structure()
        if not 1 <= head.version <= expected.VERSION:
            newest = expected.VERSION
            known = "version 1" if newest == 1 else f"versions 1 to {newest}"
            raise ModelError(
                f"version {head.version} of kind {head.kind!r} is unknown here; this calibkit reads "
                f"{known}: update calibkit, or fit the model again"
            )
        model = msgspec.json.decode(data, type=expected)
        _refuse_repeated(data, model, file)
        _check_counts(model, {})
        model.check()
    except _BROKEN as error:
        said = _WORDS.sub(lambda found: f"one of {found[1].replace('|', ', ')}", str(error))
        raise ModelError(f"a damaged {head.kind!r} model: {said}", file=file) from None
    except ModelError as error:
        error.file = file
        raise
    return model


def _refuse_giants(data: bytes, file: str | None) -> None:
    """Refuse whole numbers beyond the range of floats, which no result has."""
    if _GIANT.search(data):
        raise ModelError("no model or result of calibkit: a number of 300 digits", file=file)


def _refuse_repeated(data: bytes, found: object, file: str | None) -> None:
    """Refuse an object with one key twice, of which readers would take either."""

    def once(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            twice = min(name for name in names if names.count(name) > 1)
            problem = f"a damaged file: the key {twice!r} stands in one object twice"
            raise ModelError(problem, file=file)

    if data != canonical_json(found):  # which is much sooner done
        json.loads(data, object_pairs_hook=once)


def _check_counts(found: object, around: dict[str, float]) -> None:
    """Raise `ModelError` for counts below 0, or of more than there is to count."""
    if isinstance(found, list | dict):
        for one in found.values() if isinstance(found, dict) else found:
            if isinstance(one, msgspec.Struct):
                _check_counts(one, around)
    elif isinstance(found, msgspec.Struct):
        fields = {name: getattr(found, name) for name in found.__struct_fields__}
        own = {name: fields[name] for name in _COUNTS if isinstance(fields.get(name), int | float)}
        counts = around | own
        for part, whole in _WHOLES:
            most = counts.get(whole, math.inf)
            if part in own and not 0 <= own[part] <= most * (1 + _ROUNDING):
                raise ModelError(f"{part!r} is {own[part]}, of {whole!r} {most}")
        if not own.get("rows", 0) >= 0:
            raise ModelError(f"'rows' is {own['rows']}")
        for value in fields.values():
            _check_counts(value, counts)


def column_descriptions(text: str) -> dict[str, Column]:
    """Return the columns that a grid's footer names (an object with the key ``columns``)."""
    return decode_as(text.encode(), _Columns, "what a grid says of its columns").columns


def canonical_json(value: object) -> bytes:
    """Return a structure as a JSON file: sorted keys, indented, floats that read back exactly."""
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2) + b"\n"


def decode_as(data: bytes, structure: type[D], what: str, file: str | None = None) -> D:
    """Return the structure that JSON text holds; `ModelError` says that it is not `what`."""
    try:
        return msgspec.json.decode(data, type=structure)
    except _BROKEN as error:
        raise ModelError(f"this is not {what}: {error}", file=file) from None


def decode_object(data: bytes, file: str | None = None) -> dict[str, Any]:
    """Return any JSON object as a dictionary; `ModelError` for text that is none."""
    _refuse_giants(data, file)
    found = decode_as(data, dict[str, Any], "a JSON object", file)
    try:
        _refuse_repeated(data, found, file)
    except RecursionError as error:
        raise ModelError(f"this is not a JSON object: {error}", file=file) from None
    return found


def schema_of(structure: Any) -> dict[str, Any]:
    """Return the JSON schema of the files that a structure stands for."""
    found = msgspec.json.schema(structure)
    for part in found["$defs"].values():  # some versions of Python leave docstrings indented
        part["description"] = inspect.cleandoc(part.get("description", ""))
    return {"$schema": _SCHEMAS, **found}


def canonical_text(value: object) -> str:
    """Return any plain value as JSON text with sorted keys."""
    return msgspec.json.encode(value, order="sorted").decode()


def load(path: str | os.PathLike[str]) -> Model:
    """Return the model in a file; ``-`` reads standard input.

    Raises
    ------
    UsageError
        No such file, or no permission to read it.
    ModelError
        See `decode`.
    """
    from calibkit.files.formats import suffix_format
    from calibkit.files.paths import read_bytes

    path = os.fspath(path)
    if suffix_format(path) is not None:
        raise UsageError.of(
            path, "looks like a table, not a model; the model comes first, then the rows."
        )
    return decode(read_bytes(path), path)
