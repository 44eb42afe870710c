"""What rows say of the boundaries of paths: the parts they are dealt to, their limits, their evidence.

Counts where rows are alike, else bets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Bools, Floats, Int64s, Numbers
from calibkit.columns.segments import group_keys, read_segments
from calibkit.errors import DataError, InfeasibleError, UsageError
from calibkit.methods.boundary.certificate import tests
from calibkit.methods.boundary.certificate.decisions import Gaps, alike, pairs
from calibkit.methods.boundary.certificate.paths import Path, Sizes, joined
from calibkit.methods.boundary.problem.columns import amounts_of, column_parts, uncertainties
from calibkit.methods.boundary.solvers.summary import count_over
from calibkit.numerics.hashes import random_keys, random_parts
from calibkit.options.boundary import AUTO, LIMITS, BoundaryOptions
from calibkit.summaries.binning import GridTable, check_bins
from calibkit.summaries.score_rows import ScoreRows
from calibkit.summaries.score_summary import columns_of

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
    target, quantities = options.target, quantities_of(options)
    if not quantities:
        option = target.option if target.review is None else "minimize"
        raise UsageError(
            f"--confidence certifies a bound, and --{option} has none; use --precision, "
            "--recall, --fpr or --capacity."
        )
    for one in quantities:
        if "capacity" in one.name and one.bound.numerator >= one.bound.denominator:
            raise UsageError(
                f"--confidence certifies a share of the rows; give {_flag(one.name)} a number below 1."
            )
    able: tuple[str, ...] = CERTIFIABLE
    if target.review is not None or options.several:
        able = (AUTO, "st", "exact")
    if options.method not in able:
        raise UsageError(
            f"--confidence does not go with --method {options.method}; it goes with "
            f"{', '.join(able)}."
        )
    alone = "the two binomials that hold at another base rate are of rows that count once each"
    reweighted = target.prevalence is not None
    odd = (
        ("--groups", options.groups),
        ("--max-weight", options.max_weight),
        ("--weight-kind sampling", options.sampled),
    )
    for option, given, why in (
        ("--score-bins", options.score_bins, "the path takes the scores themselves"),
        ("--order", options.order != "uncertainty-score", "the path takes the scores themselves"),
        ("--randomise", options.randomise != "block", "the path is not randomised"),
        ("--strategy", options.strategy != "equal-mass", "the path has levels of equal mass"),
        *((f"{option} and --prevalence", given and reweighted, alone) for option, given in odd),
        (
            "--value and --prevalence under a bound on recall",
            target.value_column and reweighted and any(one.name == "recall" for one in quantities),
            alone,
        ),
        *(
            (f"{what} and {option}", given and asked, f"counts of {what} are of rows that count once")
            for what, asked in (
                ("--max-gap", target.gap is not None),
                ("three-way decisions", target.review is not None),
            )
            for option, given in (*odd, ("--prevalence", reweighted))
        ),
    ):  # fmt: skip
        if given:
            raise UsageError(f"--confidence does not go with {option}: {why}.")
    if isinstance(data, GridTable):
        raise UsageError("a grid has lost its rows, and --confidence deals rows: give the rows.")
    if options.levels is not None:
        has_uncertainty = data.uncertainty is not None or bool(options.several)
        check_bins(options.levels, 1, has_uncertainty=has_uncertainty)
    return data


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def written_out(data: ScoreRows, options: BoundaryOptions) -> tuple[ScoreRows, Int64s]:
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
        target = options.target
        said = "--prevalence" if target.gap is None else "--max-gap"
        said = said if target.review is None else "three-way decisions"
        if target.prevalence is None and target.gap is None and target.review is None:
            return data, itself
        problem = f"column {column!r}: {int((~whole).sum()):,} weights are not whole numbers"
        needs = f"--confidence with {said} needs numbers of rows"
        raise DataError.of(data.source.file, f"{problem}; {needs}", column=column)
    times = data.weight.astype(np.int64)
    if int(times.sum()) > MOST_ROWS:
        problem = f"column {column!r}: the weights stand for {int(times.sum()):,} rows"
        takes = f"--confidence takes up to {MOST_ROWS:,}"
        raise DataError.of(data.source.file, f"{problem}; {takes}", column=column)
    index = np.repeat(itself, times)
    return replace(data, weight=None).only(index), index


class Split(Struct, frozen=True, dict=True):
    """Rows, and which of them fit; the others certify."""

    rows: ScoreRows
    fits: Bools

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
    part = column_parts(rows, options, _PARTS)
    if part is None:
        part = random_parts(_contents(rows, options), _PARTS, options.seed)
    return Split(rows, part < wanted)


def _contents(rows: ScoreRows, options: BoundaryOptions) -> dict[str, Numbers]:
    """Return all that rows are told apart by: what is alike here is alike to the certificate."""
    columns = columns_of(rows)
    if rows.uncertainty is None:
        named = zip(options.several, uncertainties(rows, options.several).values(), strict=True)
        columns |= {f"uncertainty {name}": values for name, values in named}
    if options.value is not None:
        columns["value"] = values_of(rows, options)
    if options.by is not None:
        columns["by"] = read_segments(rows.other(options.by), rows.finder).code
    return columns


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
    return amounts_of(rows.other(options.value), rows.finder, "values") * rows.labels


def limits_of(split: Split, options: BoundaryOptions) -> dict[str, float]:
    """Return what weights, values and groups are taken to be limited by, as far as a test needs it."""
    rows, named, found = split.rows, options.limits, {}
    recall = any(one.name == "recall" for one in quantities_of(options))
    needed = {
        "max_weight": rows.weight is not None,
        "max_value": options.value is not None and recall,
        "max_group_rows": options.groups is not None,
    }
    for name, column in LIMITS.items():
        if not (needed[name] or name in named):
            continue
        if name == "max_value":
            sizes = values_of(rows, options)
        elif name == "max_weight":
            sizes = np.ones(rows.score.size) if rows.weight is None else rows.weight
        else:
            keys = group_keys(rows.other(getattr(options, column)), "size", rows.finder)
            _, place, times = np.unique(keys, return_inverse=True, return_counts=True)
            sizes = times[place].astype(np.float64)
        # Groups are dealt whole, so that those of the rows that fit are of the same size among all.
        largest = float(sizes[split.fits].max(initial=0.0))
        found[name] = named.get(name, _ROOM * largest)
        beyond = int(np.count_nonzero(sizes > found[name]))
        if beyond:
            flag = _flag(name)
            said = "" if name in named else ", twice the largest of the rows that fit"
            raise InfeasibleError(
                f"nothing can be certified: column {getattr(options, column)!r}: {beyond:,} rows are "
                f"beyond {flag} {found[name]:g}{said}, up to {sizes.max():g}; name the largest that "
                f"can occur by {flag}."
            )
    return found


# ---------------------------------------------------------------- evidence


def quantities_of(options: BoundaryOptions) -> list[tests.Quantity]:
    """Return what is certified, in the order of the options; a gap stands beside."""
    each, review = options.target.each, options.target.review
    if review is not None:
        return [tests.Quantity(name, bound) for name, bound in review.bounds.items()]
    return [tests.Quantity(one.option, one.bound) for one in each if one.bound is not None]


def bets_on(name: str, rows: ScoreRows, options: BoundaryOptions) -> bool:
    """Return whether a figure is tested by bets: rows belong together or differ in weight."""
    of_values = name == "recall" and options.value is not None
    return rows.weight is not None or options.groups is not None or of_values


def sizes_of(rows: ScoreRows, options: BoundaryOptions) -> Sizes:
    """Return how many of some rows a boundary is expected to select, given expected positives."""
    quantities = quantities_of(options)
    bounding = [one for one in quantities if one.strict_first] or quantities
    positives, base_rate = int(rows.labels.sum()), options.target.prevalence
    weights = 1.0, 1.0
    if base_rate is not None and 0 < positives < rows.labels.size:
        share = float(base_rate)
        weights = share / positives, (1.0 - share) / (rows.labels.size - positives)

    def size(hits: Floats, selected: Floats) -> float:
        caught = hits * weights[0]
        taken = caught + (selected - hits) * weights[1]
        found = min(one.size(caught, taken) for one in bounding)
        return float(selected[min(int(np.searchsorted(taken, found)), selected.size - 1)])

    return size


class Stretch(Struct, frozen=True):
    """The path of a segment, and its rows: their places in the part that fits and in the other one."""

    segment: int
    path: Path
    fitting: Int64s
    testing: Int64s


class Evidence(Struct, frozen=True, dict=True):
    """What the rows say of one path, or of one over several segments.

    `stretches`: the segments; `split`, `options`: all rows, and what is certified of them; `limits`:
    the largest weight, value and group that are assumed; `level`: the error probability of the first
    tests.
    """

    stretches: Sequence[Stretch]
    split: Split
    options: BoundaryOptions
    limits: Mapping[str, float]
    level: float

    @cached_property
    def table(self) -> Int64s:
        """The place of each boundary on the path of each segment, -1 before its first.

        Of three-way decisions there is one segment, and two boundaries: block, and block with review.
        """
        expected = [one.path.expected for one in self.stretches]
        if self.options.target.review is not None:
            own = {one.name: self._hoped(one, *expected) for one in quantities_of(self.options)}
            return pairs(
                expected[0][:, 0], {name: np.subtract(*one.hopes) for name, one in own.items()}
            )
        table = joined(expected)
        if self.options.target.gap is None:
            return table
        counted = [self._of_gap(own) for own in expected]
        none = self._gaps(table[:0])
        return alike(table, expected, [own / own[-1] for own in counted], none)

    @cached_property
    def chain(self) -> tests.Chain:
        """The tests of the boundaries."""
        quantities = quantities_of(self.options)
        found: list[tests.Test] = [self._test(one) for one in quantities]
        if self.options.target.gap is not None:
            found.append(self._gaps(self.table))
        selected = self._summed(self._found, reach=self.options.target.review is not None)
        return tests.Chain(found, any(one.strict_first for one in quantities), selected[:, 0])

    def _test(self, quantity: tests.Quantity) -> tests.Test:
        """Return the tests of one figure along the path."""
        if bets_on(quantity.name, self.split.rows, self.options):
            fitting, testing = (self._units(quantity, fitting=own) for own in (True, False))
            return tests.Bets(fitting, testing, self.table.shape[0], self.level)
        expected, found = self._counted(quantity, expected=True), self._counted(quantity)
        base_rate = self.options.target.prevalence
        if base_rate is not None and quantity.name in ("precision", "capacity"):
            weights, least = tests.at_base_rate(quantity, base_rate)
            (rows, hits), (before, hits_before) = self._totals, self._fitted
            classes = (hits, rows - hits)
            ratios = np.array(classes) / np.maximum([hits_before, before - hits_before], 1)
            by_class = [np.column_stack((c[:, 1], c[:, 0] - c[:, 1])) for c in (expected, found)]
            return tests.TwoBinomials(
                weights, least, by_class[0] * ratios, by_class[1], classes, self.level
            )
        counted = quantity.hits_and_trials(found, *self._totals).astype(np.int64)
        return replace(self._hoped(quantity, expected), found=counted)

    def _hoped(self, quantity: tests.Quantity, expected: Floats) -> tests.Binomials:
        """Return the tests of boundaries, given the rows and positives that they are to select."""
        return tests.Binomials.hoped(quantity, expected, self._fitted, self._totals[0], self.level)

    def _counted(self, quantity: tests.Quantity, *, expected: bool = False) -> Floats:
        """Return the rows and positives of each boundary that a figure looks at."""
        sums = [one.path.expected for one in self.stretches] if expected else self._found
        if self.options.target.review is None or quantity.name == "precision":
            return self._summed(sums)
        reach = self._summed(sums, reach=True)
        return reach if quantity.name == "recall" else reach - self._summed(sums)

    def _summed(self, sums: Sequence[Numbers], *, reach: bool = False) -> Floats:
        """Return what the boundaries of all segments select together; or block with review."""
        padded = [np.vstack((np.zeros((1, 2)), own)) for own in sums]
        places = self.table[:, 1:] if reach else self.table
        return np.sum([own[places[:, k] + 1] for k, own in enumerate(padded)], axis=0)

    def _of_gap(self, counts: Numbers) -> Numbers:
        """Return of rows and positives those that the gap is about: true or false positives."""
        gap = self.options.target.gap
        assert gap is not None
        found: Numbers = counts[..., 1]
        return found if gap.measure == "recall" else counts[..., 0] - found

    def _gaps(self, table: Int64s) -> Gaps:
        """Return the tests of the gap for some boundaries over the segments."""
        gap = self.options.target.gap
        assert gap is not None
        totals = np.ascontiguousarray(self._of_gap(self._sizes))
        counts = []
        for sums in ([one.path.expected for one in self.stretches], self._found):
            own = [np.append(0, self._of_gap(one)) for one in sums]
            counts.append(np.column_stack([one[table[:, k] + 1] for k, one in enumerate(own)]))
        fitted = [
            max(float(self._of_gap(np.array(one.path.totals))), 1.0) for one in self.stretches
        ]
        expected = counts[0] / fitted * totals
        return Gaps(float(gap.most), expected, counts[1], totals, self.level)

    @cached_property
    def _fitted(self) -> list[int]:
        """Rows and positives of the part that fits."""
        return np.sum([one.path.totals for one in self.stretches], axis=0).tolist()

    @cached_property
    def _totals(self) -> list[int]:
        """Rows and positives of the part that certifies."""
        return self._sizes.sum(axis=0).tolist()

    @cached_property
    def _sizes(self) -> Int64s:
        """Rows and positives of each segment in the part that certifies."""
        label = self.split.certifying.labels
        own = [one.testing for one in self.stretches]
        return np.array([(rows.size, np.count_nonzero(label[rows])) for rows in own], np.int64)

    @cached_property
    def _found(self) -> list[Int64s]:
        """Rows and positives that each path's boundaries select of the rows that certify."""
        found = []
        for one in self.stretches:
            part = self.split.certifying
            if one.testing.size < part.score.size:
                part = part.only(one.testing)
            rows = replace(part, weight=None)
            found.append(one.path.counts(count_over(rows, one.path.levels, self.options.workers)))
        return found

    def _units(self, quantity: tests.Quantity, *, fitting: bool) -> tests.Units:
        """Return what the rows of a part pay, in the order of the bets.

        The random keys that order them are others than those that deal the rows to the parts.
        """
        part = self.split.fitting if fitting else self.split.certifying
        options, size = self.options, part.score.size
        first = np.full(size, self.table.shape[0], np.int64)
        inside = np.zeros(size, bool)
        for own, stretch in enumerate(self.stretches):
            rows = stretch.fitting if fitting else stretch.testing
            spread = None if part.uncertainty is None else part.uncertainty[rows]
            at = stretch.path.first(part.score[rows], stretch.path.levels.of(spread, rows.size))
            first[rows] = np.searchsorted(self.table[:, own], at, side="left")
            inside[rows] = True
        amount = np.ones(size) if part.weight is None else part.weight
        largest = self.limits.get("max_weight", 1.0) * self.limits.get("max_group_rows", 1.0)
        if quantity.name == "recall":
            amount = amount * values_of(part, options)
            largest *= self.limits.get("max_value", 1.0)
        kept = np.flatnonzero(inside)
        out, taken = tests.pays(quantity, part.labels[kept], amount[kept], largest)
        keys, groups = random_keys(_contents(part, options), options.seed + 2**32)[kept], None
        if options.groups is not None:
            named = part.other(options.groups)
            groups = group_keys(named, f"bets:{options.seed}", part.finder)[kept]
        return tests.Units(first[kept], out, taken, np.empty(0, np.int64)).in_order(keys, groups)
