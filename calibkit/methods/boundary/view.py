"""How a boundary is shown: what to expect of it, its segments, levels and thresholds, its figures."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from calibkit.errors import UsageError
from calibkit.methods.boundary.result import answer
from calibkit.methods.boundary.result.answer import doubts as doubts
from calibkit.methods.boundary.result.answer import rate, rates, rule
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import Candidate, Certificate
from calibkit.models.page import Page, cell_text, spread
from calibkit.options.boundary import EVERY_METHOD

#: Levels or segments that one screen has room for.
_SHOWN = 5


def headline(model: BoundaryModel) -> str:
    """Return in a few words what a boundary is."""
    goal = f"{'most' if model.objective.maximize else 'least'} {answer.figure_name(model)}"
    bounds = answer.bounds_text(model)
    levels = f"{model.levels} level{'s' * (model.levels != 1)}"
    levels = f"{len(model.groups)} segments" if model.groups else levels
    at = f" at {bounds}" if bounds else ""
    return f"{model.method}, {goal}{at}, {levels}, {cell_text(model.fit.rows)} rows"


def lines(model: BoundaryModel) -> list[str]:
    """Return the summary of a boundary: which rows to flag, what to expect, how it was found."""
    page = Page(short=True)
    _answer(model, page)
    page.say(*_how(model))
    return [line.replace("--all shows", "calibkit show has") for line in page.text().splitlines()]


def _answer(model: BoundaryModel, page: Page) -> None:
    """Print which rows to flag and what to expect; several thresholds as a table."""
    page.say(f"{rule(model)} {answer.expectation(model)}")
    reference = model.fit.reference
    rows = reference.rows_per_level if reference else [None] * model.levels
    if model.levels == 1 and model.score_thresholds and not model.groups:
        return
    if not page.short:
        page.say("")
    if model.groups:
        _segment_tables(model, page)
    elif model.take is not msgspec.UNSET:
        bins = len(model.score_edges) + 1 if model.score_edges is not msgspec.UNSET else 0
        page.table(
            ["uncertainty bin", "rows", f"highest of {bins} score bins taken"],
            [[level, rows[level], take] for level, take in enumerate(model.take)],
        )
    else:
        table, header = answer.level_rows(model, rows), ["rows", "positive if"]
        if model.review_thresholds:
            header[-1:] = ["block if", "else review if"]
        if model.partition:
            boxes: Sequence[Sequence[object]] = answer.rule_rows(model)
            if model.method == "logistic":  # of which each cell is a level
                boxes = spread(boxes, page.shown(len(boxes), _SHOWN))
            page.table(["level", "where"], boxes)
            page.say("")
        some = spread(table, page.shown(len(table), _SHOWN - 2 * bool(model.fit.candidates)))
        if model.levels > 1 and not model.partition:
            header = [f"{model.columns['uncertainty'].name} from", "to below", *header]
        page.table(["level", *header], some)
        if len(some) < model.levels:
            more = "--all shows more" if len(some) < len(table) else "the model has them all"
            page.say(f"{len(some)} of {model.levels} levels; {more}.")
    page.say("")


def _how(model: BoundaryModel) -> list[str]:
    """Say in words how a boundary was found."""
    fit, name = model.fit, answer.figure_name(model)
    seen, single = fit.in_sample, fit.score_only
    lines = [
        f"{model.method} ({EVERY_METHOD[model.method]}): {name} {rate(seen.objective_value)} on the "
        f"fitting rows{_proof(model)}; selects {cell_text(seen.selected)} of {cell_text(fit.rows)} "
        f"rows, {cell_text(seen.true_positives)} of {cell_text(fit.positives)} positives"
        + (" (sums of weights)." if "weight" in model.columns else ".")
    ]
    if model.review_thresholds:
        lines[0] = lines[0].replace("; selects ", "; blocks ")
        lines.append(
            f"{cell_text(seen.reviewed)} rows are reviewed, {cell_text(seen.reviewed_positives)} of "
            "them positive; precision is that of block, recall that of block with review."
        )
    if not fit.exact_arithmetic:
        what = "Weights are" if "weight" in model.columns else "Amounts are"
        if model.objective.prevalence and "value" not in model.columns:
            what = "Weights of the classes are"
        lines.append(
            f"{what} rounded by less than 1e-12 of their sum; bounds are met with a margin of 1e-12."
        )
    if model.clipped:
        lines.append(
            f"{cell_text(model.clipped)} scores within 1e-6 of 0 or 1 count as 1e-6 from it."
        )
    if "value" in model.columns:
        of = model.columns["value"].name
        lines.append(f"Recall is the share of the sum of {of} over the positive rows.")
    if model.objective.prevalence:
        lines.append(
            f"Rates are those at a base rate of {model.objective.prevalence:g}; counts are of rows."
        )
    if fit.certificate is not None:
        lines += _terms(fit.certificate)
    if model.groups:
        lines += _segment_lines(model)
    beside = []
    if fit.candidates and len(fit.candidates) > 1:
        exact = [one.uncertainty_bins for one in fit.candidates if one.method == "exact"]
        levels = ", ".join(map(str, exact))
        others = [one.method for one in fit.candidates if one.method != "exact"]
        among = f"{', '.join(others)} and exact" if others else "exact"
        beside.append(f"Chosen by cross-validation among {among} with {levels} levels.")
        beside += _why(model)
    if model.method != "st" and single is not None and fit.certificate is None:
        one = "one threshold each" if model.review_thresholds else "a single threshold"
        beside.append(
            f"On the fitting rows {one} reaches {name} {rate(single.objective_value)}."
            if single.selected or model.review_thresholds
            else "On the fitting rows a single threshold selects nothing."
        )
    return [*lines, " ".join(beside)] if beside else lines


def _why(model: BoundaryModel) -> list[str]:
    """Say why the choice fell on a candidate where a simpler one that met the bound found more."""
    candidates = model.fit.candidates or []
    chosen = [  # a surface may have fewer levels than it was given
        place
        for place, one in enumerate(candidates)
        if one.method == model.method
        and (one.method == "logistic" or one.uncertainty_bins == model.levels)
    ]
    if not chosen or not model.objective.subject_to:
        return []
    own = candidates[chosen[0]]
    simpler = [one for one in candidates[: chosen[0]] if one.within_bound]
    best = max(simpler, key=lambda one: one.recall or 0.0, default=None)
    if best is None or (best.recall or 0.0) <= (own.recall or 0.0):
        return []
    at_best, at_own = best.recall_at_bound, own.recall_at_bound
    if at_best and at_own and at_own > at_best:
        said = f"with their cuts moved to the bound, {at_best:.4f} and {at_own:.4f}."
    else:
        said = (
            f"moved to the bound, {own.method} is worth {best.gap - own.gap:.4f} more (in recall; "
            f"standard error of the gap to the best {best.gap_standard_error:.4f})."
        )
    return [
        f"{best.method} found more, recall {rate(best.recall)} at precision "
        f"{rate(best.precision)}, {own.method} {rate(own.recall)} at {rate(own.precision)}: {said}"
    ]


def _terms(certificate: Certificate) -> list[str]:
    """Say what a certificate promises, what it takes for granted, and of which segments it fails."""
    lines = [
        "Of all runs like this one, counting those that certify nothing, at most "
        f"{100 * (1 - certificate.confidence):.10g} % break this promise."
    ]
    if certificate.assumes:
        said = [
            f"{name.replace('_', ' ')} {value if isinstance(value, str) else f'{value:g}'}"
            for name, value in certificate.assumes.items()
        ]
        lines.append(f"It assumes: {', '.join(said)}.")
    if certificate.failed:
        lines.append(
            f"Nothing is certified, and nothing selected, in: {', '.join(certificate.failed)}."
        )
    return lines


def _proof(model: BoundaryModel) -> str:
    fit = model.fit
    if not fit.bound_met:
        return ", where it misses the bound"
    if not fit.optimal_in_sample:
        word = "at least" if model.objective.minimize else "at most"
        return f" ({word} {fit.upper_bound:.6g} is possible)"
    if model.method == "st" and model.review_thresholds:
        return ", the best pair of thresholds"
    if model.method == "st":
        return f", the best single threshold{' of each segment' if model.groups else ''}"
    if model.bound == "each":
        return ", each segment at its optimum"
    if model.method == "logistic":
        return ", the best cut of its surface"
    if model.randomise == "tie":
        return ", the best threshold that is random at one score"
    binned = model.provenance is not None and model.provenance.options.get("score_bins")
    over = " over randomised boundaries" if model.randomise == "block" else ""
    return f", the proven optimum{over}{' of its grid' if binned else ''}"


def view(model: BoundaryModel, page: Page) -> None:
    """Print a boundary: what to expect, its levels and thresholds, how it was found, its figures."""
    _answer(model, page)
    how = _how(model)
    weights, score = model.coefficients, model.columns["score"]
    if weights and not model.groups:
        s = f"logit {score.said}" if score.measure == "probability" else score.name
        terms = [f"{weights['intercept']:.4g}", f"{weights['score']:+.4g} {s}"]
        if model.levels > 1:
            name = f"rank of {model.columns['uncertainty'].name}"
            terms.append(f"{weights['uncertainty']:+.4g} {name}")
            terms.append(f"{weights['product']:+.4g} {s} x {name}")
        cut = "none" if model.cut is None else f"from {model.cut:.6g} up"
        how.append(f"Fitted log-odds: {' '.join(terms)}; selected: {cut} as a probability.")
    page.say(*([" ".join(how)] if page.short else how), "")
    page.table(
        ["", "rows", "selected", "precision", "recall", "false positive rate"], _figures(model)
    )
    if model.fit.candidates and page.shown(1, 0):
        _candidate_table(model, model.fit.candidates, page)


def _candidate_table(model: BoundaryModel, candidates: list[Candidate], page: Page) -> None:
    """Print what the automatic choice saw of its candidates, and by which rule it chose."""
    objective = answer.figure_name(model)
    at_bound = [one.recall_at_bound or one.precision_at_bound for one in candidates]
    header = ["method", "levels", "precision", "recall"]
    own = objective not in header  # a column of its own for what was optimised
    header += [*([objective] if own else []), "gap", "error of gap"]
    rule = "the simplest whose gap is within its error"
    if any(at_bound):
        header += [f"{objective} at the bound", "its error"]
        rule += f", of those within an error of the best {objective} at the bound"
    page.say("", f"Candidates, cross-validated; {rule}:")
    rows: list[list[object]] = []
    for one, reached in zip(candidates, at_bound, strict=True):
        missed = "" if one.within_bound else " (short of the bound)"
        row = [f"{one.method}{missed}", one.uncertainty_bins, one.precision, one.recall]
        row += [one.objective_value] if own else []
        row += [one.gap, one.gap_standard_error]
        rows.append([*row, *([reached or 0.0, one.at_bound_standard_error] * any(at_bound))])
    page.table(header, rows)


def _figures(model: BoundaryModel) -> list[list[object]]:
    fit = model.fit
    table: list[list[object]] = [["fitting rows", fit.rows, *rates(fit.in_sample)]]
    if fit.score_only:
        table.append(["single threshold", fit.rows, *rates(fit.score_only)])
    if checked := fit.cross_validated:
        name = f"cross-validated ({checked.folds} folds)"
        table.append([name, fit.validated_on[0], None, checked.precision, checked.recall, None])
    return [*table, ["test rows", fit.test.rows, *rates(fit.test)]] if fit.test else table


def view_with_bounds(model: BoundaryModel, page: Page) -> None:
    """Print also the uniform bounds that hold for the number of rows of the fit."""
    from calibkit.methods.boundary.certificate.uniform_bounds import (
        confusion_deviation,
        regret_bound,
        slope_at,
    )

    if "weight" in model.columns:
        raise UsageError("--bounds holds for unweighted rows; this boundary was fitted on weights.")
    view(model, page)
    rows = int(model.fit.rows)
    page.say(
        "",
        "Uniform bounds (loose): each entry of the confusion matrix of any threshold, as a share",
        f"of all rows, is this close to its true value on new data ({rows:,} rows):",
    )
    table = [[delta, confusion_deviation(rows, delta)] for delta in (0.1, 0.05, 0.01)]
    heads = ["fails with probability at most", "deviation"]
    amounts, objective = {"value", "cost_fp", "cost_fn"} & model.columns.keys(), model.objective
    several = model.levels > 1 or model.review_thresholds or model.groups
    if not (amounts or objective.subject_to or objective.prevalence or several):
        # One threshold was sought that is best by a measure of counts: how fast that changes here.
        figure = answer.figure_name(model)
        name, _, texts = figure.partition(":")
        seen, positives = model.fit.in_sample, float(model.fit.positives)
        hits, wrong = float(seen.true_positives), float(seen.selected - seen.true_positives)
        cells = hits, wrong, positives - hits, rows - positives - wrong
        parameters = map(float, texts.split(",")) if texts else ()
        slope = slope_at(name.replace("-", "_"), *parameters, cells=cells)
        page.say(
            f"Near the fitted matrix a change of its entries changes {figure} at most",
            f"{cell_text(slope)} times as much: on new data it falls short of the best threshold's by",
            "no more than the regret below, if scores rank as the true probabilities do (Singh and",
            "Khim, corollary 8).",
        )
        heads.append(f"regret of {figure}")
        for row in table:
            row.append(regret_bound(slope, rows, row[0]))
    page.table(heads, table)


def _segment_lines(model: BoundaryModel) -> list[str]:
    """Say which segments there are, and what the bound holds for."""
    assert model.groups
    name = model.columns["by"].name
    count = f"{len(model.groups)} segment{'s' if len(model.groups) > 1 else ''} of {name}"
    kind = "the bound is one on all rows together"
    if model.bound == "each":
        missing = any(own.fit.in_sample is None for own in model.groups.values())
        kind = f"each{' that selects rows' * missing} meets the bound on its own"
    elif not model.objective.subject_to:
        kind = "the objective is that of all rows together"
    lines = [f"Thresholds for {count}; {kind}."]
    if model.pooled:
        shown = ", ".join(model.pooled[:5]) + (", …" if len(model.pooled) > 5 else "")
        lines.append(
            f"Segment other ({len(model.pooled)} value{'s' * (len(model.pooled) > 1)}): {shown}."
        )
    gap, name = model.fit.gap, answer.figure_name(model)
    if not gap:
        return lines
    assert model.objective.max_gap
    ((measure, most),) = model.objective.max_gap.items()
    seen = f"{rate(gap.in_sample)} on the fitting rows"
    if gap.cross_validated is not None:
        seen += f", {rate(gap.cross_validated)} cross-validated"
    if gap.test is not None:
        seen += f", {rate(gap.test)} on the test rows"
    text = f"Their {measure} is at most {most:g} apart: {seen}."
    if model.fit.certificate is not None:
        return [*lines, text]
    if gap.without_limit is None or gap.without_limit <= most:
        return [*lines, f"{text} So they are without --max-gap."]
    free = rate(gap.prices[-1].objective_value)
    return [*lines, f"{text} Without --max-gap: {name} {free}, {rate(gap.without_limit)} apart."]


def _segment_tables(model: BoundaryModel, page: Page) -> None:
    """Print the thresholds and the figures of each segment."""
    assert model.groups
    rules: list[list[object]] = []
    figures: list[list[object]] = []
    for name in model.groups:
        alone = model.of_group(name)
        if alone.take:
            rules.append([name, None, None, None, f"score bins taken: {alone.take}"])
        else:
            for row in answer.level_rows(alone, [None] * alone.levels):
                limits = row[1:3] if alone.levels > 1 else [None, None]
                rules.append([name, row[0], *limits, row[-1]])
        fit = model.groups[name].fit
        seen = rates(fit.in_sample)
        checked = [getattr(fit.cross_validated, rate, None) for rate in ("precision", "recall")]
        figures.append([name, fit.rows, fit.positives, *seen, *checked])
    header = ["segment", "level", "uncertainty from", "to below", "positive if"]
    used = [k for k in range(len(header)) if any(row[k] is not None for row in rules)]
    if page.shown(len(rules), _SHOWN) < len(rules):
        table = []
        for row in sorted(figures, key=lambda row: -float(str(row[1])))[:_SHOWN]:
            own = [rule[-1] for rule in rules if rule[0] == row[0]]
            said = own[0] if len(own) == 1 else f"{len(own)} levels"
            table.append([row[0], row[1], *row[3:6], said])
        page.table(["segment", "rows", "selected", "precision", "recall", "positive if"], table)
        page.say(f"The largest of {len(figures)} segments; --all shows the model.")
        return
    page.table([header[k] for k in used], [[row[k] for k in used] for row in rules])
    page.say("")
    names = ["segment", "rows", "positives", "selected", "precision", "recall"]
    names += ["false positive rate", "cross-validated precision", "cross-validated recall"]
    page.table(names, figures)
    if model.fit.gap and not page.short:
        page.say("")
        prices = [[price.max_gap, price.objective_value] for price in model.fit.gap.prices]
        measure = next(iter(model.objective.max_gap or ""))
        page.table([f"largest gap in {measure}", answer.figure_name(model)], prices)
