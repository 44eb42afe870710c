"""The rows of an evaluation: every column that its options need, read together and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.apply import ApplySpec, applier_of
from calibkit.bins.grid_table import GridTable, is_grid_table, read_grid_table
from calibkit.errors import DataError, ModelError, UsageError
from calibkit.files.sources import Source, open_source
from calibkit.makers import check_makers
from calibkit.metrics.cells import Cells, place
from calibkit.metrics.spec import EvaluateSpec
from calibkit.models import load
from calibkit.rows.columns import (
    ColumnOptions,
    Condensing,
    ScoreRows,
    read_score_rows,
    resolve,
    score_column,
)
from calibkit.rows.labels import label_column
from calibkit.rows.numeric import numeric_column
from calibkit.rows.patterns import match_columns
from calibkit.rows.rows import RowFinder, missing_mask
from calibkit.rows.segments import Segments, read_segments
from calibkit.rows.weights import in_units

Floats = NDArray[Any]

#: The score under which the decisions of ``--boundary`` stand.
BOUNDARY = "boundary"


@dataclass(frozen=True, kw_only=True)
class EvaluateRows:
    """The rows of an evaluation.

    Attributes
    ----------
    scores
        The scores by name, the baseline first.
    label, weight, group
        As in `calibkit.metrics.views.Sample`; weights are rescaled by ``--prevalence`` already.
    top
        What ``--top`` ranks rows by.
    segments
        The values of the ``--by`` column.
    decision
        The name under which decisions are reported, and the decisions.
    cells
        The cell of each row in the grid.
    base_rate
        The share of positives among all rows.
    warnings, notes
        What the user has to be told, and what a summary should say.
    condensing
        How many rows each of these stands for, where equal rows were counted.
    """

    scores: dict[str, Floats]
    label: NDArray[np.uint8]
    weight: NDArray[np.float64] | None
    group: NDArray[np.int64] | None
    top: Floats | None
    segments: Segments | None
    decision: tuple[str, Floats] | None
    cells: Cells | None
    base_rate: float
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    condensing: Condensing | None = None

    @property
    def rows(self) -> int:
        """How many rows there are, whatever they weigh."""
        return int(self.label.size if self.condensing is None else self.condensing.times.sum())


def columns_used(source: Source, spec: EvaluateSpec) -> dict[str, str]:
    """Return the column of each role that an evaluation reads."""
    if spec.probs:
        found = {}
        for pattern in spec.probs:
            for column in match_columns(source, pattern, "--probs").columns:
                found[f"{pattern} ({column})"] = column
        if spec.votes is not None:
            votes = match_columns(source, spec.votes.counts, "--counts")
            found |= {f"votes ({column})": column for column in votes.columns}
            found |= spec.votes.columns(source)
        else:
            source.require([spec.columns.label], "--label")
            found["label"] = spec.columns.label
        return found | ({"by": spec.by} if spec.by else {})
    options = resolve(
        source, replace(spec.columns, uncertainty=None), label=True, uncertainty=False
    )
    found = {"score": options.score, "label": options.label}
    if options.weight is not None:
        found["weight"] = options.weight
    for role, one in _beside(source, spec).items():
        for number, column in enumerate(one.columns, 1):
            found[f"{role} {number}" if len(one.columns) > 1 else role] = column
    return found


@dataclass(frozen=True)
class _Beside:
    """Columns that are read beside score, label and weight, and what makes something of them."""

    columns: list[str]
    make: Callable[[pl.DataFrame, RowFinder], Any]


def read_evaluate_rows(source: Source, spec: EvaluateSpec) -> EvaluateRows:
    """Read and check the columns that an evaluation needs.

    Raises
    ------
    UsageError
        A column, a model or a grid that is not there or does not fit.
    ModelError
        A model that does not make one decision.
    DataError
        Values that are missing, out of range or of the wrong type.
    """
    return rows_of(*read_columns(source, spec), spec)


def read_columns(source: Source, spec: EvaluateSpec) -> tuple[ScoreRows, dict[str, Any]]:
    """Return the first score, label and weight, and what is made of the columns of each role.

    Of a window of rows groups have no numbers yet: they are the column as it is.
    """
    options = replace(spec.columns, uncertainty=None)
    beside = _beside(source, spec)
    others = [name for one in beside.values() for name in one.columns]
    rows = read_score_rows(
        source, options, uncertainty=False, positive_must_occur=False, others=others
    )
    where, frame = rows.where, rows.others if rows.others is not None else pl.DataFrame()
    assert where is not None  # `read_score_rows` finds its rows
    return rows, {role: one.make(frame, where) for role, one in beside.items()}


def rows_of(rows: ScoreRows, made: Mapping[str, Any], spec: EvaluateSpec) -> EvaluateRows:
    """Return the rows of an evaluation from what `read_columns` made of the inputs."""
    assert rows.label is not None  # `read_score_rows` reads labels
    scores = {spec.scores[0]: rows.score, **made["scores"]}
    weight = _reweighted(rows, spec)
    top = scores[spec.scores[0]] if spec.tops and made["top"] is None else made["top"]
    return EvaluateRows(
        scores=scores,
        label=rows.label,
        weight=weight,
        group=made["groups"],
        top=top,
        segments=made["by"],
        decision=made["decision"],
        cells=made["grid"],
        base_rate=_base_rate(rows.label, weight),
        warnings=rows.warnings,
        notes=rows.notes,
        condensing=rows.condensing,
    )


def _beside(source: Source, spec: EvaluateSpec) -> dict[str, _Beside]:
    """Return what is read beside the first score, by role."""
    scale, more = spec.columns.scale, list(spec.scores[1:])
    source.require(more, "--score")

    def scores(frame: pl.DataFrame, where: RowFinder) -> dict[str, Floats]:
        return {name: score_column(frame[name], where, scale) for name in more}

    return {
        "scores": _Beside(more, scores),
        "top": _one(
            source, "--top-by", spec.top_by, lambda c, where: numeric_column(c, where, finite=False)
        ),
        "by": _one(source, "--by", spec.by, read_segments),
        "groups": _one(source, "--groups", spec.groups, _groups),
        "decision": _decisions(source, spec),
        "grid": _grid(source, spec),
    }


def _one(
    source: Source, option: str, name: str | None, make: Callable[[pl.Series, RowFinder], Any]
) -> _Beside:
    """Return what is made of one column, None where it is not named."""
    if name is None:
        return _Beside([], lambda _frame, _where: None)
    source.require([name], option)
    return _Beside([name], lambda frame, where: make(frame[name], where))


def _groups(column: pl.Series, where: RowFinder) -> NDArray[np.int64] | pl.Series:
    """Return the group of each row, numbered by value: there may be millions."""
    absent = missing_mask(column, empty=True)
    if absent is not None:
        where.refuse(column, absent, "no value", f"fill these rows, or {where.remedy}")
    return numbered(column) if where.source.whole else column


def numbered(column: pl.Series) -> NDArray[np.int64]:
    """Return the place of each value among the distinct ones."""
    found: NDArray[np.int64] = column.rank("dense").cast(pl.Int64).to_numpy() - 1
    return found


def _decisions(source: Source, spec: EvaluateSpec) -> _Beside:
    """Return what decides: a column, a model, or nothing."""
    if spec.decision is not None:
        name = spec.decision

        def given(column: pl.Series, where: RowFinder) -> tuple[str, Floats]:
            return name, label_column(column, where)[0]

        return _one(source, "--decision", name, given)
    if spec.boundary is None:
        return _Beside([], lambda _frame, _where: None)
    named = spec.boundary
    model, file = (load(named), named) if isinstance(named, str) else (named, "--boundary")
    applier = applier_of(model)
    if model.kind == "bundle":
        raise ModelError(
            "a bundle decides more than one thing: apply it, and judge a decision of it by "
            "--decision decision_NAME",
            file=file,
        )
    if applier.added[0] != "decision":
        raise ModelError(f"a model of kind {model.kind!r} decides nothing", file=file)
    if "decision_probability" in applier.added:
        raise UsageError(
            f"{file}: a stochastic boundary decides by a key: apply it with --key, and "
            "judge its decisions by --decision decision.",
            file=file,
        )
    elsewhere = spec.columns.uncertainty
    moved = elsewhere is not None and "uncertainty" in model.columns
    apply = ApplySpec(columns={"uncertainty": str(elsewhere)} if moved else {})
    reads = applier.reads(source, apply)
    check_makers(model, apply.columns, source)

    def decide(frame: pl.DataFrame, where: RowFinder) -> tuple[str, Floats]:
        return BOUNDARY, applier.values(frame, where, reads, apply)[0].to_numpy()

    return _Beside([*reads.needed.values(), *reads.optional], decide)


def _grid(source: Source, spec: EvaluateSpec) -> _Beside:
    """Return what places rows in the cells of the grid."""
    if spec.grid is None:
        return _Beside([], lambda _frame, _where: None)
    table = open_source([spec.grid]) if isinstance(spec.grid, str) else spec.grid
    if not is_grid_table(table):
        file = table.parts[0].path
        raise UsageError(f"{file}: is no table of `calibkit bin`.", file=file)
    found = read_grid_table(table, ColumnOptions())
    score = spec.grid_score or found.columns["score"].name
    source.require([score], "--grid-score")
    spread = _spread(source, spec, found)

    def cells(frame: pl.DataFrame, where: RowFinder) -> Cells:
        scores = numeric_column(frame[score], where, finite=False)
        spreads = None if spread is None else numeric_column(frame[spread], where)
        return place(found.grid, scores, spreads)

    return _Beside([score] if spread is None else [score, spread], cells)


def _spread(source: Source, spec: EvaluateSpec, found: GridTable) -> str | None:
    """Return the uncertainty column of a grid; None where it has one level."""
    if found.grid.shape[0] == 1:
        return None
    made_from = found.columns.get("uncertainty")
    name = spec.columns.uncertainty or (made_from.name if made_from else "uncertainty")
    source.require([name], "the grid's uncertainty (see --uncertainty)")
    return name


def _reweighted(rows: ScoreRows, spec: EvaluateSpec) -> NDArray[np.float64] | None:
    """Return the weights, with classes rescaled to the prevalence asked for.

    The sum of weights stays what it was.
    """
    if spec.settings.prevalence is None or rows.label is None:
        return rows.weight
    share, target = _base_rate(rows.label, rows.weight), float(spec.settings.prevalence)
    if not 0.0 < share < 1.0:
        raise DataError("--prevalence reweights two classes, but the rows have only one.")
    factors = np.array([(1.0 - target) / (1.0 - share), target / share])
    rescaled: NDArray[np.float64] = factors[rows.label]
    return rescaled if rows.weight is None else rescaled * rows.weight


def _base_rate(label: NDArray[np.uint8], weight: NDArray[np.float64] | None) -> float:
    """Return the share of positive rows, which does not depend on the order of rows."""
    if weight is None:
        return int(np.count_nonzero(label)) / label.size
    units, _ = in_units(weight, label)
    return int(units[label == 1].sum()) / int(units.sum())
