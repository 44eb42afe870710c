"""The checks of class probabilities, votes and class labels."""

from __future__ import annotations

import numpy as np
import polars as pl

from calibkit.columns.patterns import Matched, class_keys, match_columns, paired, read_matrix
from calibkit.columns.rows import RowFinder
from calibkit.errors import UsageError
from calibkit.maps.class_rows import class_codes, read_predictions
from calibkit.options.validate import ValidateOptions
from calibkit.validation.checks import Findings, Values, present_values
from calibkit.validation.report import ERROR, NOTE, WARNING
from calibkit.validation.roles import COUNTS, PROBS


def check_classes(
    findings: Findings, frame: pl.DataFrame, roles: dict[str, list[str]], options: ValidateOptions
) -> None:
    """Look at class probabilities with votes or labels, as the fits on them read them.

    Each kind of column is looked at on the rows in which all of its columns have a value.
    """
    dropped = options.on_missing == "drop"
    first: Matched | None = None
    for pattern in options.probs or ([PROBS] if "probs" in roles else []):
        matched = match_columns(findings.source, pattern, "--probs")
        width = _probabilities(findings, frame, matched, options, dropped)
        if first is None and width:
            first = matched
            _classes_of_labels(findings, frame, matched, roles, options, width)
    if "counts" in roles:
        votes = match_columns(findings.source, options.counts or COUNTS, "--counts")
        if first is not None:
            try:
                votes = paired(first, votes, ("--probs", "--counts"))
            except UsageError as error:
                findings.add(ERROR, "pairs", error.message)
        _votes(findings, frame, votes, dropped)


def _whole(
    findings: Findings, frame: pl.DataFrame, matched: Matched, role: str, dropped: bool
) -> tuple[pl.DataFrame, RowFinder] | None:
    """Return the rows in which all columns have a value, after saying how many do not."""
    present = np.ones(frame.height, bool)
    for name in matched.columns:
        values = present_values(findings, frame[name], role, dropped=dropped)
        if values is None:
            return None
        present &= values.present
    if not present.any():
        return None
    kept = np.flatnonzero(present)
    return frame.filter(pl.Series(present)), RowFinder(findings.source, kept)


def _probabilities(
    findings: Findings,
    frame: pl.DataFrame,
    matched: Matched,
    options: ValidateOptions,
    dropped: bool,
) -> int:
    """Look at the probabilities of one predictor; return how many classes it has, 0 if unknown."""
    found = _whole(findings, frame, matched, "probs", dropped)
    if found is None:
        return 0
    rows, where = found
    scale = "logit" if options.scale == "logit" else "probability"
    matrix = findings.attempt(
        ERROR, "probabilities", lambda: read_predictions(rows, matched, where, scale)
    )
    if matrix is not None:
        return int(matrix.shape[1])
    return 0 if matched.nested else len(matched.columns)


def _votes(findings: Findings, frame: pl.DataFrame, matched: Matched, dropped: bool) -> None:
    """Look at votes: whole numbers from 0 up; rows without a vote and with one."""
    found = _whole(findings, frame, matched, "counts", dropped)
    if found is None:
        return
    rows, where = found
    matrix = findings.attempt(ERROR, "type", lambda: read_matrix(rows, matched, where))
    if matrix is None:
        return
    wrong = (matrix < 0) | (matrix != np.floor(matrix)) | (matrix > 2.0**31)
    every = np.ones(rows.height, bool)
    for place in range(matrix.shape[1]):
        name = matched.pattern if matched.nested else matched.columns[place]
        one = Values(pl.Series(name, matrix[:, place]), where, every)
        problem, advice = "not a number of votes", "votes are whole numbers from 0 up"
        findings.rows(ERROR, "votes", one, wrong[:, place], problem, advice)
    total, odd = matrix.sum(axis=1), wrong.any(axis=1)
    shown = Values(pl.Series(matched.pattern, total), where, every)
    for count, level, said in (
        (0, WARNING, "no vote: left out"),
        (1, NOTE, "one vote only: it says nothing of how much raters agree"),
    ):
        findings.rows(level, "votes", shown, (total == count) & ~odd, said)


def _classes_of_labels(
    findings: Findings,
    frame: pl.DataFrame,
    matched: Matched,
    roles: dict[str, list[str]],
    options: ValidateOptions,
    width: int,
) -> None:
    """Look at labels that name one of several classes."""
    if "label" not in roles or roles.get("score") or "counts" in roles:
        return
    column = frame[roles["label"][0]]
    kept = np.flatnonzero(~column.is_null().to_numpy())
    classes = class_keys(matched, width)
    where = RowFinder(findings.source, kept)
    codes = findings.attempt(
        ERROR, "labels", lambda: class_codes(column.drop_nulls(), classes, where)
    )
    if codes is None:
        return
    absent = [name for place, name in enumerate(classes) if not (codes == place).any()]
    if absent:
        said = f"no row has the class {', '.join(absent[:5])}"
        findings.add(WARNING, "classes", said, column.name)
