"""The end of a fit in rounds: the maps of the leaves, and the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from calibkit.errors import ModelError
from calibkit.hetcal.cells import BINS
from calibkit.hetcal.describe import described_tree
from calibkit.hetcal.features import Features
from calibkit.hetcal.fit import columns_of, criterion_of, origin_of
from calibkit.hetcal.maps import Maps, Steps, averaged, shrunk
from calibkit.hetcal.model import CrossValidated, HetcalFit, HetcalModel, Line, Losses
from calibkit.hetcal.rounds.choose import node_maps, root_maps
from calibkit.hetcal.rounds.curves import coefficients
from calibkit.hetcal.rounds.grow import tree_of
from calibkit.hetcal.rounds.known import EVERYONE, FINISH, Curve, Edges, Known, Spot, grid_of
from calibkit.hetcal.rounds.lines import Counts, worth
from calibkit.hetcal.rounds.protocol import End, Leaf
from calibkit.hetcal.rounds.rows import Block
from calibkit.hetcal.spec import HetcalSpec
from calibkit.hetcal.states import HetcalProblem
from calibkit.hetcal.trees import Tree
from calibkit_kernels import leaf_maps

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Ending:
    """What is fitted.

    Attributes
    ----------
    before, pooled
        The map that all scores go through first, and what follows it where there are no parts.
    tree, known
        The tree, and how many categories each feature has.
    maps
        Of the leaves; Platt's as long as others are looked for.
    spots, lines
        The node of each leaf; Platt's map of it after `before`, its rows and positives: leaf x 4.
    counts
        Rows and positives of each leaf, and of all rows.
    max_depth, min_leaf, shrinkage
        What was used.
    units
        How many units of a sum a loss has in one: of the scores, under `pooled`, of the model.
    cell_unit
        The same of a probability.
    """

    before: Line
    pooled: Floats
    tree: Tree
    known: tuple[int, ...]
    maps: Maps
    spots: list[Spot]
    lines: Floats
    counts: list[Counts]
    max_depth: int
    min_leaf: int
    shrinkage: float
    units: tuple[float, ...]
    cell_unit: float

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return len(self.maps.lines)

    @property
    def cells(self) -> int:
        """How many cells there are: of each leaf, all bins of the probability."""
        return self.leaves * BINS

    def need(self, maps: int) -> None:
        """Raise `ModelError` where a plan has not so many maps as there are leaves."""
        need_maps(maps, self.leaves)

    def first(self, score: Any) -> Any:
        """Return scores after the map that all of them go through first."""
        return self.before.a * score + self.before.b

    def leaf_of(self, values: Floats) -> NDArray[np.int32]:
        """Return the leaf of each row."""
        found: NDArray[np.int32] = self.tree.leaves()[self.tree.routes(self.known).ends(values)]
        return found

    @property
    def trees(self) -> list[slice]:
        """All leaves, those of the one tree."""
        return [slice(0, self.leaves)]

    def each_leaf(self) -> list[Leaf | None]:
        """Return the rows of each leaf; None where there are none."""
        found = list[Leaf | None]()
        for spot in self.spots:
            if spot.line is None:
                found.append(None)
                continue
            low, high = sorted((self.first(spot.line.low), self.first(spot.line.high)))
            found.append(Leaf(low, high, spot.rows, spot.hits))
        return found

    def rows_by_leaf(self, block: Block) -> tuple[Int64s, NDArray[np.int32]]:
        """Return where the rows of each leaf begin and end, leaf by leaf, and the rows."""
        leaf = self.leaf_of(block.features.values)
        spans, rows = np.empty((self.leaves, 2), np.int64), np.empty(leaf.size, np.int32)
        leaf_maps.rows_by_leaf(leaf, spans, rows)
        return spans, rows

    def calibrated(self, block: Block) -> tuple[NDArray[np.int32], Floats]:
        """Return the leaf of each row, and its probability."""
        leaf = self.leaf_of(block.features.values)
        return leaf, self.maps.probabilities(self.first(block.score), leaf)

    def written(self, features: Features, known: Known) -> dict[str, Any]:
        """Return the fields of the model that hold the tree and its maps."""
        seen = known.rows
        return {
            "tree": described_tree(self.tree, (known.grown or seen).size, features),
            "maps": self.maps.described(seen.unit, seen.size),
        }


def ending(known: Known, spec: HetcalSpec) -> Ending:
    """Return what all sums say."""
    grid, chosen, seen = grid_of(spec), known.chosen, known.rows
    depth = grid.depths[0] if len(grid.depths) == 1 else 0
    size = weight = 0
    if chosen is not None:
        depth, size, weight = grid.depths[chosen.depth], chosen.size, chosen.shrinkage
    root = next(place for place, node in enumerate(known.nodes) if node.part == EVERYONE)
    tree, spots = tree_of(known, root, size, depth)
    leaves = [spot for node, spot in zip(tree.nodes, spots, strict=True) if node.feature < 0]
    lines, before = node_maps(known, leaves), before_of(known, spec)
    lines[:, :2] = after_line(before, lines[:, :2])
    pooled = after_line(before, root_maps(known)[EVERYONE][None])[0]
    kind = spec.map if known.step == FINISH else "platt"
    rows, _ = seen.counts
    return Ending(
        before,
        pooled,
        tree,
        tuple(len(names or ()) for names in known.categories),
        _maps(known, kind, lines, pooled, grid.shrinkages[weight]),
        [known.nodes[place] for place in leaves],
        lines,
        [*((rows, hits) for rows, hits in lines[:, 2:].tolist()), seen.counts],
        depth,
        grid.leaf_sizes[size],
        grid.shrinkages[weight],
        loss_units(known),
        worth(1.0, rows),
    )


def before_of(known: Known, spec: HetcalSpec) -> Line:
    """Return the map that all scores go through first."""
    if spec.precalibrate != "platt":
        return Line(a=1.0, b=0.0)
    slope, intercept = root_maps(known)[EVERYONE].tolist()
    return Line(a=slope, b=intercept)


def loss_units(known: Known) -> tuple[float, ...]:
    """Return how many units a loss has in one: of the scores, under one map, of the model."""
    seen, (slope, intercept) = known.rows, root_maps(known)[EVERYONE].tolist()
    most, (rows, _) = max(abs(seen.low), abs(seen.high)), seen.counts
    bounds = (most + 1.0, abs(slope) * most + abs(intercept) + 1.0, 36.0)
    return tuple(worth(bound, rows) for bound in bounds)


def _maps(known: Known, kind: str, lines: Floats, pooled: Floats, shrinkage: float) -> Maps:
    """Return the maps of the leaves, whose Platt's maps, rows and positives are `lines`."""
    count = len(lines)
    maps = maps_of(kind, lines, pooled, shrinkage, Made(known.curves, known.cuts, known.rates))
    if known.correction is not None and count > 1 and maps.steps is None:
        maps = maps.composed(known.correction.slope, known.correction.intercept)
    return maps


@dataclass(frozen=True)
class Made:
    """What the rounds made of the leaves of a tree: curves, the last that of all rows, or steps."""

    curves: Sequence[Curve]
    cuts: Sequence[Edges]
    rates: Sequence[Sequence[float]]


def maps_of(kind: str, lines: Floats, pooled: Floats, shrinkage: float, made: Made) -> Maps:
    """Return the maps of the leaves of a tree.

    Parameters
    ----------
    kind
        What they are.
    lines
        Platt's maps, rows and positives: leaf x 4.
    pooled, shrinkage
        The map of all rows; how strongly maps are drawn towards it.
    made
        Other maps.
    """
    count, rows = len(lines), lines[:, 2]
    if kind in ("histogram", "isotonic"):
        need_maps(len(made.cuts), count)
        need_maps(len(made.rates), count)
        steps = tuple(
            Steps(
                np.array(edges.lows), np.array(rates), own / (own + shrinkage) if own > 0 else 0.0
            )
            for edges, rates, own in zip(made.cuts, made.rates, rows.tolist(), strict=True)
        )
        return Maps(np.tile(pooled, (count, 1)), steps, lines[:, 2:])
    found = shrunk(lines, pooled, shrinkage)
    if kind == "beta":
        need_maps(len(made.curves) - 1, count)
        *curves, together = coefficients(made.curves)
        found = averaged(curves, rows, together, shrinkage)
    return Maps(found, None, lines[:, 2:])


def need_maps(maps: int, leaves: int) -> None:
    """Raise `ModelError` where a plan has not so many maps as there are leaves."""
    if maps != leaves:
        raise ModelError("a damaged plan: a leaf has no map")


def after_line(before: Line, lines: Floats) -> Floats:
    """Return the lines that do after `before` what `lines` do alone."""
    if (before.a, before.b) == (1.0, 0.0):
        return lines
    if before.a == 0.0:  # one score in all rows: nothing has a slope
        return np.column_stack([np.zeros(len(lines)), lines[:, 1]])
    slopes = lines[:, 0] / before.a
    return np.column_stack([slopes, lines[:, 1] - slopes * before.b])


def model_of(
    known: Known,
    problem: HetcalProblem,
    end: End,
    losses: Int64s,
    cells: Int64s,
    files: Sequence[str],
) -> HetcalModel:
    """Return the model.

    Parameters
    ----------
    known, problem, end
        What the rounds found, what was to be fitted, and what is.
    losses, cells
        The sums of the last round.
    files
        What the model says that its rows came from.
    """
    spec, columns = problem.spec, problem.columns
    seen, grown, more = known.rows, known.grown, dict[str, str]()
    if grown is not None:
        files, more = [*files, *grown.files], {"train_data_hash": grown.fingerprint}
    features = Features(
        tuple(known.columns),
        np.empty((len(known.columns), 0)),
        tuple(None if names is None else tuple(names) for names in known.categories),
    )
    model = HetcalModel(
        kind=HetcalModel.KIND,
        version=HetcalModel.VERSION,
        columns=columns_of(columns, known.dtype, known.columns),
        partition=spec.partition,
        criterion=criterion_of(spec),
        map=spec.map,
        precalibrate=end.before if spec.precalibrate == "platt" else None,
        pooled=Line(a=float(end.pooled[0]), b=float(end.pooled[1])),
        clip=spec.clip,
        fit=_figures(known, problem, end, losses, cells),
        tags=dict(problem.tags),
        **end.written(features, known),
    )
    if problem.provenance != "none":
        origin = origin_of(spec, columns, seen.rows, known.fingerprint, more)
        model.provenance = origin if not files else replace(origin, files=list(files))
    return model


def _figures(
    known: Known, problem: HetcalProblem, end: End, losses: Int64s, cells: Int64s
) -> HetcalFit:
    seen, checked = known.rows, None
    grown = known.grown or seen
    rows, _ = seen.counts
    if known.chosen is not None:
        checked = CrossValidated(
            pooled=known.chosen.pooled,
            calibrated=known.chosen.loss,
            folds=known.folds,
            by_depth=known.chosen.by_depth,
        )
        if problem.spec.groups is None and problem.spec.time is None:
            checked.dealt = "by hash"
    scores, pooled, calibrated = (
        float(loss / unit / rows) for loss, unit in zip(losses.tolist(), end.units, strict=True)
    )
    amounts = np.array([seen.size, seen.size, 1.0 / end.cell_unit])
    largest, mean, count = _gaps(cells.reshape(-1, 3) * amounts, rows)
    return HetcalFit(
        rows=seen.unit.amount(seen.weight),
        positives=seen.unit.amount(seen.hits),
        clipped=seen.clipped,
        leaves=end.leaves,
        max_depth=end.max_depth,
        min_leaf=end.min_leaf,
        shrinkage=end.shrinkage,
        in_sample=Losses(
            scores=scores if problem.columns.scale != "raw" else None,
            pooled=pooled,
            calibrated=calibrated,
        ),
        cross_validated=checked,
        max_gap=largest,
        mean_gap=mean,
        cells=count,
        growth_rows=grown.unit.amount(grown.weight),
        exact_arithmetic=seen.unit.exact,
    )


def _gaps(cells: Floats, rows: float) -> tuple[float, float, int]:
    """Return the largest and the mean gap of the cells, and their number."""
    largest = mean = 0.0
    found = [cell for cell in cells.tolist() if cell[0] > 0]
    for own, hits, chances in found:
        gap = abs(chances - hits) / own
        largest, mean = max(largest, gap), mean + own / rows * gap
    return largest, mean, len(found)
