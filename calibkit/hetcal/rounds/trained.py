"""Trees of training rows, to calibrate others by: grown in memory, or in rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import structs

from calibkit.files.sources import Source
from calibkit.hetcal.payload import growth_of
from calibkit.hetcal.rounds.known import (
    EVERYONE,
    GROWN,
    Fork,
    Grown,
    Spot,
    Trees,
    grid_of,
)
from calibkit.hetcal.rounds.reading import known_of
from calibkit.hetcal.rows import need_both_classes, read_hetcal_rows
from calibkit.hetcal.states import HetcalProblem, hetcal_state
from calibkit.hetcal.trees import Tree
from calibkit.memory import Memory
from calibkit.rounds.answers import answer
from calibkit.rounds.loop import advanced, first_plan
from calibkit.rounds.plans import Plan
from calibkit.summaries.states import State

_SAID = "--train: "

#: Training rows that are in memory are gone through in batches as small as can be.
_ROOM = Memory(0)


def trees_in_memory(train: Source, problem: HetcalProblem, files: Sequence[str]) -> Trees:
    """Return the trees of training rows.

    Parameters
    ----------
    train, problem
        The rows; what is fitted.
    files
        What the model says that they came from.

    Raises
    ------
    UsageError, DataError
        As `read_hetcal_rows`; rows of one class.
    """
    spec, grid = problem.spec, grid_of(problem.spec)
    if spec.partition == "forest":
        return _forest_in_memory(train, problem, files)
    rows = read_hetcal_rows(train, problem.columns, problem.features)
    need_both_classes(rows)
    growth = growth_of(rows, spec, own=False)
    deepest = max(grid.depths)
    grown = Grown(
        spots_of([growth.tree(growth.rules(deepest, size)) for size in grid.leaf_sizes]),
        int(rows.weight.sum()),
        rows.unit,
        rows.size,
        rows.fingerprint,
        list(files),
        [_SAID + remark for remark in rows.data.warnings],
    )
    names = [None if known is None else list(known) for known in rows.features.categories]
    return Trees(list(rows.features.columns), names, grown)


def _forest_in_memory(train: Source, problem: HetcalProblem, files: Sequence[str]) -> Trees:
    """Return the trees of a forest, grown in rounds too, so that rows are drawn by their hash."""
    spec = replace(problem.spec, groups=None, time=None)
    state = hetcal_state(train, replace(problem, spec=spec), _ROOM, hold=False)
    trees = trees_in_rounds(
        state, lambda plan: answer(plan, train, _ROOM, threads=problem.spec.threads), lambda _: None
    )
    return replace(trees, grown=replace(trees.grown, files=list(files)))


def spots_of(trees: Sequence[Tree]) -> list[Spot]:
    """Return the trees of all leaf sizes as nodes, shared as far as their splits are the same."""
    nodes = [Spot(EVERYONE, 0, list(range(len(trees))))]
    standing = [[(size, 0) for size in range(len(trees))]]
    for spot, members in zip(nodes, standing, strict=True):  # both grow
        size, place = members[0]
        first = trees[size].nodes[place]
        spot.rows, spot.hits, spot.open = first.rows, first.second, False
        alike: dict[str, list[tuple[int, int]]] = {}
        for size, place in members:
            node = trees[size].nodes[place]
            split = (node.feature, node.cut, node.missing_left, node.categories)
            if node.feature >= 0:
                alike.setdefault(repr(split), []).append((size, place))
        for group in alike.values():
            found = [(size, trees[size].nodes[place]) for size, place in group]
            node, sizes = found[0][1], [size for size, _ in group]
            cut = None if math.isnan(node.cut) else node.cut
            fork = Fork(
                sizes, node.feature, node.gain, node.missing_left, len(nodes), len(nodes) + 1
            )
            fork.cut, fork.categories = cut, node.categories
            spot.forks.append(fork)
            nodes += [Spot(EVERYONE, spot.depth + 1, sizes) for _ in range(2)]
            standing += [
                [(size, own.left) for size, own in found],
                [(size, own.right) for size, own in found],
            ]
    return nodes


def trees_in_rounds(
    state: State, answer: Callable[[Plan], State], told: Callable[[Plan], None]
) -> Trees:
    """Return the trees of training rows, each round of which a function answers.

    Parameters
    ----------
    state
        Of the first round over the training rows.
    answer, told
        See `calibkit.rounds.loop.fit_in_rounds`.
    """
    plan = first_plan(state)
    plan = structs.replace(plan, ask={**plan.ask, "apart": True})
    while plan.ask["step"] != GROWN:
        told(plan)
        following = advanced(plan, answer(plan))
        assert isinstance(following, Plan)  # it ends with trees, not with a model
        plan = following
    known = known_of(plan.ask)
    seen = known.rows
    forest = known.forest
    grown = Grown(
        known.nodes if forest is None else [],
        seen.weight,
        seen.unit,
        seen.size,
        known.fingerprint,
        sorted({name for shard in plan.shards for name in shard.files}),
        [_SAID + remark for remark in seen.warnings],
        forest.groves if forest is not None else [],
    )
    return Trees(known.columns, known.categories, grown)


def nodes_of(grown: Grown, parts: Sequence[int]) -> list[Spot]:
    """Return the nodes of the trees for all rows, and for those that judge each part."""
    trees, roots = grown.nodes, len(parts) + 1
    made: list[list[Spot]] = []
    for place, part in enumerate((EVERYONE, *parts)):
        # The first root, all other roots, then the other nodes of each of them in turn.
        start = roots + place * (len(trees) - 1) - 1
        made.append(
            [
                Spot(
                    part,
                    node.depth,
                    list(node.sizes),
                    open=False,
                    grown=(node.rows, node.hits),
                    forks=[
                        replace(fork, left=start + fork.left, right=start + fork.right)
                        for fork in node.forks
                    ],
                )
                for node in trees
            ]
        )
    return [own[0] for own in made] + [node for own in made for node in own[1:]]


def of_everyone(nodes: Sequence[Spot]) -> list[Spot]:
    """Return the trees for all rows alone."""
    kept = [place for place, node in enumerate(nodes) if node.part == EVERYONE]
    at = {place: index for index, place in enumerate(kept)}
    for place in kept:
        for fork in nodes[place].forks:
            fork.left, fork.right = at[fork.left], at[fork.right]
    return [nodes[place] for place in kept]
