"""The model that ``boundary`` writes: thresholds per uncertainty level, and what was seen of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec.structs import replace

from calibkit.errors import ModelError
from calibkit.methods.boundary.result import parts
from calibkit.models.model import Model, known

if TYPE_CHECKING:
    from calibkit.arrays import Floats

#: A level is kept in 16 bits.
MOST_LEVELS = 65_535
#: What a bound holds for where there are segments.
BOUNDS = ("overall", "each")
#: Of a logistic surface.
COEFFICIENTS = ("intercept", "score", "uncertainty", "product")


#: What of a rule may be left out.
_NO_RULE: dict[str, Any] = dict.fromkeys((*parts.RULE, "groups", "bound", "pooled"), msgspec.UNSET)
_NO_RULE["order"] = "uncertainty-score"


class BoundaryModel(Model):
    """A decision boundary: positive iff the score reaches the threshold of the row's level.

    Attributes
    ----------
    method, objective
        How the boundary was found, and what for.
    uncertainty_min
        Uncertainties below count as this value; null where there is one level.  With
        ``order = "score-uncertainty"`` one value per score bin (null in a bin that was empty).
    uncertainty_edges
        The K - 1 inner edges: level i is [edge i - 1, edge i).  With ``order = "score-uncertainty"``
        one list per score bin, empty in a bin that was empty.
    score_thresholds
        One per level: positive iff score >= threshold.  null: never; "-inf": always.
    randomise, random_thresholds, tie_probability, seed
        Of a stochastic boundary, one value per level: positive with `tie_probability` where
        random threshold <= score < threshold (``block``), or where score == threshold (``tie``).
        `seed` takes part in the hash of a row's key that decides.
    coefficients, uncertainty_ranks, cut, clipped
        Of a logistic surface: the log-odds of a positive row are ``intercept + score s +
        uncertainty u + product s u``, s being the logit of the score clipped by 1e-6 (the score
        itself unless it is a probability) and u the rank of the row's level, one of
        `uncertainty_ranks`.  Rows from the fitted probability `cut` up (null: none) are selected;
        `score_thresholds` says the same of scores.  `clipped` counts the rows that were clipped.
    order, score_min, score_edges, take
        With ``order = "score-uncertainty"``: the score bins, and how many of the highest ones each
        uncertainty bin takes; `score_thresholds` is then empty.
    block_thresholds, review_thresholds
        Of three-way decisions, one per level: block from the one up, review from the other up to it,
        pass below.  `score_thresholds` are those of block.
    partition
        Of several uncertainties (columns ``uncertainty``, ``uncertainty_2``, …): the levels are leaves
        of it, and there are no edges.
    isotonic
        Of ``mist``, one for each level: the isotonic regression of the labels on the score, the
        share of positive rows in each block.
    groups, bound, pooled
        With a column ``by``: the boundary of each of its values; whether the bound was one on all
        rows together (``overall``) or on ``each``; the values with too few positives, which share
        the group ``other``.  A value that no group has takes that of ``other``, without one that of
        the model itself, which was fitted on all rows together.
    """

    KIND: ClassVar[str] = "boundary"
    VERSION: ClassVar[int] = 1

    method: parts.Method
    objective: parts.Objective
    uncertainty_min: float | list[float | None] | None
    uncertainty_edges: list[float | list[float]]
    score_thresholds: list[parts.Threshold]
    fit: parts.BoundaryFit
    order: parts.Order = "uncertainty-score"
    randomise: parts.Randomise | msgspec.UnsetType = msgspec.UNSET
    random_thresholds: list[parts.Threshold] | msgspec.UnsetType = msgspec.UNSET
    tie_probability: list[float] | msgspec.UnsetType = msgspec.UNSET
    seed: int | msgspec.UnsetType = msgspec.UNSET
    coefficients: dict[str, float] | msgspec.UnsetType = msgspec.UNSET
    uncertainty_ranks: list[float] | msgspec.UnsetType = msgspec.UNSET
    cut: float | msgspec.UnsetType | None = msgspec.UNSET
    clipped: int | float | msgspec.UnsetType = msgspec.UNSET
    score_min: float | msgspec.UnsetType = msgspec.UNSET
    score_edges: list[float] | msgspec.UnsetType = msgspec.UNSET
    take: list[int] | msgspec.UnsetType = msgspec.UNSET
    isotonic: list[parts.Steps] | msgspec.UnsetType = msgspec.UNSET
    block_thresholds: list[parts.Threshold] | msgspec.UnsetType = msgspec.UNSET
    review_thresholds: list[parts.Threshold] | msgspec.UnsetType = msgspec.UNSET
    partition: parts.Partition | msgspec.UnsetType = msgspec.UNSET
    groups: dict[str, parts.Segment] | msgspec.UnsetType = msgspec.UNSET
    bound: Annotated[str, known(BOUNDS)] | msgspec.UnsetType = msgspec.UNSET
    pooled: list[str] | msgspec.UnsetType = msgspec.UNSET

    @property
    def levels(self) -> int:
        """How many uncertainty levels there are."""
        return len(self.score_thresholds if self.take is msgspec.UNSET else self.take)

    @property
    def spreads(self) -> list[str]:
        """The roles of its uncertainties, in order."""
        return sorted(role for role in self.columns if role.startswith("uncertainty"))

    @property
    def bounded_groups(self) -> tuple[str, ...]:
        """The groups with thresholds each of which keeps the bound by itself; none where it is one."""
        if self.groups is msgspec.UNSET or self.bound != "each":
            return ()
        return tuple(name for name, own in self.groups.items() if _selects(own))

    @property
    def selects_none(self) -> bool:
        """Whether nothing at all is selected (of three-way decisions: blocked), whatever the rows."""
        return not any(map(_selects, self.groups.values() if self.groups else [self]))

    def thresholds(self) -> Floats:
        """Return the threshold of each level; NaN selects nothing, -inf everything."""
        return parts.threshold_values(self.score_thresholds)

    @property
    def rule(self) -> dict[str, Any]:
        """What decides, by name: the fields that a segment has too."""
        return {name: getattr(self, name) for name in parts.RULE}

    def check(self) -> None:
        """Raise `ModelError` where levels, edges and thresholds do not fit together."""
        if "score" not in self.columns:
            raise ModelError("a boundary names a score column; 'columns' has none")
        self._check_groups()
        self._check_rule()
        self._check_review()
        if self.fit.reference is not None:
            self.fit.reference.check()
            seen = len(self.fit.reference.rows_per_level)
            if self.groups is msgspec.UNSET and seen != self.levels:  # segments may have others
                raise ModelError(f"'rows_per_level' needs {self.levels} values, one per level")

    def of_group(self, name: str) -> BoundaryModel:
        """Return the boundary of one group, as a model without groups."""
        assert self.groups is not msgspec.UNSET
        group = self.groups[name]
        return self.with_rule({name: getattr(group, name) for name in parts.RULE})

    def with_rule(self, rule: Mapping[str, Any]) -> BoundaryModel:
        """Return a model without groups that decides by another rule; what it lacks is unset."""
        return replace(self, **_NO_RULE | dict(rule))

    def _given(self, *names: str) -> dict[str, Any]:
        """Return those of some fields that are there."""
        found = {name: getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if value is not msgspec.UNSET}

    def _check_rule(self) -> None:
        self._check_surface()
        if self.isotonic is not msgspec.UNSET:
            if len(self.isotonic) != self.levels:
                raise ModelError("'isotonic' needs one step function per level")
            for steps in self.isotonic:
                steps.check()
        if self.levels > 1 and "uncertainty" not in self.columns:
            raise ModelError("several levels need an uncertainty column; 'columns' has none")
        if self.order == "score-uncertainty":
            self._check_random()
            self._check_score_first()
            return
        if self.take is not msgspec.UNSET or self.score_edges is not msgspec.UNSET:
            raise ModelError("'take' and 'score_edges' belong to order score-uncertainty only")
        if not 1 <= len(self.score_thresholds) <= MOST_LEVELS:
            raise ModelError(f"a boundary has 1 to {MOST_LEVELS} thresholds")
        for threshold in self.score_thresholds:
            parts.threshold_value(threshold)
        self._check_random()
        if self.partition is not msgspec.UNSET:
            self.partition.check(self.levels, len(self.spreads))
            if self.uncertainty_edges or self.uncertainty_min is not None or self.groups:
                raise ModelError("'partition' goes without edges and groups")
            return
        _check_edges(self.uncertainty_edges, len(self.score_thresholds) - 1, "uncertainty_edges")
        if len(self.score_thresholds) > 1 and not isinstance(self.uncertainty_min, float):
            raise ModelError("'uncertainty_min' is a number where there are several levels")

    def _check_groups(self) -> None:
        if len(self._given("groups", "bound", "pooled")) + ("by" in self.columns) not in (0, 4):
            raise ModelError("'groups', 'bound', 'pooled' and a column 'by' go together")
        if self.groups is msgspec.UNSET:
            return
        if not self.groups:
            raise ModelError("'groups' holds at least one value of the column 'by'")
        for name in self.groups:
            self.of_group(name)._check_rule()

    def _check_review(self) -> None:
        block, review = self.block_thresholds, self.review_thresholds
        if block is msgspec.UNSET and review is msgspec.UNSET:
            return
        if block is msgspec.UNSET or review is msgspec.UNSET or block != self.score_thresholds:
            raise ModelError(
                "three-way decisions have 'review_thresholds', and as 'block_thresholds' the same as "
                "'score_thresholds'"
            )
        if len(review) != len(block) or self.groups is not msgspec.UNSET:
            raise ModelError("'review_thresholds' needs one value per level, and no groups")
        for pair in zip(review, block, strict=True):
            low, high = map(parts.threshold_value, pair)
            if not (math.isnan(high) or low <= high):
                raise ModelError("a threshold of review is not above that of block")

    def _check_surface(self) -> None:
        names = ("coefficients", "uncertainty_ranks", "cut", "clipped")
        given = self._given(*names)
        if not given:
            return
        if len(given) < len(names) or self.order != "uncertainty-score":
            raise ModelError(f"a logistic surface has {', '.join(names)}, and uncertainty levels")
        if set(given["coefficients"]) != set(COEFFICIENTS):
            raise ModelError(f"'coefficients' names {', '.join(COEFFICIENTS)}")
        if len(given["uncertainty_ranks"]) != len(self.score_thresholds):
            raise ModelError("'uncertainty_ranks' needs one value per level")

    def _check_random(self) -> None:
        given = self._given("random_thresholds", "tie_probability", "seed")
        if self.randomise is msgspec.UNSET:
            for name in given:
                raise ModelError(f"{name!r} belongs to a stochastic boundary, with 'randomise'")
            return
        if self.order != "uncertainty-score":
            raise ModelError("a stochastic boundary has order uncertainty-score")
        for name in ("random_thresholds", "tie_probability"):
            if len(given.get(name, ())) != len(self.score_thresholds):
                raise ModelError(f"{name!r} needs one value per level")
        if any(not 0.0 <= chance <= 1.0 for chance in given["tie_probability"]):
            raise ModelError("'tie_probability' holds probabilities")
        if given.get("seed", -1) < 0:
            raise ModelError("a stochastic boundary has a 'seed', at least 0")
        for low, threshold in zip(given["random_thresholds"], self.score_thresholds, strict=True):
            lowest = parts.threshold_value(low)
            if low is not None and self.randomise == "tie":
                raise ModelError("'random_thresholds' are null where a tie is random")
            if low is not None and lowest >= parts.threshold_value(threshold):
                raise ModelError("a random threshold lies below the threshold of its level")

    def _check_score_first(self) -> None:
        edges, take = self.score_edges, self.take
        if edges is msgspec.UNSET or take is msgspec.UNSET or self.score_min is msgspec.UNSET:
            raise ModelError("order score-uncertainty needs 'score_min', 'score_edges' and 'take'")
        _check_edges(edges, len(edges), "score_edges")
        bins = len(edges) + 1
        if len(self.uncertainty_edges) != bins:
            raise ModelError(f"'uncertainty_edges' needs {bins} lists, one per score bin")
        if not isinstance(self.uncertainty_min, list) or len(self.uncertainty_min) != bins:
            raise ModelError(f"'uncertainty_min' needs {bins} values, one per score bin")
        if not take or any(not 0 <= count <= bins for count in take):
            raise ModelError(f"'take' holds numbers of score bins, 0 to {bins}")
        for own, low in zip(self.uncertainty_edges, self.uncertainty_min, strict=True):
            if not isinstance(own, list):
                raise ModelError("'uncertainty_edges' needs one list per score bin")
            _check_edges(own, 0 if low is None else len(take) - 1, "uncertainty_edges")


def _selects(rule: BoundaryModel | parts.Segment) -> bool:
    """Whether there is a row that it would select, be it by chance."""
    thresholds = [*rule.score_thresholds, *(rule.random_thresholds or ())]
    return bool(set(thresholds) - {None} or any(rule.take or ()))


def _check_edges(edges: object, expected: int, name: str) -> None:
    if not isinstance(edges, list) or len(edges) != expected:
        raise ModelError(f"{name!r} needs {expected} values")
    if any(not isinstance(edge, float) for edge in edges):
        raise ModelError(f"{name!r} holds something that is not a number")
    if any(high < low for low, high in itertools.pairwise(edges)):
        raise ModelError(f"{name!r} must not decrease")
