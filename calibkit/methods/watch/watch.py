"""Watching a boundary: new rows join what was counted, and all promises are tested anew."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, cast

import polars as pl
from msgspec import UNSET, Struct, UnsetType, to_builtins
from msgspec.structs import replace

from calibkit.columns.rows import Remark
from calibkit.errors import DataError, UsageError
from calibkit.files.explain import reading
from calibkit.files.paths import STDIN, find_files, read_bytes
from calibkit.files.sources import Source
from calibkit.files.told import together
from calibkit.measures.result import Interval, Metrics, Number
from calibkit.methods.watch import bets, bins
from calibkit.methods.watch import state as states
from calibkit.methods.watch.bets import PROMISES, Estimate, Evidence, Promise
from calibkit.methods.watch.rows import Reading, count, plan
from calibkit.methods.watch.state import Night, WatchState
from calibkit.models.lineage import model_hash
from calibkit.models.model import Shown
from calibkit.numerics.bounds import decimal_bound
from calibkit.options.watch import WatchOptions
from calibkit.version import __version__

#: What is watched, as a score of metrics, and its only slice.
BOUNDARY, ALL = "boundary", "all"

#: What the test of probabilities is called.
CALIBRATION = "calibration"

#: For how many nights it is said when labels will be enough.
_FORESEEN = 1_000

#: How many rates a sentence names.
_NAMED = 3

#: Where neither the line nor a certificate says.
_CONFIDENCE = 0.95


#: The columns of `Watched.history`.
HISTORY: Final = pl.Schema(
    dict.fromkeys(("promise", "period"), pl.String)
    | {"night": pl.Int64, "bound": pl.Float64, "rate": pl.Float64, "rows": pl.Int64}
    | dict.fromkeys(("estimate", "low", "high", "e_value", "threshold"), pl.Float64)
    | {"refuted": pl.Boolean}
)


class _Claim(Struct, frozen=True, kw_only=True):
    """What became of something that nights may refute; see `Tested`."""

    name: str
    alpha: float
    e_value: float
    threshold: float
    highest: float
    refuted: str | int | None
    since: str | int | None
    rows: int


class Tested(_Claim, frozen=True, kw_only=True):
    """What became of one promise.

    Attributes
    ----------
    name, bound
        The promise; of ``calibration`` the bound is 0, and the rate how much larger the share of
        positives is than the mean score.
    segment
        The only rows that it is about, as a slice (``shop:web``), where each segment has a promise.
    alpha, threshold
        The chance of ever refuting a promise that is kept, and the e-value that refutes: 1 / alpha.
    e_value, highest
        The evidence against it after the last night, and after any night.
    refuted, since
        The first night whose evidence reached the threshold, and from when the rows speak most
        against the promise; null where it is not refuted.
    estimate, low, high, rows
        The rate over all nights, its confidence sequence, and how many labelled rows it is of.
    """

    bound: float
    estimate: float | None
    low: float | None
    high: float | None
    segment: str | UnsetType = UNSET

    @property
    def text(self) -> str:
        """What is promised, in a few words."""
        if self.name == CALIBRATION:
            return self.name
        return Promise(self.name, self.bound, segment=self.segment or None).text

    @property
    def rate(self) -> str:
        """The rate in words."""
        return f"{self.name} in {self.segment}" if self.segment else self.name

    @property
    def worst(self) -> float | None:
        """The end of the confidence sequence on the side of the bound."""
        return self.high if self.name == "fpr" else self.low

    def kept_by(self, value: float) -> bool:
        """Return whether a rate keeps the promise; of calibration only the evidence says it."""
        if self.name == CALIBRATION:
            return True
        return value <= self.bound if self.name == "fpr" else value >= self.bound


class Drifted(_Claim, frozen=True, kw_only=True):
    """What is known of whether a column still looks as in the fitting rows.

    Attributes
    ----------
    name
        ``score`` or ``uncertainty``.
    alpha, e_value, threshold, highest, refuted, since
        As of `Tested`, of the claim that rows are drawn as the fitting rows were.
    moved
        The share of rows that lies in other of five bins than in the fit: since that night, else on
        all nights.
    rows
        How many rows there are, labelled or not.
    """

    moved: float | None


class WatchFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of ``watch.json``; see `Watched`."""

    alarm: bool
    tests: tuple[Tested, ...]
    period: str | int | None
    advice: str
    confidence: float
    nights: int
    rows: int
    calibkit: str
    drift: tuple[Drifted, ...] = ()


class Watched(Shown, Struct, frozen=True):
    """What a watch has found so far.

    Attributes
    ----------
    state
        All that was counted.
    tests
        One for each promise.
    drift
        One for each column that is watched for drift.
    advice
        What to do, in a sentence.
    known
        How many of the new rows the state had already.
    remarks
        Rows that did not count.
    warnings
        What the user should be told.
    """

    state: WatchState
    tests: tuple[Tested, ...]
    advice: str
    drift: tuple[Drifted, ...] = ()
    known: int = 0
    remarks: tuple[Remark, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def alarm(self) -> bool:
        """Whether a promise was ever refuted."""
        return any(test.refuted is not None for test in self.tests)

    @property
    def period(self) -> str | int | None:
        """The last night."""
        return self.state.nights[-1].period if self.state.nights else None

    @property
    def rows(self) -> int:
        """How many labelled rows were counted."""
        return sum(night.rows for night in self.state.nights)

    def as_dict(self) -> dict[str, Any]:
        """Return ``watch.json`` as plain dictionaries."""
        names = ("alarm", "tests", "period", "advice", "rows", "drift")
        content = WatchFile(
            **{name: getattr(self, name) for name in names},
            confidence=self.state.confidence,
            nights=len(self.state.nights),
            calibkit=__version__,
        )
        return to_builtins(content)

    def history(self) -> pl.DataFrame:
        """Return a row a promise and night, in the columns of `HISTORY`.

        ``night`` counts from 1 and ``rate`` is that night's alone; ``rows`` to ``e_value`` are of all
        nights until then, and ``refuted`` says whether the evidence had reached ``threshold``.  What no
        row says is null.
        """
        rows = list[tuple[Any, ...]]()
        for bet, test in zip(_bets(self.state), self.tests, strict=True):
            at = bet.proof.passed(test.threshold)
            for place, night in enumerate(self.state.nights):
                alone = bet.rate(bet.nights[place : place + 1])
                all_ = bet.rate(bet.nights[: place + 1])
                refuted = at is not None and place >= at
                proof = bets.capital(bet.proof.logs[place]), test.threshold, refuted
                seen = alone.value, all_.rows, all_.value, all_.low, all_.high
                rows.append((test.text, str(night.period), place + 1, bet.bound, *seen, *proof))
        return pl.DataFrame(rows, HISTORY, orient="row")

    @property
    def metrics(self) -> Metrics:
        """The numbers as metrics, for Prometheus and tables."""
        values: dict[str, Number] = {"alarm": int(self.alarm), "nights": len(self.state.nights)}
        named: dict[str, dict[str, Number]] = {ALL: values}
        ends = dict[str, dict[str, Interval]]()
        for test in self.tests:
            own = named.setdefault(test.segment or ALL, {})
            own[test.name] = test.estimate
            ends.setdefault(test.segment or ALL, {})[test.name] = Interval(test.low, test.high)
            for part in ("bound", "e_value", "threshold", "rows"):
                own[f"{test.name}_{part}"] = getattr(test, part)
        for one in self.drift:
            values[f"{one.name}_drift"] = one.moved
            for part in ("e_value", "threshold", "rows"):
                values[f"{one.name}_drift_{part}"] = getattr(one, part)
        metrics, intervals = {BOUNDARY: named}, {BOUNDARY: ends}
        return Metrics(signature={}, rows=self.rows, metrics=metrics, intervals=intervals)


def watch(options: WatchOptions, source: Source) -> Watched:
    """Add new rows to what was counted, and test all promises; nothing is written.

    The rows are of the last night and later ones; without the file of a state one begins.  Raises
    `UsageError`: nothing that is promised, a column that is not there; `ModelError`: a state of another
    model, bound or confidence; rows of a night before the last; `DataError`: values out of range or of
    the wrong type.
    """
    planned = plan(options, source)
    state = current(options, planned)
    nights, remarks = count(planned, source, state.last)
    notes = tuple(source.warnings)
    if not nights:
        old = (
            ""
            if options.maturity is None
            else " and is old enough by --maturity on their last night"
        )
        notes = (*notes, f"no row of the inputs has a label that counts{old}; nothing was added.")
    elif "label" not in planned.columns:
        notes = (*notes, f"there is no column {options.label!r}: no row of the inputs has a label.")
    hits = [positives for night in nights for _, _, positives in night.cells]
    if hits and not any(hits) and options.positive is not None:
        said = f"column {options.label!r}: no row has the positive class {options.positive!r}"
        if not state.nights:  # every alert would count as wrong, for good
            raise DataError.of(source.file, f"{said}; name one of its values by --positive VALUE")
        notes = (*notes, said)
    if nights and state.calendar == "run":  # the next night, or the last if it has these rows
        (night,) = nights
        known = bool(state.nights) and night.shards[0] in state.nights[-1].shards
        place = (state.last or 0) + (not known)
        nights = (replace(night, period=place),)
    late = options.labelled_at is not None or options.maturity is not None
    state, again, over = state.add(nights, late=late)
    if over:
        remarks = (*remarks, Remark("", "row", "of nights that are over left out of drift", over))
    text = together([(options.state, state.text), (source.file, source.told)])
    state = replace(state, text=text)
    return replace(judge(state), known=again, remarks=remarks, warnings=notes)


def current(options: WatchOptions, planned: Reading) -> WatchState:
    """Return the state of a file, or a new one where there is none.

    Raises `ModelError` for no state and one of another model, bound or confidence.
    """
    fresh = WatchState(
        states.MAGIC,
        states.VERSION,
        model_hash(options.fitted),
        *promised(options),
        calendar=planned.calendar,
        maturity=options.maturity or 0,
        calibration=options.calibration,
        max_weight=options.max_weight,
        drift={role: own.rows for role, own in planned.outlines.items()},
        segments=tuple(f"{options.fitted.columns['by'].name}:{one}" for one in planned.segments),
    )
    if not Path(options.state).exists():
        return fresh
    found = states.read_state(read_bytes(options.state), options.state)
    states.refuse_other(found, fresh, options.state)
    return found


def promised(options: WatchOptions) -> tuple[dict[str, float], float]:
    """Return what is promised, and with which confidence: as the line says, else as the model does.

    Raises `UsageError` for a model without a promise that rows could refute one by one.
    """
    model: Any = options.fitted
    certificate = model.fit.certificate
    found, confidence = options.named or _own(options), _CONFIDENCE
    if options.confidence is not None:
        confidence = float(options.confidence)
    elif certificate is not None and not options.named:
        confidence = float(decimal_bound(certificate.confidence))
    return found, confidence


def _own(options: WatchOptions) -> dict[str, float]:
    """Return the bounds of a model, or say why they cannot be watched."""
    model: Any = options.fitted
    objective, name_it = model.objective, "; name a promise by --precision, --recall or --fpr."
    bounds = {name: bound for name, bound in objective.subject_to.items() if name in PROMISES}
    if not bounds and options.calibration:
        return {}
    if not bounds:
        raise UsageError(f"the model keeps no precision, recall or fpr within a bound{name_it}")
    for why, given in (
        ("holds for another base rate than that of the rows", objective.prevalence),
        ("is of rows that count by their weight", model.columns.get("weight", UNSET)),
        ("is of rows that count by their value", model.columns.get("value", UNSET)),
    ):
        if given is not UNSET:
            where = f"the model's own bound {why}"
            raise UsageError(f"{where}, and watch counts each row once{name_it}")
    for name, bound in bounds.items():
        if not 0.0 < bound < 1.0:
            raise UsageError(f"the model's own bound, {name} {bound:g}, leaves no room{name_it}")
    return bounds


class _Bet(Struct, frozen=True):
    """What is tested: the evidence against it, what was counted, and the rate over some nights."""

    name: str
    bound: float
    segment: str | None
    proof: Evidence
    nights: Sequence[Any]
    rate: Callable[[Sequence[Any]], Estimate]


def _alpha(state: WatchState) -> float:
    return _share(state, len(state.tested) + state.calibration)


def _share(state: WatchState, shares: int) -> float:
    """Return the level of one test among some that share 1 - C."""
    sure = decimal_bound(state.confidence)
    return (sure.denominator - sure.numerator) / sure.denominator / shares


def _bets(state: WatchState) -> list[_Bet]:
    alpha, found = _alpha(state), list[_Bet]()
    place = {name: at for at, name in enumerate(state.segments)}
    parted = [night.by_segment() for night in state.nights if place]
    whole = [night.counts() for night in state.nights]
    for promise in state.tested:
        nights = whole
        if promise.segment is not None:
            nights = [own.get(place[promise.segment], {}) for own in parted]
        rate = partial(bets.estimate, promise, alpha=alpha)
        proof = bets.evidence(promise, nights)
        found.append(_Bet(promise.name, promise.bound, promise.segment, proof, nights, rate))
    if state.calibration:
        scores = [night.scores for night in state.nights]
        rate = partial(bins.calibration_estimate, alpha=alpha)
        found.append(_Bet(CALIBRATION, 0.0, None, bins.calibration_evidence(scores), scores, rate))
    return found


def judge(state: WatchState) -> Watched:
    """Return what a state says of its promises."""
    alpha, tested, tests = _alpha(state), _bets(state), list[Tested]()
    for bet in tested:
        rate, said = bet.rate(bet.nights), _said(state, bet.name, bet.proof, alpha)
        own: dict[str, Any] = {"bound": bet.bound, "estimate": rate.value, "rows": rate.rows}
        own["segment"] = bet.segment or UNSET
        tests.append(Tested(low=rate.low, high=rate.high, **own, **said))
    drift = _drifted(state)
    advice = _advice(tests, [bet.proof for bet in tested], state)
    return Watched(state, tuple(tests), " ".join([advice, *_seen(drift)]), drift)


def _said(state: WatchState, name: str, proof: Evidence, alpha: float) -> dict[str, Any]:
    """Return what evidence says at a level, as `Tested` and `Drifted` have it."""
    at = proof.passed(1.0 / alpha)
    return {
        "name": name,
        "alpha": alpha,
        "threshold": 1.0 / alpha,
        "e_value": proof.e_value,
        "highest": proof.highest,
        "refuted": None if at is None else state.nights[at].period,
        "since": None if at is None else state.nights[proof.since(at)].period,
    }


def _drifted(state: WatchState) -> tuple[Drifted, ...]:
    """Return what is known of each column that is watched for drift, at a level of its own."""
    found = []
    for place, (name, fitted) in enumerate(state.drift.items()):
        nights = [night.drift[place] for night in state.nights]
        alpha = _share(state, len(state.drift))
        said = _said(state, name, bins.drift_evidence(fitted, nights), alpha)
        late = [night.drift[place] for night in _since(state, said["since"])]
        rows = sum(map(sum, nights))
        found.append(Drifted(moved=bins.drifted(fitted, late), rows=rows, **said))
    return tuple(found)


def _seen(drift: Sequence[Drifted]) -> list[str]:
    """Return what drift there is, in a sentence; none where there is none."""
    said = [
        f"{one.name} since night {one.since} ({one.moved:.1%} of the rows have moved)"
        for one in drift
        if one.refuted is not None and one.moved is not None
    ]
    if not said:
        return []
    return [f"Rows are not as those of the fit: {' and '.join(said)}; calibkit drift shows where."]


def _since(state: WatchState, period: str | int | None) -> Sequence[Night]:
    """Return the nights from one on; None: all of them."""
    periods = [night.period for night in state.nights]
    return state.nights[0 if period is None else periods.index(period) :]


def are_states(inputs: Sequence[str]) -> bool:
    """Return whether the first of some files is a state of a watch: JSON, as no other state is."""
    first = find_files(inputs)[0]
    with reading(first):
        if first == STDIN:  # of which nothing is taken away
            return cast(BufferedReader, sys.stdin.buffer).peek(1).startswith(b"{")
        with Path(first).open("rb") as file:
            return file.read(1) == b"{" and states.MAGIC.encode() in file.read()


def merged(files: list[str]) -> Watched:
    """Return what the states of some files say together; errors as `merge_states`."""
    found = [(file, states.read_state(read_bytes(file), file)) for file in files]
    return judge(states.merge_states(found))


def _advice(tests: Sequence[Tested], proofs: Sequence[Evidence], state: WatchState) -> str:
    """Return what to do, in a sentence."""
    refuted = [test for test in tests if test.refuted is not None]
    if refuted:
        said = "; ".join(f"{test.text} is refuted at night {test.refuted}" for test in refuted)
        rows = f"on labelled rows from night {refuted[0].since} on"
        if [test.name for test in refuted] == [CALIBRATION]:
            said += "" if len(tests) == 1 else ", which promises of decisions survive so far"
            scores = [night.scores for night in _since(state, refuted[0].since)]
            moved = bins.moved_odds(scores, refuted[0].threshold)
            if moved is None:
                return f"{said}: the scores are no longer probabilities; recalibrate, {rows}."
            if moved <= 1.0:
                shift = f"(calibrate --method prior-shift --negatives-kept {moved:.3g})"
                return f"{said}: the base rate has moved; shift it {shift}."
            factor = f"the odds of every score by a factor {moved:.3g}"
            return f"{said}: the base rate has moved, {factor}; calibrate them again, {rows}."
        return f"{said}: fit the boundary again, {rows}."
    if not any(test.rows for test in tests):
        return "No labelled row speaks of a promise yet: label some, and wait."
    for test, proof in zip(tests, proofs, strict=True):
        if test.estimate is None or test.kept_by(test.estimate):
            continue
        text = f"{test.rate} is {test.estimate:.4g} so far, not {test.bound:g}, which may be chance"
        if proof.growth() > 0.0:
            wait = math.ceil((math.log(test.threshold) - math.log(proof.e_value)) / proof.growth())
            nights = f"{wait:,} night{'s' * (wait != 1)}"
            return f"{text}: wait; if nights stay as they are, the alarm comes in about {nights}."
        return f"{text}: wait."
    unsure = [test for test in tests if test.worst is None or not test.kept_by(test.worst)]
    if unsure:
        named = [test.rate for test in unsure[:_NAMED]]
        named += [f"{len(unsure) - _NAMED} more"] if len(unsure) > _NAMED else []
        names = " and ".join(filter(None, [", ".join(named[:-1]), named[-1]]))
        waits = [_wait(test, state) for test in unsure]
        wait = max(waits) if all(waits) else 0
        when = ""
        if wait and state.last is not None:
            then = states.period_at(state.last + wait, state.calendar)
            when = f" before about night {then} at this rate"
        return (
            f"Nothing is refuted, and there are too few labels to be sure of {names}{when}: keep "
            "watching."
        )
    return "Every promise is kept, as far as the nights together say: keep watching."


def _wait(test: Tested, state: WatchState) -> int:
    """Return in how many more nights a rate that stays may be sure of its bound; 0: nobody knows.

    The ends of an interval come nearer as one over the square root of the number of rows.
    """
    nights = states.place_of(state.nights[-1].period) - states.place_of(state.nights[0].period) + 1
    if test.estimate is None or test.worst is None or test.estimate == test.bound:
        return 0
    wait = nights * (((test.estimate - test.worst) / (test.estimate - test.bound)) ** 2 - 1.0)
    return math.ceil(wait) if wait <= _FORESEEN else 0
