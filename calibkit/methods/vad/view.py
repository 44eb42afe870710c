"""How a shrinkage is shown: how much of the spread of scores is noise, and what that takes off."""

from __future__ import annotations

from calibkit.methods.vad.model import VadModel
from calibkit.models.page import Page, cell_text, some_of

#: Segments shown.
_SHOWN = 20


def headline(model: VadModel) -> str:
    """Return in a few words what a shrinkage is."""
    members, rows = len(model.members), cell_text(model.fit.rows)
    return f"lambda {model.lambda_:.4g}, {members} members, {rows} rows"


def lines(model: VadModel) -> list[str]:
    """Return the summary of a model."""
    fit = model.fit
    weighted = " (sum of weights)" if "weight" in model.columns else ""
    share = fit.conditional_variance / fit.variance if fit.variance else 0.0
    lines = [
        f"lambda {model.lambda_:.6g}: scores keep {max(model.lambda_, 0.0):.1%} of their distance "
        f"from the mean {model.mean:.6g} ({model.link} link).",
        f"{share:.1%} of the variance of {model.members[0]!r} over {cell_text(fit.rows)} rows{weighted}"
        f" is between {len(model.members)} members ({model.replicates}).",
    ]
    if train := fit.train:
        before = "the calibrator" if model.calibrator else repr(model.columns["score"].name)
        lines.append(
            f"After {before}: lambda {fit.lambda_test:.6g} of these rows over "
            f"{train.lambda_train:.6g} of {cell_text(train.rows)} rows like the training rows."
        )
    if fit.clipped:
        lines.append(
            f"{cell_text(fit.clipped)} rows{weighted} with a probability nearer to 0 or 1 than 1e-6: "
            "clipped there, which affects mean and variance."
        )
    return lines


def view(model: VadModel, page: Page) -> None:
    """Print a model: its summary, and its segments."""
    page.say(*lines(model))
    groups = model.groups
    if groups is None:
        return
    page.say("")
    own = [(name, part.fit.rows, part.lambda_, part.mean) for name, part in groups.values.items()]
    page.first(_SHOWN, [model.columns["by"].name, "rows", "lambda", "mean"], own)
    if groups.pooled:
        pooled = some_of(groups.pooled, page.shown(len(groups.pooled), _SHOWN))
        page.say(f"With the fit of all rows: {pooled}, and values not listed.")
