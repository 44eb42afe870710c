"""`fit_hetcal`: a partition of the rows by their features, each part with a map of its own."""

from __future__ import annotations

from typing import Literal

from calibkit.api.options import (
    Missing,
    Provenance,
    Scale,
    WeightKind,
    at_work,
    chosen,
    delivered,
    tagged,
    whole,
)
from calibkit.files.frames import Frame, Names, names, open_frame
from calibkit.hetcal.model import HetcalModel
from calibkit.hetcal.run import fit_source
from calibkit.hetcal.spec import HetcalSpec
from calibkit.rows.columns import ColumnOptions


def fit_hetcal(
    frame: Frame,
    *,
    train: Frame | None = None,
    partition: Literal["tree", "forest", "boosted"] = "tree",
    criterion: Literal["gini", "entropy", "auc"] = "gini",
    max_depth: int | None = None,
    min_leaf: int | None = None,
    trees: int | None = None,
    max_bins: int | None = None,
    map: Literal["platt", "beta", "isotonic", "histogram"] = "platt",
    shrinkage: float | None = None,
    precalibrate: Literal["platt", "none"] = "platt",
    clip: float = 0.0,
    features: Names | None = None,
    score: str = "score",
    scale: Scale = "probability",
    label: str = "label",
    positive: str | None = None,
    unlabelled: Missing = "error",
    weight: str | None = None,
    weight_kind: WeightKind = "frequency",
    groups: str | None = None,
    time: str | None = None,
    on_missing: Missing = "error",
    provenance: Provenance = "hash",
    tags: dict[str, str] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> HetcalModel:
    """Partition the rows by their features, and calibrate each part by a map of its own.

    Parameters
    ----------
    frame
        Calibration rows with a score, a label 0/1 and features.
    train
        Rows to grow the partition on; None: the calibration rows, cross-fitted.
    partition, criterion, max_depth, min_leaf, trees, max_bins
        The partition; what is None is chosen by cross-validation.
    map, shrinkage, precalibrate, clip
        The maps of the leaves.
    features
        Feature columns (names and globs; None: ``"feature_*"``): numbers, text or categories.
    score, scale, label, positive, unlabelled, weight, weight_kind, groups, time
        The other columns, and what they hold.
    on_missing, provenance, tags, seed, threads
        As the options of ``calibkit hetcal``, which docs/hetcal.md explains.

    Returns
    -------
    HetcalModel
        The model that ``calibkit hetcal`` writes for the same rows and options, byte for byte.

    Raises
    ------
    UsageError
        An option, a column or a pair of options that is impossible.
    DataError
        Values that are missing, out of range or of the wrong type; rows of one class.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_partitions(2_000, seed=1)
    >>> model = ck.fit_hetcal(rows, max_depth=1, min_leaf=100, shrinkage=0.0)
    >>> model.tree[0].feature, len(model.maps)
    ('feature_pattern', 2)
    """
    chosen("--provenance", provenance, Provenance)
    whole("--seed", seed, 0)
    spec = HetcalSpec(
        partition=partition,
        criterion=criterion,
        max_depth=max_depth,
        min_leaf=min_leaf,
        shrinkage=shrinkage,
        trees=trees,
        map=map,
        precalibrate=precalibrate,
        clip=clip,
        max_bins=max_bins,
        groups=groups,
        time=time,
        seed=seed,
        threads=at_work(threads),
    )
    columns = ColumnOptions(
        score=score,
        scale=scale,
        label=label,
        positive=positive,
        unlabelled=unlabelled,
        weight=weight,
        weight_kind=weight_kind,
        on_missing=on_missing,
    )
    source = open_frame(frame)
    run = fit_source(
        source,
        None if train is None else open_frame(train, "train"),
        columns,
        names(features) or ["feature_*"],
        spec,
        provenance=provenance,
        tags=tagged(tags),
    )
    return delivered(run.fitted.model, source, run.warnings)
