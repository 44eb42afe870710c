"""What a plan knows of a boosted fit, read strictly: kernels rely on it."""

from __future__ import annotations

from typing import Final

from calibkit.hetcal.rounds.boosted.known import BOOST, LINE_UP, ORDER, STEPS, Bud, Run
from calibkit.hetcal.rounds.boosted.runs import tree_count
from calibkit.hetcal.rounds.boosted.trees import grown_tree
from calibkit.hetcal.rounds.known import EVERYONE, Known
from calibkit.hetcal.spec import DEEPEST

#: No sum of a node is larger.
_MOST_SUM: Final = 1 << 62


def runs_fit(known: Known) -> bool:
    """Tell whether there are runs once these have begun, whose trees are of the features.

    Raises
    ------
    ModelError
        For a tree that is none.
    """
    if known.step not in STEPS or known.step == ORDER:
        return not known.runs
    scores, parts = known.scores, [run.part for run in known.runs]
    if scores is None or not scores.lows or len(set(parts)) != len(parts) or not parts:
        return False
    if known.step == LINE_UP and known.correction is None:
        return False
    categories = (*(len(names or ()) for names in known.categories), 0)
    return all(_run_fits(run, known, categories) for run in known.runs) and _ends_fit(known)


def _run_fits(run: Run, known: Known, categories: tuple[int, ...]) -> bool:
    trees = [grown_tree(text, categories) for text in run.trees]
    first = len(trees[0].steps) if trees else 0
    losses = len(run.losses) - len(run.trees)
    return (
        EVERYONE <= run.part < known.parts
        and (losses in (0, 1) if run.part != EVERYONE else not run.losses)
        and len(run.held) == 2
        and known.rows.weight >= run.held[0] >= run.held[1] >= 0
        and len(run.rows) == len(run.gains) == first
        and _growing_fits(run.growing, categories)
    )


def _ends_fit(known: Known) -> bool:
    """Tell whether, after the growth, all runs have as many trees as the model is to have."""
    if known.step == BOOST:
        return True
    judged = [run for run in known.runs if run.part != EVERYONE]
    return all(len(run.losses) > len(run.trees) for run in judged) and all(
        len(run.trees) >= tree_count(known) for run in known.runs
    )


def _growing_fits(growing: list[Bud], categories: tuple[int, ...]) -> bool:
    """Tell whether nodes are a tree; see `Bud` for where their children stand."""
    split = [place for place, bud in enumerate(growing) if bud.feature >= 0]
    if growing and len(growing) != 1 + 2 * len(split):
        return False
    if any(1 + 2 * number <= place for number, place in enumerate(split)):
        return False
    return all(_bud_fits(bud, len(growing), categories) for bud in growing)


def _bud_fits(bud: Bud, nodes: int, categories: tuple[int, ...]) -> bool:
    known = len(bud.sums) == 3 and all(abs(one) < _MOST_SUM for one in bud.sums)
    if not 0 <= bud.depth <= DEEPEST or not (known or (nodes == 1 and not bud.sums)):
        return False
    if bud.feature < 0:
        return True
    if bud.open or bud.feature >= len(categories):
        return False
    count = categories[bud.feature]
    sides = bud.categories or ([], [])
    return (bud.categories is not None) == (count > 0) and all(
        0 <= code < count for side in sides for code in side
    )
