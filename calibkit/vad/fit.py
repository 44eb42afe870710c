"""Fitting the shrinkage that takes the maximisation bias off selected predictions.

Rows that are selected because their predictions are high have predictions that are too high, even
where the model is unbiased: of two rows equally good, the one whose error is positive is taken.
With replicates of the model the variance of these errors can be told apart from the variance of what
is predicted, without a label.

Fan, Si, Zhang, "Calibration matters: tackling maximization bias in large-scale advertising
recommendation systems", algorithm 1 (VAD) and section 6.2 (in tandem with a calibrator, VAD+).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit import __version__
from calibkit.errors import DataError
from calibkit.models import Column, Provenance
from calibkit.provenance import data_hash
from calibkit.segments import Segments
from calibkit.threads import later
from calibkit.vad.model import (
    Segment,
    SegmentTable,
    TrainSeen,
    VadFit,
    VadModel,
)
from calibkit.vad.moments import Columns, Estimate, Moments, Setting, joined, sum_moments
from calibkit.vad.rows import MemberRows
from calibkit.vad.spec import VadRows, VadSpec

Floats = NDArray[Any]


@dataclass(frozen=True)
class VadFitted:
    """A fitted shrinkage, and what the user should be told."""

    model: VadModel
    warnings: tuple[str, ...]


def fit_vad(
    rows: VadRows,
    spec: VadSpec,
    *,
    provenance: str = "hash",
    tags: dict[str, str] | None = None,
) -> VadFitted:
    """Fit a shrinkage on unlabelled rows of replicate predictions.

    Parameters
    ----------
    rows
        From `read_vad_rows`.
    spec
        What to fit.
    provenance
        ``hash``, ``names`` (adds file names) or ``none``.
    tags
        Copied into the model.

    Returns
    -------
    VadFitted
        With F the links of the members, lambda = 1 - E[var over replicates] / Var[F_1]; in tandem
        that of the rows divided by that of the rows of the training distribution.

    Raises
    ------
    DataError
        In tandem, if lambda of the training distribution is not positive.
    """
    test, train = rows.test, rows.train
    scale = rows.options.scale
    hashed = later(spec.threads if provenance != "none" else 1, _hash, test)
    setting = Setting(scale, spec.link, spec.replicates)
    parts = _moments(test, setting, spec)
    others = None if train is None else _moments(train, setting, spec)
    pooled = _segment(_all(parts), None if others is None else _all(others))
    if pooled is None:
        assert train is not None
        assert others is not None
        file = train.source.parts[0].path
        raise DataError(
            f"{file}: lambda of the training distribution is "
            f"{_all(others).estimate().shrinkage:.6g}, not positive: the replicates differ more than "
            "the predictions vary; use vad without a calibrator",
            file=file,
        )
    model = VadModel(
        kind=VadModel.KIND,
        version=VadModel.VERSION,
        columns=_columns(rows),
        link=spec.link,
        lambda_=pooled.lambda_,
        mean=pooled.mean,
        members=list(test.names),
        replicates=spec.replicates,
        calibrator=None if spec.calibrator is None else spec.calibrator.as_dict(),
        groups=_groups(test, parts, others, spec),
        fit=pooled.fit,
        tags=dict(tags or {}),
    )
    if provenance != "none":
        files = test.source.paths if provenance == "names" else None
        options = _options(rows, spec)
        model.provenance = Provenance(__version__, options, test.frame.height, hashed(), files)
    return VadFitted(model, tuple(_warnings(model)))


def _moments(rows: MemberRows, setting: Setting, spec: VadSpec) -> dict[str | None, Moments]:
    """Return the sums of each segment that is large enough, and of all other rows under None."""
    if rows.segments is None:
        return {None: sum_moments(rows.parts, setting, spec.threads)}
    return {
        name: sum_moments([part], setting, spec.threads)
        for name, part in _split(joined(rows.parts), rows.segments, spec.min_rows)
    }


def _split(
    columns: Columns, segments: Segments, least: int
) -> Iterator[tuple[str | None, Columns]]:
    """Yield the rows of each large segment, then those of all small ones together."""
    code, names = segments.code, segments.names
    size = np.bincount(code, minlength=len(names))
    weight = size if columns.weight is None else np.bincount(code, columns.weight, len(names))
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(size)
    small = np.zeros(len(names), bool)
    for place, name in enumerate(names):
        # A sum of weights in floats: 1e-9 of slack, so that no order of rows decides.
        if weight[place] < least * (1 - 1e-9):
            small[place] = True
            continue
        yield name, columns.take(order[ends[place] - size[place] : ends[place]])
    if small.any():
        yield None, columns.take(np.flatnonzero(small[code]))


def _all(parts: Mapping[str | None, Moments]) -> Moments:
    first, *others = parts.values()
    for other in others:
        first = first.merge(other)
    return first


def _segment(test: Moments, train: Moments | None) -> Segment | None:
    """Return the shrinkage that two sets of rows give; None where that of training is not positive."""
    own = test.estimate()
    fit = VadFit(**_seen(own))
    if train is None:
        return Segment(lambda_=own.shrinkage, mean=own.mean, fit=fit)
    other = train.estimate()
    if other.shrinkage <= 0:
        return None
    fit.lambda_test = own.shrinkage
    fit.train = TrainSeen(**_seen(other), lambda_train=other.shrinkage)
    return Segment(lambda_=own.shrinkage / other.shrinkage, mean=own.mean, fit=fit)


def _seen(estimate: Estimate) -> dict[str, Any]:
    return {
        "rows": estimate.rows,
        "variance": estimate.variance,
        "conditional_variance": estimate.conditional_variance,
        "clipped": estimate.clipped,
    }


def _groups(
    rows: MemberRows,
    parts: Mapping[str | None, Moments],
    others: Mapping[str | None, Moments] | None,
    spec: VadSpec,
) -> SegmentTable | None:
    if rows.segments is None:
        return None
    values: dict[str, Segment] = {}
    for name in rows.segments.names:
        if name not in parts or (others is not None and name not in others):
            continue
        found = _segment(parts[name], None if others is None else others[name])
        if found is not None:
            values[name] = found
    pooled = [name for name in rows.segments.names if name not in values]
    return SegmentTable(min_rows=spec.min_rows, values=values, pooled=pooled)


def _columns(rows: VadRows) -> dict[str, Column]:
    """Return the columns by role: `score` is what a row is shrunk from."""
    test, options = rows.test, rows.options
    if options.calibrated is not None:
        kind = str(test.parts[0].extra.dtype) if test.parts[0].extra is not None else None
        score = Column(options.calibrated, dtype=kind, scale="probability")
    else:
        score = Column(test.names[0], dtype=test.dtypes[0], scale=options.scale)
    columns = {"score": score}
    if options.by is not None:
        columns["by"] = Column(options.by)
    if options.weight is not None:
        columns["weight"] = Column(options.weight)
    return columns


def _options(rows: VadRows, spec: VadSpec) -> dict[str, Any]:
    found: dict[str, Any] = {
        "link": spec.link,
        "replicates": spec.replicates,
        "on_missing": rows.options.on_missing,
    }
    if rows.options.by is not None:
        found["min_rows"] = spec.min_rows
    if rows.train is not None:
        found["train_rows"] = rows.train.frame.height
        found["train_hash"] = _hash(rows.train)
    return found


def _hash(rows: MemberRows) -> str:
    """Return the hash of the rows over the columns used, each by its place."""
    code = None if rows.segments is None else rows.segments.code
    total, start = 0, 0
    for part in rows.parts:
        columns = {f"{place}": values for place, values in enumerate(part.members)}
        for role, values in (("fixed", part.extra), ("weight", part.weight)):
            if values is not None:
                columns[role] = values
        if code is not None:
            columns["by"] = code[start : start + part.rows]
        total += int(data_hash(columns), 16)
        start += part.rows
    return f"{total % 2**64:016x}"


def _warnings(model: VadModel) -> Iterator[str]:
    groups = model.groups
    fits = [model.fit, *([] if groups is None else (one.fit for one in groups.values.values()))]
    names = ["", *([] if groups is None else (f"--by {name}: " for name in groups.values))]
    for where, (shrinkage, _), fit in zip(names, model.lines(), fits, strict=True):
        if shrinkage < 0:
            yield (
                f"{where}lambda is {shrinkage:.4g}, below 0: the replicates differ more than the "
                "predictions vary; it is applied as 0, which gives every row the same probability"
            )
        elif fit.variance == 0:
            yield f"{where}the first member is constant: nothing to shrink, lambda = 1"
    if groups is not None and groups.pooled:
        shown = ", ".join(map(repr, groups.pooled[:10]))
        more = f" and {len(groups.pooled) - 10} more" if len(groups.pooled) > 10 else ""
        column = model.columns["by"].name
        yield (
            f"column {column!r}: {shown}{more}: fewer than {groups.min_rows} rows; shrunk as all "
            "rows together"
        )
