"""How a boundary is shown: what to expect of it, its levels and thresholds, its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibkit.errors import UsageError
from calibkit.models.page import Page, cell_text
from calibkit.views.rules import level_rows, rates, rule_rows, spread
from calibkit.views.segments import segment_lines, segment_tables

if TYPE_CHECKING:
    from calibkit.methods.boundary.result.model import BoundaryModel
    from calibkit.methods.boundary.result.parts import Candidate, Certificate

#: Levels that one screen has room for.
_LEVELS = 5


def headline(model: BoundaryModel) -> str:
    """Return in a few words what a boundary is."""
    goal = f"{'most' if model.objective.maximize else 'least'} {figure_name(model)}"
    bounds = _bounds(model)
    levels = f"{len(model.groups)} segments" if model.groups else f"{model.levels} levels"
    levels = "1 level" if levels == "1 levels" else levels
    at = f" at {bounds}" if bounds else ""
    return f"{model.method}, {goal}{at}, {levels}, {cell_text(model.fit.rows)} rows"


def lines(model: BoundaryModel) -> list[str]:
    """Return the summary of a boundary: first what to expect of it on new data."""
    fit, name = model.fit, figure_name(model)
    seen, single = fit.in_sample, fit.score_only
    lines = [
        _expectation(model),
        f"{model.method}: {name} {_rate(seen.objective_value)} on the fitting rows{_proof(model)}; "
        f"selects {cell_text(seen.selected)} of {cell_text(fit.rows)} rows, "
        f"{cell_text(seen.true_positives)} of {cell_text(fit.positives)} positives"
        + (" (sums of weights)." if "weight" in model.columns else "."),
    ]
    if model.review_thresholds:
        lines[1] = lines[1].replace("; selects ", "; blocks ")
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
    lines += _meaning(model)
    if fit.certificate is not None:
        lines += _terms(fit.certificate)
    if model.groups:
        lines += segment_lines(model)
    elif model.coefficients:
        lines += _surface_lines(model)
    if fit.candidates:
        levels = ", ".join(
            str(one.uncertainty_bins) for one in fit.candidates if one.method == "exact"
        )
        others = [one.method for one in fit.candidates if one.method != "exact"]
        lines.append(
            f"Chosen by cross-validation among {', '.join(others)} and exact with {levels} levels."
        )
    if model.method != "st" and single is not None and fit.certificate is None:
        one = "One threshold each" if model.review_thresholds else "A single threshold"
        lines.append(
            f"{one} reaches {name} {_rate(single.objective_value)} there."
            if single.selected or model.review_thresholds
            else "A single threshold selects nothing there."
        )
    return lines


def _surface_lines(model: BoundaryModel) -> list[str]:
    """Say what the surface is, and from which fitted probability on it selects."""
    weights, score = model.coefficients, model.columns["score"]
    assert weights
    s = f"logit {score.said}" if score.measure == "probability" else score.name
    terms = [f"{weights['intercept']:.4g}", f"{weights['score']:+.4g} {s}"]
    if model.levels > 1:
        name = f"rank of {model.columns['uncertainty'].name}"
        terms.append(f"{weights['uncertainty']:+.4g} {name}")
        terms.append(f"{weights['product']:+.4g} {s} x {name}")
    cut = "none" if model.cut is None else f"from {model.cut:.6g} up"
    lines = [f"Fitted log-odds: {' '.join(terms)}; selected: {cut} as a probability."]
    if model.clipped:
        lines.append(f"{cell_text(model.clipped)} scores nearer to 0 or 1 than 1e-6 count as that.")
    return lines


def _meaning(model: BoundaryModel) -> list[str]:
    """Say what the figures are figures of where they do not count the rows as they are."""
    lines = []
    if "value" in model.columns:
        name = model.columns["value"].name
        lines.append(f"Recall is the share of the sum of {name} over the positive rows.")
    if model.objective.prevalence:
        lines.append(
            f"Rates are those at a base rate of {model.objective.prevalence:g}; counts are of rows."
        )
    return lines


def figure_name(model: BoundaryModel) -> str:
    """Return what was maximised or minimised."""
    objective = model.objective
    return str(objective.maximize or objective.minimize)


def _expectation(model: BoundaryModel) -> str:
    """Say what to expect on new data, and whether a bound is guaranteed there."""
    fit = model.fit
    if fit.certificate is not None:
        return _guarantee(model, fit.certificate)
    judged = fit.test or fit.cross_validated
    bounds = _bounds(model)
    caveat = f"; {bounds} is not guaranteed there" if bounds else ""
    if judged is None:
        seen = fit.in_sample
        return (
            f"On new data expect less than precision {_rate(seen.precision)}, recall "
            f"{_rate(seen.recall)} of the fitting rows: not judged on others{caveat}."
        )
    how = "test rows" if fit.test else "cross-validated"
    own = _bounded(model)
    if figure_name(model) not in ("precision", "recall"):
        own = f"{figure_name(model)} {_rate(judged.objective_value)}, "
    return (
        f"On new data expect {own}precision {_rate(judged.precision)}, recall "
        f"{_rate(judged.recall)} ({how}){caveat}."
    )


def _bounds(model: BoundaryModel) -> str:
    return " and ".join(
        f"{name.replace('_', ' ')} {'>=' if name in ('precision', 'recall') else '<='} {bound:g}"
        for name, bound in model.objective.subject_to.items()
    )


def _guarantee(model: BoundaryModel, certificate: Certificate) -> str:
    """Say what is guaranteed on new data, and what was seen of the rest."""
    seen, where = model.fit.in_sample, "on all rows of the fit"
    if model.fit.test:
        seen, where = model.fit.test, "on the test rows"
    promised = " and ".join(one.text for one in certificate.all)
    if model.bound == "each":
        promised += f" in each segment of {model.columns['by'].name} that has thresholds"
    return (
        f"On new data guaranteed: {promised} with confidence {certificate.confidence:g} "
        f"({certificate.rows:,} rows set aside certify it); precision {_rate(seen.precision)}, "
        f"recall {_rate(seen.recall)} {where}."
    )


def _terms(certificate: Certificate) -> list[str]:
    """Say what a certificate promises, what it takes for granted, and of which segments it fails."""
    lines = [
        "The promise is one about all runs like this one, those that certify nothing among them: at "
        f"most {100 * (1 - certificate.confidence):.10g} % break it."
    ]
    if certificate.assumes:
        names = {name: name.replace("_", " ") for name in certificate.assumes}
        said = [
            f"{names[name]} {value if isinstance(value, str) else f'{value:g}'}"
            for name, value in certificate.assumes.items()
        ]
        lines.append(f"It assumes: {', '.join(said)}.")
    if certificate.failed:
        lines.append(
            f"Nothing is certified, and nothing selected, in: {', '.join(certificate.failed)}."
        )
    return lines


def _bounded(model: BoundaryModel) -> str:
    """Say what a bounded figure other than precision and recall is on new data."""
    fit, bounds = model.fit, model.objective.subject_to
    judged = fit.test or fit.cross_validated
    rows, positives = (fit.test.rows, fit.test.positives) if fit.test else (fit.rows, fit.positives)
    if judged is None or judged.precision == 0.0:  # nothing says how many were selected
        return ""
    if "value" in model.columns or model.review_thresholds:  # the recall does not count rows
        return ""
    if model.objective.prevalence:
        rows, positives = 1.0, model.objective.prevalence
    hits = (judged.recall or 0.0) * positives
    selected = hits / judged.precision if judged.precision else 0.0
    if "fpr" in bounds and rows > positives:
        return f"false positive rate {_rate((selected - hits) / (rows - positives))}, "
    return f"{selected / rows:.2%} of rows selected, " if "capacity" in bounds else ""


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
    """Print a boundary: what to expect, its levels and thresholds, its figures."""
    import msgspec

    page.say(*lines(model))
    reference = model.fit.reference
    rows = reference.rows_per_level if reference else [None] * model.levels
    page.say("")
    if model.groups:
        segment_tables(model, page)
    elif model.take is not msgspec.UNSET:
        bins = len(model.score_edges) + 1 if model.score_edges is not msgspec.UNSET else 0
        page.table(
            ["uncertainty bin", "rows", f"highest of {bins} score bins taken"],
            [[level, rows[level], take] for level, take in enumerate(model.take)],
        )
    else:
        header = ["level", *_level_header(model), "rows", "positive if"]
        table = level_rows(model, rows)
        if model.partition:
            page.table(["level", "where"], rule_rows(model))
            page.say("")
        if model.review_thresholds:
            header[-1:] = ["block if", "else review if"]
            reach = msgspec.structs.replace(model, score_thresholds=model.review_thresholds)
            table = [
                [*row, also[-1]] for row, also in zip(table, level_rows(reach, rows), strict=True)
            ]
        candidates = bool(model.fit.candidates)
        some = spread(table, page.shown(len(table), _LEVELS - 2 * candidates))
        page.table(header, some)
        if len(some) < len(table):
            beside = ", and the candidates" if candidates else ""
            page.say(f"Some of {model.levels} levels; --all shows more{beside}.")
        elif model.method == "logistic" and model.levels >= 20:
            page.say("", "Some of the levels; the model has them all.")
    page.say("")
    page.table(
        ["", "rows", "selected", "precision", "recall", "false positive rate"], _figures(model)
    )
    if model.fit.candidates and page.shown(1, 0):
        page.say("", "Candidates, cross-validated; the simplest whose gap is within its error:")
        header = ["method", "levels", "precision", "recall"]
        own = figure_name(model) not in header  # a column of its own for what was optimised
        header += [*([figure_name(model)] if own else []), "gap", "error of gap"]
        page.table(header, [_candidate(one, own) for one in model.fit.candidates])


def _level_header(model: BoundaryModel) -> list[str]:
    if model.levels == 1 or model.partition:
        return []
    return [f"{model.columns['uncertainty'].name} from", "to below"]


def _figures(model: BoundaryModel) -> list[list[object]]:
    fit = model.fit
    table: list[list[object]] = [
        ["fitting rows", fit.rows, *rates(fit.in_sample)],
    ]
    if fit.score_only:
        table.append(["single threshold", fit.rows, *rates(fit.score_only)])
    if fit.cross_validated:
        checked = fit.cross_validated
        name = f"cross-validated ({checked.folds} folds)"
        table.append([name, fit.rows, None, checked.precision, checked.recall, None])
    if fit.test:
        table.append(["test rows", fit.test.rows, *rates(fit.test)])
    return table


def _candidate(one: Candidate, own: bool) -> list[object]:
    missed = "" if one.within_bound else " (short of the bound)"
    return [
        f"{one.method}{missed}",
        one.uncertainty_bins,
        one.precision,
        one.recall,
        *([one.objective_value] if own else []),
        one.gap,
        one.gap_standard_error,
    ]


def _rate(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def bounds_view(model: BoundaryModel, page: Page) -> None:
    """Print the uniform bounds that hold for the number of rows of the fit."""
    from calibkit.methods.boundary.certificate.uniform_bounds import (
        confusion_deviation,
        regret_bound,
    )

    if "weight" in model.columns:
        raise UsageError("--bounds holds for unweighted rows; this boundary was fitted on weights.")
    rows = int(model.fit.rows)
    page.say(
        "",
        "Uniform bounds (loose): each entry of the confusion matrix of any threshold, as a share",
        f"of all rows, is this close to its true value on new data ({rows:,} rows):",
    )
    table = [[delta, confusion_deviation(rows, delta)] for delta in (0.1, 0.05, 0.01)]
    heads = ["fails with probability at most", "deviation"]
    if _one_measure(model):
        slope, none = (
            _slope(model, rows),
            dict.fromkeys(("margin_constant", "regression_error"), 0.0),
        )
        page.say(
            f"Near the fitted matrix a change of its entries changes {figure_name(model)} at most",
            f"{cell_text(slope)} times as much: on new data it falls short of the best threshold's by",
            "no more than the regret below, if scores rank as the true probabilities do (Singh and",
            "Khim, corollary 8).",
        )
        heads.append(f"regret of {figure_name(model)}")
        for row in table:
            row.append(regret_bound(slope, rows, row[0], margin_exponent=1.0, **none))
    page.table(heads, table)


def _one_measure(model: BoundaryModel) -> bool:
    """Whether one threshold was sought that is best by a measure of counts, without bounds."""
    amounts = {"value", "cost_fp", "cost_fn"} & model.columns.keys()
    objective = model.objective
    more = model.levels > 1 or model.review_thresholds
    return not (amounts or objective.subject_to or objective.prevalence or more)


def _slope(model: BoundaryModel, rows: int) -> float:
    """Return how fast the measure that was sought changes near the fitted matrix."""
    from calibkit.methods.boundary.certificate.uniform_bounds import slope_at

    name, _, texts = figure_name(model).partition(":")
    seen, positives = model.fit.in_sample, float(model.fit.positives)
    hits, wrong = float(seen.true_positives), float(seen.selected - seen.true_positives)
    cells = hits, wrong, positives - hits, rows - positives - wrong
    parameters = map(float, texts.split(",")) if texts else ()
    return slope_at(name.replace("-", "_"), *parameters, cells=cells)
