"""Applying a model: every row kept, in order, with the model's columns added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.boundary.decide import decide, draw, probabilities
from calibkit.boundary.model import BoundaryModel
from calibkit.bounds import Bound
from calibkit.columns import RowFinder, numeric_column, read_rows
from calibkit.errors import FIRST_ROWS, DataError, UsageError, nearest
from calibkit.models import Column, Model
from calibkit.rows import is_text
from calibkit.sources import Source

Floats = NDArray[Any]


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
        (`ROW_NUMBER`: the number of the row, from 1), and a seed other than the model's.
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
    """The rows with the added columns, which these are, and what the user should be told."""

    frame: pl.DataFrame
    added: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Plan:
    """What an application reads and adds, settled before any row is read."""

    used: dict[str, str]
    kept: list[str]
    added: list[str]


#: The key that is no column but the number of the row.
ROW_NUMBER = "row-number"


def added_columns(model: Model) -> tuple[str, ...]:
    """Return the names of the columns that a model adds."""
    assert isinstance(model, BoundaryModel)
    if model.randomise is msgspec.UNSET:
        return ("decision", "margin")
    return ("decision", "margin", "decision_probability")


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
    keys = [] if spec.key in (None, ROW_NUMBER) else [str(spec.key)]
    names = list(dict.fromkeys([*plan.used.values(), *keys, *plan.kept]))
    rows = read_rows(source, names)
    arrays, present, warnings = _arrays(model, rows.frame, rows.where, plan, spec)
    assert isinstance(model, BoundaryModel)
    columns = arrays["score"], arrays.get("uncertainty")
    decision, margin = decide(model, *columns)
    added = [pl.Series(plan.added[1], margin, nan_to_null=True)]
    if model.randomise is not msgspec.UNSET and model.seed is not msgspec.UNSET:
        chance = probabilities(model, *columns)
        row_keys = _keys(rows.frame, rows.where, spec, present)
        decision = draw(chance, row_keys, model.seed if spec.seed is None else spec.seed)
        added.append(pl.Series(plan.added[2], chance))
    added = [_placed(values, present) for values in (pl.Series(plan.added[0], decision), *added)]
    frame = rows.frame.select(plan.kept).with_columns(added)
    if spec.selected:
        frame = frame.filter(pl.col(plan.added[0]) == 1)
    return Applied(frame, tuple(plan.added), (*source.warnings, *warnings))


def plan_application(model: Model, source: Source, spec: ApplySpec) -> _Plan:
    """Return which columns are read, kept and added; refuse what cannot work before reading."""
    used: dict[str, str] = {}
    for role in ("score", "uncertainty"):
        if role in model.columns:
            used[role] = spec.columns.get(role, model.columns[role].name)
        elif role in spec.columns:
            raise UsageError(f"the model uses no {role} column; leave --{role} out.")
    for role, name in used.items():
        role_named = f"--{role}" if role in spec.columns else f"the model's {role} (see --{role})"
        source.require([name], role_named)
    kept = list(source.schema)
    if spec.keep is not None:
        kept = _matching(source, spec.keep)
    added = list(added_columns(model))
    _check_key(model, source, spec)
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
    return _Plan(used, [name for name in kept if name not in added], added)


def _check_key(model: Model, source: Source, spec: ApplySpec) -> None:
    random = isinstance(model, BoundaryModel) and model.randomise is not msgspec.UNSET
    if random and spec.key is None:
        raise UsageError(
            "a stochastic boundary decides some rows by the hash of a key: name a column that "
            f"identifies a row by --key, or use --key {ROW_NUMBER}."
        )
    if not random and (spec.key is not None or spec.seed is not None):
        raise UsageError("this model decides without chance; leave --key and --seed out.")
    if spec.key is None or spec.key == ROW_NUMBER:
        return
    source.require([spec.key], "--key")
    kind = source.schema[spec.key]
    if not (kind.is_integer() or is_text(kind)):
        file = source.parts[0].path
        raise DataError(
            f"{file}: column {spec.key!r}: type {kind} is no key; a key (--key) is an integer or text, "
            "which read the same everywhere",
            file=file,
            column=spec.key,
        )


def _keys(
    frame: pl.DataFrame, where: RowFinder, spec: ApplySpec, present: NDArray[np.bool_] | None
) -> pl.Series:
    """Return the keys of the rows where all values are present."""
    if spec.key == ROW_NUMBER:
        keys = pl.int_range(1, frame.height + 1, eager=True)
    else:
        keys = frame[str(spec.key)]
    if present is not None:
        keys = keys.filter(pl.Series(present))
        where = RowFinder(where.source, np.flatnonzero(present))
    if keys.null_count():
        where.refuse(keys, keys.is_null().to_numpy(), "no key (null)", "give every row a key")
    return keys


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


def _arrays(
    model: Model, frame: pl.DataFrame, where: RowFinder, plan: _Plan, spec: ApplySpec
) -> tuple[dict[str, Floats], NDArray[np.bool_] | None, list[str]]:
    """Return the used columns, in the dtypes of the fit, of the rows where all are present."""
    columns = {role: frame[name] for role, name in plan.used.items()}
    where = replace(where, remedy="write null for them by --on-missing null")
    present = None if spec.on_missing == "error" else _present(columns)
    if present is None:
        return (
            {role: _numbers(model, role, values, where) for role, values in columns.items()},
            (None),
            [],
        )
    lost = int(np.count_nonzero(~present))
    if spec.max_missing is not None:
        allowed = spec.max_missing
        if lost * allowed.denominator > allowed.numerator * present.size:
            file, first = where.source.locate(np.flatnonzero(~present)[:FIRST_ROWS].tolist())
            raise DataError(
                f"{file}: {lost} of {present.size} rows lack a value (first: row "
                f"{', '.join(map(str, first))}), more than --max-missing {allowed}; fill these "
                "rows, or allow a larger share",
                rows=lost,
                file=file,
                first_rows=first,
            )
    rows = np.flatnonzero(present)
    finder = RowFinder(where.source, rows)
    arrays = {
        role: _numbers(model, role, values.filter(pl.Series(present)), finder)
        if rows.size
        else np.empty(0, np.float64)
        for role, values in columns.items()
    }
    warning = f"{lost} of {present.size} rows lack a value: null in the added columns"
    return arrays, present, [warning]


def _present(columns: dict[str, pl.Series]) -> NDArray[np.bool_] | None:
    """Return where all columns have a value, or None where no row lacks one."""
    present = None
    for values in columns.values():
        lacks = values.is_null()
        if values.dtype.is_float():
            lacks = lacks | values.is_nan().fill_null(False)
        if lacks.any():
            here = ~lacks.to_numpy()
            present = here if present is None else present & here
    return present


def _numbers(model: Model, role: str, values: pl.Series, where: RowFinder) -> Floats:
    column: Column = model.columns[role]
    probability = role == "score" and column.scale in (None, "probability")
    array = numeric_column(
        values,
        where,
        finite=role != "score",
        low=0.0 if probability else None,
        high=1.0 if probability else None,
        advice="the model was fitted on probabilities, which lie in [0, 1]: name their column by "
        "--score, or fit on these scores with --scale logit or --scale raw",
    )
    if column.dtype == "float32":
        return array.astype(np.float32, copy=False)
    return array


def _placed(values: pl.Series, present: NDArray[np.bool_] | None) -> pl.Series:
    """Return values spread over all rows, null where a value was missing."""
    if present is None:
        return values
    place = np.cumsum(present) - 1
    index = pl.Series(np.where(present, place, 0)).set(pl.Series(~present), None)
    return (
        values.gather(index)
        if len(values)
        else pl.Series(values.name, [None] * present.size, dtype=values.dtype)
    )
