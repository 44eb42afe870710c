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
from typing import Any

from calibkit.columns.numeric import weightless
from calibkit.columns.patterns import natural_key
from calibkit.errors import DataError
from calibkit.methods.vad.model import Seen, Segment, SegmentTable, TrainSeen, VadModel
from calibkit.methods.vad.moments import Moments
from calibkit.methods.vad.rows import VadRows
from calibkit.models.model import Column
from calibkit.options.vad import VadOptions
from calibkit.summaries.runs import Fitted, provenance


def fit_vad(rows: VadRows, options: VadOptions) -> Fitted[VadModel]:
    """Fit a shrinkage on unlabelled rows of replicate predictions.

    Parameters
    ----------
    rows
        From `read_vad_rows`.
    options
        What to fit.

    Returns
    -------
    Fitted
        With F the links of the members, lambda = 1 - E[var over replicates] / Var[F_1]; in tandem
        that of the rows divided by that of the rows of the training distribution.

    Raises
    ------
    DataError
        Weights that are all 0; in tandem, if lambda of the training distribution is not positive.
    """
    test, train = rows.test, rows.train
    for summary in (test, train):
        if summary is not None and not summary.whole.weight:
            raise weightless(summary.files[0], options.weight, summary.counted.rows)
    pooled = _segment(test.whole, None if train is None else train.whole)
    if pooled is None:
        assert train is not None
        file = train.files[0]
        raise DataError(
            f"{file}: lambda of the training distribution is "
            f"{train.whole.estimate().lambda_:.6g}, not positive: the replicates differ more than "
            "the predictions vary; use vad without a calibrator",
            file=file,
        )
    others = None if train is None else train.moments
    shaped: dict[str, Any] = {
        "link": options.link,
        "replicates": options.replicates,
        "on_missing": options.on_missing,
    }
    if options.by is not None:
        shaped |= {"min_rows": options.min_rows}
    if train is not None:
        shaped |= {"train_rows": train.counted.rows, "train_hash": train.counted.hash}
    model = VadModel(
        kind=VadModel.KIND,
        version=VadModel.VERSION,
        columns=columns_of(rows),
        link=options.link,
        lambda_=pooled.lambda_,
        mean=pooled.mean,
        members=list(test.names),
        replicates=options.replicates,
        calibrator=None if options.map is None else options.map.as_dict(),
        groups=None if options.by is None else _groups(test.moments, others, options.min_rows),
        fit=pooled.fit,
        tags=dict(options.tags or {}),
        provenance=provenance(options, shaped, test.counted.rows, test.counted.hash, test.files),
    )
    told = (*test.told(), *(() if train is None else train.told()), *_warnings(model))
    details = (f"{test.counted.rows:,} rows used of {test.counted.rows_read:,} read",)
    return Fitted(model, tuple(dict.fromkeys(told)), details=details)


def _segment(test: Moments, train: Moments | None) -> Segment | None:
    """Return the shrinkage that two sets of rows give; None where that of training is not positive."""
    found = test.estimate()
    if train is None:
        return found
    other = train.estimate()
    if other.lambda_ <= 0:
        return None
    seen = {name: getattr(other.fit, name) for name in Seen.__struct_fields__}
    found.fit.train = TrainSeen(**seen, lambda_train=other.lambda_)
    found.fit.lambda_test = found.lambda_
    found.lambda_ /= other.lambda_
    return found


def _groups(
    parts: Mapping[str | None, Moments],
    others: Mapping[str | None, Moments] | None,
    min_rows: int,
) -> SegmentTable:
    """Return the segments that are large enough, in the natural order of their names."""
    values: dict[str, Segment] = {}
    names = sorted((name for name in parts if name is not None), key=natural_key)
    for name in names:
        train = None if others is None else others.get(name)
        few = parts[name].weight < min_rows or (train is not None and train.weight < min_rows)
        if few or (others is not None and train is None):
            continue
        found = _segment(parts[name], train)
        if found is not None:
            values[name] = found
    pooled = [name for name in names if name not in values]
    return SegmentTable(min_rows=min_rows, values=values, pooled=pooled)


def columns_of(rows: VadRows) -> dict[str, Column]:
    """Return the columns by role: `score` is what a row is shrunk from."""
    test, options = rows.test, rows.options
    if options.calibrated is not None:
        score = Column(options.calibrated, dtype=test.score_dtype, scale="probability")
    else:
        score = Column(test.names[0], dtype=test.dtypes[0], scale=options.scale)
    columns = {"score": score}
    if options.by is not None:
        columns["by"] = Column(options.by)
    if options.weight is not None:
        columns["weight"] = Column(options.weight)
    return columns


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
