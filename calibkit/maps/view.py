"""How a calibrator is shown: what it gains, its parameters or steps, its segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibkit.models.page import Page, cell_text
from calibkit.options.calibrate import SCORE_METHODS

if TYPE_CHECKING:
    from msgspec import UnsetType

    from calibkit.maps.model import CalibratorModel, Candidate, LogitMapModel, ScoreMap

    Candidates = list[Candidate] | UnsetType


#: Lines that one screen has room for, in all tables together.
LINES = 8


def headline(model: CalibratorModel) -> str:
    """Return in a few words what a calibrator is."""
    segments = f", {len(model.groups)} segments" if model.groups else ""
    classes = f" of {len(model.classes)} classes" if model.classes else ""
    return f"{model.method}{classes}{segments}, {cell_text(model.fit.rows)} rows"


def lines(model: CalibratorModel) -> list[str]:
    """Return the summary of a calibrator."""
    fit = model.fit
    if model.classes:
        return _class_lines(model)
    weighted = " (sums of weights)" if "weight" in model.columns else ""
    lines = []
    if fit.log_loss is not None:
        fits = SCORE_METHODS[model.method].fits
        caveat = "; expect slightly larger losses on new rows" if fits else ""
        pairs = (fit.log_loss_before, fit.log_loss), (fit.brier_before, fit.brier)
        if fits and all(a is not None and b is not None and a < b for a, b in pairs):
            caveat = "; the scores as they are do better"
        lines.append(
            f"{model.method}: {_change('log loss', fit.log_loss_before, fit.log_loss)}, "
            f"{_change('Brier score', fit.brier_before, fit.brier)} on the fitting rows{caveat}."
        )
    else:
        lines.append(f"{model.method}: no labels were read, so nothing was judged.")
    positives = "" if fit.positives is None else f", {cell_text(fit.positives)} positive"
    lines += choice(model.method, model.candidates)
    lines.append(f"{cell_text(fit.rows)} rows{positives}{weighted}. Map: {map_text(model.own_map)}")
    if fit.inputs_clipped:
        lines.append(
            "Rows with a score within 1e-6 of 0 or 1, which was moved there before its logit was "
            f"taken: {cell_text(fit.inputs_clipped)}."
        )
    if fit.outputs_clipped:
        lines.append(
            "Rows with a result nearer to 0 or 1 than --clip allows: "
            f"{cell_text(fit.outputs_clipped)}."
        )
    if model.groups:
        shared = model.pooled_groups or []
        pooled = f", {len(shared)} with that of all rows" if shared else ""
        lines.append(
            f"Values of {model.columns['by'].name!r}: {len(model.groups)} with a map of their "
            f"own{pooled}."
        )
    return lines


def choice(method: str, candidates: Candidates, what: str = "methods") -> list[str]:
    """Return that one was chosen, if others were compared with it."""
    compared = sum(one.reason is None for one in candidates or [])
    if compared < 2:
        return []
    return [
        f"{method} was chosen from {compared} {what} on held-out rows: the first in order that "
        "matches the best within noise."
    ]


def _class_lines(model: CalibratorModel) -> list[str]:
    """Return the summary of a calibrator of class probabilities."""
    fit = model.fit
    lines = [
        f"{model.method}: {_change('log loss', fit.log_loss_before, fit.log_loss or 0.0)}, "
        f"{_change('squared loss', fit.brier_before, fit.brier or 0.0)} a vote on the fitting rows"
        f"{'' if model.method == 'none' else '; expect slightly larger losses on new rows'}.",
        *choice(model.method, model.candidates),
        f"{cell_text(fit.rows)} rows, {cell_text(fit.votes)} votes.",
    ]
    if model.regularization:
        intercept, beside = model.regularization
        off = f", weights off the diagonal {beside:g}" if model.method == "matrix" else ""
        lines.append(f"Penalties: intercept {intercept:g}{off}.")
    return lines


def _change(name: str, before: float | None, after: float | None) -> str:
    return f"{name} {'' if before is None else f'{before:.4f} -> '}{after:.4f}"


def map_text(one: ScoreMap) -> str:
    """Return the parameters of a map on one line."""
    import msgspec

    parts = [
        f"{name} = {value:.6g}"
        for name in ("a", "b", "c", "negatives_kept")
        if (value := getattr(one, name)) is not None
    ]
    if one.temperature is not msgspec.UNSET:
        parts.append(
            "temperature infinite"
            if one.temperature is None
            else f"temperature {one.temperature:.6g}"
        )
    if one.logit_knots is not None:
        number = len(one.logit_knots)
        parts.append(f"{number} knot{'s' if number > 1 else ''} of the logit")
    if one.knots is not None:
        kind = "knot" if one.interpolate else "step"
        parts.append(f"{len(one.knots)} {kind}{'s' if len(one.knots) > 1 else ''}")
    if one.low is not None and one.high is not None:
        parts.append(f"{len(one.low)} lower and {len(one.high)} higher steps")
    if not parts:  # the map that is none
        parts.append("the scores as they are")
    parts.append(f"results at least {one.clip:.3g} from 0 and 1" if one.clip else "not clipped")
    return ", ".join(parts).replace("negatives_kept", "negatives kept") + "."


def view(model: CalibratorModel, page: Page) -> None:
    """Print a calibrator: its summary, its steps, its segments."""
    page.say(*lines(model))
    compared_view(model.method, model.candidates, page)
    if model.classes:
        page.say("")
        logit_map_view(model.logit_map, model.classes, page)
        return
    if model.knots is not None and model.values is not None:
        what = model.columns["score"].name if model.a is None else "expit(a x + b)"
        steps = [*zip(model.knots, model.values, strict=True)]
        page.some(5 if model.groups else 11, [f"{what} from", "becomes"], steps, "steps")
    if model.groups:
        shared = model.pooled_groups or []
        table: list[list[object]] = [
            [name, one.fit.rows if one.fit else None, map_text(one)]
            for name, one in model.groups.items()
        ]
        table += [[name, None, "that of all rows"] for name in shared]
        most = 3 if model.knots is not None else 5
        page.some(most, [model.columns["by"].name, "rows", "map"], table, "segments")


def compared_view(method: str, candidates: Candidates, page: Page) -> None:
    """Print what methods lost on rows that they were not fitted on, if they were compared."""
    table: list[list[object]] = []
    for one in candidates or []:
        said = "chosen" if one.method == method else one.reason or ""
        losses = (one.log_loss, one.brier, one.error)
        figures = [None if each is None else f"{each:.5f}" for each in losses]
        table.append([one.method, *figures, said])
    if table:
        page.say("")
        page.table(["candidate", "log loss", "Brier", "error", ""], table)


def logit_map_view(
    logit_map: LogitMapModel, classes: list[str], page: Page, on_screen: int = LINES
) -> None:
    """Print a map of logits: a temperature, or the weights and intercept of each class."""
    if logit_map.method == "temperature":
        temperature = logit_map.temperature
        shown = f"{temperature:.6g}" if temperature else "infinite: all classes alike"
        page.say(f"temperature {shown}")
        return
    if logit_map.method == "none":
        page.say("class probabilities as they are")
        return
    weights, intercept = logit_map.weights, logit_map.intercept
    assert isinstance(weights, list) and isinstance(intercept, list)
    own = [each[place] if isinstance(each, list) else each for place, each in enumerate(weights)]
    rows = [*zip(classes, own, intercept, strict=True)]
    header = ["class", "weight of its own logit", "intercept"]
    page.first(on_screen, header, rows, "more classes")
