"""Comparing new rows with those of a fit: shares, stability indices and, with labels, rates.

From the rows, or from states of them: see `calibkit.summaries.states.Run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import polars as pl
from msgspec import Struct, to_builtins

from calibkit.drift.figures import estimated, figures
from calibkit.drift.rows import BOUNDARY, CELL, Counts, Sums, Watched, count, plan_watch, watched_of
from calibkit.errors import ModelError
from calibkit.files.sources import Source
from calibkit.measures.result import Interval, Metrics, Number, Values, metric_of
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import Certificate
from calibkit.models.model import Shown
from calibkit.numerics.hashes import hash_text
from calibkit.options.option import plain
from calibkit.options.watch import DriftOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.states import Plan, Shard, State, SummedState, from_plain, options_of
from calibkit.version import __version__

#: The slices: the new rows, what the fit said, and what holds by a certificate.
ALL, FIT, CERTIFICATE = "all", "fit", "certificate"

#: The slice of what is estimated without labels.
ESTIMATED = "estimated"

#: What stands at the top of the result too, before all metrics.
HEADLINE = (
    *("selected_share", "psi_score", "psi_uncertainty", "outside_range", "missing_share"),
    *("precision", "recall"),
)

#: The columns of the table of a state.
_COLUMNS: Final = ("boundary", "sum", "value")


class DriftFile(Struct):
    """The content of ``drift.json``, for its schema; beside it are the headlines of `Drift.as_dict`."""

    rows: int
    metrics: Values
    intervals: dict[str, dict[str, dict[str, Interval]]]
    calibkit: str


class Drift(Shown, Struct, frozen=True):
    """What a comparison found.

    Attributes
    ----------
    metrics
        By the name of a boundary, then by slice: ``all`` are the new rows, ``fit`` is what the model
        says of its fit, ``certificate`` what it guarantees.
    certificates
        Of the boundaries that have one, where there were labels.
    warnings
        What the user should be told.
    assumes
        What rates without labels were estimated by; None: they were not.
    """

    metrics: Metrics
    certificates: dict[str, Certificate]
    warnings: tuple[str, ...] = ()
    assumes: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return ``drift.json`` as plain dictionaries.

        The headline figures of the only boundary stand at the top, those of a bundle's boundaries
        under their names; `metrics` and `intervals` have all, in the structure of ``metrics.json``,
        so that gates, `diff` and other readers of metrics find their way.
        """
        content = self.metrics.as_dict()
        heads = {name: self._headline(name) for name in self.metrics.metrics}
        top: dict[str, Any] = heads.pop(BOUNDARY, {}) if len(heads) == 1 else {}
        parts = {name: content[name] for name in ("metrics", "intervals")}
        return {**top, **heads, "rows": self.metrics.rows, **parts, "calibkit": __version__}

    def _headline(self, name: str) -> dict[str, Any]:
        values = self.metrics.metrics[name][ALL]
        found: dict[str, Any] = {key: values[key] for key in HEADLINE if key in values}
        if name in self.certificates:
            found["certificate"] = to_builtins(self.certificates[name])
        if self.assumes is not None:
            ends = self.metrics.intervals[name][ESTIMATED]
            found[ESTIMATED] = {"assumes": self.assumes} | {
                rate: {"value": value, "low": ends[rate].low, "high": ends[rate].high}
                for rate, value in self.metrics.metrics[name][ESTIMATED].items()
            }
        return found


def fit(options: DriftOptions, source: Source) -> Drift:
    """Compare new rows with those that a boundary, or the boundaries of a bundle, were fitted on.

    Rows that lack a value the model needs count as missing, and nowhere else.  Raises `UsageError`: a
    model that keeps nothing to compare with, or a column that is not there; `DataError`: values out of
    range or of the wrong type.
    """
    watch = plan_watch(options, source)
    counted = count(watch, source)
    return judged(options, watch.watched, counted, source.rows, source.warnings)


def judged(
    options: DriftOptions,
    watched: Sequence[Watched],
    counts: Counts,
    rows: int,
    warnings: Sequence[str] = (),
) -> Drift:
    """Return what the counts of new rows say, a boundary each."""
    metrics = Metrics(signature={}, rows=rows, metrics={}, intervals={})
    certificates, told = {}, [*warnings]
    for one in watched:
        values, bounds = figures(one, counts, options)
        metrics.metrics[one.name] = {ALL: values, **_expected(one.model)}
        metrics.intervals[one.name] = {ALL: bounds}
        if options.positive is not None and values.get("recall", 0.0) is None:
            told.append(f"{one.name}: no row has the positive class {options.positive!r}")
        if options.estimate:
            rates = estimated(one, counts, options).items()
            metrics.metrics[one.name][ESTIMATED] = {name: rate.value for name, rate in rates}
            bounds = {name: Interval(rate.low, rate.high) for name, rate in rates}
            metrics.intervals[one.name][ESTIMATED] = bounds
            told += _blind(one, options)
        sure = _certificate(one.model)
        if sure is not None and options.label is not None:
            certificates[one.name] = sure
        elif one.model.fit.certificate and one.model.bounded_groups and options.label is not None:
            by = one.model.columns["by"].name
            told.append(
                f"{one.name} is certified in each segment of {by}, and drift judges all rows together: "
                f"watch, or evaluate --by {by}, judges each."
            )
    return Drift(metrics, certificates, tuple(told), options.assumed)


def _blind(one: Watched, options: DriftOptions) -> list[str]:
    """Say where probabilities do not know what the boundary decides by; nothing otherwise."""
    read = {} if options.calibrator is None else options.calibrator.columns
    known, own = {column.name for column in read.values()}, one.model.columns
    names = [repr(own[role].name) for role in one.model.spreads if own[role].name not in known]
    if not names:
        return []
    said = " and ".join(names)
    return [
        f"{one.name} also uses {said}, which the probabilities ignore: if it matters among rows of "
        "one score, the estimated precision and recall are off. Give --calibrator a "
        f"model of `calibkit hetcal` with {said} among its --features."
    ]


def _expected(model: BoundaryModel) -> dict[str, dict[str, Number]]:
    """Return what the model says of its fit and of new rows."""
    fit = model.fit
    assert fit.reference is not None  # `plan_watch` saw to it
    seen = fit.cross_validated or fit.test
    # What is none of plain rows is left out: nothing here could be compared with it.
    alike = {"precision": not model.objective.prevalence, "recall": "value" not in model.columns}
    judged = {name: getattr(seen, name) for name, one in alike.items() if seen and one}
    found: dict[str, dict[str, Number]] = {
        FIT: {
            "count": fit.rows,
            "selected_share": fit.reference.selected_share,
            "base_rate": fit.positives / fit.rows if fit.rows else None,
            **judged,
        }
    }
    sure = _certificate(model)
    if sure is not None:
        bounds = {metric_of(one.quantity): one.bound for one in sure.all}
        found[CERTIFICATE] = {**bounds, "confidence": sure.confidence}
    return found


def _certificate(model: BoundaryModel) -> Certificate | None:
    """Return what is certified of rows that count once each, all of them together."""
    sure = model.fit.certificate
    apart = {"weight", "value"} & model.columns.keys() or model.bounded_groups
    if sure is None or apart or model.objective.prevalence:
        return None
    return sure


def plan(options: DriftOptions, source: Source) -> Plan:
    """Return what a comparison would do."""
    watch = plan_watch(options, source)
    names = ", ".join(one.name for one in watch.watched)
    return Plan(watch.columns, [f"compare with the fit of {names}"])


def state(options: DriftOptions, source: Source) -> State:
    """Return the state of the rows of a shard; errors as `fit`."""
    counts = count(plan_watch(options, source), source, hashed=True)
    shard = Shard(hash_text(counts.hash), source.rows)
    # Shards may call a column by names of their own: what is found is the same.
    said = {"asked": plain(options, "score", "uncertainty", "weight")}
    return DriftState.of("drift", said, shard, counts, source)


def finish(state: State, memory: Memory, threads: int) -> Drift:
    """Return what the rows of a merged state say.

    Raises `ModelError` for a state of something else.
    """
    assert isinstance(state, DriftState)
    return judged(*state.parts(), state.rows)


class DriftState(SummedState):
    """A state of what is counted of new rows."""

    def summed(self) -> Counts:
        """Return what was counted."""
        return self.parts()[2]

    def parts(self) -> tuple[DriftOptions, list[Watched], Counts]:
        """Return the options, the boundaries and what was counted for each."""
        options = options_of(self, DriftOptions)
        watched = watched_of(options)
        return options, watched, self.summary or self._counts(watched)

    def _counts(self, watched: list[Watched]) -> Counts:
        told = [self.header.payload.get(one.name) for one in watched]
        if list(self.table.columns) != list(_COLUMNS) or not told or None in told:
            raise ModelError("a damaged state: it holds no counts", file=self.path)
        read, missing = from_plain(told[0], tuple[int, int], self.path)
        if not 0 <= missing <= read <= self.rows or any(other != told[0] for other in told):
            raise ModelError("a damaged state: impossible numbers of rows", file=self.path)
        sums: dict[str, Sums] = {one.name: {} for one in watched}
        try:
            for owner, sum_of, value in self.table.rows():
                if owner in sums:
                    sums[owner].setdefault(sum_of, []).append(_fraction(value))
        except (TypeError, ValueError, ZeroDivisionError):
            raise ModelError("a damaged state: sums that are none", file=self.path) from None
        for one in watched:
            wanted = {role: len(outline.counts) for role, outline in one.outline.items()}
            for name, values in sums[one.name].items():
                if len(values) != (2 if CELL.fullmatch(name) else wanted.get(name, 1)):
                    raise ModelError(f"a damaged state: {name!r}", file=self.path)
        return Counts(sums, read, missing)

    def packed(self) -> tuple[dict[str, Any], pl.DataFrame]:
        """Return payload and table of the summary."""
        found: Counts = self.summary
        payload = {name: [found.read, found.missing] for name in found.sums}
        rows = [
            (name, sum_of, str(value))
            for name, own in sorted(found.sums.items())
            for sum_of, values in sorted(own.items())
            for value in values
        ]
        return payload, pl.DataFrame(rows, dict.fromkeys(_COLUMNS, pl.String), orient="row")


def _fraction(text: object) -> Fraction:
    """Return a sum of a state, which is at least 0."""
    found = Fraction(str(text))
    if found < 0 or len(str(text)) > 4_000:
        raise ValueError(text)
    return found
