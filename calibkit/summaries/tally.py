"""The tally: distinct scores per uncertainty level with their rows and positive rows.

Everything a boundary, a map or a ranking metric needs of the rows is in it, in score order; it is a
function of the *set* of rows, so no result depends on their order, their files or on threads.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Bools, Floats, Int64s, Numbers, UInt8s, UInt16s, UInt32s, UInt64s
from calibkit.columns.weights import AS_THEY_ARE, ROW, ClassWeights, Unit, carried, in_units
from calibkit.numerics.sums import cut, each_block
from calibkit_kernels import draws, maps, sorting
from calibkit_kernels import tally as kernels
from calibkit_kernels.elementary import logits

#: Most scores are distinct, or nearly so: counts of one byte save memory and its traffic.
_COUNTS = (np.uint8, np.int32, np.int64)

_NOT_DEALT = np.empty(0, np.uint8)
_NO_GAIN = np.empty(0, np.int64)
_NO_SQUARES = np.empty((0, 2), np.int64)


class Points(Struct, frozen=True):
    """The prefixes of each level that a boundary may choose, by falling score; counts are in units."""

    selected: Int64s  # strictly increasing within a level
    true_positives: Int64s
    entry: Int64s  # the tally entry, or the column of a grid, of the prefix's lowest score
    offsets: Int64s  # level i has the points ``offsets[i]:ends[i]``
    ends: Int64s
    #: What the rows are worth; empty where the tally has no gains.
    gain: Int64s = _NO_GAIN

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return int(self.ends.size)

    def of_level(self, level: int) -> slice:
        """Return where the points of a level stand; beyond its end there may be anything."""
        return slice(int(self.offsets[level]), int(self.ends[level]))

    def totals(self, choice: Int64s) -> tuple[int, int]:
        """Return rows and positive rows that a choice of one point a level selects (-1: none)."""
        taken = choice[choice >= 0]
        return int(self.selected[taken].sum()), int(self.true_positives[taken].sum())

    def total_gain(self, choice: Int64s) -> int:
        """Return what the rows that a choice selects are worth; 0 where nothing has a worth."""
        return int(self.gain[choice[choice >= 0]].sum()) if self.gain.size else 0


class Tally(Struct, frozen=True, dict=True):
    """Distinct (score, level) pairs by falling score, then level, with counts in units of weight.

    The arrays are described in `calibkit_kernels.tally`.  `gain` is what the rows of each entry are
    worth in `gain_unit` (an empty array where only their number counts), `worth` the same without
    those that are worth less than nothing; `classes` says by how much the rows of each class were
    reweighted.  `squares`, shape (entries, 2), has the sums of squared
    weights of negative and positive rows, in units of `square_unit`, where rows stand for several
    rows each.
    """

    score: Numbers
    level: UInt16s
    count: Numbers
    positive: Numbers
    levels: int
    unit: Unit = ROW
    part: UInt8s = _NOT_DEALT
    gain: Int64s = _NO_GAIN
    worth: Int64s = _NO_GAIN
    gain_unit: Unit = ROW
    classes: ClassWeights = AS_THEY_ARE
    squares: Int64s = _NO_SQUARES
    square_unit: float = 1.0
    #: How many rows a unit of sampling weights is, which may have any scale; 0: what it is worth.
    rows_each: float = 0.0

    @property
    def row_size(self) -> float:
        """How many rows a unit is to whatever tells noise by their number."""
        return self.rows_each or self.unit.size

    @cached_property
    def level_totals(self) -> Int64s:
        """Entries with a positive, rows and positive rows (in units) of each level."""
        return kernels.level_totals(self.level, self.count, self.positive, self.levels)

    def logits(self, threads: int = 1) -> Floats:
        """Return the log-odds of scores that are probabilities; they are kept."""
        if "log_odds" not in self.__dict__:
            self.__dict__["log_odds"] = log_odds(self.score, threads)
        found: Floats = self.__dict__["log_odds"]
        return found

    @property
    def clipped(self) -> int:
        """How many units have a score that is moved for its log-odds."""
        return int(maps.mass_outside(self.score, self.count, maps.LEAST, 1.0 - maps.LEAST))

    def points(self, *, excluded: int = -1, together: bool = False, every: bool = False) -> Points:
        """Return the prefixes that end in a score with a positive row, or `every` prefix.

        A part of a dealt tally may be excluded.  Levels taken together are one: the candidates of a
        single threshold.
        """
        sizes = self.level_totals[:, 0]
        if every:
            sizes = np.bincount(self.level, minlength=self.levels)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        if together:
            offsets = offsets[[0, -1]]
        counts = self.level, self.count, self.positive, self.part, self.gain
        selected, true_positives, entry, gain, ends = kernels.prefix_points(
            self.score, *counts, excluded, offsets
        )
        return Points(selected, true_positives, entry, offsets, ends, gain)

    def selected(self, thresholds: Floats, *, part: int = -1) -> tuple[int, int]:
        """Return rows and positive rows (in units) at or above the threshold of their level.

        NaN selects nothing.  `part` restricts the count to one part of a dealt tally.
        """
        rows, hits = kernels.count_selected(
            self.score, self.level, self.count, self.positive, self.part, part, thresholds
        )
        return int(rows), int(hits)

    def gained(self, thresholds: Floats, *, part: int = -1) -> int:
        """Return what the rows at or above the threshold of their level are worth; see `selected`."""
        if not self.gain.size:
            return 0
        with np.errstate(invalid="ignore"):
            taken = self.score >= thresholds[self.level]
        if part >= 0:
            taken &= self.part == part
        return int(self.gain[taken].sum())

    def part_gains(self, parts: int) -> Int64s:
        """Return what the rows of each part of a dealt tally are worth, losses apart."""
        found = np.zeros(parts, np.int64)
        if self.worth.size:
            np.add.at(found, self.part, self.worth)
        return found

    def reweighted(self, classes: ClassWeights) -> Tally:
        """Return the tally with its rows counted by the weights of their class."""
        if classes == AS_THEY_ARE:
            return self
        positive = self.positive.astype(np.int64)
        hits, harm = classes.of(positive, self.count.astype(np.int64) - positive)
        return replace(self, count=hits + harm, positive=hits, classes=classes)

    def in_whole_rows(self) -> Tally:
        """Return the tally with the rows of each class in each entry rounded to whole ones."""
        counts = (self.positive, self.count - self.positive)
        hits, misses = (np.rint(own * self.unit.size).astype(np.int64) for own in counts)
        rows = hits + misses
        return replace(self, count=rows, positive=hits, unit=ROW).where(rows > 0)

    def part_totals(self, parts: int) -> Int64s:
        """Return rows and positive rows (in units) of each part of a dealt tally."""
        return kernels.level_totals(self.part, self.count, self.positive, parts)[:, 1:]

    def before(self, part: int) -> Tally:
        """Return what a dealt tally holds in the parts before one."""
        return replace(self.where(self.part < part), part=_NOT_DEALT)

    def where(self, kept: Bools | Int64s | slice) -> Tally:
        """Return some of the entries, by truth, by number or side by side."""
        names = ("score", "level", "count", "positive", "part", "gain", "worth", "squares")
        arrays = {name: getattr(self, name) for name in names}
        return replace(self, **{name: own[kept] for name, own in arrays.items() if own.size})

    def ranked(self, values: Numbers, order: Int64s) -> Tally:
        """Return some entries with falling values in place of scores, all of one level; no parts."""
        gain = self.gain[order] if self.gain.size else self.gain
        counts = self.count[order], self.positive[order]
        return Tally(values, np.zeros(order.size, np.uint16), *counts, 1, gain=gain)

    def coarser(self, places: UInt16s, levels: int) -> Tally:
        """Return the tally over coarser levels; `places` has the new level of each old one.

        The places must not decrease.  A pair of score and level may then have several entries, side
        by side, which is the same to whatever counts; see `merged`.
        """
        found = replace(self, level=places[self.level], levels=levels)
        if "log_odds" in self.__dict__:  # of the same scores
            found.__dict__["log_odds"] = self.__dict__["log_odds"]
        return found

    def merged(self) -> Tally:
        """Return an undealt tally with one entry for each pair of score and level."""
        first = np.append(
            True, (self.score[1:] != self.score[:-1]) | (self.level[1:] != self.level[:-1])
        )
        if first.all():
            return self
        size = int(np.count_nonzero(first))
        scores, levels = np.empty(size, self.score.dtype), np.empty(size, np.uint16)
        for integers in (self.count.dtype, np.int64):
            count, positive = np.empty((2, size), integers)
            room = scores, levels, count, positive
            entries = self.score, self.level, self.count, self.positive
            if kernels.join_entries(*entries, *room) >= 0:
                break
        found = replace(self, score=scores, level=levels, count=count, positive=positive)
        sums = {
            name: np.add.reduceat(units, np.flatnonzero(first), axis=0)
            for name in ("gain", "worth", "squares")
            if (units := getattr(self, name)).size
        }
        return replace(found, **sums)

    def parted(self) -> Tally:
        """Return the tally with the positive rows of each score above its negative ones.

        Places take the part of the scores.  No order of the rows within equal scores is better for
        any objective that gains by positive rows and loses by negative ones.
        """
        place = np.cumsum(np.append(False, self.score[1:] != self.score[:-1]))
        positive = self.positive.astype(np.int64)
        counts = np.concatenate([positive, self.count.astype(np.int64) - positive])
        score = np.concatenate([-2.0 * place, -2.0 * place - 1.0])
        level = np.concatenate([self.level, self.level])
        held = np.flatnonzero(counts)
        order = held[np.lexsort((level[held], -score[held]))]
        hits = np.where(order < place.size, counts[order], 0)
        return replace(
            self, score=score[order], level=level[order], count=counts[order], positive=hits
        )

    def sample(self, parts: int, seed: int) -> Tally:
        """Return the first of as many parts as `deal` deals rows to."""
        return replace(self.deal(parts, seed, kept=1), part=_NOT_DEALT)

    def deal(self, parts: int, seed: int, *, kept: int | None = None) -> Tally:
        """Return the tally with its rows dealt at random to `parts` parts of equal size.

        Only the first `kept` parts are returned; None: all.  Equal in law to a random split of the
        rows; a function of seed, scores, levels and labels alone.
        """
        integers = np.uint32 if self.score.dtype == np.float32 else np.uint64
        entries = (self.score.view(integers), self.level, self.count, self.positive)
        dealt = draws.deal_entries(*entries, parts, min(kept or parts, parts), np.uint64(seed))
        bits, level, count, positive, part = dealt
        score = bits.view(self.score.dtype)
        return Tally(score, level, count, positive, self.levels, self.unit, part)


def log_odds(score: Numbers, threads: int = 1) -> Floats:
    """Return the logits of probabilities, moved 1e-6 inside (0, 1)."""
    found = np.empty(score.size)
    each_block(logits, (score, found), cut(0, score.size), threads)
    return found


def count_rows(
    score: Numbers,
    level: UInt16s,
    label: UInt8s,
    levels: int,
    *,
    weight: Floats | None = None,
    part: UInt8s | None = None,
    gain: Int64s | None = None,
    gain_unit: Unit = ROW,
    sampled: bool = False,
    threads: int = 1,
) -> Tally:
    """Return the tally of rows: float scores without NaN and negative zero, levels, and labels 0 or 1.

    Weights are non-negative, some positive; None counts rows.  `part` is a split made row by row
    (groups, fractional weights); None leaves the tally undealt.  `gain` is what each row is worth in a
    unit, beside being counted.  Where a `sampled` row stands for as many as its weight, the squares of
    weights are summed too.
    """
    if weight is None and part is None and gain is None:
        return _count_plain(score, level, label, levels, threads)
    units, unit = (np.ones(score.size, np.int64), ROW) if weight is None else in_units(weight)
    below = level if part is None else level.astype(np.uint32) << np.uint32(8) | part
    places = falling_places(score, below, threads)
    if weight is not None and not unit.exact:
        kind = level.astype(np.uint32) << np.uint32(9) | label
        kind |= np.uint32(0) if part is None else part.astype(np.uint32) << np.uint32(1)
        units = carried(weight, unit, places, kind)
    dealt = _NOT_DEALT if part is None else part
    amounts: list[Int64s] = []
    size = 1.0
    if sampled and weight is not None:  # squares are rounded so far that their sums are exact
        size = float(weight.max()) / 2.0 ** ((61 - weight.size.bit_length()) // 2)
        squares = np.rint(weight / size).astype(np.int64) ** 2
        amounts = [np.where(label == own, squares, 0) for own in (0, 1)]
    if gain is not None:
        amounts += [gain, np.maximum(gain, 0)]
    columns = np.array(amounts, np.int64).reshape(-1, score.size)
    grouped = kernels.group_weighted(places, score, level, label, units, dealt, columns)
    scores, levels_of, count, positive, parts, sums = grouped
    if weight is None and gain is None:
        most = int(count.max(initial=0))
        narrow = next(kind for kind in _COUNTS if most <= np.iinfo(kind).max)
        count, positive = count.astype(narrow), positive.astype(narrow)
    tally = Tally(scores, levels_of, count, positive, levels, unit, parts)
    if sampled and weight is not None:
        tally = replace(tally, squares=sums[:2].T.copy(), square_unit=size * size)
    if gain is None:
        return tally
    return replace(tally, gain=sums[-2], worth=sums[-1], gain_unit=gain_unit)


def falling_places(score: Numbers, second: Numbers, threads: int) -> UInt32s:
    """Return the places of rows by falling score, then by a rising second column of integers."""
    smallest, key_bits = _key_range(score)
    places = _sorted_places(second, int(second.max()).bit_length(), threads)
    keys = _falling_keys(score[places]) - smallest
    return sorting.sort_pairs(keys, places, key_bits, threads)[1]


def _sorted_places(values: Numbers, bits: int, threads: int) -> UInt32s:
    """Return the places of rows by rising integers."""

    def made(own: slice) -> tuple[UInt64s, UInt32s]:
        return values[own].astype(np.uint64), np.arange(own.start, own.stop, dtype=np.uint32)

    return sorting.sort_made(made, values.size, bits, threads, tagged=True)[1]


def _falling_keys(score: Numbers) -> UInt64s:
    """Return keys that sort scores from high to low."""
    keys = np.empty(score.size, np.uint64)
    sorting.falling_keys(score.view(f"u{score.itemsize}"), keys)
    return keys


def _key_range(score: Numbers) -> tuple[np.uint64, int]:
    """Return the smallest key of some scores, and the bits of any less it."""
    smallest, largest = _falling_keys(np.array([score.max(), score.min()]))
    return smallest, int(largest - smallest).bit_length()


def _count_plain(score: Numbers, level: UInt16s, label: UInt8s, levels: int, threads: int) -> Tally:
    smallest, key_bits = _key_range(score)
    tag_bits = (2 * levels - 1).bit_length()
    if key_bits + tag_bits <= 64:

        def packed(own: slice) -> tuple[UInt64s, UInt32s]:
            keys = _falling_keys(score[own])
            sorting.pack(keys, level[own], label[own], np.uint64(tag_bits), smallest)
            return keys, sorting.NO_TAGS

        words, tags = sorting.sort_made(packed, score.size, key_bits + tag_bits, threads)
    else:
        every = level.astype(np.uint32) << np.uint32(1) | label
        order = _sorted_places(every, tag_bits, threads)
        keys = _falling_keys(score[order]) - smallest
        words, tags = sorting.sort_pairs(keys, every[order], key_bits, threads)
        tag_bits = 0
    bits = np.empty(score.size, np.uint32 if score.dtype == np.float32 else np.uint64)
    level_of = np.empty(score.size, np.uint16)
    for integers in _COUNTS:
        count, positive = np.empty(score.size, integers), np.empty(score.size, integers)
        counts = bits, level_of, count, positive
        size = kernels.group_words(words, tags, np.uint64(tag_bits), smallest, *counts)
        if size >= 0:
            break
    scores = _trim(bits, size).view(score.dtype)
    return Tally(scores, _trim(level_of, size), _trim(count, size), _trim(positive, size), levels)


def _trim(array: Numbers, size: int) -> Numbers:
    """Return the first entries, copied where the rest would otherwise hold much memory."""
    return array[:size].copy() if size < array.size // 2 else array[:size]
