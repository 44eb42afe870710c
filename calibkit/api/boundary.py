"""`fit_boundary`: a decision boundary over score and uncertainty."""

from __future__ import annotations

import os
from typing import Literal

from calibkit.api.options import (
    Missing,
    Order,
    Provenance,
    Scale,
    Strategy,
    WeightKind,
    at_work,
    chosen,
    delivered,
    open_model,
    tagged,
    whole,
)
from calibkit.boundary import run
from calibkit.boundary.certificate_tests import read_confidence
from calibkit.boundary.model import BoundaryModel
from calibkit.boundary.spec import BoundarySpec
from calibkit.boundary.target import read_target
from calibkit.files.frames import Frame, open_frame
from calibkit.files.sources import Source
from calibkit.makers import model_hash
from calibkit.models import Model
from calibkit.rows.columns import ColumnOptions

Randomise = Literal["block", "tie"]


def fit_boundary(
    frame: Frame,
    *,
    precision: float | str | None = None,
    recall: float | str | None = None,
    fpr: float | str | None = None,
    capacity: float | str | None = None,
    maximize: str | None = None,
    minimize: str | None = None,
    prevalence: float | str | None = None,
    method: str = "auto",
    uncertainty_bins: int | Literal["auto"] | None = None,
    score_bins: int | None = None,
    strategy: Strategy = "equal-mass",
    order: Order = "uncertainty-score",
    randomise: Randomise = "block",
    folds: int = 5,
    confidence: float | str | None = None,
    test: Frame | None = None,
    score: str = "score",
    scale: Scale = "probability",
    label: str = "label",
    positive: str | None = None,
    unlabelled: Missing = "error",
    uncertainty: str | None = None,
    value: str | None = None,
    weight: str | None = None,
    weight_kind: WeightKind = "frequency",
    groups: str | None = None,
    time: str | None = None,
    by: str | None = None,
    bound: Literal["overall", "each"] = "overall",
    min_group_positives: int | None = None,
    calibrator: Model | str | os.PathLike[str] | None = None,
    on_missing: Missing = "error",
    provenance: Provenance = "hash",
    tags: dict[str, str] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> BoundaryModel:
    """Fit a decision boundary: in each uncertainty level, the rows from one score threshold up.

    Parameters
    ----------
    frame
        Rows with a score, a label 0/1 and, for several levels, an uncertainty (larger = less
        certain); or a grid of their counts, as `calibkit.bin` makes it.
    precision, recall, fpr, capacity, maximize, minimize
        The objective, exactly one: most recall at a precision of at least this, most precision at
        a recall of at least this, most recall at a false positive rate of at most this or with at
        most so many rows (below 1: this share of them), the highest value of a measure such as
        ``"f1"``, the least cost such as ``"cost:1,20"``.  A float stands for its shortest decimal:
        0.9 is nine tenths, and the bound is compared in whole numbers.
    method, uncertainty_bins, score_bins, strategy, order, randomise, folds, confidence
        How it is fitted; ``"auto"`` chooses by cross-validation.  `confidence` certifies the bound.
    test
        Labelled rows to judge it on.
    value, prevalence, by, bound, min_group_positives
        Recall counts the sum of a column; classes reweighted to a base rate; thresholds for each
        value of a column, with one bound for all or for each.
    score, scale, label, positive, unlabelled, uncertainty, weight, weight_kind, groups, time
        The columns, and what they hold.
    calibrator
        The model (or its file) that made the score column: scores of any other are refused from
        then on.
    on_missing, provenance, tags, seed, threads
        As the options of ``calibkit boundary``, which docs/boundary.md explains.

    Returns
    -------
    BoundaryModel
        The model that ``calibkit boundary`` writes for the same rows and options, byte for byte.

    Raises
    ------
    UsageError
        An option, a column or a pair of options that is impossible.
    DataError
        Values that are missing, out of range or of the wrong type; no positive row.
    InfeasibleError
        No boundary selects a row and meets the bound, or nothing can be certified.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(5_000, seed=1)
    >>> model = ck.fit_boundary(rows, precision=0.8, method="exact", uncertainty_bins=2)
    >>> model.fit.in_sample.precision >= 0.8, len(model.score_thresholds)
    (True, 2)
    """
    chosen("--strategy", strategy, Strategy)
    chosen("--order", order, Order)
    chosen("--randomise", randomise, Randomise)
    for option, number in (("--folds", folds), ("--score-bins", score_bins), ("--seed", seed)):
        whole(option, number, 0)
    auto_levels = uncertainty_bins == "auto"
    whole("--uncertainty-bins", None if auto_levels else uncertainty_bins, 1)
    objective = {
        "precision": precision,
        "recall": recall,
        "fpr": fpr,
        "capacity": capacity,
        "maximize": maximize,
        "minimize": minimize,
    }
    spec = BoundarySpec(
        target=read_target(objective, value=value, prevalence=prevalence),
        method=method,
        uncertainty_bins=uncertainty_bins if isinstance(uncertainty_bins, int) else None,
        score_bins=score_bins,
        strategy=strategy,
        order=order,
        randomise=randomise,
        folds=folds,
        confidence=read_confidence(confidence),
        groups=groups,
        time=time,
        by=by,
        bound=bound,
        min_group_positives=min_group_positives,
        seed=seed,
        threads=at_work(threads),
    )
    columns = ColumnOptions(
        score=score,
        scale=scale,
        label=label,
        positive=positive,
        unlabelled=unlabelled,
        uncertainty=uncertainty,
        weight=weight,
        weight_kind=weight_kind,
        on_missing=on_missing,
    )
    chosen("--provenance", provenance, Provenance)
    source = open_frame(frame)
    model, remarks = _fit(source, test, columns, spec, auto_levels, provenance, tagged(tags))
    said = {} if calibrator is None else {"score": model_hash(open_model(calibrator))}
    return delivered(model, source, remarks, said)


def _fit(
    source: Source,
    test: Frame | None,
    columns: ColumnOptions,
    spec: BoundarySpec,
    auto_levels: bool,
    provenance: str,
    tags: dict[str, str],
) -> tuple[BoundaryModel, list[str]]:
    """Return the model and what the user should be told."""
    if auto_levels:
        run.check_auto_levels(spec)
    data = run.read_boundary_rows(source, columns, spec)
    remarks = list(getattr(data, "warnings", ()))
    judge = None
    if test is not None:
        own, _ = run.columns_to_judge(data, columns, "float64")
        judge = run.read_test_rows(open_frame(test, "test"), own, spec)
        remarks += [f"--test: {remark}" for remark in judge.warnings]
    counted = run.count(data, spec, auto_levels=auto_levels)
    fitted = run.fit(
        counted, spec, auto_levels=auto_levels, test=judge, provenance=provenance, tags=tags
    )
    return fitted.model, [*remarks, *fitted.warnings]
