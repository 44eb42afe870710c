"""Comparing new rows with those of a fit: shares, stability indices and, with labels, rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from calibkit.drift.counts import Counts
from calibkit.drift.estimate import Basis, Cells, estimate
from calibkit.drift.psi import Stability, stability
from calibkit.drift.rows import BOUNDARY, Watched, base_rate, count, fitted_rows, plan_watch
from calibkit.files.sources import Source
from calibkit.measures.rates import Level, wilson
from calibkit.measures.result import Difference, Interval, Metrics, Number, Values
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import Certificate, Promise
from calibkit.models.model import Shown
from calibkit.numerics.sums import exact_group_sums
from calibkit.options.drift import DriftOptions
from calibkit.version import __version__

#: The slices: the new rows, what the fit said, and what holds by a certificate.
ALL, FIT, CERTIFICATE = "all", "fit", "certificate"

#: The slice of what is estimated without labels.
ESTIMATED = "estimated"

#: What stands at the top of the result too, before all metrics.
HEADLINE = (
    "selected_share",
    "psi_score",
    "psi_uncertainty",
    "outside_range",
    "missing_share",
    "precision",
    "recall",
)

#: What a certificate calls a quantity, as a metric.
_CERTIFIED = {"capacity": "selected_share"}

#: Rows that are read at a time, where memory does not say.
_BATCH = 2**20


class DriftFile(msgspec.Struct):
    """The content of ``drift.json``, for its schema; beside it are the headlines of `Drift.as_dict`."""

    rows: int
    metrics: Values
    intervals: dict[str, dict[str, dict[str, Interval]]]
    calibkit: str


@dataclass(frozen=True, repr=False)
class Drift(Shown):
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
        found: dict[str, Any] = {**top, **heads, "rows": self.metrics.rows}
        for name in ("metrics", "intervals"):
            found[name] = content[name]
        return {**found, "calibkit": __version__}

    def _headline(self, name: str) -> dict[str, Any]:
        values = self.metrics.metrics[name][ALL]
        found: dict[str, Any] = {key: values[key] for key in HEADLINE if key in values}
        if name in self.certificates:
            found["certificate"] = msgspec.to_builtins(self.certificates[name])
        if self.assumes is not None:
            ends = self.metrics.intervals[name][ESTIMATED]
            found[ESTIMATED] = {"assumes": self.assumes} | {
                rate: {"value": value, "low": ends[rate].low, "high": ends[rate].high}
                for rate, value in self.metrics.metrics[name][ESTIMATED].items()
            }
        return found


def drift(options: DriftOptions, source: Source, *, batch: int | None = None) -> Drift:
    """Compare new rows with those that a boundary, or the boundaries of a bundle, were fitted on.

    Parameters
    ----------
    options
        What they are compared with: a boundary that was fitted on rows, or a bundle with such.
    source
        The new rows.  Rows that lack a value the model needs count as missing, and nowhere else.
    batch
        How many rows are read at a time, None: as many as memory allows; the result does not depend
        on it.

    Raises
    ------
    UsageError
        A model that keeps nothing to compare with, or a column that is not there.
    DataError
        Values out of range or of the wrong type.
    """
    watch = plan_watch(options, source)
    allowed = _BATCH if source.memory is None else source.memory.batch
    counted = count(watch, source, batch or allowed)
    return judged(options, watch.watched, counted, source.rows, source.warnings)


def judged(
    options: DriftOptions,
    watched: Sequence[Watched],
    counted: Mapping[str, Counts],
    rows: int,
    warnings: Sequence[str] = (),
) -> Drift:
    """Return what the counts of new rows say, a boundary each."""
    values: dict[str, dict[str, dict[str, Number]]] = {}
    intervals: dict[str, dict[str, dict[str, Interval]]] = {}
    for one in watched:
        found = _figures(one, counted[one.name], options)
        values[one.name] = {ALL: found.values, **_expected(one.model)}
        intervals[one.name] = {ALL: found.bounds}
        if options.estimate:
            rates = _estimated(one, counted[one.name], options)
            values[one.name][ESTIMATED] = {name: rate.value for name, rate in rates.items()}
            intervals[one.name][ESTIMATED] = {
                name: Interval(rate.low, rate.high) for name, rate in rates.items()
            }
    certificates = {
        one.name: sure
        for one in watched
        if (sure := _certificate(one.model)) is not None and options.label is not None
    }
    metrics = Metrics(signature={}, rows=rows, metrics=values, intervals=intervals)
    told = (*warnings, *(_blind(one, options) for one in watched if options.estimate))
    return Drift(metrics, certificates, tuple(filter(None, told)), options.assumed)


def _blind(one: Watched, options: DriftOptions) -> str:
    """Say where probabilities do not know what the boundary decides by; nothing otherwise."""
    own = one.model.columns.get("uncertainty")
    maker = options.calibrator
    if own is None or (maker is not None and own.name in {c.name for c in maker.columns.values()}):
        return ""
    return (
        f"{one.name} decides by {own.name!r} too, which the probabilities do not know: where positives "
        "at a score depend on it, the estimated precision and recall are off. Give --calibrator a "
        f"model of `calibkit hetcal` with {own.name!r} among its --features."
    )


@dataclass
class _Figures:
    """Metrics of the new rows of one boundary, as they are found, and their intervals."""

    level: Level
    values: dict[str, Number] = field(default_factory=dict)
    bounds: dict[str, Interval] = field(default_factory=dict)

    def rate(self, name: str, part: float, whole: float, rows: float) -> None:
        """Add a rate, None of nothing; `rows` is how many independent rows it is of."""
        self.values[name] = part / whole if whole > 0.0 else None
        if whole > 0.0:
            self.bounds[name] = wilson(min(1.0, part / whole), rows, self.level)

    def stability(self, name: str, found: Stability | None) -> None:
        """Add the index of a column; None where the boundary does not read it."""
        self.values[name] = None if found is None else found.value
        self.values[f"{name}_expected"] = None if found is None else found.expected
        self.values[f"{name}_p_value"] = None if found is None else found.p_value
        if found is not None:
            self.bounds[name] = found.interval


def _figures(one: Watched, counts: Counts, options: DriftOptions) -> _Figures:
    """Return the metrics of the new rows, and their intervals."""
    found = _Figures(Level(options.confidence), {"count": counts.read})
    found.rate("missing_share", counts.missing, counts.read, counts.read)
    total = counts.value("rows")
    thinned = _independent(one, counts)
    kish = total * thinned
    for name, part in (("selected_share", "selected"), ("outside_range", "outside")):
        found.rate(name, counts.value(part), total, kish)
    for role in ("score", "uncertainty"):
        index = None
        if role in one.outline and total:
            bins = _filled(counts.sums[role], one.outline[role].counts)
            index = stability(*bins, (kish, fitted_rows(one.model)), options.confidence)
        found.stability(f"psi_{role}", index)
    if options.label is not None:
        names = ("labelled", "positives", "labelled_selected", "hits")
        rows, positives, selected, hits = (counts.value(name) for name in names)
        found.values["labelled"] = rows
        for name, own, whole in (
            ("base_rate", positives, rows),
            ("precision", hits, selected),
            ("recall", hits, positives),
            ("fpr", selected - hits, rows - positives),
        ):
            found.rate(name, own, whole, whole * thinned)
    return found


def _estimated(one: Watched, counts: Counts, options: DriftOptions) -> dict[str, Difference]:
    """Return the rates of the new rows without their labels."""
    source = one.model if options.calibrator is None else options.calibrator
    basis = Basis(fitted_rows(source), base_rate(source) or 0.5)
    cells = counts.cells()
    places = np.array([cell[:3] for cell in cells], np.int64).reshape(-1, 3)
    rows, means = np.array([cell[3:] for cell in cells], np.float64).reshape(-1, 2).T
    old = np.array(one.outline["score"].counts)
    # Bins that held no fitting row count with the next that did, as in the index.
    filled = np.flatnonzero(old)
    bins = np.minimum(np.searchsorted(filled, places[:, 0]), filled.size - 1)
    known = basis.rows * (old[filled] / old.sum())[bins]
    own = exact_group_sums(rows, bins, filled.size)[bins]
    return estimate(
        Cells(
            rank=places[:, 1],
            rows=rows,
            probability=means / rows,
            selected=places[:, 2] == 1,
            known=known,
            ratio=own / known,
        ),
        basis,
        str(options.assumed),
        Level(options.confidence),
        independent=_independent(one, counts),
    )


def _independent(one: Watched, counts: Counts) -> float:
    """Return how many independent rows there are in a unit of weight (Kish)."""
    total, square = counts.value("rows"), counts.value("squares")
    return total / square if one.sampled and square else 1.0


def _filled(new: Sequence[Fraction], old: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the bins that held fitting rows, each with the new rows of empty ones below it.

    Where many fitting rows share the lowest value, the bins below it are empty; new rows that fall
    there have drifted and must not be left out.  Rows above the last such bin count in it.
    """
    kept_new: list[float] = []
    kept_old: list[float] = []
    waiting = 0.0
    for now, before in zip(new, old, strict=True):
        waiting += float(now)
        if before > 0.0:
            kept_new.append(waiting)
            kept_old.append(before)
            waiting = 0.0
    kept_new[-1] += waiting
    return kept_new, kept_old


def _expected(model: BoundaryModel) -> dict[str, dict[str, Number]]:
    """Return what the model says of its fit and of new rows."""
    fit = model.fit
    assert fit.reference is not None  # `plan_watch` saw to it
    judged: Mapping[str, Number] = {}
    for seen in (fit.cross_validated, fit.test):
        if seen is not None:
            judged = {"precision": seen.precision, "recall": seen.recall}
            break
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
        bounds = {certified_as(one): one.bound for one in sure.all}
        found[CERTIFICATE] = {**bounds, "confidence": sure.confidence}
    return found


def _certificate(model: BoundaryModel) -> Certificate | None:
    """Return what is certified of rows that count once each, all of them together."""
    sure = model.fit.certificate
    apart = {"weight", "value"} & model.columns.keys()
    if sure is None or apart or model.objective.prevalence or sure.failed:
        return None
    return sure


def certified_as(promise: Promise) -> str:
    """Return the metric that a promise bounds."""
    return _CERTIFIED.get(promise.quantity, promise.quantity)
