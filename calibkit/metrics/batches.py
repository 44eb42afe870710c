"""Rows of an evaluation that do not fit, or that are a shard of them: counted, merged, evaluated."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import polars as pl

from calibkit.bins.grid_table import GridTable, read_grid_table
from calibkit.errors import UsageError
from calibkit.files.sources import Source, open_source
from calibkit.makers import model_hash
from calibkit.memory import Memory
from calibkit.metrics.cells import Cells
from calibkit.metrics.rows import (
    BOUNDARY,
    EvaluateRows,
    columns_used,
    numbered,
    read_columns,
    read_evaluate_rows,
    rows_of,
)
from calibkit.metrics.spec import EvaluateSpec
from calibkit.models import Model, load
from calibkit.rows.columns import ColumnOptions, ScoreRows
from calibkit.rows.segments import read_segments
from calibkit.summaries.plain import as_plain, from_plain
from calibkit.summaries.score_batches import Reading, rows_within, summarise_scores
from calibkit.summaries.score_states import score_state, source_of, summary_of
from calibkit.summaries.states import State

KIND = "evaluate"

#: How a further score is called among the columns that are counted.
_SCORE = "score "


@dataclass(frozen=True)
class StoredSpec(EvaluateSpec):
    """What to evaluate, as a state holds it: names stand for a model and a grid."""

    boundary: str | None = None
    grid: str | None = None


@dataclass(frozen=True, kw_only=True)
class EvaluateProblem:
    """What makes metrics of the rows of all shards.

    Attributes
    ----------
    spec
        What to evaluate; a model and a grid stand in it without their paths.
    boundary, grid
        The hashes of the model that decides and of the grid whose cells are taken.
    shape
        Uncertainty levels and score bins of the grid.
    """

    spec: StoredSpec
    boundary: str | None = None
    grid: str | None = None
    shape: tuple[int, int] | None = None


def evaluate_rows_within(
    source: Source, spec: EvaluateSpec, memory: Memory | None = None
) -> EvaluateRows:
    """Return the rows of an evaluation, counted where they do not fit.

    Raises
    ------
    UsageError, DataError
        As `calibkit.metrics.rows.read_evaluate_rows`.
    ResourceError
        Rows that do not fit, and options that need them as they are.
    """
    if memory is None or source.rows <= memory.entries:
        return read_evaluate_rows(source, spec)
    reading = _reading(source, spec)
    if spec.settings.prevalence is not None:  # which rounds the weight of each row
        reading = replace(reading, needs_each="--prevalence")
    rows = rows_within(source, reading, memory)
    return _evaluate_rows(rows, spec, _shape(spec))


def evaluate_state(source: Source, spec: EvaluateSpec, memory: Memory) -> State:
    """Return the state of the rows of a shard; errors as `evaluate_rows_within`."""
    if spec.probs:
        raise UsageError("--partial goes with scores, not with class probabilities or votes.")
    summary = summarise_scores(source, _reading(source, spec), memory)
    settings = replace(spec.settings, threads=1)
    model, table = _model(spec), _table(spec)
    said = {one.name: getattr(spec, one.name) for one in fields(EvaluateSpec)}
    said["boundary"] = None if spec.boundary is None else BOUNDARY
    said["grid"] = None if spec.grid is None else "grid"
    unnamed = StoredSpec(**{**said, "settings": settings})
    problem = EvaluateProblem(
        spec=unnamed,
        boundary=None if model is None else model_hash(model),
        grid=None if table is None else table.fingerprint,
        shape=None if table is None else table.grid.shape,
    )
    return score_state(KIND, {"problem": as_plain(problem)}, summary)


def merged_rows(state: State, memory: Memory, threads: int) -> tuple[EvaluateRows, EvaluateSpec]:
    """Return the rows of a state, and what to evaluate of them.

    Raises
    ------
    ModelError
        For a state of something else.
    ResourceError
        Rows that do not fit, and options that need them as they are.
    """
    problem = from_plain(state.header.options.get("problem"), EvaluateProblem, state.path)
    spec = replace(problem.spec, settings=replace(problem.spec.settings, threads=threads))
    rows = summary_of(state).rows(source_of(state), memory)
    if needs_each(spec) is not None:
        rows.need_each(str(needs_each(spec)))
    return _evaluate_rows(rows, spec, problem.shape), spec


def needs_each(spec: EvaluateSpec) -> str | None:
    """Return the option that needs every row as it is, if one does."""
    for option, given in (
        ("--groups", spec.groups),
        ("--weight-kind sampling", spec.settings.weight_kind == "sampling"),
        ("--prevalence (its intervals)", spec.intervals and spec.settings.prevalence),
    ):
        if given:
            return option
    return None


def _reading(source: Source, spec: EvaluateSpec) -> Reading:
    probability = spec.columns.scale == "probability"
    others = {_SCORE + name: probability for name in spec.scores[1:]}
    if spec.top_by is not None:
        others["top"] = False
    return Reading(
        columns=list(dict.fromkeys(columns_used(source, spec).values())),
        read=partial(_read_window, spec=spec),
        needs_each=needs_each(spec),
        others=others,
        threads=spec.settings.threads,
    )


def _read_window(source: Source, spec: EvaluateSpec) -> ScoreRows:
    """Return score, label and weight of a window, and beside them what is made of other columns."""
    rows, made = read_columns(source, spec)
    columns: dict[str, Any] = {_SCORE + name: score for name, score in made["scores"].items()}
    if made["top"] is not None:
        columns["top"] = made["top"]
    if made["by"] is not None:
        columns["by"] = pl.Series(made["by"].names, dtype=pl.String).gather(made["by"].code)
    if made["groups"] is not None:
        columns["groups"] = made["groups"]
    if made["decision"] is not None:
        columns["decision"] = made["decision"][1].astype("uint8")
    if made["grid"] is not None:
        columns["cell"] = made["grid"].cell
    return replace(rows, others=pl.DataFrame(columns) if columns else None)


def _evaluate_rows(
    rows: ScoreRows, spec: EvaluateSpec, shape: tuple[int, int] | None
) -> EvaluateRows:
    """Return the rows of an evaluation from those that `_read_window` made."""
    frame = rows.others if rows.others is not None else pl.DataFrame()
    assert rows.where is not None

    def column(name: str) -> Any:
        return frame[name].to_numpy() if name in frame.columns else None

    decision, cell = column("decision"), column("cell")
    levels, columns = shape or (0, 0)
    made = {
        "scores": {name: column(_SCORE + name) for name in spec.scores[1:]},
        "top": column("top"),
        "by": None if spec.by is None else read_segments(frame["by"].alias(spec.by), rows.where),
        "groups": None if spec.groups is None else numbered(frame["groups"]),
        "decision": None if decision is None else (spec.decision or BOUNDARY, decision),
        "grid": None if cell is None else Cells(cell, levels, columns),
    }
    return rows_of(rows, made, spec)


def _model(spec: EvaluateSpec) -> Model | None:
    """Return the model that decides."""
    return load(spec.boundary) if isinstance(spec.boundary, str) else spec.boundary


def _table(spec: EvaluateSpec) -> GridTable | None:
    """Return the grid over whose cells calibration is judged."""
    if spec.grid is None:
        return None
    source = open_source([spec.grid]) if isinstance(spec.grid, str) else spec.grid
    return read_grid_table(source, ColumnOptions())


def _shape(spec: EvaluateSpec) -> tuple[int, int] | None:
    table = _table(spec)
    return None if table is None else table.grid.shape
