"""The model that ``hetcal`` writes: a partition (or several) of the rows, and a map for each part."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from calibkit.errors import ModelError
from calibkit.maps.model import Candidate, ScoreMap
from calibkit.models.model import Column, Model, features_of, known
from calibkit.options.calibrate import SCORE_METHODS

#: Models whose partitions each go on from the linear scores that the last one left.
IN_TURN = ("boosted", "sequential")

#: What splits are judged by; of boosted trees it is the log loss.
CRITERIA = ("gini", "entropy", "auc", "log-loss")

MAPS = ("platt", "beta", "isotonic", "histogram")

#: How a boosted model names the linear score, after precalibration, as a feature.
SCORE_FEATURE = "(score)"


class _Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a model: strict, like the whole."""


class Line(_Part):
    """The map ``1 / (1 + exp(-(a x + b)))`` of a linear score x, or the step ``a x + b``."""

    a: float
    b: float


class FirstMap(_Part):
    """What the linear score (the logit of a probability) goes through first.

    Attributes
    ----------
    a, b
        Of Platt's map where it was asked for: ``a x + b``.
    method, map, candidates
        What `auto` chose, its map of a logit, and the methods that were compared.
    """

    a: float | msgspec.UnsetType = msgspec.UNSET
    b: float | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    map: ScoreMap | msgspec.UnsetType = msgspec.UNSET
    candidates: list[Candidate] | msgspec.UnsetType = msgspec.UNSET

    @property
    def name(self) -> str:
        """The method."""
        return "platt" if self.method is msgspec.UNSET else self.method

    @property
    def score_map(self) -> ScoreMap:
        """The map."""
        if self.map is not msgspec.UNSET:
            return self.map
        assert self.a is not msgspec.UNSET and self.b is not msgspec.UNSET
        return ScoreMap(clip=0.0, a=self.a, b=self.b)

    def check(self) -> None:
        """Raise `ModelError` where it is neither a line nor a map that was chosen."""
        line = [field is not msgspec.UNSET for field in (self.a, self.b)]
        chosen = [field is not msgspec.UNSET for field in (self.method, self.map, self.candidates)]
        if not (all(line) and not any(chosen)) and not (all(chosen) and not any(line)):
            raise ModelError("'precalibrate' has 'a' and 'b', or 'method', 'map' and 'candidates'")
        if self.name not in SCORE_METHODS:
            raise ModelError(f"'precalibrate' has an unknown method {self.name!r}")
        self.score_map.check(self.name)


class TreeNode(_Part):
    """A node of a tree; those with children say how rows part, the others which leaf they are.

    Attributes
    ----------
    rows
        Rows (weight) it was grown on.
    feature
        The column that parts the rows.
    cut
        Of a number: values up to it go left; null: every value does.
    left_categories, right_categories
        Of text: which values go left, and which right.
    missing
        The side (`left`, `right`) of rows without a value, and of text that is listed on no side.
    left, right
        The children, as places in the list of nodes.
    gain
        What the split brings a row of all rows grown on, in the criterion's own terms.
    leaf
        The number of the leaf, from left to right.
    """

    rows: int | float | msgspec.UnsetType = msgspec.UNSET
    feature: str | msgspec.UnsetType = msgspec.UNSET
    cut: float | msgspec.UnsetType | None = msgspec.UNSET
    left_categories: list[str] | msgspec.UnsetType = msgspec.UNSET
    right_categories: list[str] | msgspec.UnsetType = msgspec.UNSET
    missing: Annotated[str, known(("left", "right"))] | msgspec.UnsetType = msgspec.UNSET
    left: int | msgspec.UnsetType = msgspec.UNSET
    right: int | msgspec.UnsetType = msgspec.UNSET
    gain: float | msgspec.UnsetType = msgspec.UNSET
    leaf: int | msgspec.UnsetType = msgspec.UNSET


class LeafMap(_Part):
    """The map of a leaf: ``a x + b`` for a linear score x, or steps over the score.

    Attributes
    ----------
    a, b
        Of a line; the probability is ``1 / (1 + exp(-(a x + b)))``.
    a, b, c
        Of a beta map: ``1 / (1 + exp(-(a ln s - b ln(1 - s) + c)))`` with ``s = 1 / (1 + exp(-x))``.
    knots, values
        Of a step function: the value of the greatest knot up to the linear score, the first below.
    share
        Of a step function: its part in an average with `pooled`.
    rows, positives
        Calibration rows (weight) of the leaf, and how many are positive.
    note
        What is special: no rows, few rows, one class.
    """

    a: float | msgspec.UnsetType = msgspec.UNSET
    b: float | msgspec.UnsetType = msgspec.UNSET
    c: float | msgspec.UnsetType = msgspec.UNSET
    knots: list[float] | msgspec.UnsetType = msgspec.UNSET
    values: list[float] | msgspec.UnsetType = msgspec.UNSET
    share: float | msgspec.UnsetType = msgspec.UNSET
    rows: int | float | msgspec.UnsetType = msgspec.UNSET
    positives: int | float | msgspec.UnsetType = msgspec.UNSET
    note: str | msgspec.UnsetType = msgspec.UNSET


class PartitionPart(_Part):
    """One partition of several, with its maps."""

    tree: list[TreeNode]
    maps: list[LeafMap]


class Losses(_Part):
    """Mean log losses: of the scores as they came, under one map for all rows, and of this model.

    `scores` is null for raw scores, which are no probabilities.
    """

    scores: float | None
    pooled: float
    calibrated: float


class CrossValidated(_Part):
    """Mean log losses on rows that took no part in what they are judged by.

    `by_depth` is that of the best tree of each depth that was tried, from the shallowest.  `dealt` says
    how rows were dealt to folds where it was not at random: `by hash` of each row.
    """

    pooled: float
    calibrated: float
    folds: int
    by_depth: dict[str, float] | msgspec.UnsetType = msgspec.UNSET
    dealt: str | msgspec.UnsetType = msgspec.UNSET


class CellGap(_Part):
    """A cell, a leaf and a bin of the probability, where the gap is larger than chance explains.

    Attributes
    ----------
    beyond
        How far the mean probability lies outside the interval of the positive rate; the intervals of
        all cells hold together with probability 0.95.
    leaf, probability_from, probability_to
        Which cell it is.
    rows, positive_rate, mean_probability
        What is in it: rows (weight), and the two that should be alike.
    """

    beyond: float
    leaf: int
    probability_from: float
    probability_to: float
    rows: int | float
    positive_rate: float
    mean_probability: float


class HetcalFit(_Part):
    """What is known of the model from its fit.

    `clipped` counts the rows, whatever they weigh, whose probability was moved before its logit was
    taken.

    `max_gap`, `mean_gap`, `cells`: the largest and the mean distance of mean probability and positive
    rate over the non-empty cells (leaf, one of ten bins of the probability) of the calibration rows.
    `gap_beyond_chance` is the largest that chance does not explain; null: it explains all.
    """

    rows: int | float
    positives: int | float
    clipped: int
    leaves: int
    max_depth: int
    min_leaf: int
    shrinkage: float | None
    in_sample: Losses
    cross_validated: CrossValidated | None
    max_gap: float
    mean_gap: float
    cells: int
    growth_rows: int | float
    exact_arithmetic: bool
    gap_beyond_chance: CellGap | msgspec.UnsetType | None = msgspec.UNSET


class HetcalModel(Model):
    """Calibration by parts: the map of the leaf that a row falls in.

    Attributes
    ----------
    partition
        `tree`; `forest` (mean of the partitions' probabilities); `boosted` and `sequential` (the
        lines of all partitions in turn, then `final`).
    criterion, map
        How trees were grown, and the kind of the maps.
    precalibrate
        What the linear score (the logit of a probability) goes through first; null: nothing.
    pooled
        The map of all calibration rows together.
    clip
        Probabilities are kept this far from 0 and 1.
    candidates
        The partitions that were compared where one was chosen.
    tree, maps
        Of `tree`: the nodes, the root first, and the map of each leaf.
    partitions, final
        Of the others.
    """

    KIND: ClassVar[str] = "hetcal"
    VERSION: ClassVar[int] = 1

    partition: Annotated[str, known(("tree", "forest", *IN_TURN))]
    criterion: Annotated[str, known(CRITERIA)]
    map: Annotated[str, known(MAPS)]
    precalibrate: FirstMap | None
    pooled: Line
    clip: float
    fit: HetcalFit
    candidates: list[Candidate] | msgspec.UnsetType = msgspec.UNSET
    tree: list[TreeNode] | msgspec.UnsetType = msgspec.UNSET
    maps: list[LeafMap] | msgspec.UnsetType = msgspec.UNSET
    partitions: list[PartitionPart] | msgspec.UnsetType = msgspec.UNSET
    final: Line | msgspec.UnsetType = msgspec.UNSET

    def parts(self) -> list[PartitionPart]:
        """Return the partitions, one or several."""
        if self.partitions is not msgspec.UNSET:
            return self.partitions
        assert self.tree is not msgspec.UNSET and self.maps is not msgspec.UNSET
        return [PartitionPart(tree=self.tree, maps=self.maps)]

    def inputs(self) -> dict[str, Column]:
        """Return the columns that it reads when it is applied, by role."""
        return super().inputs() | features_of(self.features())

    def features(self) -> list[Column]:
        """Return the features that some split uses, in the order of `columns`."""
        used = {node.feature for part in self.parts() for node in part.tree}
        return [column for column in self._features() if column.name in used]

    def _features(self) -> list[Column]:
        return [one for role, one in self.columns.items() if role.startswith("feature")]

    def check(self) -> None:
        """Raise `ModelError` where nodes, maps and columns do not fit together."""
        if "score" not in self.columns:
            raise ModelError("calibration names a score column; 'columns' has none")
        single = self.partition == "tree"
        if single == (self.tree is msgspec.UNSET) or single == (self.maps is msgspec.UNSET):
            raise ModelError("'tree' and 'maps' belong to partition tree, and only to it")
        if single == (self.partitions is not msgspec.UNSET):
            raise ModelError("'partitions' belong to every partition but tree")
        if not self.parts():
            raise ModelError("'partitions' holds at least one partition")
        if (self.partition in IN_TURN) == (self.final is msgspec.UNSET):
            raise ModelError(f"'final' belongs to partition {' and '.join(IN_TURN)} only")
        if not 0.0 <= self.clip < 0.5:
            raise ModelError(f"'clip' is in [0, 0.5), not {self.clip}")
        if self.precalibrate is not None:
            self.precalibrate.check()
        kinds = {column.name: column.kind for column in self._features()}
        for part in self.parts():
            _check_tree(part, kinds, self.partition)


def _check_tree(part: PartitionPart, kinds: dict[str, str | None], partition: str) -> None:
    leaves = set[int]()
    seen = [0] * len(part.tree)
    for place, node in enumerate(part.tree):
        if node.leaf is not msgspec.UNSET:
            leaves.add(node.leaf)
            if not 0 <= node.leaf < len(part.maps):
                raise ModelError(f"leaf {node.leaf} has no map")
            continue
        if node.feature is msgspec.UNSET:
            raise ModelError("a node has neither 'feature' nor 'leaf'")
        known = kinds.get(node.feature)
        if known is None and not (partition == "boosted" and node.feature == SCORE_FEATURE):
            raise ModelError(f"'columns' has no feature {node.feature!r}")
        if node.missing is msgspec.UNSET:
            raise ModelError("a node with a feature says where a 'missing' value goes")
        _check_sides(node, known == "category")
        for child in (node.left, node.right):
            if not isinstance(child, int) or not place < child < len(part.tree):
                raise ModelError("the children of a node stand after it in 'tree'")
            seen[child] += 1
    if not part.tree or any(count != 1 for count in seen[1:]):
        raise ModelError("every node of 'tree' but the first is the child of one node")
    if len(leaves) != len(part.maps):
        raise ModelError(f"{len(leaves)} leaves, but {len(part.maps)} maps")
    for leaf in part.maps:
        _check_map(leaf)
    if len({(leaf.c is msgspec.UNSET, leaf.knots is msgspec.UNSET) for leaf in part.maps}) > 1:
        raise ModelError("maps are of one kind: 'c' belongs to every beta map, and to no other")


def _check_sides(node: TreeNode, category: bool) -> None:
    named = [side is not msgspec.UNSET for side in (node.left_categories, node.right_categories)]
    if named != [category, category]:
        raise ModelError(f"feature {node.feature!r}: categories on both sides belong to text only")
    if category == (node.cut is not msgspec.UNSET):
        raise ModelError(f"feature {node.feature!r}: 'cut' belongs to numbers only")


def _check_map(leaf: LeafMap) -> None:
    if leaf.knots is msgspec.UNSET or leaf.values is msgspec.UNSET or leaf.a is not msgspec.UNSET:
        if leaf.knots is not leaf.values or msgspec.UNSET in (leaf.a, leaf.b):  # only UNSET is both
            raise ModelError("a map has 'a' and 'b', or 'knots' and 'values'")
        return
    if not leaf.knots or len(leaf.knots) != len(leaf.values):
        raise ModelError("a map has as many values as knots")
    if any(high <= low for low, high in zip(leaf.knots, leaf.knots[1:], strict=False)):
        raise ModelError("knots must increase")
    if any(not 0.0 <= value <= 1.0 for value in leaf.values):
        raise ModelError("the values of a map are probabilities")
