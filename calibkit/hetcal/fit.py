"""Fitting: rows to a partition, its maps and the model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from calibkit import __version__
from calibkit.fitted import Fitted
from calibkit.hetcal import boosted, forest
from calibkit.hetcal.cells import cell_gaps
from calibkit.hetcal.choose import Choice, Grid, choose
from calibkit.hetcal.describe import described_tree
from calibkit.hetcal.folds import Folds
from calibkit.hetcal.maps import (
    fit_maps,
    loss_of_probabilities,
    mean_loss,
    pooled_line,
)
from calibkit.hetcal.model import (
    CrossValidated,
    HetcalFit,
    HetcalModel,
    Line,
    Losses,
    PartitionPart,
)
from calibkit.hetcal.payload import Growth, growth_of
from calibkit.hetcal.rows import HetcalRows, need_both_classes
from calibkit.models import Column, Provenance
from calibkit.options.hetcal import DEPTHS, FOLDS, LEAF_SIZES, SHRINKAGES, HetcalOptions
from calibkit.summaries.draws import folds_of_keys

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Found:
    """A partition with its maps, before it is written down.

    Attributes
    ----------
    parts, final
        As in the model.
    probability, leaf
        Of the calibration rows.
    max_depth, min_leaf, shrinkage
        What was used.
    checked
        What cross-validation saw.
    """

    parts: list[PartitionPart]
    final: Line | None
    probability: Floats
    leaf: NDArray[np.int32]
    max_depth: int
    min_leaf: int
    shrinkage: float | None
    checked: CrossValidated | None


def fit_hetcal(
    rows: HetcalRows, options: HetcalOptions, *, train: HetcalRows | None = None
) -> Fitted[HetcalModel]:
    """Fit a calibration by parts.

    Parameters
    ----------
    rows
        Calibration rows: the maps are fitted on them.
    options
        What to fit.
    train
        Rows to grow the partition on; None: on the calibration rows, cross-fitted.

    Raises
    ------
    DataError
        Rows of one class.

    Notes
    -----
    Durfee, Gupta, Basu, "Heterogeneous calibration", algorithm 1 and section 13.
    """
    need_both_classes(rows)
    warnings = []
    if train is not None:
        need_both_classes(train)
    folds, remarks = _folds(rows, options)
    warnings += remarks
    before, moved = Line(a=1.0, b=0.0), rows
    if options.precalibrate == "platt":
        slope, intercept = pooled_line(rows).tolist()
        before, moved = Line(a=slope, b=intercept), rows.moved(slope, intercept)
    pooled = pooled_line(moved)
    if options.partition == "boosted":
        found = Found(*boosted.fit(moved, options, folds))
    else:
        # Trees look at scores as they are, so that they need no map to be fitted before.
        growth = growth_of(train or rows, options, own=train is None)
        if options.partition == "tree":
            found = _fit_tree(moved, growth, options, folds, pooled)
        else:
            found = Found(*forest.fit(moved, growth, options, folds, pooled))
    model = HetcalModel(
        kind=HetcalModel.KIND,
        version=HetcalModel.VERSION,
        columns=_columns(rows),
        partition=options.partition,
        criterion="log-loss" if options.partition == "boosted" else options.criterion,
        map=options.map,
        precalibrate=before if options.precalibrate == "platt" else None,
        pooled=Line(a=float(pooled[0]), b=float(pooled[1])),
        clip=options.clip,
        fit=_figures(rows, moved, train, options, found, pooled),
        tags=dict(options.tags or {}),
    )
    if options.partition == "tree":
        model.tree, model.maps = found.parts[0].tree, found.parts[0].maps
    else:
        model.partitions = found.parts
    if found.final is not None:
        model.final = found.final
    model.provenance = _origin(rows, train, options)
    return Fitted(model, tuple(warnings))


def _folds(rows: HetcalRows, options: HetcalOptions) -> tuple[Folds | None, list[str]]:
    """Return the folds of cross-validation; None, and why, where rows or values are too few."""
    hits, why = rows.positives, ""
    folds = rows.folds
    if rows.count < 2 * FOLDS or min(hits, rows.count - hits) < 2:
        why = f"{hits} positive of {rows.count} rows are"
    elif folds is None:
        folds = Folds(folds_of_keys(rows.key, FOLDS, options.seed), FOLDS)
        if len(folds.present) < 2:
            why = f"{rows.count} rows are"
    elif len(folds.present) < folds.count + folds.forward:
        why = f"the values of column {options.groups or options.time!r} are"
    if not why:
        return folds, []
    return None, [
        f"{why} too few for {FOLDS} folds: nothing is chosen or checked by cross-validation"
    ]


def _fit_tree(
    rows: HetcalRows, growth: Growth, options: HetcalOptions, folds: Folds | None, pooled: Floats
) -> Found:
    grid = Grid(
        DEPTHS if options.max_depth is None else (options.max_depth,),
        LEAF_SIZES if options.min_leaf is None else (options.min_leaf,),
        SHRINKAGES if options.shrinkage is None else (options.shrinkage,),
    )
    choice, checked = None, None
    if folds is not None and (grid.open or growth.own):
        choice = choose(rows, growth, grid, folds, options.workers)
        checked = CrossValidated(
            pooled=choice.pooled,
            calibrated=choice.loss,
            folds=folds.count,
            by_depth={str(depth): loss for depth, loss in choice.by_depth.items()},
        )
    choice = choice or Choice(
        grid.depths[0] if len(grid.depths) == 1 else 0,
        grid.leaf_sizes[0],
        grid.shrinkages[0],
        0.0,
        0.0,
        {},
        1.0,
        0.0,
    )
    with ThreadPoolExecutor(options.workers) as pool:
        rules = growth.rules(choice.max_depth, choice.min_leaf)
        tree = growth.tree(rules, pool, options.workers)
    numbers = tree.leaves()
    leaf = rows.features.ends(tree, rows.arrays.empty(rows.count, np.int32))
    probability = rows.arrays.empty(rows.count, np.float64)
    for own in rows.blocks():
        leaf[own] = numbers[leaf[own]]
    count = int(numbers.max()) + 1
    maps = fit_maps(rows, leaf, count, pooled, choice.shrinkage, options.map)
    if growth.own and options.map in ("platt", "beta") and count > 1:
        maps = maps.composed(choice.slope, choice.intercept)
    part = PartitionPart(
        tree=described_tree(tree, growth.rows.size, growth.features),
        maps=maps.described(rows.unit, rows.size),
    )
    for own in rows.blocks():
        probability[own] = maps.probabilities(rows.score[own], leaf[own])
    return Found(
        [part],
        None,
        probability,
        leaf,
        choice.max_depth,
        choice.min_leaf,
        choice.shrinkage,
        checked,
    )


def _figures(
    rows: HetcalRows,
    moved: HetcalRows,
    train: HetcalRows | None,
    options: HetcalOptions,
    found: Found,
    pooled: Floats,
) -> HetcalFit:
    probability = found.probability
    np.clip(probability, options.clip, 1.0 - options.clip, out=probability)
    gaps = cell_gaps(probability, rows.label, rows.mass, found.leaf)
    known = rows.options.scale != "raw"
    grown = train or rows
    return HetcalFit(
        rows=rows.unit.amount(rows.total),
        positives=rows.unit.amount(rows.hits),
        clipped=rows.clipped,
        leaves=sum(len(part.maps) for part in found.parts),
        max_depth=found.max_depth,
        min_leaf=found.min_leaf,
        shrinkage=found.shrinkage,
        in_sample=Losses(
            scores=mean_loss(rows, rows.score) if known else None,
            pooled=mean_loss(moved, moved.moved(*pooled.tolist()).score),
            calibrated=loss_of_probabilities(rows, probability),
        ),
        cross_validated=found.checked,
        max_gap=gaps.largest,
        mean_gap=gaps.mean,
        cells=gaps.cells,
        growth_rows=grown.unit.amount(grown.total),
        exact_arithmetic=rows.unit.exact,
    )


def _columns(rows: HetcalRows) -> dict[str, Column]:
    options = rows.options
    columns = {
        "score": Column(options.score, rows.dtype, scale=options.scale),
        "label": Column(options.label, positive=options.positive),
    }
    if options.weight is not None:
        columns["weight"] = Column(options.weight, kind=options.weight_kind)
    for place, column in enumerate(rows.features.columns, 1):
        columns[f"feature_{place}"] = column
    return columns


def _origin(rows: HetcalRows, train: HetcalRows | None, asked: HetcalOptions) -> Provenance | None:
    """Return what a model says of its origin."""
    if asked.provenance == "none":
        return None
    names = (
        "partition", "criterion", "max_depth", "min_leaf", "shrinkage", "trees", "map",
        "precalibrate", "clip", "max_bins", "groups", "time", "seed",
    )  # fmt: skip
    chosen = {name: getattr(asked, name) for name in names}
    options: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    options |= {"on_missing": rows.options.on_missing, "unlabelled": rows.options.unlabelled}
    files = list(rows.files)
    if train is not None:
        options["train_data_hash"] = train.fingerprint
        files += train.files
    made = Provenance(__version__, options, rows.count, rows.fingerprint)
    return structs.replace(made, files=files) if asked.provenance == "names" else made
