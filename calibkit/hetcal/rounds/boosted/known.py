"""What a boosted fit in rounds knows beside `calibkit.hetcal.rounds.known.Known`: its runs."""

from __future__ import annotations

from dataclasses import dataclass, field

#: The rounds: the bins of the scores, the growth of trees, the line of the held-out scores, figures.
ORDER, BOOST, LINE_UP, SUM_UP = STEPS = ("order", "boost", "line-up", "sum-up")


@dataclass
class Bud:
    """A node of a tree that grows.

    Nodes stand level by level: the children of the first node that is split come right after the root,
    those of the next one after these.

    Attributes
    ----------
    depth, sums
        Its depth; weight, gradient and Hessian of its rows in units, none as long as they are unknown.
    open
        Whether its histogram has not been seen yet.
    feature
        What splits it, the score after all other features; -1: nothing.
    cut, missing_left, categories, gain
        As those of `calibkit.hetcal.trees.Node`; a cut that sends every value left is None.
    """

    depth: int
    sums: list[int]
    open: bool = True
    feature: int = -1
    cut: float | None = None
    missing_left: bool = True
    categories: tuple[list[int], list[int]] | None = None
    gain: float = 0.0


@dataclass
class Run:
    """The trees that are learnt from the rows of all parts but one, or from all rows.

    Attributes
    ----------
    part
        The part that is left out, or `calibkit.hetcal.rounds.known.EVERYONE`.
    trees
        Those that have grown; see `calibkit.hetcal.rounds.boosted.trees`.
    growing
        The nodes of the next one, from the root on; none where there is no next one.
    losses
        Of the rows left out, before the first tree and after each.
    held
        Weight of the rows left out and of the positive ones among them, in units.
    rows, gains
        Of the nodes of the first tree: rows (in units) and gains.
    """

    part: int
    trees: list[str] = field(default_factory=list)
    growing: list[Bud] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    held: list[int] = field(default_factory=lambda: [0, 0])
    rows: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
