"""Applying a model: every row kept, in order, with the model's columns added.

What a kind of model reads and computes is its `Applier`; everything else is the same for all kinds
and stands here: which columns are kept, names that clash, rows that lack a value.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.selectors import by_name

from calibkit.errors import DataError, UsageError, nearest
from calibkit.files.sources import Source
from calibkit.makers import check_makers, model_hash, read_makers
from calibkit.maths.bounds import Bound
from calibkit.models import Column, Model
from calibkit.rows.columns import RowFinder, numeric_column
from calibkit.rows.gaps import Gaps, placed, present_in

Floats = NDArray[Any]

#: The column of a bundle that says which decision fired first, and what it says where none did.
ACTION = "action"
PASS = "pass"

#: Where each kind's applier is defined: a class that is made from a model.
APPLIERS = {
    "alpha": "calibkit.raters.application:AlphaApplier",
    "boundary": "calibkit.boundary.application:BoundaryApplier",
    "bundle": "calibkit.bundles.application:BundleApplier",
    "calibrator": "calibkit.calibrators.application:calibrator_applier",
    "hetcal": "calibkit.hetcal.application:HetcalApplier",
    "vad": "calibkit.vad.application:VadApplier",
}


@dataclass(frozen=True, kw_only=True)
class ApplySpec:
    """How a model is applied.

    Attributes
    ----------
    columns
        Where a role's column is, if not where the model says: ``{"score": "p"}``.
    keep
        Patterns (shell globs) of the input columns to keep; None keeps all.
    selected
        Only rows with a positive decision.
    rename
        A name for the model's first added column.
    overwrite
        Whether added columns may replace columns of the same name.
    key, seed
        Of a stochastic boundary: the column whose value decides a row together with the seed
        (``row-number``: the number of the row, from 1), and a seed other than the model's.
    on_missing
        ``error`` or ``null``: null in the added columns where a value is missing.
    max_missing
        The largest share of rows that may lack a value under ``null``.
    """

    columns: dict[str, str]
    keep: Sequence[str] | None = None
    selected: bool = False
    rename: str | None = None
    overwrite: bool = False
    key: str | None = None
    seed: int | None = None
    on_missing: str = "error"
    max_missing: Bound | None = None


@dataclass(frozen=True)
class Applied:
    """The rows with the added columns.

    Attributes
    ----------
    frame
        The rows.
    added
        The names of the added columns.
    warnings
        What the user should be told.
    made_by
        The hash of the model that made a column, where it is known.
    chosen
        Which rows of the source these are, from 0; None: all.
    """

    frame: pl.DataFrame
    added: tuple[str, ...]
    warnings: tuple[str, ...]
    made_by: dict[str, str]
    chosen: NDArray[np.int64] | None


@dataclass(frozen=True)
class Reads:
    """The columns that an application reads.

    Attributes
    ----------
    needed
        The column of each role without whose value a row has no result.
    optional
        Columns whose missing values mean something to the model, or which it checks itself.
    """

    needed: dict[str, str]
    optional: tuple[str, ...] = ()


class Applier(Protocol):
    """What one model does with rows.

    Attributes
    ----------
    added
        The names of the columns it adds; the first can be renamed.
    """

    added: tuple[str, ...]

    def reads(self, source: Source, spec: ApplySpec) -> Reads:
        """Return the columns to read, after refusing options and columns that do not fit."""

    def values(
        self, frame: pl.DataFrame, where: RowFinder, reads: Reads, spec: ApplySpec
    ) -> list[pl.Series]:
        """Return the added columns of rows that have every needed value, in the order of `added`.

        `where` finds these rows in the inputs; there may be none.
        """


@dataclass(frozen=True)
class Application:
    """A model about to be applied, settled before any row is read.

    Attributes
    ----------
    applier, reads
        What the model does, and with which columns.
    kept
        The columns of the input that stay.
    added
        The names of the added columns.
    made_by
        The hash of the model that made a column of the result, where it is known.
    chosen
        Which rows of the result ``--selected`` keeps.
    """

    applier: Applier
    reads: Reads
    kept: list[str]
    added: list[str]
    made_by: dict[str, str]
    chosen: pl.Expr | None

    @property
    def read(self) -> list[str]:
        """The columns of the inputs that are read."""
        needed = [*self.reads.needed.values(), *self.reads.optional, *self.kept]
        return list(dict.fromkeys(needed))


def applier_of(model: Model) -> Applier:
    """Return what a model does with rows.

    Raises
    ------
    UsageError
        For a kind that is not applied to rows.
    """
    if model.kind not in APPLIERS:
        raise UsageError(f"a model of kind {model.kind!r} is not applied to rows.")
    module, name = APPLIERS[model.kind].split(":")
    made: Applier = getattr(importlib.import_module(module), name)(model)
    return made


def apply_model(model: Model, source: Source, spec: ApplySpec) -> Applied:
    """Return the rows of a source with a model's columns added.

    Raises
    ------
    UsageError
        A column that is not there, or an added column that exists already.
    DataError
        Missing values (unless they become null), values out of range or of the wrong type.
    """
    plan = plan_application(model, source, spec)
    made = apply_rows(plan, source.read(plan.read, rechunk=False), RowFinder(source), spec)
    warnings = [*source.warnings, *missing_note(made.gaps, source, spec)]
    return Applied(made.frame, tuple(plan.added), tuple(warnings), plan.made_by, made.chosen)


@dataclass(frozen=True)
class AppliedRows:
    """Rows with the added columns, which of them lack a value, and which were chosen (None: all)."""

    frame: pl.DataFrame
    gaps: Gaps
    chosen: NDArray[np.int64] | None = None


def apply_rows(
    plan: Application, rows: pl.DataFrame, where: RowFinder, spec: ApplySpec
) -> AppliedRows:
    """Return rows, all of the inputs or a batch of them, with the added columns.

    Parameters
    ----------
    plan
        From `plan_application`.
    rows
        The columns ``plan.read``.
    where
        Finds a row in the inputs.
    spec
        How the model is applied.

    Raises
    ------
    DataError
        See `apply_model`.
    """
    frame, present = rows, None
    where = replace(where, remedy="write null for them by --on-missing null")
    gaps = Gaps()
    if spec.on_missing == "null":
        present = present_in([frame[name] for name in plan.reads.needed.values()])
    if present is not None:
        gaps = Gaps.of(where.numbers(np.flatnonzero(~present)))
        frame = frame.filter(pl.Series(present))
        where = replace(where, kept=np.flatnonzero(present))
    values = plan.applier.values(frame, where, plan.reads, spec)
    added = [
        placed(column.alias(name), present) for name, column in zip(plan.added, values, strict=True)
    ]
    # In one step: there may be no kept column.  As columns: a name may look like a pattern.
    result = rows.select(*(rows[name] for name in plan.kept), *added)
    if spec.selected:
        assert plan.chosen is not None  # `plan_application` refused models that decide nothing
        chosen = result.select(plan.chosen.fill_null(False)).to_series()
        return AppliedRows(result.filter(chosen), gaps, np.flatnonzero(chosen))
    return AppliedRows(result, gaps)


def plan_application(model: Model, source: Source, spec: ApplySpec) -> Application:
    """Return which columns are read, kept and added; refuse what cannot work before reading."""
    applier = applier_of(model)
    reads = applier.reads(source, spec)
    check_makers(model, spec.columns, source)
    kept = list(source.schema) if spec.keep is None else _matching(source, spec.keep)
    added = list(applier.added)
    if spec.rename is not None:
        added[0] = spec.rename
    if len(set(added)) < len(added):
        raise UsageError(f"--column {spec.rename} is the name of another added column.")
    clash = [name for name in added if name in kept]
    if clash and not spec.overwrite:
        raise UsageError(
            f"the input has a column {clash[0]!r} already; rename the added one by --column, leave "
            "the old one out by --keep, or replace it by --overwrite-columns.",
            column=clash[0],
        )
    chosen = _chosen(applier, added)
    if spec.selected and chosen is None:
        raise UsageError(f"--selected: a model of kind {model.kind!r} decides nothing.")
    kept = [name for name in kept if name not in added]
    makers = read_makers(source).agreed
    made_by = {name: makers[name] for name in kept if name in makers}
    made_by |= {name: model_hash(one) for name, one in model.makers(added).items()}
    return Application(applier, reads, kept, added, made_by, chosen)


def _chosen(applier: Applier, added: Sequence[str]) -> pl.Expr | None:
    """Return which rows are selected: those with a positive decision, or an action but pass."""
    if applier.added[0] == "decision":
        return by_name(added[0]).as_expr() == 1
    if applier.added[-1] == ACTION and any(one.startswith("decision_") for one in applier.added):
        return by_name(added[-1]).as_expr() != PASS
    return None


def find_columns(
    model: Model, source: Source, spec: ApplySpec, roles: Sequence[str]
) -> dict[str, str]:
    """Return the column of each role that a model uses: where the user says, or as the model does.

    Raises
    ------
    UsageError
        A column that is not there, or a column for a role that the model does not use.
    """
    used: dict[str, str] = {}
    for role in roles:
        if role in model.columns:
            used[role] = spec.columns.get(role, model.columns[role].name)
            said = f"--{role}" if role in spec.columns else f"the model's {role} (see --{role})"
            source.require([used[role]], said)
    for role in spec.columns:
        if role not in used:
            raise UsageError(f"the model uses no {role} column; leave --{role} out.")
    return used


def as_fitted(
    column: Column, values: pl.Series, where: RowFinder, *, finite: bool = True
) -> Floats:
    """Return values as numbers in the dtype of the fit; probabilities are checked to be some.

    Raises
    ------
    DataError
        Missing values, values of another type or out of range.
    """
    if not values.len():
        return np.empty(0, np.float32 if column.dtype == "float32" else np.float64)
    probability = column.scale == "probability"
    array = numeric_column(
        values,
        where,
        finite=finite,
        low=0.0 if probability else None,
        high=1.0 if probability else None,
        advice="the model was fitted on probabilities, which lie in [0, 1]: name their column by "
        "--score, or fit on these scores with --scale logit or --scale raw",
    )
    return array.astype(np.float32, copy=False) if column.dtype == "float32" else array


def _matching(source: Source, patterns: Sequence[str]) -> list[str]:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in source.schema):
            raise UsageError(
                f"--keep {pattern!r} matches no column{nearest(pattern, source.schema)}; "
                f"the columns are {', '.join(map(repr, source.schema))}."
            )
    return [
        name for name in source.schema if any(fnmatchcase(name, pattern) for pattern in patterns)
    ]


def too_many(gaps: Gaps, source: Source, spec: ApplySpec) -> bool:
    """Tell whether more rows lack a value than are allowed."""
    most = spec.max_missing
    return most is not None and gaps.count * most.denominator > most.numerator * source.rows


def missing_note(gaps: Gaps, source: Source, spec: ApplySpec) -> list[str]:
    """Return what the user should be told of rows that lack a value.

    Parameters
    ----------
    gaps
        These rows.
    source, spec
        The inputs, and how many of their rows may lack a value.

    Raises
    ------
    DataError
        Where there are more than are allowed.
    """
    lost = gaps.count
    if not lost:
        return []
    if too_many(gaps, source, spec):
        file, first = source.locate(gaps.first)
        raise DataError(
            f"{file}: {lost} of {source.rows} rows lack a value (first: row "
            f"{', '.join(map(str, first))}), more than --max-missing {spec.max_missing}; fill these "
            "rows, or allow a larger share",
            rows=lost,
            file=file,
            first_rows=first,
        )
    return [f"{lost} of {source.rows} rows lack a value: null in the added columns"]
