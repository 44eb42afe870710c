"""How the segments of a boundary are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibkit.models.page import Page
from calibkit.views.answer import figure_name, rate
from calibkit.views.rules import level_rows, rates

if TYPE_CHECKING:
    from calibkit.methods.boundary.result.model import BoundaryModel

#: Segments that one screen has room for.
_SHOWN = 5


def segment_lines(model: BoundaryModel) -> list[str]:
    """Say which segments there are, and what the bound holds for."""
    assert model.groups
    name = model.columns["by"].name
    count = f"{len(model.groups)} segment{'s' if len(model.groups) > 1 else ''} of {name}"
    kind = "the bound is one on all rows together"
    if model.bound == "each":
        kind = "each meets the bound by itself"
    elif not model.objective.subject_to:
        kind = "the objective is that of all rows together"
    lines = [f"Thresholds for {count}; {kind}."]
    if model.pooled:
        shown = ", ".join(model.pooled[:5]) + (", …" if len(model.pooled) > 5 else "")
        lines.append(f"{len(model.pooled)} of its values share the segment other: {shown}.")
    return [*lines, gap_line(model)] if model.fit.gap else lines


def gap_line(model: BoundaryModel) -> str:
    """Say how far a measure of the segments lies apart, and what it costs to keep it there."""
    gap, name = model.fit.gap, figure_name(model)
    assert gap and model.objective.max_gap
    ((measure, most),) = model.objective.max_gap.items()
    seen = f"{rate(gap.in_sample)} on the fitting rows"
    if gap.cross_validated is not None:
        seen += f", {rate(gap.cross_validated)} cross-validated"
    if gap.test is not None:
        seen += f", {rate(gap.test)} on the test rows"
    text = f"Their {measure} lies at most {most:g} apart: {seen}."
    if gap.without_limit is None or gap.without_limit <= most:
        return f"{text} It would without --max-gap."
    free = rate(gap.prices[-1].objective_value)
    return f"{text} Without --max-gap: {name} {free}, {rate(gap.without_limit)} apart."


def segment_tables(model: BoundaryModel, page: Page) -> None:
    """Print the thresholds and the figures of each segment."""
    assert model.groups
    rules: list[list[object]] = []
    figures: list[list[object]] = []
    for name in model.groups:
        alone = model.of_group(name)
        if alone.take:
            rules.append([name, None, None, None, f"score bins taken: {alone.take}"])
        else:
            for row in level_rows(alone, [None] * alone.levels):
                limits = row[1:3] if alone.levels > 1 else [None, None]
                rules.append([name, row[0], *limits, row[-1]])
        fit = model.groups[name].fit
        seen = rates(fit.in_sample)
        checked = [getattr(fit.cross_validated, rate, None) for rate in ("precision", "recall")]
        figures.append([name, fit.rows, fit.positives, *seen, *checked])
    header = ["segment", "level", "uncertainty from", "to below", "positive if"]
    used = [k for k in range(len(header)) if any(row[k] is not None for row in rules)]
    if page.shown(len(rules), _SHOWN) < len(rules):
        _in_short(rules, figures, page)
        return
    page.table([header[k] for k in used], [[row[k] for k in used] for row in rules])
    page.say("")
    names = ["segment", "rows", "positives", "selected", "precision", "recall"]
    names += ["false positive rate", "cross-validated precision", "cross-validated recall"]
    page.table(names, figures)
    if model.fit.gap and not page.short:
        page.say("")
        prices = [[price.max_gap, price.objective_value] for price in model.fit.gap.prices]
        page.table(
            [f"largest gap in {next(iter(model.objective.max_gap or ''))}", figure_name(model)],
            prices,
        )


def _in_short(rules: list[list[object]], figures: list[list[object]], page: Page) -> None:
    """Print the largest segments on one line each."""
    largest = sorted(figures, key=lambda row: -float(str(row[1])))[:_SHOWN]
    own: dict[object, list[object]] = {}
    for rule in rules:
        own.setdefault(rule[0], []).append(rule[-1])
    table = [
        [
            *(row[place] for place in (0, 1, 3, 4, 5)),
            own[row[0]][0] if len(own[row[0]]) == 1 else f"{len(own[row[0]])} levels",
        ]
        for row in largest
    ]
    header = ["segment", "rows", "selected", "precision", "recall", "positive if"]
    page.table(header, table)
    page.say(f"The largest of {len(figures)} segments; --all shows the model.")
