"""Hashes of rows, and all that chance decides: random words that are functions of keys.

Hashes add up to a fingerprint of rows that does not depend on their order.  What is drawn for a row is
a function of its key, whatever rows stand beside it.

Rows of a tally are dealt at random to parts of equal size without touching a row.  Those of one entry
with one label are interchangeable, so a random split need only say *how many* of them go to each part:
a multivariate hypergeometric draw from what room the parts have left.  The random numbers are keyed by
(seed, level, score, label), hence independent of row order, shards and batches, and integer weights act
as written-out rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._jit import kernel
from .arrays import Int64s, Numbers, UInt8s, UInt16s, UInt64s
from .distributions import log_probability

#: An odd constant: how the draws of one key differ.
_DRAW_STEP = np.uint64(0x9E3779B97F4A7C15)


@kernel
def mix(word: np.uint64) -> np.uint64:
    """Scramble a 64-bit word: a bijection that spreads every input bit (SplitMix64's finaliser)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel
def absorb(hashes: UInt64s, words: UInt64s, salt: np.uint64) -> None:
    """Fold one column's bit patterns into the running hash of each row."""
    for i in range(words.size):
        hashes[i] = mix(hashes[i] ^ mix(words[i] + salt))


@kernel
def uniform(key: np.uint64, draw: int | np.int64) -> float:
    """Return the uniform number in [0, 1) of a key and a draw's index."""
    word = mix(key + np.uint64(draw) * _DRAW_STEP)
    return float(word >> np.uint64(11)) * 1.1102230246251565e-16


@kernel
def number_rows(hashes: UInt64s) -> None:
    """Turn sorted runs of equal hashes into keys: a hash mixed with the row's number in its run."""
    before, number = np.uint64(0), 0
    for i in range(hashes.size):
        own = hashes[i]
        number = number + 1 if i > 0 and own == before else 0
        before = own
        hashes[i] = mix(own + mix(np.uint64(number)))


@kernel
def keyed_folds(keys: UInt64s, salt: np.uint64, folds: int, out: UInt8s) -> None:
    """Write a number from 0 to `folds` - 1 for each key, all equally likely.

    `salt` says what the numbers are for.
    """
    for i in range(keys.size):
        out[i] = ((mix(keys[i] ^ salt) >> np.uint64(32)) * np.uint64(folds)) >> np.uint64(32)


@kernel
def keyed_counts(keys: UInt64s, salt: np.uint64, steps: UInt64s, out: UInt8s) -> None:
    """Write for each key how many of the rising `steps` its random word reaches."""
    for i in range(keys.size):
        word, count = mix(keys[i] ^ salt), 0
        while count < steps.size and word >= steps[count]:
            count += 1
        out[i] = count


#: Up to here rows are dealt one by one; beyond, a part's share is drawn at once.
_FEW = 32
#: The standard deviation from which an outcome is drawn by rejection; and for that the constants of
#: the rectangle, 2 sqrt(2 / e) and 3 - 2 sqrt(3 / e).
_FAR = 1024.0
_RATIO = (1.7155277699214135, 0.8989161620588988)
#: Odd constants far apart: how keys of other seeds, levels and labels differ.
_SEED_STEP = np.uint64(0xD1342543DE82EF95)
_LEVEL_STEP = np.uint64(0xA0761D6478BD642F)
_POSITIVE_STEP = np.uint64(0xE7037ED1A0B428DB)


@kernel
def log_hypergeometric(k: int, good: int, bad: int, sample: int) -> float:
    """Return the log of the probability that `k` of `sample` draws without replacement are good."""
    p = float(sample) / float(good + bad)
    q = 1.0 - p
    log = 0.0
    for term in range(3):  # of one call: what is called at three places is compiled three times
        successes, trials = (k, good) if term == 0 else (sample - k, bad)
        if term == 2:
            successes, trials = sample, good + bad
        own = log_probability(float(successes), float(trials), p, q)
        log += -own if term == 2 else own
    return log


@kernel
def by_rejection(good: int, bad: int, sample: int, most: float, deviation: float, u: float) -> int:
    """Return how many of `sample` draws without replacement are good: one or two tries, however many.

    `most` is the log of the greatest probability, and `u` a uniform number, from whose bits all tries
    are made.  E. Stadlober, The ratio of uniforms
    approach for generating discrete random variates, 1990, algorithm HRUE.
    """
    low, high = max(0, sample - bad), min(good, sample)
    centre = float(sample) * (float(good) / float(good + bad)) + 0.5
    width = _RATIO[0] * math.sqrt(deviation * deviation + 0.5) + _RATIO[1]
    key, draw = mix(np.uint64(np.float64(u).view(np.int64))), 0
    while True:
        x = 1.0 - uniform(key, draw)
        place = math.floor(centre + width * (uniform(key, draw + 1) - 0.5) / x)
        draw += 2
        if low <= place <= high:
            found = int(place)
            if 2.0 * math.log(x) <= log_hypergeometric(found, good, bad, sample) - most:
                return found


@kernel
def hypergeometric(good: int, bad: int, sample: int, u: float) -> int:
    """Return how many of `sample` draws without replacement are good, by inversion from the mode.

    `u` is a uniform number in [0, 1).  The walk from the mode takes about as many steps as the
    standard deviation; beyond `_FAR` the outcome is drawn by rejection.
    """
    low, high = max(0, sample - bad), min(good, sample)
    if low == high:
        return low
    mode = int((float(sample) + 1.0) * (float(good) + 1.0) / (float(good + bad) + 2.0))
    mode = min(max(mode, low), high)
    share = float(good) / float(good + bad)
    spread = share * (1.0 - share) * float(sample) * (1.0 - float(sample) / float(good + bad))
    log_mode = log_hypergeometric(mode, good, bad, sample)
    if spread > _FAR * _FAR:
        return by_rejection(good, bad, sample, log_mode, math.sqrt(spread), u)
    u -= math.exp(log_mode)
    up = down = math.exp(log_mode)
    above, below = mode, mode
    while u >= 0.0 and (above < high or below > low):
        if above < high:
            up *= float(good - above) * float(sample - above)
            up /= float(above + 1) * float(bad - sample + above + 1)
            above += 1
            u -= up
            if u < 0.0:
                return above
        if below > low:
            down *= float(below) * float(bad - sample + below)
            down /= float(good - below + 1) * float(sample - below + 1)
            below -= 1
            u -= down
            if u < 0.0:
                return below
    return mode


@kernel
def take_place(place: int, room: Int64s) -> int:
    """Return the part in whose room a place falls, and take it."""
    part = 0
    while place >= room[part]:
        place -= room[part]
        part += 1
    room[part] -= 1
    return part


@kernel
def deal_rows(rows: int, key: np.uint64, left: int, room: Int64s, dealt: Int64s) -> None:
    """Deal `rows` interchangeable rows to the parts.

    `left` is the sum of `room`, which falls by what each part takes.
    """
    for part in range(dealt.size):
        dealt[part] = 0
    if rows <= _FEW:
        for draw in range(rows):
            dealt[take_place(int(uniform(key, draw) * float(left - draw)), room)] += 1
        return
    for part in range(room.size):
        others = left - room[part]
        dealt[part] = hypergeometric(room[part], others, rows, uniform(key, part))
        left = others
        room[part] -= dealt[part]
        rows -= dealt[part]


@kernel
def deal_entries(
    bits: Numbers,
    level: UInt16s,
    count: Numbers,
    positive: Numbers,
    parts: int,
    kept: int,
    seed: np.uint64,
) -> tuple[Numbers, UInt16s, Numbers, Numbers, UInt8s]:
    """Deal the rows of a tally to parts of equal size (the first ones hold one row more).

    `bits` are the bit patterns of the scores, uint32 or uint64.  Returned are those of the entries of
    the first `kept` parts with their levels, rows, positive rows and parts, in the order of the tally,
    then of the part.
    """
    rows: Any = np.int64(0)
    size = np.int64(0)
    for i in range(count.size):
        rows += count[i]
        size += min(int(count[i]), parts)
    # Parts that are not kept are one: which of them a row is dealt to does not show.
    room = np.empty(min(kept + 1, parts), np.int64)
    left = rest = rows
    for part in range(room.size):
        room[part] = rows // parts + (part < rows % parts) if part < kept else rest
        rest -= room[part]
    size = min(size, rows - rest if kept == parts else rows - room[kept])
    bits_of, level_of = np.empty(size, bits.dtype), np.empty(size, np.uint16)
    counts, positives = np.empty(size, count.dtype), np.empty(size, count.dtype)
    part_of = np.empty(size, np.uint8)
    hits, misses = np.empty(room.size, np.int64), np.empty(room.size, np.int64)
    filled = 0
    for i in range(count.size):
        # The mixed score, set apart by level and label: `uniform` mixes it again.
        key = mix(np.uint64(bits[i]) + seed * _SEED_STEP) + np.uint64(level[i]) * _LEVEL_STEP
        # Of one type whatever that of the counts: each other one would be compiled anew.
        own: Any = np.int64(positive[i])
        others: Any = np.int64(count[i]) - own
        low, high = 0, kept
        if own + others == 1:  # as `deal_rows` does it, but for one part: most scores are distinct
            draw = uniform(key + _POSITIVE_STEP if own else key, 0)
            low = take_place(int(draw * float(left)), room)
            high = min(low + 1, kept)
            hits[low], misses[low] = own, others
        else:
            deal_rows(own, key + _POSITIVE_STEP, left, room, hits)
            deal_rows(others, key, left - own, room, misses)
        left -= own + others
        for part in range(low, high):
            if hits[part] + misses[part] > 0:
                bits_of[filled] = bits[i]
                level_of[filled] = level[i]
                counts[filled] = hits[part] + misses[part]
                positives[filled] = hits[part]
                part_of[filled] = part
                filled += 1
    return (
        bits_of[:filled],
        level_of[:filled],
        counts[:filled],
        positives[:filled],
        part_of[:filled],
    )
