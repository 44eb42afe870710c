"""The first look at rows in rounds: how many there are, what they weigh, and which values occur."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, Final

import numpy as np

from calibkit.errors import ResourceError
from calibkit.hetcal.features import MOST_BINS
from calibkit.hetcal.rounds.edges import Look, first_edges, limits
from calibkit.hetcal.rounds.known import Edges, Known, Seen
from calibkit.hetcal.rounds.rows import Block, text_counts
from calibkit.hetcal.rounds.tables import Numbers, What, array_of, keys_of, values_of
from calibkit.hetcal.rounds.times import TIMES, begin, first_draw, merged_draws
from calibkit.hetcal.rows import refuse_one_class
from calibkit.hetcal.states import HetcalProblem
from calibkit.maths.sums import LEAST_PRODUCT, ExactSum
from calibkit.rounds.exact import added, as_text, from_text
from calibkit.rounds.protocol import Sums
from calibkit.rows.numeric import weightless
from calibkit.rows.rows import NothingLeft, Remark, added_up
from calibkit.rows.weights import ROW, Unit, bit_range, common_unit

#: What no weight at all says of the bits of weights; see `calibkit.rows.weights.bit_range`.
_NO_BITS: Final = -5000, 5000

#: More different texts of all features are not counted.
_MOST_TEXTS: Final = 1 << 20


class LookCounter:
    """Looks at all rows for the first time: how many, which values."""

    def __init__(self, known: Known, problem: HetcalProblem) -> None:
        self.known, self.problem = known, problem
        limit = limits(problem.spec.bins)[0]
        features = [] if known.grown else list(enumerate(known.columns))
        self.looks = {place: Look(limit) for place, column in features if column.kind != "category"}
        self.texts: dict[int, dict[str, int]] = {
            place: {} for place, column in features if column.kind == "category"
        }
        self.total = np.zeros(3, np.int64)
        self.weights = ExactSum(), ExactSum()
        self.bits = _NO_BITS
        self.low, self.high = np.inf, -np.inf
        self.remarks: list[Remark] = []
        self.times = first_draw()

    def add(self, block: Block) -> None:
        """Add some rows."""
        label, weight = block.label, block.data.weight
        self.total += np.array([label.size, np.count_nonzero(label), block.clipped])
        if weight is not None and weight.any():
            self.weights[0].add(weight)
            self.weights[1].add(weight[label == 1])
            top, last = bit_range(weight)
            self.bits = max(self.bits[0], top), min(self.bits[1], last)
        self.low = min(self.low, float(block.score.min()))
        self.high = max(self.high, float(block.score.max()))
        self.remarks += block.data.remarks
        if block.times is not None:
            self.times.add(block.times)
        for place, look in self.looks.items():
            look.add(block.features.values[place])
        assert block.data.others is not None
        names = [self.known.columns[place].name for place in self.texts]
        for found, counts in zip(
            self.texts.values(), text_counts(block.data.others, names), strict=True
        ):
            for text, count in counts.items():
                found[text] = found.get(text, 0) + count

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell what was seen."""
        numbers.add_all(What.TOTAL, self.total)
        for what, value in ((What.HIGH, self.high), (What.LOW, -self.low)):
            numbers.add(what, np.zeros(1, np.int64), keys_of(np.array([value])))
        for place, look in self.looks.items():
            look.tell(numbers, place)
        numbers.add(What.BITS, np.arange(2), np.array([self.bits[0], -self.bits[1]]))
        return {
            "weights": as_text({"sums": [one.units for one in self.weights]}),
            "many": [place for place, look in self.looks.items() if look.keys is None],
            "texts": {str(place): counts for place, counts in self.texts.items()},
            "remarks": plain_remarks(self.remarks),
            TIMES: [] if self.known.times is None else [self.times.keys()],
        }


def learn(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn what the first look tells: rows, weights, categories, and bins where values are few.

    Raises
    ------
    DataError
        Rows of one class, or that all have weight 0; no row that is left.
    """
    table, payload, spec = sums.table, sums.payload, problem.spec
    rows, positives, clipped = array_of(table, What.TOTAL, 3).tolist()
    if not rows:
        raise NothingLeft(None, payload["read"], remarks_of(payload["remarks"]))
    refuse_one_class(positives, rows, problem.columns.label, None)
    low = -float(values_of(array_of(table, What.LOW, 1))[0])
    high = float(values_of(array_of(table, What.HIGH, 1))[0])
    said = [one.text for one in remarks_of(payload["remarks"])]
    few = rows < 2 * spec.folds or min(positives, rows - positives) < 2
    known.folds = 0 if few or known.apart else spec.folds
    if few and not known.apart:
        said.append(too_few(f"{positives} positive of {rows} rows are", spec.folds))
    weight, hits, unit, top = _weights(problem, sums, rows, positives)
    known.seen = Seen(
        rows, positives, weight, hits, unit, problem.columns.sampled, top, clipped,
        low, high, said,
    )  # fmt: skip
    if not known.folds:
        known.judge_nothing()
    elif known.times is not None:
        begin(known.times, payload, rows, known.folds)
    if known.grown is None:
        _learn_bins(known, problem, sums)


def _learn_bins(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    table, payload, texts = sums.table, sums.payload, sums.payload["texts"]
    for place, column in enumerate(known.columns):
        if column.kind == "category":
            pairs = sorted(texts[str(place)].items(), key=lambda pair: (-pair[1], pair[0]))
            known.categories.append(sorted(name for name, _ in pairs[:MOST_BINS]))
            known.edges.append(Edges(0, [], []))
        else:
            known.categories.append(None)
            many = place in payload["many"]
            known.edges.append(first_edges(table, place, many, problem.spec.bins))


def _weights(
    problem: HetcalProblem, sums: Sums, rows: int, positives: int
) -> tuple[int, int, Unit, int]:
    """Return the weight of all rows and of the positive ones, its unit, and what weights are below."""
    column = problem.columns.weight
    if column is None:
        return rows, positives, ROW, 1
    total, hits = (
        Fraction(units, 1 << -LEAST_PRODUCT) for units in from_text(sums.payload["weights"])["sums"]
    )
    if total <= 0:
        raise weightless(None, column, rows)
    top, last = array_of(sums.table, What.BITS, 2).tolist()
    unit = common_unit(rows, total, top, -last)
    size = Fraction(unit.size)
    return round(total / size), round(hits / size), unit, top


def too_few(what: str, folds: int) -> str:
    """Return what is said where nothing is cross-validated."""
    return f"{what} too few for {folds} folds: nothing is chosen or checked by cross-validation"


def merged(parts: Sequence[Sums]) -> dict[str, Any]:
    """Return what the payloads of the first look at some parts say of all."""
    payloads = [part.payload for part in parts]
    said = [one for payload in payloads for one in remarks_of(payload["remarks"])]
    weights = reduce(added, (from_text(payload["weights"]) for payload in payloads))
    return {
        "remarks": plain_remarks(said),
        "many": sorted({place for payload in payloads for place in payload["many"]}),
        "read": sum(payload["read"] for payload in payloads),
        "weights": as_text(weights),
        "texts": texts_of(parts),
        TIMES: merged_draws(payloads),
    }


def remarks_of(plain: Sequence[Any]) -> list[Remark]:
    """Return remarks from what a state holds of them."""
    return [
        Remark(str(before), str(noun), str(after), int(count))
        for before, noun, after, count in plain
    ]


def plain_remarks(remarks: Sequence[Remark]) -> list[list[Any]]:
    """Return remarks, equal ones added up, as a state holds them."""
    found = added_up(remarks)
    return sorted([one.before, one.noun, one.after, one.count] for one in found)


def texts_of(parts: Sequence[Sums]) -> dict[str, dict[str, int]]:
    """Return how often each text occurs in each category.

    Raises
    ------
    ResourceError
        Where there are too many texts.
    """
    found: dict[str, dict[str, int]] = {}
    for part in parts:
        for place, counts in part.payload.get("texts", {}).items():
            own = found.setdefault(place, {})
            for text, count in counts.items():
                own[text] = own.get(text, 0) + int(count)
    if sum(map(len, found.values())) > _MOST_TEXTS:
        raise ResourceError(
            f"memory: the features hold more than {_MOST_TEXTS:,} different texts, which a fit in "
            "rounds cannot count: leave such a column out, or raise --memory"
        )
    return found
