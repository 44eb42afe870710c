"""What a forest in rounds knows so far, besides what all partitions do."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Grove:
    """The trees of one leaf size of a forest, side by side; see `calibkit.hetcal.rounds.forest.packed`.

    Attributes
    ----------
    sizes
        How many nodes each tree has.
    links, sums, numbers, sides
        Of each node depth, feature, children and where missing values go; rows and positives; cut
        and gain; and its categories: arrays as bytes.
    """

    sizes: list[int] = field(default_factory=list)
    links: bytes = b""
    sums: bytes = b""
    numbers: bytes = b""
    sides: bytes = b""


@dataclass
class Forest:
    """A forest on its way: it grows and is judged one leaf size after another, then grows again.

    Attributes
    ----------
    size
        The place of this leaf size.
    grove
        Its trees.
    searched
        How many nodes of each tree have been searched for a split, level by level.
    counts, lines
        Rows and positives (units of weight) of each map, and how far the maps are known: arrays as
        bytes.
    judged
        Of the leaf sizes so far: the gain of each depth and shrinkage, of its square, and the loss.
    groves
        The trees of the leaf sizes so far, where trees are all that the rows are for.
    """

    size: int = 0
    grove: Grove = field(default_factory=Grove)
    searched: list[int] = field(default_factory=list)
    counts: bytes = b""
    lines: bytes = b""
    judged: list[list[float]] = field(default_factory=list)
    groves: list[Grove] = field(default_factory=list)
