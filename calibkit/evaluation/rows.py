"""The rows of an evaluation: every column that its options need, read together and checked."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from msgspec import UNSET, Struct
from msgspec.structs import replace

from calibkit.arrays import Int64s, Numbers, UInt16s
from calibkit.columns import rows as readers
from calibkit.columns.patterns import match_columns
from calibkit.columns.rows import RowFinder, texts_of
from calibkit.columns.segments import Segments, read_segments
from calibkit.columns.weights import at_prevalence, in_units
from calibkit.errors import DataError, ModelError, UsageError
from calibkit.evaluation.findings import Slice
from calibkit.files.sources import Source
from calibkit.measures.cells import Cells, place
from calibkit.measures.views import FixedClasses, Sample
from calibkit.models.kinds import ACTIONS, KINDS, Applier, Request
from calibkit.models.lineage import check_makers
from calibkit.models.model import Model
from calibkit.models.scales import measure
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.shared import ColumnOptions
from calibkit.summaries.binning import GridTable, is_grid_table, read_grid_table
from calibkit.summaries.score_batches import Reading, rows_within
from calibkit.summaries.score_rows import ScoreRows, columns_beside, read_score_rows, resolve

#: The score under which the decisions of ``--boundary`` stand.
BOUNDARY = "boundary"

#: How a further score is called among the columns that are made.
_SCORE = "score "


class EvaluateRows(Struct, frozen=True, kw_only=True):
    """The rows of an evaluation."""

    scores: dict[str, Numbers]  # the scores by name, the baseline first
    whole: Sample  # all rows with the baseline; weights are rescaled by ``--prevalence`` already
    top: Numbers | None  # what ``--top`` ranks rows by
    segments: Segments | None  # the values of the ``--by`` column
    decisions: Mapping[str, Numbers]  # decisions by the name under which they are reported
    cells: Cells | None  # the cell of each row in the grid
    base_rate: float  # the share of positives among all rows
    #: What the user has to be told, and what a summary should say.
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    score_bits: int | None  # how many bits after the exponent scores kept; None: all

    @property
    def rows(self) -> int:
        """How many rows there are, whatever they weigh."""
        return self.whole.rows

    def sample(self, score: Numbers, part: Slice | None = None) -> Sample:
        """Return the rows, or those of a slice, with one of their scores or decisions."""
        whole = replace(self.whole, score=score)
        return whole if part is None or part.rows is None else whole.rows_of(part.rows)


def with_score(options: EvaluateOptions, source: Source) -> EvaluateOptions:
    """Return the options with a score that is there: 'score', else that of the boundary.

    The score of the boundary is on the boundary's scale.
    """
    if options.baseline is not None and not options.patterns:
        source.require([options.baseline], "--baseline")
    own = None if options.model is None else options.model.columns.get("score")
    if own is None or options.scores or options.baseline:
        return options
    alike = (name.strip().casefold() for name in source.schema)  # see `Source.require`
    if "score" in alike and own.name.strip().casefold() != "score":
        return options
    scale: Any = own.scale if options.scale == "probability" else None
    found = dataclasses.replace(options, scores=(own.name,), scale=scale or options.scale)
    # Files that are read already, and may be pipes, which cannot be read once more.
    vars(found).update(model=options.model, grid_table=options.grid_table)
    return found


def columns_used(options: EvaluateOptions, source: Source) -> dict[str, str]:
    """Return the column of each role that an evaluation reads."""
    if options.patterns:
        found = {}
        for pattern in options.patterns:
            for column in match_columns(source, pattern, "--probs").columns:
                found[f"{pattern} ({column})"] = column
        if options.counts is not None:
            votes = match_columns(source, options.counts, "--counts")
            found |= {f"votes ({column})": column for column in votes.columns}
        else:
            found |= columns_beside(source, options, "label")
            source.as_written([options.label])
        return found | beside_classes(options, source)
    found = resolve(source, options.columns, label=True, uncertainty=False).roles
    beside: dict[str, list[str]] = {}
    for role, (one, _) in _beside(options, source).items():
        if role in options.thresholds:  # the score, once more
            continue
        shown = "scores" if role.startswith(_SCORE) else "grid" if role == "cell" else role
        beside.setdefault(shown, []).extend(one)
    for role, names in beside.items():
        for number, column in enumerate(names, 1):
            found[f"{role} {number}" if len(names) > 1 else role] = column
    return found


def beside_classes(options: EvaluateOptions, source: Source) -> dict[str, str]:
    """Return the columns that are read beside class probabilities and labels or votes, by role.

    Raises `UsageError` for one that is not there.
    """
    if options.counts is None:
        return columns_beside(source, options, "by")
    named = {f"alpha0 {place}": name for place, name in enumerate(options.strengths, 1)}
    source.require(options.strengths, "--alpha0")
    for role, name in columns_beside(source, options, "rater_weight", "disagreement").items():
        named[role.replace("_", " ")] = name
    if options.class_disagreement:
        matched = match_columns(source, options.class_disagreement, "--class-disagreement")
        named |= {f"class disagreement ({name})": name for name in matched.columns}
    return named | columns_beside(source, options, "by", "groups", "weight")


#: Columns that are read beside score, label and weight, and what makes one column of them.
_Beside = tuple[list[str], Callable[[pl.DataFrame, RowFinder], Any]]


def read_evaluate_rows(options: EvaluateOptions, source: Source) -> EvaluateRows:
    """Read and check the columns that an evaluation needs; rows that do not fit are counted.

    Raises `UsageError`: a column, a model or a grid that is not there or does not fit;
    `ModelError`: a model that does not make one decision; `DataError`: values that are missing, out
    of range or of the wrong type; `ResourceError`: rows that do not fit, and options that need them
    as they are.
    """
    reading = reading_of(options, source)
    if options.prevalence is not None:  # which rounds the weight of each row
        reading = replace(reading, needs_each="--prevalence")
    rows = rows_within(source, reading, source.memory)
    table = grid_of(options.grid_table, options.scale)
    shape = None if table is None else table.grid.shape
    return rows_of(options, rows, shape, three_way=decides_three_ways(options.model))


def reading_of(options: EvaluateOptions, source: Source) -> Reading:
    """Return how the rows of an evaluation are read; what is made of other columns stands beside."""
    probability = measure(options.scale) == "probability"
    others = {_SCORE + name: probability for name in options.ranked[1:]}
    if options.top_by is not None:
        others["top"] = False
    return Reading(
        columns=columns_used(options, source),
        read=partial(_read, columns=options.columns, beside=_beside(options, source)),
        needs_each=options.needs_each,
        others=others,
        threads=options.workers,
    )


def _read(source: Source, columns: ColumnOptions, beside: Mapping[str, _Beside]) -> ScoreRows:
    """Return score, label and weight of some rows, and beside them a column for each role."""
    others = [name for names, _ in beside.values() for name in names]
    rows = read_score_rows(
        source, columns, uncertainty=False, positive_must_occur=False, others=others
    )
    made = {role: make(rows.others, rows.finder) for role, (_, make) in beside.items()}
    return replace(rows, others=pl.DataFrame(made))


def rows_of(
    options: EvaluateOptions, rows: ScoreRows, shape: tuple[int, int] | None, *, three_way: bool
) -> EvaluateRows:
    """Return the rows of an evaluation from those that `reading_of` reads.

    `shape` is that of the grid whose cells were placed; decisions may be `three_way`.
    """
    frame = rows.others

    def column(name: str) -> Any:
        return frame[name].to_numpy() if name in frame.columns else None

    first, *others = options.ranked
    scores = {first: rows.score} | {name: column(_SCORE + name) for name in others}
    top, decision, cell = column("top"), column("decision"), column("cell")
    group: Int64s | None = None
    if options.groups is not None:  # the place among their texts: there may be millions
        known = frame["groups"].unique()
        texts = texts_of(known)
        if rows.weight is not None and not rows.weight.all():  # groups that weigh nothing come last
            held = frame["groups"].filter(pl.Series(rows.weight > 0.0)).unique()
            texts = known.is_in(held.implode()).not_().cast(pl.String) + texts
        places = texts.rank("dense").cast(pl.Int64) - 1
        group = frame["groups"].replace_strict(known, places).to_numpy()
    whole = Sample(rows.score, rows.labels, rows.weight, group, rows.times)
    if options.prevalence is not None:
        whole = at_base_rate(
            whole, Fraction(options.prevalence), sampled=options.weight_kind == "sampling"
        )
    segments = None
    if options.by is not None:
        segments = read_segments(frame["by"].alias(options.by), rows.finder)
    decisions = {} if decision is None else _decisions(options, decision, three_way)
    positives, total = _units(whole)
    return EvaluateRows(
        scores=scores,
        whole=whole,
        top=rows.score if options.tops and top is None else top,
        segments=segments,
        decisions=decisions | {name: column(name) for name in options.thresholds},
        cells=None if cell is None or shape is None else Cells(cell, *shape),
        base_rate=positives / total,
        warnings=rows.warnings,
        notes=rows.notes,
        score_bits=None if rows.resolution is None else rows.resolution.score_bits,
    )


def decides_three_ways(model: Model | None) -> bool:
    """Tell whether a model blocks, reviews and passes."""
    return getattr(model, "review_thresholds", UNSET) is not UNSET


def _decisions(options: EvaluateOptions, decision: Numbers, three_way: bool) -> dict[str, Numbers]:
    """Return decisions by name: of three-way ones what is blocked, and that with what is reviewed."""
    if not three_way:
        return {options.decision or BOUNDARY: decision}
    block, review = (
        (decision >= least).astype(np.uint8) for least in map(ACTIONS.index, ("block", "review"))
    )
    return {BOUNDARY: block, f"{BOUNDARY}:review": review}


def _beside(options: EvaluateOptions, source: Source) -> dict[str, _Beside]:
    """Return what is read beside the first score, by role, for the roles that there are."""
    others, score = options.ranked[1:], partial(readers.score_column, scale=options.scale)

    def reaches(column: pl.Series, where: RowFinder, lowest: float) -> Numbers:
        """Return which values reach a threshold, compared as the column holds numbers."""
        return (readers.numeric_column(column, where, finite=False) >= lowest).view(np.uint8)

    source.require(others, "--score")
    found = {_SCORE + name: _one(name, score) for name in others}
    made: dict[str, Callable[[pl.Series, RowFinder], Any]] = {
        "top_by": partial(readers.numeric_column, finite=False),
        "by": _segments,
        "groups": _present,
        "decision": readers.decision_column,
    }
    for role, named in columns_beside(source, options, *made).items():
        found[role.removesuffix("_by")] = _one(named, made[role])
    for name, lowest in options.thresholds.items():
        found[name] = _one(options.ranked[0], partial(reaches, lowest=lowest))
    if options.model is not None:
        found["decision"] = _boundary(options, source, options.model)
    table = grid_of(options.grid_table, options.scale)
    if table is not None:
        found["cell"] = _grid(options, source, table)
    return found


def _one(name: str, make: Callable[[pl.Series, RowFinder], Any]) -> _Beside:
    """Return what is made of one column."""
    return [name], lambda frame, where: make(frame[name], where)


def _present(column: pl.Series, where: RowFinder) -> pl.Series:
    """Return a column that has a single value in every row."""
    readers.need_single(column, where, empty=True)
    return column


def _segments(column: pl.Series, where: RowFinder) -> pl.Series:
    """Return the values of a column; of a window as text, which other windows can be told by."""
    if where.source.whole:
        return _present(column, where)
    found = read_segments(column, where)
    return pl.Series(found.names, dtype=pl.String).gather(found.code)


def _boundary(options: EvaluateOptions, source: Source, model: Model) -> _Beside:
    """Return what reads the columns of a model, and decides."""
    given = options.boundary
    file = str(given) if isinstance(given, str | os.PathLike) else "--boundary"
    applier: Applier = KINDS[model.kind].applier(model)
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
    moved = options.uncertainty is not None and "uncertainty" in model.columns
    apply = Request(columns={"uncertainty": str(options.uncertainty)} if moved else {})
    if "score" in model.columns:  # --score names what is judged, not what the model reads
        said = "the boundary's score (apply it with --score, and judge by --decision decision)"
        source.require([model.columns["score"].name], said)
    reads = applier.reads(source, apply)
    check_makers(model, apply.columns, source)

    def decide(frame: pl.DataFrame, where: RowFinder) -> pl.Series:
        found = applier.values(frame, where, reads)[0]
        if found.dtype == pl.String:
            found = found.replace_strict(ACTIONS, range(len(ACTIONS)))
        return found.cast(pl.UInt8)

    return [*reads.needed.values(), *reads.optional], decide


def grid_of(table: Source | None, scale: Any = "probability") -> GridTable | None:
    """Return the grid of a table, if there is one.

    `scale` is that of scores where the table does not say it, as text cannot.

    Raises `UsageError`: a table that is none of `calibkit bin`.
    """
    if table is None:
        return None
    if not is_grid_table(table):
        raise UsageError(f"{table.file}: is not a table of `calibkit bin`.", file=table.file)
    return read_grid_table(table, ColumnOptions(scale=scale))


def _grid(options: EvaluateOptions, source: Source, found: GridTable) -> _Beside:
    """Return what places rows in the cells of the grid."""
    score = options.grid_score or found.columns["score"].name
    source.require([score], "--grid-score")
    spread: str | None = None
    if found.grid.shape[0] > 1:  # with one level no uncertainty is read
        made_from = found.columns.get("uncertainty")
        spread = options.uncertainty or (made_from.name if made_from else "uncertainty")
        source.require([spread], "the grid's uncertainty (see --uncertainty)")

    # Percentages were divided; other scores were counted as they came.
    scale = "percent" if found.columns["score"].scale == "percent" else "raw"

    def cells(frame: pl.DataFrame, where: RowFinder) -> UInt16s:
        scores = readers.score_column(frame[score], where, scale)
        spreads = None if spread is None else readers.numeric_column(frame[spread], where)
        return place(found.grid, scores, spreads).cell

    return [score] if spread is None else [score, spread], cells


def at_base_rate(sample: Sample, prevalence: Fraction, *, sampled: bool = False) -> Sample:
    """Return all rows with classes rescaled to a base rate; the sum of weights stays what it was.

    `sampled` rows stand for others, so that their weight is no number of rows.
    """
    positives, rows = _units(sample)
    if positives in (0, rows):
        raise DataError("--prevalence reweights two classes, but the rows have only one.")
    factors = at_prevalence(rows, positives, prevalence)
    size = rows / factors.weigh(rows, positives)[0]
    scale = np.array([factors.negative * size, factors.positive * size])
    weight = sample.weights * scale[sample.label]
    sample = replace(sample, number=None if sampled else sample.weight)
    if not factors.exact:  # the weights are rounded as any others
        found = replace(sample, weight=weight, given=weight)
        return replace(found, classes=FixedClasses.of(found))
    found = replace(sample, weight=weight, given=sample.weight)
    return replace(found, classes=FixedClasses.of(found, factors, size))


def _units(sample: Sample) -> tuple[int, int]:
    """Return positive rows and all rows, in units of weight that no order of rows changes."""
    label = sample.label
    if sample.weight is None:
        return int(np.count_nonzero(label)), label.size
    units, _ = in_units(sample.weight, label)
    return int(units[label == 1].sum()), int(units.sum())
