"""How the segments of a boundary are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibkit.models.page import Page
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
    return lines


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
