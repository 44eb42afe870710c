"""Fitting: rows to a partition, its maps and the model."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.methods.hetcal import in_turn, trees_fit
from calibkit.methods.hetcal.maps import (
    Found,
    loss_of_probabilities,
    mean_loss,
    pooled_line,
)
from calibkit.methods.hetcal.model import HetcalFit, HetcalModel, Line, Losses
from calibkit.methods.hetcal.payload import growth_of
from calibkit.methods.hetcal.rows import Folds, HetcalRows, need_both_classes
from calibkit.models.model import Column
from calibkit.numerics.row_hash import hash_text
from calibkit.numerics.streams import folds_of_keys
from calibkit.options.hetcal import FOLDS, HetcalOptions
from calibkit.summaries.runs import Fitted, provenance
from calibkit_kernels import leaf_maps as kernels

Floats = NDArray[np.float64]

#: Equal bins of the probability in which it is checked.
_BINS = 10


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
    if train is not None:
        need_both_classes(train)
    folds, warnings = _folds(rows, options)
    before, moved = None, rows
    if options.precalibrate == "platt":
        slope, intercept = pooled_line(rows).tolist()
        before, moved = Line(a=slope, b=intercept), rows.moved(slope, intercept)
    pooled = pooled_line(moved)
    if options.in_turn:
        found = in_turn.fit(moved, options, folds)
    else:
        # Trees look at scores as they are, so that they need no map to be fitted before.
        growth = growth_of(train or rows, options, own=train is None)
        found = trees_fit.fit(moved, growth, options, folds, pooled)
    model = HetcalModel(
        kind=HetcalModel.KIND,
        version=HetcalModel.VERSION,
        columns=_columns(rows),
        partition=options.partition,
        criterion="log-loss" if options.in_turn else options.criterion,
        map=options.map,
        precalibrate=before,
        pooled=Line(a=float(pooled[0]), b=float(pooled[1])),
        clip=options.clip,
        fit=_figures(rows, moved, train, options, found, pooled),
        tags=dict(options.tags or {}),
    )
    if options.partition == "tree":
        model.tree, model.maps = found.parts[0].tree, found.parts[0].maps
    else:
        model.partitions = found.parts
    model.final = found.final or msgspec.UNSET
    files = [*rows.files, *(() if train is None else train.files)]
    shaped = _shaped(rows, train, options)
    model.provenance = provenance(options, shaped, rows.count, hash_text(rows.totals.hash), files)
    return Fitted(model, tuple(warnings))


def _folds(rows: HetcalRows, options: HetcalOptions) -> tuple[Folds | None, list[str]]:
    """Return the folds of cross-validation; None, and why, where rows or values are too few."""
    hits, why = rows.totals.positives, ""
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
    largest, mean, cells = cell_gaps(probability, rows.label, rows.mass, found.leaf)
    known = rows.options.scale != "raw"
    grown = train or rows
    return HetcalFit(
        rows=rows.unit.amount(rows.totals.total),
        positives=rows.unit.amount(rows.totals.hits),
        clipped=rows.totals.clipped,
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
        max_gap=largest,
        mean_gap=mean,
        cells=cells,
        growth_rows=grown.unit.amount(grown.totals.total),
        exact_arithmetic=rows.unit.exact,
    )


def cell_gaps(
    probability: Floats, label: NDArray[np.uint8], weight: Floats, leaf: NDArray[np.int32]
) -> tuple[float, float, int]:
    """Return how far mean probability and positive rate are apart, cell by cell.

    A cell is a leaf and one of ten equal bins of [0, 1]; empty ones are left out.

    Returns
    -------
    largest, mean, cells
        The largest ``|mean probability - positive rate|``, the sum over the cells of their share of
        all weight times their gap, and how many cells there are.

    Notes
    -----
    Multicalibration: Hebert-Johnson, Kim, Reingold, Rothblum, "Multicalibration: calibration for the
    (computationally-identifiable) masses", section 2.
    """
    leaves = int(leaf.max()) + 1 if leaf.size else 0
    room = np.zeros((leaves * _BINS, 3))
    largest, mean, cells = kernels.cell_gaps(probability, label, weight, leaf, _BINS, 0.0, room)
    return float(largest), float(mean), int(cells)


def _columns(rows: HetcalRows) -> dict[str, Column]:
    options = rows.options
    columns = {
        "score": Column(options.score, rows.totals.dtype, scale=options.scale),
        "label": Column(options.label, positive=options.positive),
    }
    if options.weight is not None:
        columns["weight"] = Column(options.weight, kind=options.weight_kind)
    for place, column in enumerate(rows.features.columns, 1):
        columns[f"feature_{place}"] = column
    return columns


def _shaped(rows: HetcalRows, train: HetcalRows | None, options: HetcalOptions) -> dict[str, Any]:
    """Return what shaped a model."""
    names = (
        "partition", "criterion", "max_depth", "min_leaf", "shrinkage", "trees", "map",
        "precalibrate", "clip", "max_bins", "groups", "time", "seed",
    )  # fmt: skip
    shaped = {name: getattr(options, name) for name in names}
    shaped = {name: value for name, value in shaped.items() if value is not None}
    shaped |= {"on_missing": rows.options.on_missing, "unlabelled": rows.options.unlabelled}
    if train is not None:
        shaped["train_data_hash"] = hash_text(train.totals.hash)
    return shaped
