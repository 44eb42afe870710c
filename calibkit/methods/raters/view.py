"""How an alpha-calibration is shown: what it says of raters, and how it came about."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from calibkit.maps.view import LINES, logit_map_view
from calibkit.models.page import Page

if TYPE_CHECKING:
    from calibkit.methods.raters.model import AlphaModel


def headline(model: AlphaModel) -> str:
    """Return in a few words what an alpha-calibration is."""
    of = f"alpha0 of {model.width} feature{'s' if model.width > 1 else ''}"
    if isinstance(model.log_alpha0, float):
        of = f"alpha0 = {math.exp(min(model.log_alpha0, 700.0)):.4g}"
    return f"{of}, {len(model.classes)} classes, {model.fit.rows:,} rows"


def lines(model: AlphaModel) -> list[str]:
    """Return the summary of a model."""
    fit = model.fit
    if isinstance(model.log_alpha0, float):
        strength = math.exp(min(model.log_alpha0, 700.0))
        share = strength / (strength + 1.0)
        said = (
            f"alpha0 = {strength:.4g} for all rows: two raters differ {share:.1%} as often as two "
            "draws from the class probabilities."
        )
    else:
        gained = fit.constant_objective - model.objective
        features = (
            "1 feature; it lowers" if model.width == 1 else f"{model.width} features; they lower"
        )
        said = (
            f"ln alpha0 is linear in {features} the objective by "
            f"{gained:.4g}, from {fit.constant_objective:.6g} for a constant alpha0."
        )
    lines = [
        said,
        f"Objective {model.objective:.6g}: mean over rows of negative log-likelihood + "
        f"{model.regularization:g} (ln alpha0)^2; {fit.rows:,} rows, {fit.votes:,} votes, "
        f"{fit.rows_two_raters:,} rows with two or more votes.",
    ]
    if fit.disagreement_loss is not None and fit.disagreement_loss_before is not None:
        lines.append(
            f"Disagreement loss on the fitting rows {fit.disagreement_loss:.4f}, before "
            f"{fit.disagreement_loss_before:.4f}."
        )
    return lines


def view(model: AlphaModel, page: Page) -> None:
    """Print a model: its summary, the map of logits, the weights of features."""
    page.say(*lines(model))
    logit_map = model.logit_map
    if logit_map is not None:
        page.say("", f"Class probabilities after {logit_map.method} scaling:")
        logit_map_view(logit_map, model.classes, page, _on_screen(model))
    if isinstance(model.weights, list):
        names = [f"ln probability, rank {place + 1}" for place in range(len(model.classes))]
        if isinstance(model.features, list):
            names = model.features
        elif model.features == "probs":
            names = [f"ln probability of {name}" for name in model.classes]
        pairs = sorted(zip(names, model.weights, strict=True), key=lambda pair: -abs(pair[1]))
        page.say("")
        most, rows = _on_screen(model) + 1, [("intercept", model.intercept), *pairs]
        page.first(most, ["feature", "weight in ln alpha0"], rows, "smaller weights")
    if model.disagreement_map is not None:
        steps = model.disagreement_map
        table = [*zip(steps.knots, steps.values, strict=True)]
        header = ["predicted disagreement from", "becomes"]
        page.some(_on_screen(model), header, table, "steps")


def _on_screen(model: AlphaModel) -> int:
    """Return how many lines of each table there is room for on one screen."""
    tables = (model.logit_map, model.disagreement_map)
    return LINES // (sum(one is not None for one in tables) + isinstance(model.weights, list))
