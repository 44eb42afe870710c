"""A validation: which columns are looked at, each by the checks of its role, then together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns import remarks
from calibkit.columns.numeric import weight_column
from calibkit.columns.patterns import natural_key
from calibkit.columns.segments import segment_name
from calibkit.errors import FIRST_ROWS, DataError
from calibkit.files.sources import Source
from calibkit.models.scales import measure
from calibkit.options.validate import ValidateOptions
from calibkit.validation.checks import (
    Findings,
    Values,
    constant,
    labels,
    numbers,
    present_values,
    ties,
)
from calibkit.validation.classes import check_classes
from calibkit.validation.report import ERROR, NOTE, WARNING, Finding, Report, refused
from calibkit.validation.roles import roles_of

#: Groups, segments and classes that a message names.
_NAMED = 5
#: Fewer groups, or one with a larger share of the rows, make poor folds.
_FEWEST_GROUPS, _LARGEST_GROUP = 5, 0.5
#: A row of so much weight decides alone.
_HEAVY = 0.1
#: A text feature with more distinct values than this share of its rows is an identifier.
_IDENTIFIER = 0.9
#: Larger numbers are no log-odds that a model gives.
_LARGEST_LOGIT = 50
_LEAST_PERCENT, _PERCENT = 2, 100
#: Fewer values outside [0, 1] are mistakes, not another scale.
_MANY = 0.1

Floats = NDArray[np.float64]


def unreadable(error: DataError, files: Sequence[str]) -> Report:
    """Return the report on inputs that cannot even be read as rows."""
    finding = refused(ERROR, "file", error.message, error)
    return Report(rows=0, files=list(files), columns=[], findings=[finding])


def validate(options: ValidateOptions, source: Source) -> Report:
    """Look at every column of a role and at the rows as a whole; nothing that is found ends it.

    Parameters
    ----------
    source
        The inputs.
    options
        Which columns, and what they are claimed to hold.

    Raises
    ------
    UsageError
        As `roles_of`.
    """
    roles = roles_of(options, source)
    findings = Findings(source)
    for remark in source.warnings:
        findings.add(WARNING, "file", remark)
    run = _Run(options, source, roles, findings)
    for check in (
        run.scores,
        run.labels,
        run.ranking,
        run.uncertainty,
        run.weights,
        run.segments,
        run.groups,
        run.time,
        run.classes,
        run.features,
        run.duplicates,
    ):
        check()
    return Report(
        rows=source.rows, files=source.paths, columns=findings.columns, findings=findings.found
    )


class _Run:
    """One validation; each method looks at the columns of one role."""

    def __init__(
        self,
        options: ValidateOptions,
        source: Source,
        roles: dict[str, list[str]],
        findings: Findings,
    ) -> None:
        self.options, self.source, self.roles, self.findings = options, source, roles, findings
        names = list(dict.fromkeys(name for columns in roles.values() for name in columns))
        self.frame = source.read(names)
        self.score: dict[str, Floats] = {}
        self.label: Floats | None = None

    def of(self, role: str, *, needed: bool = True, empty: bool = False) -> Iterator[Values]:
        """Yield the columns of a role that have a value; rows without text are never left out."""
        dropped = self.options.on_missing == "drop" and not empty
        for name in self.roles.get(role, ()):
            values = present_values(
                self.findings, self.frame[name], role, dropped=dropped, needed=needed, empty=empty
            )
            if values is not None:
                yield values

    def scores(self) -> None:
        """Look at scores and members: their range, scale, ties, and members that are the same."""
        probability = measure(self.options.scale) == "probability"
        most = 100.0 if self.options.scale == "percent" else 1.0
        for role in ("score", "member"):
            for values in self.of(role):
                array = numbers(
                    self.findings,
                    values,
                    low=0.0 if probability else None,
                    high=most if probability else None,
                    infinite=ERROR if role == "member" else WARNING,
                    advice=_guess(values) if self.options.scale == "probability" else "",
                )
                if array is None:
                    continue
                self.score[values.column.name] = values.placed(array.astype(np.float64))
                if not constant(self.findings, values, role):
                    ties(self.findings, values, array)
                    low, high = float(array.min()), float(array.max())
                    said = remarks.looks_like_probabilities("", low, high, self.options.scale)
                    self._remark("scale", values.column.name, said)
        self._twins(self.roles.get("member", []))

    def _twins(self, members: list[str]) -> None:
        first: dict[bytes, str] = {}
        for name in members:
            if name in self.score:
                same = first.setdefault(self.score[name].tobytes(), name)
                if same != name:
                    said = f"the same as column {same!r} in all rows: no replicate of it"
                    self.findings.add(WARNING, "duplicates", said, name)

    def labels(self) -> None:
        """Look at the labels: two classes, or one of those of the class probabilities."""
        dropped = self.options.unlabelled == "drop"
        for name in self.roles.get("label", ()):
            values = present_values(
                self.findings,
                self.frame[name],
                "label",
                dropped=dropped,
                empty=True,
                option="--unlabelled",
            )
            of_classes = {"probs", "counts"} & self.roles.keys() and "score" not in self.roles
            if values is None or of_classes:
                continue
            found = labels(self.findings, values, self.options.positive)
            if found is not None:
                self.label = values.placed(found.astype(np.float64))

    def ranking(self) -> None:
        """Look at whether higher scores go with more positives."""
        if self.label is None:
            return
        for name, score in self.score.items():
            both = ~np.isnan(score) & ~np.isnan(self.label)
            distinct, place = np.unique(score[both], return_inverse=True)
            rows = np.bincount(place, minlength=distinct.size)
            hits = np.bincount(place[self.label[both] == 1], minlength=distinct.size)
            if distinct.size > 1:
                self._remark("ranking", name, remarks.inverted("", rows, hits))

    def uncertainty(self) -> None:
        """Look at the uncertainty: any finite number."""
        for values in self.of("uncertainty"):
            if numbers(self.findings, values) is not None:
                constant(self.findings, values, "uncertainty")

    def weights(self) -> None:
        """Look at the weights: not negative, not all 0, none that decides alone."""
        for values in self.of("weight"):
            array = numbers(self.findings, values, low=0.0, advice="weights cannot be negative")
            if array is None or not np.isfinite(array).all() or array.min() < 0:
                continue
            column, where = values.column, values.where
            if self.findings.attempt(ERROR, "range", partial(weight_column, column, where)) is None:
                continue
            name = column.name
            light = int(np.count_nonzero(array == 0))
            if light:
                self.findings.add(
                    NOTE, "weights", "rows of weight 0 count for nothing", name, light
                )
            share = 1.0 / float((array / array.max()).sum())
            if share > _HEAVY and array.size >= remarks.FEWEST:
                said = f"one row has {share:.0%} of the weight: it decides the result"
                self.findings.add(WARNING, "weights", said, name, 1)

    def segments(self) -> None:
        """Look at the values of ``--by``: present in every row, each with both classes."""
        for values in self.of("by", empty=True):
            constant(self.findings, values, "segment")
            self._one_class(values, WARNING, "a fit of its own needs both")

    def groups(self) -> None:
        """Look at ``--groups``: present, and enough of them for folds."""
        for values in self.of("groups", empty=True):
            sizes = values.column.value_counts(sort=True)
            largest = int(sizes["count"][0]) / values.column.len()
            name, count = values.column.name, sizes.height
            if count < _FEWEST_GROUPS:
                said = f"{count} group{'s' if count > 1 else ''} only: too few for folds"
                self.findings.add(WARNING, "groups", said, name)
            elif largest > _LARGEST_GROUP:
                said = f"one group has {largest:.0%} of the rows: folds will be uneven"
                self.findings.add(WARNING, "groups", said, name)
            elif count == values.column.len():
                said = "every row has a group of its own: the same as no groups"
                self.findings.add(NOTE, "groups", said, name)
            else:
                self._one_class(values, NOTE, "folds keep each of them whole")

    def _one_class(self, values: Values, level: str, why: str) -> None:
        """Add which values of a column have rows of one class only."""
        if self.label is None:
            return
        label = pl.Series("label", self.label[values.present], nan_to_null=True)
        rates = (
            pl.DataFrame({"value": values.column, "label": label})
            .drop_nulls()
            .group_by("value")
            .agg(pl.col("label").min().alias("least"), pl.col("label").max().alias("most"))
        )
        alone = rates.filter(pl.col("least") == pl.col("most"))["value"].to_list()
        if not alone:
            return
        named = sorted(map(segment_name, alone), key=natural_key)
        more = ", …" if len(named) > _NAMED else ""
        said = (
            f"{len(alone)} of {rates.height} values have rows of one class only "
            f"({', '.join(named[:_NAMED])}{more}); {why}"
        )
        self.findings.add(level, "classes", said, values.column.name)

    def time(self) -> None:
        """Look at ``--time``: present, dates in one format, and more than one."""
        for name in self.roles.get("time", ()):
            try:
                self.source.as_dates([name])
            except DataError as error:
                found = refused(ERROR, "type", error.message, error)
                self.findings.found.append(found)
        for values in self.of("time", empty=True):
            if values.column.dtype.is_nested():
                said = f"{values.column.dtype} has no order: name numbers, dates or text"
                self.findings.add(ERROR, "type", said, values.column.name)
                continue
            constant(self.findings, values, "time")

    def classes(self) -> None:
        """Look at class probabilities and votes, as the fits on them read them."""
        check_classes(self.findings, self.frame, self.roles, self.options)

    def features(self) -> None:
        """Look at features: missing values mean something, a constant or an identifier nothing."""
        for values in self.of("feature", needed=False):
            name, size = values.column.name, values.column.len()
            if constant(self.findings, values, "feature") or values.column.dtype.is_numeric():
                continue
            if values.column.dtype.is_nested():
                said = f"{values.column.dtype} is no feature: name numbers, text or categories"
                self.findings.add(ERROR, "type", said, name)
            elif size >= remarks.FEWEST and values.column.n_unique() > _IDENTIFIER * size:
                said = "nearly every row has a text of its own: an identifier is no feature"
                self.findings.add(WARNING, "constant", said, name)

    def duplicates(self) -> None:
        """Look at rows that are equal in all columns."""
        whole = self.frame
        if set(whole.columns) != set(self.source.schema):
            whole = self.source.read()
        if any(kind.is_nested() for kind in whole.dtypes):
            return
        number = "row" + "_" * max(map(len, whole.columns))  # no column has that name
        numbered = whole.with_row_index(number)
        first = numbered.unique(subset=whole.columns, keep="first")[number]
        again = np.ones(whole.height, bool)
        again[first.to_numpy()] = False
        count = int(np.count_nonzero(again))
        if not count:
            return
        beside = len(whole.columns) > len(self.frame.columns)
        file, places = self.source.locate(np.flatnonzero(again)[:FIRST_ROWS].tolist())
        self.findings.found.append(
            Finding(
                level=WARNING if beside else NOTE,
                check="duplicates",
                message=f"{count} row{'s' if count > 1 else ''} equal to an earlier one in all "
                f"{whole.width} columns",
                file=file,
                rows=count,
                first_rows=places,
            )
        )

    def _remark(self, check: str, column: str, said: str | None) -> None:
        if said is not None:
            self.findings.add(WARNING, check, said.removeprefix("column '': "), column)


def _guess(values: Values) -> str:
    """Return what scores that are no probabilities look like, if many of them are none."""
    plain = "probabilities lie in [0, 1]; use --scale logit or --scale raw for other scores"
    if not values.column.dtype.is_numeric():
        return plain
    array = values.column.cast(pl.Float64).to_numpy()
    least, most = float(array.min()), float(array.max())
    above, below = np.count_nonzero(array > 1), np.count_nonzero(array < 0)
    if not below and above > _MANY * array.size and _LEAST_PERCENT < most <= _PERCENT:
        return "these look like percentages: use --scale percent"
    if below > _MANY * array.size and max(-least, most) <= _LARGEST_LOGIT:
        return "these look like logits: use --scale logit, or --scale raw"
    return plain
