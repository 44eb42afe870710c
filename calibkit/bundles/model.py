"""The model that ``bundle`` writes: its parts in the order in which they are applied, and how."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import polars as pl
from msgspec import UNSET, Struct

from calibkit.columns.rows import RowFinder
from calibkit.errors import ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.models.kinds import ACTION, KINDS, PASS, Applier, Reads, Request
from calibkit.models.lineage import model_hash
from calibkit.models.model import Column, Model, canonical_text, decode

#: Names become parts of column names, which every format and database should take.
_NAME = re.compile(r"\w[\w-]*")

#: What calibrators call their result; a name takes its place.
_CALIBRATED = "calibrated"


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model of a bundle; `name` is null where its columns keep their names."""

    model: dict[str, Any]
    name: str | None = None


class Step(Struct, frozen=True):
    """A part of a bundle: a model with the name that was given, if one was.

    The `columns` that it adds have the bundle's name of each, by the model's own; those that it `reads`
    are by role.
    """

    name: str | None
    model: Model
    applier: Applier
    columns: dict[str, str]
    reads: dict[str, Column]

    @property
    def decides(self) -> bool:
        """Whether the part may fire."""
        return self.model.kind == "boundary"

    @property
    def random(self) -> bool:
        """Whether chance, by the hash of a key, decides some rows."""
        return getattr(self.model, "randomise", UNSET) is not UNSET

    @property
    def label(self) -> str:
        """What messages call the part."""
        kind = self.model.kind
        return f"the {kind} without a name" if self.name is None else f"{self.name!r} ({kind})"

    def request(self, whole: Request, made: Iterable[str]) -> Request:
        """Return what the part is asked: options reach the parts that have use of them.

        `made`: the columns of the parts before it.
        """
        elsewhere = {
            role: name
            for role, name in whole.columns.items()
            if role in self.reads and not makes(made, self.reads[role].name)
        }
        key, seed = (whole.key, whole.seed) if self.random else (None, None)
        return replace(whole, columns=elsewhere, key=key, seed=seed)


class BundleModel(Model):
    """Several models in one file.

    Attributes
    ----------
    parts
        Applied in this order; a part reads the columns of those before it, else the input's.
    columns
        What the input has to bring, by role; a second column of one role is ``role_2``.
    """

    KIND: ClassVar[str] = "bundle"
    VERSION: ClassVar[int] = 1

    parts: list[Part]

    def check(self) -> None:
        """Raise `ModelError` where the parts cannot work together, or one of them is damaged."""
        steps = self.steps()
        check_parts(steps)
        check_chain(steps)
        expected = outside_columns(steps)
        if self.columns != expected:
            raise ModelError(
                f"'columns' of a bundle are those that its parts read: {', '.join(expected)}"
            )

    def makers(self, added: Sequence[str]) -> dict[str, Model]:
        """Return the part that makes each column; `action` is nobody's."""
        made = [step.model for step in self.steps() for _ in step.columns]
        return dict(zip(added, made, strict=False))

    def refuse(self, request: Request) -> None:
        """Refuse a column for a role that no part has, or several parts differently; a needless key."""
        for role in request.columns:
            if role not in self.columns:
                raise UsageError(f"no part reads a {role} column of the input; leave --{role} out.")
            if f"{role}_2" in self.columns:
                names = [one.name for key, one in self.columns.items() if _role(key) == role]
                raise UsageError(
                    f"--{role}: the parts read different {role} columns, "
                    f"{', '.join(map(repr, names))}; rename the columns of the input instead."
                )
        if not any(step.random for step in self.steps()):
            request.refuse_key("this bundle")

    def steps(self) -> list[Step]:
        """Return the parts, decoded; refuse one that is no model of this version."""
        found = []
        for place, part in enumerate(self.parts):
            try:
                model = decode(canonical_text(part.model).encode())
            except ModelError as error:
                raise ModelError(f"part {place + 1} of the bundle: {error}") from None
            found.append(step_of(part.name, model))
        return found


def step_of(name: str | None, model: Model) -> Step:
    """Return a model, no bundle, as a part of a bundle.

    A name takes the place of the word ``calibrated`` (``calibrated_low`` becomes ``NAME_low``); other
    columns get it at their end (``decision_NAME``).
    """
    if model.kind == BundleModel.KIND:
        raise ModelError("a bundle holds no bundles: name the models that it was made of")

    def named(column: str) -> str:
        if name is None:
            return column
        if column == _CALIBRATED or column.startswith(f"{_CALIBRATED}_"):
            return name + column.removeprefix(_CALIBRATED)
        return f"{column}_{name}"

    applier: Applier = KINDS[model.kind].applier(model)
    columns = {column: named(column) for column in applier.added}
    return Step(name, model, applier, columns, model.inputs())


def check_parts(steps: Sequence[Step]) -> None:
    """Refuse parts that cannot be one bundle."""
    if not steps:
        raise ModelError("a bundle has at least one part")
    names: set[str] = set()
    for step in steps:
        problem, lower = None, (step.name or "").lower()  # databases do not tell cases apart
        if step.decides and getattr(step.model, "review_thresholds", None):
            problem = (
                f"{step.label} blocks, reviews or passes by itself; a bundle names each action"
            )
        elif step.decides and getattr(step.model, "partition", None):
            problem = f"{step.label} reads several uncertainties; a part of a bundle reads one"
        elif step.name is None:
            if step.decides:
                problem = "a boundary in a bundle needs a name, its action: write NAME=FILE"
        elif not _NAME.fullmatch(step.name):
            problem = f"the name {step.name!r} is not made of letters, digits, '_' and '-'"
        elif lower == PASS:
            problem = f"no part can be called {step.name!r}: that is the action where none fires"
        elif lower in names:
            problem = (
                f"two parts are called {step.name!r} (in upper or lower case); give each its own"
            )
        if problem is not None:
            raise ModelError(problem)
        names.add(lower)
    made: dict[str, str] = {ACTION: "the bundle itself"}
    for step in steps:
        for name in step.columns.values():
            if name in made:
                raise ModelError(
                    f"{made[name]} and {step.label} both add a column {name!r}; give the models "
                    "names that keep their columns apart: NAME=FILE"
                )
            made[name] = step.label
    for step, before in in_turn(steps):
        for column in step.reads.values():
            if column.name in made.keys() - before.keys():
                raise ModelError(
                    f"{step.label} reads the column {column.name!r}, which {made[column.name]} adds "
                    "only then: put the model that makes a column before those that read it, or "
                    "give it another name"
                )


def check_chain(steps: Sequence[Step]) -> None:
    """Refuse a part whose column was made, at its fit, by another model than the bundle's."""
    for step, before in in_turn(steps):
        for column in step.reads.values():
            for name in makes(before, column.name):
                maker = model_hash(before[name].model)
                if column.made_by not in (None, maker):
                    raise ModelError(
                        f"{step.label} was fitted on {name!r} of model {column.made_by}, but in this "
                        f"bundle {before[name].label} makes it, model {maker}; bundle the model it "
                        "was fitted on, or fit it again"
                    )


def in_turn(steps: Iterable[Step]) -> Iterator[tuple[Step, dict[str, Step]]]:
    """Yield each part with the parts before it, by the columns that they make."""
    before: dict[str, Step] = {}
    for step in steps:
        yield step, before
        before |= dict.fromkeys(step.columns.values(), step)


def makes(made: Iterable[str], wanted: str) -> list[str]:
    """Return which of some columns a name or a pattern means."""
    names = list(made)
    return [wanted] if wanted in names else [one for one in names if fnmatchcase(one, wanted)]


def outside_columns(steps: Sequence[Step]) -> dict[str, Column]:
    """Return the columns that no part makes, which the input has to bring, by role."""
    found: dict[str, Column] = {}
    for step, before in in_turn(steps):
        for key, column in step.reads.items():
            role = _role(key)
            alike = [found[other].name for other in found if _role(other) == role]
            if not makes(before, column.name) and column.name not in alike:
                found[f"{role}_{len(alike) + 1}" if alike else role] = column
    return found


def _role(key: str) -> str:
    return key.rpartition("_")[0] or key


class BundleApplier:
    """Adds the columns of each part in turn, then `action`: the first name that fires."""

    def __init__(self, model: BundleModel) -> None:
        self.model = model
        self.steps = model.steps()
        self.own_reads: list[Reads] = []
        self.added = (*(name for step in self.steps for name in step.columns.values()), ACTION)

    def reads(self, source: Source, request: Request) -> Reads:
        """Return the columns that the parts need of the input; refuse options that none has use of."""
        self.model.refuse(request)
        needed: dict[str, str] = {}
        optional: dict[str, None] = {}
        self.own_reads = []
        written: list[str] = []
        for step, made in in_turn(self.steps):
            seen = copy(source)  # it is looked at, not read
            seen.schema = {**source.schema, **dict.fromkeys(made, pl.Float64())}
            try:
                own = step.applier.reads(seen, step.request(request, made))
            except UsageError as error:
                message = f"{step.label}: {error}"
                raise UsageError(message, file=error.file, column=error.column) from None
            self.own_reads.append(own)
            written += [step.columns[name] for name in own.written or step.columns]
            taken = set(needed.values())
            for role, name in own.needed.items():
                if name not in made and name not in taken:
                    needed[role if role not in needed else f"{role} {name}"] = name
            optional.update(dict.fromkeys(name for name in own.optional if name not in made))
        others = tuple(name for name in optional if name not in needed.values())
        return Reads(needed, others, (*written, ACTION), request)

    def values(self, frame: pl.DataFrame, where: RowFinder, reads: Reads) -> list[pl.Series]:
        """Return the columns of all parts, and the action."""
        made = self.made(frame, where)
        action = pl.repeat(PASS, frame.height, dtype=pl.String, eager=True)
        for step in reversed(self.steps):
            if step.decides:
                action = action.set(made[step.columns["decision"]] == 1, str(step.name))
        return [*made.values(), action.alias(ACTION)]

    def made(self, frame: pl.DataFrame, where: RowFinder) -> dict[str, pl.Series]:
        """Return the columns of all parts."""
        made: dict[str, pl.Series] = {}
        for step, own in zip(self.steps, self.own_reads, strict=True):
            seen = frame.with_columns(made.values())
            columns = step.applier.values(seen, where, own)
            for name, values in zip(step.columns.values(), columns, strict=True):
                made[name] = values.alias(name)
        return made


def bundle(
    parts: Sequence[tuple[str | None, Model]], *, tags: Mapping[str, str] | None = None
) -> BundleModel:
    """Return several models as one, applied in this order; tags are copied into it.

    Each model comes with its name; None keeps the names of its columns.  A boundary needs a name: its
    columns become ``decision_NAME`` and ``margin_NAME``, and rows that it selects get the action NAME
    unless an earlier boundary fired.  Parts that cannot be one bundle are a `UsageError`; one that was
    fitted on a column of another model than the one in the bundle is a `ModelError`.
    """
    try:
        steps = [step_of(name, model) for name, model in parts]
        check_parts(steps)
    except ModelError as error:
        raise UsageError(f"{error}.") from None
    check_chain(steps)
    return BundleModel(
        kind=BundleModel.KIND,
        version=BundleModel.VERSION,
        columns=outside_columns(steps),
        parts=[Part(model=step.model.as_dict(), name=step.name) for step in steps],
        tags=dict(tags or {}),
    )


def misread(model: BundleModel) -> list[str]:
    """Return what may not be meant: a part reads of the input what a part before it has renamed."""
    found, renamed = [], dict[str, tuple[str, str]]()
    outside = {column.name for column in model.columns.values()}
    for step in model.steps():
        for column in step.reads.values():
            if column.name in outside & renamed.keys():
                label, name = renamed[column.name]
                found.append(
                    f"{step.label} reads the input's column {column.name!r}, not what {label} adds, "
                    f"{name!r}: leave that name out if it was meant to"
                )
        renamed |= {own: (step.label, name) for own, name in step.columns.items() if own != name}
    return found
