"""The answer of a boundary: which rows to flag, as a sentence or a table, and what to expect of it."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from calibkit.numerics.bounds import score_limits

if TYPE_CHECKING:
    from calibkit.methods.boundary.result.model import BoundaryModel
    from calibkit.methods.boundary.result.parts import Certificate, CrossValidated, TestFigures

#: The figures of a table.
RATES = ("selected", "precision", "recall", "false_positive_rate")


def level_rows(model: BoundaryModel, rows: list[int | float] | list[None]) -> list[list[object]]:
    """Return a line a level: its limits, its rows, and its rules."""
    edges: list[object] = [None, *model.uncertainty_edges, None]
    table = []
    step = max(1, model.levels // 10) if model.method == "logistic" else 1
    for level in range(len(model.score_thresholds))[::step]:
        limits = edges[level : level + 2] if model.levels > 1 and not model.partition else []
        table.append([level, *limits, rows[level], *level_rules(model, level)])
    return table


def level_rules(model: BoundaryModel, level: int) -> list[str]:
    """Return from which score on a level is positive; of three-way decisions blocked, and reviewed."""
    score, rules = model.columns["score"], []
    for thresholds in (model.score_thresholds, model.review_thresholds):
        if thresholds:
            threshold = thresholds[level]
            rule = "never" if threshold is None else "always"
            if threshold not in (None, "-inf"):
                rule = f"{score.said} >= {_shortest(threshold, score.dtype)}"
            rules.append(rule + _chance(model, level))
    return rules


def rule_rows(model: BoundaryModel) -> list[list[object]]:
    """Return a line for each box of a partition of several uncertainties: its level and its rule."""
    assert model.partition
    edges, shape = model.partition.edges, model.partition.shape
    names = [model.columns[role].name for role in model.spreads]
    lines: list[list[object]] = []
    for level, boxes in enumerate(_boxes(model.partition.leaves, shape, model.levels)):
        for place, box in enumerate(boxes):
            words = []  # nothing of a column that lies in all of its bins
            for name, own, (first, last) in zip(names, edges, box, strict=True):
                low = f"{own[first - 1]:g} <= " if first else ""
                high = f" < {own[last]:g}" if last < len(own) else ""
                words += [f"{low}{name}{high}"] if low or high else []
            rule = " and ".join(words) or "everywhere"
            lines.append([None, f"or {rule}"] if place else [level, rule])
    return lines


def _boxes(
    leaves: list[int], shape: tuple[int, ...], levels: int
) -> list[list[tuple[tuple[int, int], ...]]]:
    """Return boxes of cells that cover each level: first and last bin of each column."""
    import numpy as np

    left = np.array(leaves).reshape(shape)
    found: list[list[tuple[tuple[int, int], ...]]] = [[] for _ in range(levels)]
    while (left >= 0).any():
        start = np.unravel_index(int(np.argmax(left >= 0)), shape)
        level, box = int(left[start]), [slice(int(at), int(at) + 1) for at in start]
        for axis in reversed(range(len(shape))):
            while box[axis].stop < shape[axis]:
                wider = [*box]
                wider[axis] = slice(box[axis].stop, box[axis].stop + 1)
                if not (left[tuple(wider)] == level).all():
                    break
                box[axis] = slice(box[axis].start, box[axis].stop + 1)
        left[tuple(box)] = -1
        found[level].append(tuple((own.start, own.stop - 1) for own in box))
    return found


def _chance(model: BoundaryModel, level: int) -> str:
    """Say what a stochastic boundary leaves to chance in a level."""
    chances, wide = model.tie_probability, model.random_thresholds
    if not chances or not wide or not 0.0 < chances[level] < 1.0:
        return ""
    if model.randomise == "tie":
        return f", on it with probability {chances[level]:.6g}"
    low = wide[level]
    shown = low if low is None else _shortest(low, model.columns["score"].dtype)
    return f", from {shown} up with probability {chances[level]:.6g}"


def _shortest(threshold: float | str, dtype: str | None) -> str:
    """Return the fewest digits that read back as the threshold in the dtype of the scores."""
    if isinstance(threshold, str):
        return threshold
    text = repr(float(threshold))
    if dtype == "float32":
        own = _single(threshold)
        tried = (f"{own:.{digits}g}" for digits in range(1, 10))
        text = next((few for few in tried if _single(float(few)) == own), text)
    if 1e-6 <= abs(threshold) < 1e16:  # as people write numbers, without an exponent
        text = format(Decimal(text), "f")
        return text if "." in text else f"{text}.0"
    return repr(float(text))


def _single(value: float) -> float:
    """Return the float32 next to a number."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def rates(figures: object) -> list[object]:
    """Return the figures of a table."""
    return [getattr(figures, name, None) for name in RATES]


#: Bounds whose name is no figure's.
_NAMES = {"fpr": "false positive rate", "capacity": "share of rows selected"}

#: Standard errors on either side of what to expect: 95 %.
_REACH = 1.959963984540054


def rule(model: BoundaryModel) -> str:
    """Say which rows to flag where one threshold says it; else what decides."""
    if model.groups:
        return f"Flag rows by {model.columns['by'].name}."
    if model.review_thresholds:
        if model.levels > 1:
            return "Block or review rows by level."
        block, review = level_rules(model, 0)
        if block == review:
            return f"Of each row: block if {block}; none needs a review."
        return f"Of each row: block if {block}, else review if {review}."
    if model.selects_none:
        return "Flag no row."
    rules = {rule for level in range(model.levels) for rule in level_rules(model, level)}
    if len(rules) != 1:
        return "Flag rows by level."
    (which,) = rules
    if which.startswith("never, "):  # but by chance
        return f"Flag rows {which.removeprefix('never, ')}."
    return "Flag every row." if which == "always" else f"Flag rows with {which}."


def figure_name(model: BoundaryModel) -> str:
    """Return what was maximised or minimised."""
    return str(model.objective.maximize or model.objective.minimize)


def bounds_text(model: BoundaryModel) -> str:
    """Return the bounds as they are written: ``precision >= 0.9``."""
    return " and ".join(
        f"{name.replace('_', ' ')} {sign(name)} {bound:g}"
        for name, bound in model.objective.subject_to.items()
    )


def sign(name: str) -> str:
    """Return how the bound of a figure is written: at least, or at most."""
    return ">=" if name in ("precision", "recall") else "<="


def within(name: str, value: float, bound: float) -> bool:
    """Return whether a figure keeps its bound."""
    return value >= bound if sign(name) == ">=" else value <= bound


def rate(value: float | None) -> str:
    """Return a rate with four decimals."""
    return "undefined" if value is None else f"{value:.4f}"


def expectation(model: BoundaryModel) -> str:
    """Say what to expect on new data, and whether a bound is guaranteed there."""
    fit = model.fit
    if fit.certificate is not None:
        return _guarantee(model, fit.certificate)
    judged = fit.test or fit.cross_validated
    bounds = bounds_text(model)
    verb = "is" if len(model.objective.subject_to) == 1 else "are"
    caveat = f"; {bounds} {verb} not guaranteed" if bounds else ""
    if model.selects_none and not model.review_thresholds:
        return f"On new data expect no alerts{caveat}."
    if judged is None:
        fitted = fit.in_sample
        return (
            f"On new data expect less than on the fitting rows (precision {rate(fitted.precision)}, "
            f"recall {rate(fitted.recall)}): not judged on others{caveat}."
        )
    how = "test rows" if fit.test else "cross-validated"
    if fit.test is None and fit.validated_on[0] != fit.rows:
        how += f" on {fit.validated_on[0]:,} of the rows"
    own = ""
    for name in model.objective.subject_to:
        seen = _seen(model, name)
        if name == "capacity" and seen is not None:
            own = f"{seen:.2%} of rows selected, "
        elif name not in ("precision", "recall") and seen is not None:
            own = f"{_NAMES[name]} {rate(seen)}, "
    if figure_name(model) not in ("precision", "recall"):
        own = f"{figure_name(model)} {rate(judged.objective_value)}, "
    precision = None if model.selects_none else judged.precision
    return (
        f"On new data expect {_in_words(model, judged)}: {own}precision {rate(precision)}, "
        f"recall {rate(judged.recall)} ({how}){caveat}."
    )


def _in_words(model: BoundaryModel, judged: TestFigures | CrossValidated) -> str:
    """Say precision and recall as counts of a hundred, which need no definition."""
    if model.selects_none:
        return "no alerts"
    if judged.precision is None:
        return "hardly any alerts"
    said = f"{hundredths(judged.precision)} of 100 alerts to be right"
    counts = alert_counts(model)
    if counts is not None:
        low, high = score_limits(counts[0] / counts[1], counts[1], _REACH)
        said += f" (95 % interval {hundredths(low)} to {hundredths(high)})"
    if judged.recall is None:
        return said
    value = model.columns.get("value")
    of = "the positives" if value is None else value.name
    return f"{said} and {hundredths(judged.recall)} % of {of} found"


def hundredths(share: float) -> str:
    """Return a share in hundredths, with decimals where whole ones would say 0 or 100."""
    distance = min(share, 1.0 - share)
    digits = 0 if distance >= 0.01 or not distance else 1 if distance >= 0.001 else 2
    return f"{100 * share:.{digits}f}"


def alert_counts(model: BoundaryModel) -> tuple[int, int] | None:
    """Return how many alerts were right, of how many; None where they are not a draw of rows.

    Weights, another base rate, groups that share a fold and folds in time are none, nor are expected
    numbers of a random boundary.
    """
    fit = model.fit
    options = model.provenance.options if model.provenance is not None else {}
    if "weight" in model.columns or model.objective.prevalence or options.get("groups"):
        return None
    if fit.test is not None:
        hits, alerts = fit.test.true_positives, fit.test.selected
    elif (
        model.review_thresholds
        or options.get("time")
        or "value" in model.columns
        or model.randomise is not msgspec.UNSET
    ):
        return None
    else:
        assert fit.cross_validated is not None
        precision, recall = fit.cross_validated.precision, fit.cross_validated.recall
        if not precision or recall is None:
            return None
        hits = round(recall * fit.validated_on[1])
        alerts = round(hits / precision)
    return (int(hits), int(alerts)) if hits == int(hits) and alerts == int(alerts) else None


def promised(model: BoundaryModel, certificate: Certificate) -> str:
    """Return what a certificate promises, in symbols."""
    bounds = " and ".join(one.text for one in certificate.all)
    if model.bound != "each":
        return bounds
    return f"{bounds} in each segment of {model.columns['by'].name} that has thresholds"


def _guarantee(model: BoundaryModel, certificate: Certificate) -> str:
    """Say what is guaranteed on new data, and what was seen of the rest."""
    test = model.fit.test
    seen, where = test or model.fit.in_sample, "the test rows" if test else "all rows of the fit"
    return (
        f"On new data guaranteed: {promised(model, certificate)} with confidence "
        f"{certificate.confidence:g} (certified on {certificate.rows:,} rows set aside); precision "
        f"{rate(seen.precision)}, recall {rate(seen.recall)} on {where}."
    )


def doubts(model: BoundaryModel) -> list[str]:
    """Return what speaks against using a boundary: a bound that new data will miss, no choice made."""
    fit, bounds = model.fit, model.objective.subject_to
    found = []
    if fit.certificate is None and model.bound != "each":
        for name, bound in bounds.items():
            seen = _seen(model, name)
            share = bound / fit.rows if name == "capacity" and bound >= 1.0 else bound
            if seen is not None and not within(name, seen, share):
                shown = rate(seen)
                if within(name, float(shown), share):  # by rounding
                    shown = f"{seen:.6g}"
                found.append(
                    f"expect {_NAMES.get(name, name)} {shown} on new data, which misses the "
                    f"bound {name} {sign(name)} {share:g}; to certify a bound, use --confidence"
                )
    if fit.gap and model.objective.max_gap:
        ((measure, most),) = model.objective.max_gap.items()
        apart = fit.gap.cross_validated if fit.gap.test is None else fit.gap.test
        if apart is not None and apart > most:
            found.append(
                f"expect {measure} of segments to be {rate(apart)} apart on new data, more than "
                f"--max-gap {measure}:{most:g}"
            )
    if model.bound == "each" and model.groups:
        short = []
        for name, own in model.groups.items():
            judged = own.fit.test or own.fit.cross_validated
            rates = [(getattr(judged, each, None), bound) for each, bound in bounds.items()]
            if any(value is not None and value < bound for value, bound in rates):
                short.append(name)
        if short:
            some = ", ".join(short[:3]) + (", …" if len(short) > 3 else "")
            found.append(
                f"{len(short)} of {len(model.groups)} segments are expected to miss the bound "
                f"{bounds_text(model)} on new data ({some})"
            )
    if fit.in_sample.selected >= fit.rows:
        found.append(
            f"every row is selected: {bounds_text(model) or 'the objective'} asks for no choice among "
            "these rows"
        )
    return found


def _seen(model: BoundaryModel, name: str) -> float | None:
    """Return a bounded figure on rows that the fit left out; None where nothing says it."""
    fit = model.fit
    judged = fit.test or fit.cross_validated
    if name == "precision" and model.selects_none:
        return None
    if judged is None or name in ("precision", "recall"):
        return getattr(judged, name, None)
    if "value" in model.columns or model.review_thresholds or name not in _NAMES:
        return None
    if fit.test is not None:
        return fit.test.false_positive_rate if name == "fpr" else fit.test.selected / fit.test.rows
    if not judged.precision:  # nothing says how many were selected
        return None
    rows, positives = fit.validated_on
    if model.objective.prevalence:
        rows, positives = 1.0, model.objective.prevalence
    hits = (judged.recall or 0.0) * positives
    alerts = hits / judged.precision
    if name == "capacity":
        return float(alerts / rows)
    return float((alerts - hits) / (rows - positives)) if rows > positives else None
