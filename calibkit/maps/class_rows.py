"""Class probabilities and votes as checked arrays, in the order of the inputs; and their logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Bools, Floats, Int64s
from calibkit.columns.patterns import Matched, class_keys, match_columns, paired, read_matrix
from calibkit.columns.rows import Remark, RowFinder, read_rows, shown
from calibkit.columns.segments import known_codes, segment_names
from calibkit.errors import UsageError
from calibkit.files.sources import Source

#: How far the probabilities of a row may be from summing to 1.
SUM_SLACK: Final = 1e-4
#: Probabilities below this count as it before their logarithm is taken.
LEAST_PROBABILITY: Final = 1e-12
_SCALES: Final = ("probability", "logit")


class RaterOptions(Struct, frozen=True, kw_only=True):
    """What the columns are called and how they are read.

    `probs` are patterns of class probabilities, one a predictor, or of logits (`scale`); `counts` is
    that of the votes, without which `label` names the class, or its index, of each row; `others` are
    read along.  `logits`: a fit holds logits, also where probabilities are read.
    """

    probs: tuple[str, ...]
    counts: str | None = None
    label: str | None = None
    scale: str = "probability"
    others: tuple[str, ...] = ()
    logits: bool = False
    on_missing: str = "error"
    unlabelled: str = "error"


class RaterRows(Struct, frozen=True, kw_only=True):
    """Rows with class probabilities and votes, at least one a row: rows x classes.

    `predictions` has probabilities that sum to 1, or logits, for each pattern; `remarks` say what was
    left out and why.
    """

    predictions: dict[str, Floats]
    counts: Int64s
    classes: tuple[str, ...]
    others: pl.DataFrame
    remarks: tuple[Remark, ...]
    where: RowFinder

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should be told of the rows."""
        return (*self.where.source.warnings, *(remark.text for remark in self.remarks))

    def taken(self, places: Int64s) -> RaterRows:
        """Return the rows of some places, of which messages know where they stood."""
        return replace(
            self,
            predictions={name: matrix[places] for name, matrix in self.predictions.items()},
            counts=self.counts[places],
            others=self.others[places] if self.others.width else self.others,
            where=self.where.only(places),
        )

    @property
    def votes(self) -> Int64s:
        """The number of votes of each row."""
        return self.counts.sum(axis=1)


def _matched(source: Source, options: RaterOptions) -> list[tuple[str, Matched]]:
    """Return the option and the columns of each pattern, those of votes last."""
    patterns = [("--probs", pattern) for pattern in options.probs]
    patterns += [] if options.counts is None else [("--counts", options.counts)]
    found = [(name, match_columns(source, pattern, name)) for name, pattern in patterns]
    if options.counts is None and options.label is not None:
        source.require([options.label], "--label")
        source.as_written([options.label])  # the names of classes
    return found


def used_roles(source: Source, options: RaterOptions) -> dict[str, str]:
    """Return each role and its column; a pattern has one role for each class."""
    found: dict[str, str] = {}
    for name, matched in _matched(source, options):
        for key, column in zip(matched.keys or ("lists",), matched.columns, strict=True):
            found[f"{name} {matched.pattern} [{key}]"] = column
    if options.counts is None and options.label is not None:
        found["label"] = options.label
    return found | {f"feature {place}": name for place, name in enumerate(options.others)}


def check_scale(scale: str) -> None:
    """Refuse a scale that class probabilities and their logits are not on."""
    if scale not in _SCALES:
        raise UsageError(
            f"--scale {scale} is not for class probabilities; use one of {', '.join(_SCALES)}."
        )


def read_window(source: Source, options: RaterOptions) -> RaterRows:
    """Read and check class probabilities with votes or labels, in the order of the inputs.

    Raises `UsageError`: columns that are not there or do not pair; `DataError`: missing values,
    probabilities out of [0, 1] or that do not sum to 1, votes that are negative or no whole
    numbers, labels that are no class, no row with a vote.
    """
    check_scale(options.scale)
    found = _matched(source, options)
    matched = [paired(found[0][1], one, ("--probs", name)) for name, one in found]
    source.require(options.others, "option")
    named = [column for one in matched for column in one.columns]
    label = options.label if options.counts is None else None
    rows = read_rows(
        source,
        [*named, *([label] if label else []), *options.others],
        missing=[*named, *options.others] if options.on_missing == "drop" else (),
        unlabelled=label if label and options.unlabelled == "drop" else None,
    )
    frame, where = rows.frame, rows.where
    predictions = {
        one.pattern: read_predictions(frame, one, where, options.scale)
        for one in matched[: len(options.probs)]
    }
    classes = class_keys(matched[0], predictions[matched[0].pattern].shape[1])
    if label is None:
        counts = _votes(frame, matched[-1], where)
    else:
        counts = np.eye(len(classes), dtype=np.int64)[class_codes(frame[label], classes, where)]
    for pattern, matrix in predictions.items():
        if matrix.shape[1] != counts.shape[1]:
            option, other = found[-1 if label is None else 0]
            raise UsageError(
                f"--probs {pattern!r} has {matrix.shape[1]} classes, but "
                f"{option} {other.pattern!r} has {counts.shape[1]}."
            )
    read = RaterRows(
        predictions=predictions,
        counts=counts,
        classes=classes,
        others=frame.select(frame[name] for name in options.others),
        remarks=rows.remarks,
        where=where,
    )
    voted = read.votes > 0
    if voted.all():
        return read
    if source.whole and not voted.any():  # a window may hold no vote
        series = pl.Series(options.counts or "", read.votes)
        where.refuse(series, None, "no vote", "name the columns of votes by --counts")
    lost = Remark("", "row", "without a vote left out", int(np.count_nonzero(~voted)))
    return replace(read.taken(np.flatnonzero(voted)), remarks=(*rows.remarks, lost))


def read_predictions(
    frame: pl.DataFrame, matched: Matched, where: RowFinder, scale: str, dtype: str | None = None
) -> Floats:
    """Return the class probabilities (normalised) or logits of rows, after rounding to a dtype."""
    matrix = read_matrix(frame, matched, where)
    if dtype == "float32":
        matrix = matrix.astype(np.float32).astype(np.float64)
    if matrix.shape[1] < 2:
        raise UsageError(
            f"--probs {matched.pattern!r} is one column; class probabilities need at least two."
        )
    if scale == "logit":
        return np.ascontiguousarray(matrix)
    said = "not in [0, 1]", "class probabilities lie there; use --scale logit for logits"
    _refuse(frame, matched, matrix, (matrix < 0.0) | (matrix > 1.0), where, *said)
    total = np.cumsum(matrix, axis=1)[:, -1]  # in order: the same sum whatever the layout
    off = np.abs(total - 1.0) > SUM_SLACK
    if off.any():
        problem = "class probabilities that do not sum to 1 (within 0.0001)"
        advice = "name all classes' columns by --probs, or normalise them"
        where.refuse(pl.Series(matched.pattern, total), off, problem, advice)
    return np.ascontiguousarray(matrix / total[:, None])


def _votes(frame: pl.DataFrame, matched: Matched, where: RowFinder) -> Int64s:
    matrix = read_matrix(frame, matched, where)
    wrong = (matrix < 0.0) | (matrix != np.floor(matrix)) | (matrix > 2.0**31)
    said = "not a number of votes", "votes are whole numbers, from 0 to 2^31"
    _refuse(frame, matched, matrix, wrong, where, *said)
    return np.ascontiguousarray(matrix.astype(np.int64))


def _refuse(
    frame: pl.DataFrame,
    matched: Matched,
    matrix: Floats,
    wrong: Bools,
    where: RowFinder,
    *said: str,
) -> None:
    """Refuse the first column with a value that is wrong; lists are shown by the value."""
    if wrong.any():
        place = int(np.flatnonzero(wrong.any(axis=0))[0])
        column = frame[matched.columns[0 if matched.nested else place]]
        if matched.nested:
            column = pl.Series(column.name, matrix[:, place])
        where.refuse(column, wrong[:, place], *said)


def class_codes(column: pl.Series, classes: Sequence[str], where: RowFinder) -> Int64s:
    """Return the place of each label among the classes: by name, else whole numbers as indices.

    Indices are taken where no class has one for a name.
    """
    advice = "label these rows, or leave them out by --unlabelled drop"
    where.check(column, column.is_null(), "no label", advice)
    names = segment_names(column.unique())
    indices = tuple(str(code) for code in range(len(classes)))
    # Where a name is an index too, what a label means must not depend on the rows beside it.
    named = any(name in classes for name in (*names, *indices))
    found = known_codes(column, tuple(classes) if named else indices)
    listed = ", ".join(shown(name) for name in classes[:10])
    where.check(column, found < 0, "a label that is no class", f"the classes are {listed}")
    return found


def logits_of(probabilities: Floats) -> Floats:
    """Return logarithms of probabilities, each at least `LEAST_PROBABILITY`."""
    return np.log(np.maximum(probabilities, LEAST_PROBABILITY))


def softmax(logits: Floats) -> Floats:
    """Return the probabilities that logits stand for, each row with the sum 1."""
    from calibkit_kernels.classes import softmax_rows

    out = np.empty_like(logits)
    softmax_rows(np.ascontiguousarray(logits), out)
    return out


def mapped_logits(logits: Floats, weights: Floats, intercept: Floats) -> Floats:
    """Return logits after a map: weights are classes x classes, a diagonal, or one for all."""
    from calibkit_kernels.classes import affine_rows

    out = np.empty_like(logits)
    if weights.ndim == 2:
        affine_rows(logits, weights, intercept, out)
    else:
        np.multiply(logits, weights, out=out)
        out += intercept
    return out
