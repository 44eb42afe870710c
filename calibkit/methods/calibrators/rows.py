"""The rows of a calibrator: scores as they are, or clipped into [0, 1]."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from calibkit.columns.columns import ScoreRows, read_score_rows, resolve
from calibkit.columns.rows import Remark
from calibkit.columns.segments import read_segments
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.maps.score_map import SEGMENTS, into_unit_interval
from calibkit.options.calibrate import CalibrateOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.score_batches import Reading, rows_within, summarise_scores
from calibkit.summaries.score_summary import ScoreSummary


def read_calibration_rows(source: Source, options: CalibrateOptions) -> ScoreRows:
    """Read scores, labels, weights and segments.

    Prior shift needs no labels: a file without the label column will do.

    Raises
    ------
    UsageError
        A column that is not there.
    DataError
        Values that are missing, out of range or of the wrong type.
    """
    clips, columns = options.out_of_range == "clip", options.columns
    if options.by is not None:
        source.require([options.by], "--by")
        if options.by in (options.score, options.label, options.weight):
            raise UsageError(f"--by {options.by} has another role already; name two columns.")
    rows = read_score_rows(
        source,
        replace(columns, scale="raw") if clips else columns,
        label=_labelled(source, options),
        uncertainty=False,
        finite_scores=True,
        others=[] if options.by is None else [options.by],
    )
    if not source.whole and options.by is not None and rows.others is not None and rows.where:
        read_segments(rows.others[options.by], rows.where)  # a row no longer knows its place
    if not clips:
        return rows
    score, moved = into_unit_interval(rows.score)
    remarks = [Remark("", "score", "outside [0, 1] clipped (--out-of-range clip)", moved)]
    remarks = remarks if moved else []
    return replace(
        rows,
        score=score,
        options=replace(rows.options, scale=options.scale),
        warnings=(*rows.warnings, *(remark.text for remark in remarks)),
        remarks=(*rows.remarks, *remarks),
    )


def calibration_rows(
    source: Source, options: CalibrateOptions, memory: Memory | None = None
) -> ScoreRows:
    """Return the rows of a calibrator: as they are, or counted where they do not fit.

    Raises
    ------
    UsageError, DataError
        As `read_calibration_rows`.
    ResourceError
        Rows that do not fit, and options that need them as they are.
    """
    return rows_within(source, _reading(source, options), memory)


def calibration_summary(source: Source, options: CalibrateOptions, memory: Memory) -> ScoreSummary:
    """Return the rows as a summary that merges with those of other shards; see `calibration_rows`."""
    return summarise_scores(source, _reading(source, options), memory)


def _reading(source: Source, options: CalibrateOptions) -> Reading:
    return Reading(
        columns=list(used_columns(source, options).values()),
        read=partial(read_calibration_rows, options=options),
        threads=options.workers,
    )


def used_columns(source: Source, options: CalibrateOptions) -> dict[str, str]:
    """Return the column of each role that is read."""
    labelled = _labelled(source, options)
    resolved = resolve(source, options.columns, label=labelled, uncertainty=False)
    roles = {
        "score": resolved.score,
        "label": resolved.label if labelled else None,
        "weight": resolved.weight,
        SEGMENTS: options.by,
    }
    return {role: name for role, name in roles.items() if name is not None}


def _labelled(source: Source, options: CalibrateOptions) -> bool:
    return options.entry.fits or options.label in source.schema
