"""How a calibration by parts is shown: its leaves as rules, and what each split brings."""

from __future__ import annotations

from msgspec import UNSET

from calibkit.maps.view import choice, compared_view, map_text
from calibkit.methods.hetcal.model import HetcalFit, HetcalModel, LeafMap, PartitionPart, TreeNode
from calibkit.models.page import Page, cell_text, some_of

#: Categories that a rule names; of more only their number.
SHOWN_CATEGORIES = 4

#: A tree of more nodes is shown in short on a terminal: so many leaves and features.
_NODES, _LEAVES = 3, 4
#: What stands beside the rule of a leaf.
_BESIDE_RULE = 34


def headline(model: HetcalModel) -> str:
    """Return in a few words what a calibration by parts is."""
    fit = model.fit
    return f"{model.partition}, {_leaves(fit.leaves)}, {cell_text(fit.rows)} rows"


def _leaves(count: int) -> str:
    return "1 leaf" if count == 1 else f"{count} leaves"


def lines(model: HetcalModel) -> list[str]:
    """Return the summary: first what to expect on new data, then what was fitted."""
    fit, lines = model.fit, []
    checked = fit.cross_validated
    if checked is None:
        lines.append("Not cross-validated: the figures on the calibration rows are optimistic.")
    else:
        own = model.parts()[0].maps[0]
        platt = own.knots is UNSET and own.c is UNSET
        judged = "" if platt else " with Platt's maps; its own were not judged"
        lines.append(
            f"Expect log loss {checked.calibrated:.4f} on new data, against {checked.pooled:.4f} "
            f"with one map for all rows (cross-validated{judged})."
        )
    count = len(model.parts())
    trees = "tree" if count == 1 else "trees"
    how = "tree" if model.partition == "tree" else f"{count} {model.partition} {trees}"
    shrinkage = "" if fit.shrinkage is None else f", shrinkage {fit.shrinkage:g}"
    lines.append(
        f"{how}: {_leaves(fit.leaves)}, depth at most "
        f"{fit.max_depth}, at least {fit.min_leaf} row{'s' * (fit.min_leaf > 1)} in each{shrinkage}; "
        f"{cell_text(fit.rows)} calibration rows, {cell_text(fit.positives)} positive."
    )
    lines += choice(model.partition, model.candidates, "partitions")
    first = model.precalibrate
    if first is not None and first.candidates:
        lines.append(f"All scores go through {first.name} first: {map_text(first.score_map)}")
        lines += choice(first.name, first.candidates)
    if fit.clipped:
        lines.append(
            f"{fit.clipped:,} scores beyond 1e-6 of 0 or 1 were moved there before their logit "
            "was taken."
        )
    maps = model.parts()[0].maps if model.partition == "tree" else []
    noted = [f"leaf {place}: {leaf.note}" for place, leaf in enumerate(maps) if leaf.note]
    if noted:
        lines.append(
            "Calibration rows are scarce in "
            + "; ".join(noted[:10])
            + ("; …" if noted[10:] else ".")
        )
    lines.append(_gaps(fit))
    return lines


def _gaps(fit: HetcalFit) -> str:
    """Return how far mean probability and positive rate are apart in the cells."""
    many = "" if fit.cells == 1 else "s"
    checked = f"Checked in {fit.cells} cell{many} (leaf, tenth of probability)"
    gap = fit.gap_beyond_chance
    if gap is None:
        return f"{checked}: chance explains every gap; their mean is {fit.mean_gap:.4f}."
    if not gap:  # a fit with groups, or a model from before it was looked for
        return f"{checked}: largest gap {fit.max_gap:.4f}, mean {fit.mean_gap:.4f}."
    return (
        f"{checked}: a gap of {abs(gap.positive_rate - gap.mean_probability):.4f}, {gap.beyond:.4f} of "
        f"it beyond chance, in leaf {gap.leaf} from {gap.probability_from:g} to "
        f"{gap.probability_to:g}, where {gap.positive_rate:.4f} of "
        f"{cell_text(gap.rows)} rows are positive and {gap.mean_probability:.4f} was expected; mean "
        f"gap {fit.mean_gap:.4f}."
    )


def view(model: HetcalModel, page: Page) -> None:
    """Print a model: the summary, the leaves, the splits, the losses by depth."""
    page.say(*lines(model))
    compared_view(model.partition, model.candidates, page)
    if model.precalibrate is not None:
        compared_view(model.precalibrate.name, model.precalibrate.candidates, page)
    page.say("")
    parts = model.parts()
    if len(parts) > 1:
        page.say(f"The first of {len(parts)} partitions:")
    if page.shown(len(parts[0].tree), _NODES) < len(parts[0].tree):
        _in_short(parts[0], page)
        return
    rules = _rules(parts[0])
    noted = any(made.note for made in parts[0].maps)
    leaves: list[list[object]] = []
    for place, made in enumerate(parts[0].maps):
        note, rule = [made.note or ""] * noted, " and ".join(rules[place]) or "all rows"
        leaves.append([place, *_counted(made), _map_text(made), *note, rule])
    page.table(["leaf", "rows", "positive rate", "map", *["note"] * noted, "rule"], leaves)
    above = _conditions(parts[0])
    splits: list[list[object]] = []
    for place, node in enumerate(parts[0].tree):
        if isinstance(node.feature, str):
            among = " and ".join(above[place]) or "all rows"
            gain = node.gain or None
            splits.append([node.rows or None, gain, _condition(node, "left"), among])
    if splits:
        page.say("")
        page.table(["rows grown on", "gain a row", "split", "among"], splits)
    checked = model.fit.cross_validated
    if checked is not None and isinstance(checked.by_depth, dict) and len(checked.by_depth) > 1:
        page.say("")
        table = sorted([int(depth), loss] for depth, loss in checked.by_depth.items())
        page.table(["depth", "cross-validated log loss"], table)


def _in_short(part: PartitionPart, page: Page) -> None:
    """Print the largest leaves, each on one line, and what splits on each feature bring."""
    rules, room = _rules(part), max(20, page.width - _BESIDE_RULE)
    largest = sorted(rules, key=lambda place: -(part.maps[place].rows or 0))[:_LEAVES]
    rows: list[list[object]] = []
    for place in largest:
        count, rate = _counted(part.maps[place])
        rule = " and ".join(reversed(rules[place])) or "all rows"
        text = rule if len(rule) <= room else rule[: room - 1] + "…"
        rows.append([place, count, None if rate is None else round(rate, 4), text])
    page.table(["leaf", "rows", "positive rate", "rule, its last split first"], rows)
    page.say(f"The largest of {len(rules)} leaves; --all shows them, the splits and the losses.")
    brought: dict[str, tuple[float, int]] = {}
    for node in part.tree:
        if isinstance(node.feature, str):
            gain, count = brought.get(node.feature, (0.0, 0))
            brought[node.feature] = (gain + (node.gain or 0.0), count + 1)
    ranked = sorted(brought.items(), key=lambda item: -item[1][0])
    page.say("")
    splits = [(name, count, gain or None) for name, (gain, count) in ranked]
    page.first(_LEAVES, ["feature", "splits", "gain a row"], splits, "more features")


def _counted(made: LeafMap) -> tuple[float | None, float | None]:
    """Return the rows of a leaf and the share of positive ones; None where it does not say."""
    rows = made.rows if isinstance(made.rows, int | float) else None
    hits = made.positives if isinstance(made.positives, int | float) else None
    return rows, hits / rows if rows and hits is not None else None


def _map_text(made: LeafMap) -> str:
    if isinstance(made.a, float) and isinstance(made.b, float):
        last = made.c if isinstance(made.c, float) else made.b
        shift = f"{'-' if last < 0 else '+'} {abs(last):.4g}"
        if isinstance(made.c, float):
            return f"{made.a:.4g} ln s - {made.b:.4g} ln(1 - s) {shift}"
        return f"{made.a:.4g} x {shift}"
    return f"{len(made.knots) if isinstance(made.knots, list) else 0} steps"


def _rules(part: PartitionPart) -> dict[int, list[str]]:
    """Return the conditions of each leaf, from the root."""
    above, nodes = _conditions(part), enumerate(part.tree)
    return {node.leaf: above[place] for place, node in nodes if isinstance(node.leaf, int)}


def _conditions(part: PartitionPart) -> dict[int, list[str]]:
    """Return what is known of the rows at each node, from the root."""
    above: dict[int, list[str]] = {0: []}
    for place, node in enumerate(part.tree):
        for side, child in (("left", node.left), ("right", node.right)):
            if isinstance(child, int):
                above[child] = [*above[place], _condition(node, side)]
    return above


def _condition(node: TreeNode, side: str) -> str:
    """Return when a row goes to a side of a node."""
    missing = node.missing == side
    if isinstance(node.left_categories, list) and isinstance(node.right_categories, list):
        names = node.left_categories if side == "left" else node.right_categories
        if not names:
            return f"{node.feature} missing"
        text = f"{node.feature} in {{{some_of(names, SHOWN_CATEGORIES)}}}"
        return f"({text} or other)" if missing else text
    if not isinstance(node.cut, float):
        return f"{node.feature} {'present' if side == 'left' else 'missing'}"
    text = f"{node.feature} {'<=' if side == 'left' else '>'} {node.cut:.6g}"
    return f"({text} or missing)" if missing else text
