"""A validation: each role's columns by the checks of their role, then the rows as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from calibkit.columns import patterns, remarks
from calibkit.columns.rows import (
    FloatArray,
    RowFinder,
    is_text,
    label_column,
    other_scale,
    weight_column,
)
from calibkit.columns.segments import segment_names
from calibkit.errors import FIRST_ROWS, DataError, UsageError
from calibkit.files.sources import Source
from calibkit.maps.class_rows import check_scale, class_codes, read_predictions
from calibkit.models.scales import measure
from calibkit.options.validate import ValidateOptions
from calibkit.validation.findings import COUNTS, PROBS, Findings, Report, Values, refused

#: A score that so large a share of the rows has, of at least so many, is worth a word.
_MANY_TIES, _ENOUGH = 0.5, 20
#: What is said of groups and segments that are lists.
_SINGLE = "holds several values: name a column of single ones"
#: Groups, segments and classes that a message names.
_NAMED = 5
#: Fewer groups, or one with a larger share of the rows, make poor folds.
_FEWEST_GROUPS, _LARGEST_GROUP = 5, 0.5
#: A row of so much weight decides alone.
_HEAVY = 0.1
#: A text feature with more distinct values than this share of its rows is an identifier.
_IDENTIFIER = 0.9


def validate_files(
    options: ValidateOptions, source: Source | None, errors: Sequence[DataError]
) -> Report:
    """Return the report on the files that could be read, if any, and the `errors` of the others.

    What the first lack, so that there is nothing to look at, the others may have: the errors are all
    that is known then.  Raises `UsageError` as `validate` does where there are none.
    """
    found = Report(rows=0, files=[], columns=[], findings=[])
    if source is not None:
        try:
            found = validate(options, source)
        except UsageError as error:
            if not errors:
                raise
            found.files = list(source.paths)
            found.findings = [refused("error", "file", error.message, error)]
    broken = [refused("error", "file", error.message, error) for error in errors]
    files = [*found.files, *dict.fromkeys(error.file for error in errors if error.file)]
    return Report(
        rows=found.rows, files=files, columns=found.columns, findings=[*broken, *found.findings]
    )


def validate(options: ValidateOptions, source: Source) -> Report:
    """Look at every column of a role and at the rows as a whole; nothing that is found ends it.

    Raises `UsageError` for a column that was named and is not there, or nothing to look at.
    """
    findings = Findings(options, source)
    for remark in source.warnings:
        findings.add("warning", "file", remark)
    for check in _CHECKS:
        check(findings)
    return Report(
        rows=source.rows, files=source.paths, columns=findings.columns, findings=findings.found
    )


def _scores(findings: Findings) -> None:
    """Look at scores and members: their range, scale, ties, and members that are the same."""
    scale = findings.options.scale
    ends = 0.0, 100.0 if scale == "percent" else 1.0
    low, high = ends if measure(scale) == "probability" else (-np.inf, np.inf)
    for role in ("score", "member"):
        infinite = "error" if role == "member" else "warning"
        for values in findings.of(role):
            known = scale == "probability"
            advice = other_scale(values.column, findings.source) if known else ""
            array = findings.numbers(values, low, high, infinite, advice)
            if array is None:
                continue
            name = values.column.name
            findings.score[name] = values.placed(array)
            if not findings.constant(values, role):
                _ties(findings, name, array)
                reach = float(array.min()), float(array.max())
                said = remarks.looks_like_probabilities(*reach, scale)
                findings.add("warning", "scale", said, name)
    first: dict[bytes, str] = {}
    for name in findings.roles.get("member", []):
        if name in findings.score:
            same = first.setdefault(findings.score[name].tobytes(), name)
            if same != name:
                said = f"the same as column {same!r} in all rows: no replicate of it"
                findings.add("warning", "duplicates", said, name)


def _ties(findings: Findings, name: str, array: FloatArray) -> None:
    """Add that most rows share one score, or that there are two scores only."""
    if array.size < _ENOUGH:
        return
    distinct, counts = np.unique(array, return_counts=True)
    if distinct.size == 2:
        said = f"two scores only, {distinct[0]:g} and {distinct[1]:g}: is this a decision?"
        findings.add("warning", "ties", said, name, array.size)
    elif distinct.size > 2 and counts.max() >= _MANY_TIES * array.size:
        most = int(counts.argmax())
        said = (
            f"{counts[most] / array.size:.1%} of the rows share the score {distinct[most]:g}: no "
            "threshold separates them"
        )
        findings.add("warning", "ties", said, name, int(counts[most]))


def _labels(findings: Findings) -> None:
    """Look at the labels: two classes, or one of those of the class probabilities."""
    options, roles = findings.options, findings.roles
    for values in findings.of("label"):
        if {"probs", "counts"} & roles.keys() and "score" not in roles:
            continue
        column, where = values.column, values.where
        read = findings.attempt(
            "error", "labels", partial(label_column, column, where, positive=options.positive)
        )
        if read is None:
            continue
        findings.label = values.placed(read[0])
        hits = int(np.count_nonzero(read[0]))
        if hits in (0, column.len()):
            said = (
                f"all rows are {'positive' if hits else 'negative'}: both classes are needed; name "
                "the positive one by --positive VALUE"
            )
            findings.add("error", "classes", said, column.name, column.len())


def _ranking(findings: Findings) -> None:
    """Look at whether higher scores go with more positives."""
    if findings.label is None:
        return
    for name, score in findings.score.items():
        both = ~np.isnan(score) & ~np.isnan(findings.label)
        distinct, place = np.unique(score[both], return_inverse=True)
        rows = np.bincount(place, minlength=distinct.size)
        hits = np.bincount(place[findings.label[both] == 1], minlength=distinct.size)
        if distinct.size > 1:
            findings.add("warning", "ranking", remarks.inverted(rows, hits), name)


def _uncertainty(findings: Findings) -> None:
    """Look at the uncertainty: any finite number."""
    for values in findings.of("uncertainty"):
        if findings.numbers(values) is not None:
            findings.constant(values, "uncertainty")


def _weights(findings: Findings) -> None:
    """Look at the weights: not negative, not all 0, none that decides alone."""
    for values in findings.of("weight"):
        array = findings.numbers(values, low=0.0, advice="weights cannot be negative")
        if array is None or not np.isfinite(array).all() or array.min() < 0:
            continue
        column, where = values.column, values.where
        if findings.attempt("error", "range", partial(weight_column, column, where)) is None:
            continue
        light = int(np.count_nonzero(array == 0))
        if light:
            said = "rows of weight 0 count for nothing"
            findings.add("note", "weights", said, column.name, light)
            if findings.label is not None:
                heavy = findings.label[values.placed(array) > 0]
                every, counted = (np.isin((0, 1), own).all() for own in (findings.label, heavy))
                if every and not counted:
                    said = "the rows that count are of one class: both are needed"
                    findings.add("error", "classes", said, column.name)
        share = 1.0 / float((array / array.max()).sum())
        if share > _HEAVY and array.size >= remarks.FEWEST:
            said = f"one row has {share:.0%} of the weight: it decides the result"
            findings.add("warning", "weights", said, column.name, 1)


def _segments(findings: Findings) -> None:
    """Look at the values of ``--by``: present in every row, each with both classes."""
    for values in findings.of("by", _SINGLE):
        findings.constant(values, "segment")
        _one_class(findings, values, "warning", "a fit of its own needs both")


def _groups(findings: Findings) -> None:
    """Look at ``--groups``: present, and enough of them for folds."""
    for values in findings.of("groups", _SINGLE):
        sizes = values.column.value_counts(sort=True)
        largest = int(sizes["count"][0]) / values.column.len()
        count, level, said = sizes.height, "warning", None
        if count < _FEWEST_GROUPS:
            said = f"{count} group{'s' if count > 1 else ''} only: too few for folds"
        elif largest > _LARGEST_GROUP:
            said = f"one group has {largest:.0%} of the rows: folds will be uneven"
        elif count == values.column.len():
            level, said = "note", "every row has a group of its own: the same as no groups"
        else:
            _one_class(findings, values, "note", "folds keep each of them whole")
        findings.add(level, "groups", said, values.column.name)


def _one_class(findings: Findings, values: Values, level: str, why: str) -> None:
    """Add which values of a column have rows of one class only."""
    if findings.label is None:
        return
    label = pl.Series("label", findings.label[values.present], nan_to_null=True)
    rows = pl.DataFrame({"value": values.column, "label": label}).drop_nulls()
    classes = rows.group_by("value").n_unique()
    alone = classes.filter(pl.col("label") == 1)["value"]
    if not alone.len():
        return
    named = sorted(segment_names(alone), key=patterns.natural_key)
    shown = ", ".join(named[:_NAMED]) + (", …" if len(named) > _NAMED else "")
    said = f"{alone.len()} of {classes.height} values have rows of one class only ({shown}); {why}"
    findings.add(level, "classes", said, values.column.name)


def _time(findings: Findings) -> None:
    """Look at ``--time``: present, dates in one format, and more than one."""
    for name in findings.roles.get("time", ()):
        findings.attempt("error", "type", partial(findings.source.as_dates, [name]))
    for values in findings.of("time", "has no order: name numbers, dates or text"):
        findings.constant(values, "time")


def _classes(findings: Findings) -> None:
    """Look at class probabilities with votes or labels, as the fits on them read them.

    Each kind of column is looked at on the rows in which all of its columns have a value.
    """
    options, roles = findings.options, findings.roles
    first: patterns.Matched | None = None
    if options.probs and not roles.get("score"):  # whose scale it would be
        check_scale(options.scale)
    for pattern in options.probs or ([PROBS] if "probs" in roles else []):
        matched = patterns.match_columns(findings.source, pattern, "--probs")
        width = _probabilities(findings, matched)
        if first is None and width:
            first = matched
            # Beside votes labels are looked at where they are named: another fit would read them.
            asked = "counts" not in roles or options.label is not None
            if "label" in roles and asked and not roles.get("score"):
                _classes_of_labels(findings, patterns.class_keys(matched, width))
    if "counts" in roles:
        votes = patterns.match_columns(findings.source, options.counts or COUNTS, "--counts")
        if first is not None:
            try:
                votes = patterns.paired(first, votes, ("--probs", "--counts"))
            except UsageError as error:
                findings.add("error", "pairs", error.message)
        _votes(findings, votes)


def _complete(
    findings: Findings, matched: patterns.Matched, role: str
) -> tuple[pl.DataFrame, RowFinder] | None:
    """Return the rows in which all columns have a value, after saying how many do not."""
    present = np.ones(findings.frame.height, bool)
    for name in matched.columns:
        values = findings.present(name, role)
        if values is None:
            return None
        present &= values.present
    if not present.any():
        return None
    kept = findings.frame.filter(pl.Series(present))
    return kept, RowFinder(findings.source, np.flatnonzero(present))


def _probabilities(findings: Findings, matched: patterns.Matched) -> int:
    """Look at the probabilities of one predictor; return how many classes it has, 0 if unknown."""
    found = _complete(findings, matched, "probs")
    if found is None:
        return 0
    (rows, where), scale = found, findings.options.scale
    matrix = findings.attempt(
        "error", "probabilities", lambda: read_predictions(rows, matched, where, scale)
    )
    if matrix is not None:
        return int(matrix.shape[1])
    return 0 if matched.nested else len(matched.columns)


def _votes(findings: Findings, matched: patterns.Matched) -> None:
    """Look at votes: whole numbers from 0 up; rows without a vote and with one."""
    found = _complete(findings, matched, "counts")
    if found is None:
        return
    rows, where = found
    matrix = findings.attempt("error", "type", lambda: patterns.read_matrix(rows, matched, where))
    if matrix is None:
        return
    wrong = (matrix < 0) | (matrix != np.floor(matrix)) | (matrix > 2.0**31)
    every = np.ones(rows.height, bool)
    for place in range(matrix.shape[1]):
        name = matched.pattern if matched.nested else matched.columns[place]
        one = Values(pl.Series(name, matrix[:, place]), where, every)
        problem, advice = "not a number of votes", "votes are whole numbers from 0 up"
        findings.rows("error", "votes", one, wrong[:, place], problem, advice)
    total, odd = matrix.sum(axis=1), wrong.any(axis=1)
    shown = Values(pl.Series(matched.pattern, total), where, every)
    for count, level, said in (
        (0, "warning", "no vote: left out"),
        (1, "note", "one vote only: it says nothing about how much raters agree"),
    ):
        findings.rows(level, "votes", shown, (total == count) & ~odd, said)


def _classes_of_labels(findings: Findings, classes: Sequence[str]) -> None:
    """Look at labels that name one of several classes."""
    column = findings.frame[findings.roles["label"][0]]
    where = RowFinder(findings.source, np.flatnonzero(~column.is_null().to_numpy()))
    codes = findings.attempt(
        "error", "labels", lambda: class_codes(column.drop_nulls(), classes, where)
    )
    if codes is None:
        return
    absent = [name for place, name in enumerate(classes) if not (codes == place).any()]
    if absent:
        said = f"no row has the class {', '.join(absent[:_NAMED])}"
        findings.add("warning", "classes", said, column.name)


def _features(findings: Findings) -> None:
    """Look at features: missing values mean something, a constant or an identifier nothing."""
    for values in findings.of("feature"):
        name, size = values.column.name, values.column.len()
        text = is_text(values.column.dtype)
        if not text:
            findings.numbers(values)
        if findings.constant(values, "feature") or not text:
            continue
        if size >= remarks.FEWEST and values.column.n_unique() > _IDENTIFIER * size:
            said = "nearly every row has a text of its own: an identifier is no feature"
            findings.add("warning", "constant", said, name)


def _duplicates(findings: Findings) -> None:
    """Look at rows that are equal in all columns."""
    whole, source = findings.frame, findings.source
    if set(whole.columns) != set(source.schema):
        whole = source.read()
    if any(kind.is_nested() for kind in whole.dtypes):
        return
    first = whole.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    again = ~first.to_numpy()
    count = int(np.count_nonzero(again))
    if not count:
        return
    file, places = source.locate(np.flatnonzero(again)[:FIRST_ROWS].tolist())
    level = "warning" if whole.width > findings.frame.width else "note"
    said = f"{count} row{'s' if count > 1 else ''} equal to an earlier one in all {whole.width} columns"
    findings.add(level, "duplicates", said, None, count, file, places)


#: Each looks at the columns of a role, in this order.
_CHECKS: Final = (
    _scores, _labels, _ranking, _uncertainty, _weights, _segments, _groups, _time, _classes,
    _features, _duplicates,
)  # fmt: skip
