"""Rows of replicate predictions, checked window by window, and summed up to the last bit.

The sums merge exactly.  With F the links of S members, lambda = 1 - E[var over replicates] / Var[F_1]:
`Moments.estimate`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial, reduce
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Bools, Floats, Int64s, Numbers, blocks, rows_by_group
from calibkit.columns.patterns import number_columns
from calibkit.columns.rows import (
    Remark,
    RowFinder,
    merge_remarks,
    numeric_column,
    read_rows,
    score_column,
    weight_column,
)
from calibkit.columns.segments import read_segments
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.methods.vad.model import Segment, VadFit
from calibkit.models.kinds import Request
from calibkit.models.scales import measure
from calibkit.numerics.hashes import data_hash, merge_hashes, text_numbers
from calibkit.numerics.sums import LEAST_PRODUCT, ExactSum, nearest_float
from calibkit.options.vad import VadOptions
from calibkit.summaries.passes import Passes, merge_all
from calibkit.summaries.score_rows import columns_beside
from calibkit_kernels.elementary import logits
from calibkit_kernels.maps import LEAST, log_odds
from calibkit_kernels.metrics import expit
from calibkit_kernels.sums import split_squares, squares_about_mean

if TYPE_CHECKING:
    from calibkit.maps.model import CalibratorModel

#: Rows on the scale of the link at a time.
_BLOCK: Final = 2**16

_UNIT: Final = 1 << -LEAST_PRODUCT

#: Numbers beyond this have squares that float64 does not hold.
LARGEST: Final = 1e150

#: Rows of a window; with segments more, since each of a window's segments costs something by itself.
_ROWS: Final = 2**17
_SEGMENT_ROWS: Final = 2**19
_FEWEST_ROWS: Final = 2**10

#: Bytes that a prediction takes while a window is worked on, its link and sums included.
_BYTES: Final = 48


def to_link(
    values: Numbers, scale: str, link: str, out: Floats, odds: Callable[..., None] = log_odds
) -> Bools:
    """Write values of a scale on the scale of a link.

    Probabilities are clipped to [1e-6, 1 - 1e-6] before their logit is taken, by `odds`; returns where.
    Logits and raw numbers are never clipped.
    """
    if link == "logit" and scale == "probability":
        exact = values.astype(np.float64, copy=False)
        odds(exact, out)
        return (exact < LEAST) | (exact > 1.0 - LEAST)
    if link == "identity" and scale == "logit":
        expit(values, out)
    else:
        out[:] = values
    return np.zeros(values.size, np.bool_)


def from_link(values: Floats, scale: str, link: str) -> Floats:
    """Return values on the scale of a link as probabilities; raw numbers stay what they are."""
    if link == "logit":
        found = np.empty_like(values)
        expit(values, found)
        return found
    return values if scale == "raw" else np.clip(values, 0.0, 1.0)


class Moments(Struct, frozen=True):
    """Sums over rows, without rounding: of parts of the rows, they merge into those of the whole."""

    #: How many replicates there are, and the first that enters the conditional variance.
    members: int
    first: int
    #: In units of 2^-2148: the weights (1 a row without any), those of rows with a clipped value,
    #: each prediction, the squares of the first member, the squares about each row's mean.
    sums: tuple[int, ...]

    def merge(self, *others: Moments) -> Moments:
        """Return the sums over the rows of all."""
        columns = zip(*(one.sums for one in (self, *others)), strict=True)
        return replace(self, sums=tuple(map(sum, columns)))

    @property
    def weight(self) -> Fraction:
        """The sum of the weights, or the number of rows."""
        return Fraction(self.sums[0], _UNIT)

    def estimate(self) -> Segment:
        """Return shrinkage, mean and variances; needs a positive weight.

        The mean is that of the prediction that is shrunk: the extra one if there is one, else the
        first member.  Variances are population forms: of the first member over rows, and of one row
        over replicates, about the mean shift of each.  The shrinkage is 1 where the first member is
        constant.
        """
        weight, clipped, *totals, squares, spread = self.sums
        means = [Fraction(total, weight) for total in totals]
        # Squares below the smallest float are lost: a constant may seem to vary by less than nothing.
        variance = max(Fraction(squares, weight) - means[0] * means[0], Fraction(0))
        replicates = means[self.first : self.members]
        middle = sum(replicates, Fraction(0)) / len(replicates)
        shift = sum(((mean - middle) * (mean - middle) for mean in replicates), Fraction(0))
        # The squares within rows are rounded one by one: equal replicates may fall below 0.
        within = max((Fraction(spread, weight) - shift) / (len(replicates) - 1), Fraction(0))
        shrinkage = 1 - within / variance if variance else Fraction(1)
        return Segment(
            lambda_=nearest_float(shrinkage),
            mean=nearest_float(means[-1] if len(means) > self.members else means[0]),
            fit=VadFit(
                rows=_amount(self.weight),
                variance=nearest_float(variance),
                conditional_variance=nearest_float(within),
                clipped=_amount(Fraction(clipped, _UNIT)),
            ),
        )


def _amount(weight: Fraction) -> int | float:
    """Return a number of rows: an integer where it is whole."""
    return int(weight) if weight.denominator == 1 else nearest_float(weight)


def first_of(options: VadOptions) -> int:
    """Return the first member that enters the conditional variance."""
    return 1 if options.replicates == "bootstrap" else 0


def sum_moments(
    predictions: Sequence[Numbers],
    options: VadOptions,
    weight: Floats | None = None,
    *,
    extra: bool = False,
) -> Moments:
    """Return the sums over rows, on the scale of the link.

    The predictions are the replicates, first the one in service; `extra`: then comes a further one,
    calibrated probabilities, of which only the mean is wanted.  Rows count by their weight, if any.
    """
    members, first = len(predictions) - extra, first_of(options)
    totals = [ExactSum() for _ in range(len(predictions) + 4)]
    for own in blocks(predictions[0].size, _BLOCK):
        size = predictions[0][own].size
        links, moved = np.empty((len(predictions), size)), np.zeros(size, np.bool_)
        for place, values in enumerate(predictions):
            scale = measure(options.scale) if place < members else "probability"
            moved |= to_link(values[own], scale, options.link, links[place], logits)
        times = None if weight is None else weight[own]
        if times is None:
            counted = np.array([size]), np.array([np.count_nonzero(moved)])
        else:
            counted = times, times[moved]
        for total, values in zip(totals, counted, strict=False):
            total.add(values)
        square, rest, spread = np.empty((3, size))
        split_squares(links[0], square, rest)
        squares_about_mean(links[first:members], spread)
        columns = [*enumerate(links, 2), (-2, square), (-2, rest), (-1, spread)]
        for place, values in columns:
            totals[place].add(values, times)
    return Moments(members, first, tuple(total.units for total in totals))


class Members(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The replicates, first the one in service.

    `score_dtype` is the type of calibrated probabilities; None without any.
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    score_dtype: str | None = None


class Counted(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is known of rows besides their moments: how many were used and read, what was dropped.

    `hash` is the sum of the hashes of the rows over the columns used, each by its place; `twins` says
    of each replicate whether it equals the first one in every row.
    """

    rows: int
    rows_read: int
    hash: str
    twins: tuple[bool, ...]
    remarks: tuple[Remark, ...]

    def merge(self, *others: Counted) -> Counted:
        """Return what is known of the rows of all."""
        parts = (self, *others)
        return Counted(
            rows=sum(one.rows for one in parts),
            rows_read=sum(one.rows_read for one in parts),
            hash=merge_hashes(one.hash for one in parts),
            twins=tuple(map(all, zip(*(one.twins for one in parts), strict=True))),
            remarks=merge_remarks(remark for one in parts for remark in one.remarks),
        )


class MemberSummary(Struct, frozen=True, kw_only=True):
    """Rows of replicate predictions, summed up.

    `moments` are the sums of each segment by its name, or of all rows under None; `files` and
    `warnings` are the inputs, and what is to be said of them.
    """

    members: Members
    moments: Mapping[str | None, Moments]
    counted: Counted
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def merge(self, *others: MemberSummary) -> MemberSummary:
        """Return the summary of the rows of all."""
        found: dict[str | None, list[Moments]] = {}
        for part in (self, *others):
            for name, own in part.moments.items():
                found.setdefault(name, []).append(own)
        moments = {name: merge_all(own) for name, own in found.items()}
        counted = merge_all(part.counted for part in (self, *others))
        return replace(self, moments=moments, counted=counted)

    @property
    def whole(self) -> Moments:
        """The sums over all rows."""
        return merge_all(self.moments.values())

    def told(self) -> tuple[str, ...]:
        """Return what the user has to be told."""
        first, *others = self.members.names
        twins = (
            f"columns {first!r} and {name!r} are equal in every row: a member counted twice makes "
            "the replicates look more alike than they are"
            for name, equal in zip(others, self.counted.twins[1:], strict=True)
            if equal
        )
        return (*self.warnings, *(remark.text for remark in self.counted.remarks), *twins)


def read_vad_rows(
    source: Source, options: VadOptions
) -> tuple[MemberSummary, MemberSummary | None]:
    """Go through the rows of a fit: those to shrink, and in tandem those like the training rows.

    Raises `UsageError` for options that exclude each other and columns that are not there, `DataError`
    for values that are missing, infinite, out of range or of the wrong type.
    """
    given = options.train_input
    tandem = options.calibrator is not None or options.calibrated is not None
    if tandem and given is None:
        raise UsageError(
            "after a calibrator lambda is that of the rows to shrink over that of rows like the "
            "training rows; name these by --train-input."
        )
    if not tandem and given is not None:
        raise UsageError("--train-input goes with --calibrator or --calibrated.")
    train = None if given is None else source.beside(given, "--train-input")
    names = member_names(source, options)
    need_members(names, options)
    test = _summarised(source, names, options)
    if train is None:
        return test, None
    alone = dataclasses.replace(options, calibrated=None, calibrator=None, train_input=None)
    own = dataclasses.replace(alone, members=names)
    return test, _summarised(train, member_names(train, own), own)


def member_names(source: Source, options: VadOptions) -> tuple[str, ...]:
    """Return the columns of the replicates, first the one in service.

    Raises `UsageError` for a pattern that matches nothing, a column of lists, a column in two roles.
    """
    advice = "give one column a member"
    found = dict.fromkeys(number_columns(source, options.names, "--members", advice))
    # A pattern may match the column of another role; a name that was typed may not.
    taken = dict.fromkeys(options.names, "--members")
    for role in ("calibrated", "weight", "by"):
        for name in columns_beside(source, options, role, taken=taken).values():
            taken[name] = f"--{role}"
            found.pop(name, None)
    return tuple(found)


def need_members(names: Sequence[str], options: VadOptions) -> None:
    """Raise a `UsageError` for fewer replicates than the kind of replicates needs."""
    what = "at least two replicates of the predictor"
    if options.replicates == "bootstrap":
        what = "the fit on all rows and at least two bootstrap refits (one shows no variance)"
    if len(names) < first_of(options) + 2:
        found = ", ".join(map(repr, names)) or "none"
        raise UsageError(f"--members matches {found}; vad needs {what}.")


def _summarised(source: Source, names: Sequence[str], options: VadOptions) -> MemberSummary:
    """Return the summary of the rows of a source, gone through window by window."""
    beside = [options.calibrated, options.weight, options.by]
    if options.map is not None:  # what a calibrator reads beside the score
        roles = options.map.columns.items()
        others = [one.name for role, one in roles if role not in ("score", "label", "weight")]
        source.require(others, "the calibrator (see calibkit show)")
        beside += others
    # In the order in which they are checked.
    columns = list(dict.fromkeys([*names, *(name for name in beside if name is not None)]))
    size = _ROWS if options.by is None else _SEGMENT_ROWS
    if source.memory is not None:
        room = source.memory.room // (_BYTES * len(columns) * (options.workers + 2))
        size = max(_FEWEST_ROWS, min(size, room))
    work = partial(_summary, columns=columns, names=names, options=options)
    passes = Passes(source, columns, work, None, rows=size, threads=options.workers)
    found = reduce(MemberSummary.merge, passes)
    counted = replace(
        found.counted,
        remarks=merge_remarks((*found.counted.remarks, *passes.remarks)),
        rows_read=found.counted.rows_read + passes.dropped,
    )
    return replace(found, counted=counted, files=tuple(source.paths), warnings=source.warnings)


def _summary(
    window: Source, columns: Sequence[str], names: Sequence[str], options: VadOptions
) -> MemberSummary:
    """Read and check the rows of a window, and return their summary."""
    rows = read_rows(window, columns, missing=columns if options.on_missing == "drop" else ())
    frame, where = rows.frame, rows.where
    predictions = [_prediction(frame[name], where, options) for name in names]
    used = {f"{place}": own for place, own in enumerate(predictions)}
    if options.calibrated is not None:
        used["fixed"] = score_column(frame[options.calibrated], where, "probability")
    if options.weight is not None:
        used["weight"] = weight_column(frame[options.weight], where)
    order: Mapping[str | None, Int64s | slice] = {None: slice(None)}
    if options.by is not None:
        segments = read_segments(frame[options.by], where)
        rows_of = rows_by_group(segments.code, len(segments.names))
        order = dict(zip(segments.names, rows_of, strict=True))
        # A number stands for a name, the same in any set of segments.
        used["by"] = np.array(text_numbers(segments.names, "big"))[segments.code]
    if options.map is not None:
        from calibkit.maps.application import calibrator_applier  # only then: it loads many kernels

        applier = calibrator_applier(cast("CalibratorModel", options.map))
        reads = applier.reads(window, Request(columns={"score": names[0]}))
        used["fixed"] = applier.values(frame, where, reads)[0].to_numpy()
    twins = tuple(np.array_equal(predictions[0], own) for own in predictions)
    members = Members(names=tuple(names), dtypes=tuple(str(own.dtype) for own in predictions))
    fixed, weight = used.get("fixed"), used.get("weight")
    if fixed is not None:
        predictions.append(fixed)
        members = replace(members, score_dtype=str(fixed.dtype))

    def moments(own: Int64s | slice) -> Moments:
        mass = None if weight is None else weight[own]
        return sum_moments([one[own] for one in predictions], options, mass, extra="fixed" in used)

    return MemberSummary(
        members=members,
        moments={name: moments(own) for name, own in order.items()},
        counted=Counted(
            rows=frame.height,
            rows_read=rows.rows_read,
            hash=data_hash(used),  # each column by its place
            twins=twins,
            remarks=rows.remarks,
        ),
    )


def _prediction(column: pl.Series, where: RowFinder, options: VadOptions) -> Numbers:
    if measure(options.scale) == "probability":
        return score_column(column, where, options.scale)
    advice = "such numbers have squares that float64 does not hold; scale them down"
    return numeric_column(column, where, low=-LARGEST, high=LARGEST, advice=advice)
