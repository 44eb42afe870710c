"""What a certificate is drawn from: the rows, the two parts they are dealt to, and their limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calibkit.bins.binning import check_bins
from calibkit.bins.grid_table import GridTable
from calibkit.columns.columns import ScoreRows
from calibkit.columns.segments import read_segments
from calibkit.columns.splits import group_keys, group_parts, time_parts
from calibkit.errors import DataError, InfeasibleError, UsageError
from calibkit.methods.boundary.problem.values import amounts_of
from calibkit.numerics.row_hash import random_keys, random_parts
from calibkit.options.boundary import AUTO, LIMITS, BoundaryOptions

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]

#: The methods that have a path.
CERTIFIABLE = (AUTO, "st", "logistic", "exact")
#: Integer weights are written out as rows, up to so many.
MOST_ROWS = 2**27
#: Rows are dealt in so many parts, some of which fit.
_PARTS = 200
#: How many times the largest weight, value or group of the part that fits there may be.
_ROOM = 2.0


def check_certifiable(options: BoundaryOptions, data: ScoreRows | GridTable) -> ScoreRows:
    """Return the rows, or raise `UsageError` for what cannot be certified, with the reason."""
    for target in options.target.each:
        if target.bound is None:
            raise UsageError(
                f"--confidence certifies a bound, and --{target.option} has none; use --precision, "
                "--recall, --fpr or --capacity."
            )
        if target.option == "capacity" and target.bound.numerator >= target.bound.denominator:
            raise UsageError(
                "--confidence certifies a share of the rows; give --capacity a number below 1."
            )
    if options.method not in CERTIFIABLE:
        raise UsageError(
            f"--confidence does not go with --method {options.method}; methods that it goes with: "
            f"{', '.join(CERTIFIABLE)}."
        )
    target = options.target
    alone = "the two binomials that hold at another base rate are of rows that count once each"
    reweighted = target.prevalence is not None
    for option, given, why in (
        ("--score-bins", options.score_bins, "the path takes the scores themselves"),
        ("--order", options.order != "uncertainty-score", "the path takes the scores themselves"),
        ("--randomise", options.randomise != "block", "the path takes no chances"),
        ("--strategy", options.strategy != "equal-mass", "the path has levels of equal mass"),
        ("--groups and --prevalence", options.groups and reweighted, alone),
        ("--max-weight and --prevalence", options.max_weight and reweighted, alone),
        ("--weight-kind sampling and --prevalence", options.sampled and reweighted, alone),
        (
            "--value and --prevalence under a bound on recall",
            target.value_column and reweighted and any(t.option == "recall" for t in target.each),
            alone,
        ),
    ):  # fmt: skip
        if given:
            raise UsageError(f"--confidence does not go with {option}: {why}.")
    if isinstance(data, GridTable):
        raise UsageError("a grid has lost its rows, and --confidence deals rows: give the rows.")
    if options.levels is not None:
        check_bins(options.levels, 1, has_uncertainty=data.uncertainty is not None)
    return data


def written_out(data: ScoreRows, options: BoundaryOptions) -> tuple[ScoreRows, NDArray[np.int64]]:
    """Return the rows as they were drawn, and where each stands in the data.

    A weight that is a whole number counts as that many rows, unless rows belong together or the
    largest weight is said: then, and if weights are not whole or say how rows were sampled, a row with
    its weight is what was drawn, and weights stay.
    """
    itself = np.arange(data.score.size)
    if data.weight is None:
        return data, itself
    column, whole = data.options.weight, data.weight == np.floor(data.weight)
    if data.options.sampled or options.groups or options.max_weight is not None or not whole.all():
        if options.target.prevalence is None:
            return data, itself
        raise DataError(
            f"{data.file}: column {column!r}: {int((~whole).sum()):,} weights are not whole numbers; "
            "--confidence with --prevalence needs numbers of rows",
            column=column,
            file=data.file,
        )
    times = data.weight.astype(np.int64)
    if int(times.sum()) > MOST_ROWS:
        raise DataError(
            f"{data.file}: column {column!r}: the weights stand for {int(times.sum()):,} rows; "
            f"--confidence takes up to {MOST_ROWS:,}",
            column=column,
            file=data.file,
        )
    index = np.repeat(itself, times)
    return replace(data, weight=None).only(index), index


@dataclass(frozen=True)
class Split:
    """Rows, and which of them fit; the others certify."""

    rows: ScoreRows
    fits: NDArray[np.bool_]

    @cached_property
    def fitting(self) -> ScoreRows:
        """The part that fits."""
        return self.rows.only(np.flatnonzero(self.fits))

    @cached_property
    def certifying(self) -> ScoreRows:
        """The part that certifies."""
        return self.rows.only(np.flatnonzero(~self.fits))


def deal_rows(rows: ScoreRows, options: BoundaryOptions, share: float | None = None) -> Split:
    """Deal rows to the part that fits, a share of them, and the one that certifies.

    A row's part is a hash of the seed, of what the row holds and of its number among identical rows:
    the order of the rows plays no part.  Groups stay together, by a hash of their name; with a column
    of time the first rows fit.
    """
    wanted = round(_PARTS * (share or fitting_share(rows.score.size)))
    if options.groups is not None:
        assert rows.others is not None and rows.where is not None
        groups = rows.others[options.groups]
        return Split(rows, group_parts(groups, _PARTS, options.seed, rows.where) < wanted)
    if options.time is not None:
        assert rows.others is not None and rows.where is not None
        return Split(rows, time_parts(rows.others[options.time], _PARTS, rows.where) < wanted)
    return Split(rows, random_parts(_contents(rows, options), _PARTS, options.seed) < wanted)


def _contents(rows: ScoreRows, options: BoundaryOptions) -> dict[str, NDArray[np.generic]]:
    """Return all that rows are told apart by: what is alike here is alike to the certificate."""
    assert rows.label is not None
    columns: dict[str, NDArray[np.generic]] = {"score": rows.score, "label": rows.label}
    if rows.uncertainty is not None:
        columns["uncertainty"] = rows.uncertainty
    if rows.weight is not None:
        columns["weight"] = rows.weight
    if options.value is not None:
        columns["value"] = values_of(rows, options)
    if options.by is not None:
        assert rows.others is not None and rows.where is not None
        columns["by"] = read_segments(rows.others[options.by], rows.where).code
    return columns


def betting_keys(rows: ScoreRows, options: BoundaryOptions) -> tuple[Keys, Keys | None]:
    """Return random keys of rows, and of their groups if they have some, in whose order bets are made.

    They are others than those that deal the rows, which they do not depend on.
    """
    keys = random_keys(_contents(rows, options), options.seed + 2**32)
    if options.groups is None:
        return keys, None
    assert rows.others is not None and rows.where is not None
    return keys, group_keys(rows.others[options.groups], f"bets:{options.seed}", rows.where)


def fitting_share(rows: int) -> float:
    """Return which share of the rows fits: the less of them, the more there are.

    A surface has few parameters, and what it costs to know them worse is soon less than what the
    tests gain by each row.
    """
    return float(min(0.4, max(0.1, 0.2 * (20_000 / max(rows, 1)) ** 0.2)))


def values_of(rows: ScoreRows, options: BoundaryOptions) -> Floats:
    """Return the values of rows, 0 for negative ones; 1 where there are none."""
    if options.value is None:
        return np.ones(rows.score.size)
    assert rows.others is not None and rows.where is not None and rows.label is not None
    found: Floats = amounts_of(rows.others[options.value], rows.where, "values") * rows.label
    return found


def limits_of(split: Split, options: BoundaryOptions) -> dict[str, float]:
    """Return what weights, values and groups are taken to be limited by, as far as a test needs it.

    Raises
    ------
    InfeasibleError
        A row beyond a limit: what the certificate would assume is not so.
    """
    named, found = options.limits, {}
    recall = any(one.option == "recall" for one in options.target.each)
    for name, sizes in (
        ("max_weight", _weights), ("max_value", values_of), ("max_group_rows", _group_sizes),
    ):  # fmt: skip
        column = getattr(options, LIMITS[name])
        needed = split.rows.weight is not None if name == "max_weight" else column is not None
        if name == "max_value":
            needed = needed and recall
        if not (needed or name in named):
            continue
        fitting, all_sizes = (sizes(part, options) for part in (split.fitting, split.rows))
        found[name] = named.get(name, _ROOM * float(fitting.max(initial=0.0)))
        beyond = int(np.count_nonzero(all_sizes > found[name]))
        if beyond:
            flag = f"--{name.replace('_', '-')}"
            said = "" if name in named else ", twice the largest of the rows that fit"
            raise InfeasibleError(
                f"nothing can be certified: column {column!r}: {beyond:,} rows are beyond {flag} "
                f"{found[name]:g}{said}, up to {all_sizes.max():g}; name the largest that can occur "
                f"by {flag}."
            )
    return found


def _weights(rows: ScoreRows, options: BoundaryOptions) -> Floats:
    return np.ones(rows.score.size) if rows.weight is None else rows.weight


def _group_sizes(rows: ScoreRows, options: BoundaryOptions) -> Floats:
    """Return of each row how many rows its group has."""
    assert rows.others is not None and rows.where is not None and options.groups is not None
    keys = group_keys(rows.others[options.groups], "size", rows.where)
    _, place, times = np.unique(keys, return_inverse=True, return_counts=True)
    return times[place].astype(np.float64)
