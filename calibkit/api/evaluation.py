"""`evaluate`: metrics of scores, decisions and class probabilities."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from calibkit.api.options import (
    Missing,
    Scale,
    WeightKind,
    at_work,
    open_model,
    tell,
    whole,
)
from calibkit.errors import UsageError
from calibkit.files.frames import Frame, Names, names, open_frame
from calibkit.metrics import evaluate as evaluation
from calibkit.metrics.result import Metrics
from calibkit.metrics.settings import read_bounds, read_metrics, read_prevalence, read_shares
from calibkit.metrics.spec import EvaluateSpec
from calibkit.metrics.views import Settings
from calibkit.models import Model
from calibkit.raters.spec import read_votes
from calibkit.rows.columns import ColumnOptions

#: Bounds or shares: one or several, as numbers (by their shortest decimal) or text.
Numbers = float | str | Sequence[float | str]


def evaluate(
    frame: Frame,
    *,
    scores: Names | None = None,
    baseline: str | None = None,
    scale: Scale = "probability",
    label: str = "label",
    positive: str | None = None,
    unlabelled: Missing = "error",
    uncertainty: str | None = None,
    weight: str | None = None,
    weight_kind: WeightKind = "frequency",
    groups: str | None = None,
    probs: Names | None = None,
    counts: str | None = None,
    ensemble: bool = False,
    alpha0: Names | None = None,
    disagreement: str | None = None,
    class_disagreement: str | None = None,
    top: Numbers | None = None,
    top_by: str | None = None,
    by: str | None = None,
    min_rows: int = 100,
    bins: int = 15,
    bin_strategy: Literal["equal-width", "equal-mass", "range"] = "equal-width",
    recall_at_precision: Numbers | None = None,
    precision_at_recall: Numbers | None = None,
    boundary: Model | str | os.PathLike[str] | None = None,
    decision: str | None = None,
    grid: Frame | None = None,
    grid_score: str | None = None,
    metrics: Names | None = None,
    prevalence: float | str | None = None,
    confidence: float = 0.95,
    intervals: bool = True,
    on_missing: Missing = "error",
    seed: int = 0,
    threads: int | None = None,
) -> Metrics:
    """Judge scores by labels: ranking, calibration and decisions, with intervals.

    Parameters
    ----------
    frame
        Rows with scores and a label 0/1; or class probabilities (`probs`) with a label or votes.
    scores, baseline
        The score columns (None: ``"score"``); the one that others are compared with (None: the
        first).
    boundary, decision, grid, grid_score
        Decisions to judge, of a model (or its file) or a column; a grid of `calibkit.bin`.
    probs, counts, ensemble, alpha0, disagreement, class_disagreement
        Class probabilities (patterns), and the votes of raters that judge them.
    top, top_by, by, min_rows
        Slices: shares of the rows with the highest scores, the values of a column.
    metrics, bins, bin_strategy, recall_at_precision, precision_at_recall, prevalence
        Which metrics (None: all), and what shapes them.
    confidence, intervals, groups, weight, weight_kind
        Of the intervals; rows that belong together; weights.
    scale, label, positive, unlabelled, uncertainty, on_missing, seed, threads
        As the options of ``calibkit evaluate``, which docs/evaluate.md explains.

    Returns
    -------
    Metrics
        The content of metrics.json: ``metrics[score][slice][metric]``, ``intervals``,
        ``differences``; ``to_json()`` are the bytes that ``calibkit evaluate`` writes.

    Raises
    ------
    UsageError
        An option, a column or a pair of options that is impossible.
    DataError
        Values that are missing, out of range or of the wrong type.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> found = ck.evaluate(rows, scores=["score"], metrics=["auc", "log_loss"])
    >>> round(found.metrics["score"]["all"]["auc"], 2)
    0.83
    """
    for option, number, least in (
        ("--min-rows", min_rows, 0), ("--bins", bins, 1), ("--seed", seed, 0),
    ):  # fmt: skip
        whole(option, number, least)
    if (probs or counts) and (scores or (baseline and counts is None)):
        raise UsageError("--probs and --score: evaluate one of them at a time.")
    patterns = names(probs)
    votes = read_votes(counts, ensemble, names(alpha0), disagreement, class_disagreement, baseline)
    if votes is not None:
        patterns, baseline = patterns or ["prob_*"], None
    first = [baseline] if baseline else []
    columns = list(dict.fromkeys([*first, *(names(scores) or ["score"])]))
    bounds = read_bounds(_texts(recall_at_precision), _texts(precision_at_recall))
    spec = EvaluateSpec(
        scores=tuple(columns),
        columns=ColumnOptions(
            score=columns[0],
            scale=scale,
            label=label,
            positive=positive,
            unlabelled=unlabelled,
            uncertainty=uncertainty,
            weight=weight,
            on_missing=on_missing,
        ),
        metrics=read_metrics(names(metrics), bounds),
        settings=Settings(
            scale=scale,
            bins=bins,
            strategy=bin_strategy,
            precisions=tuple(bounds["recall_at_precision"]),
            recalls=tuple(bounds["precision_at_recall"]),
            weighted=weight is not None,
            weight_kind=weight_kind,
            prevalence=None if prevalence is None else read_prevalence(str(prevalence)),
            threads=at_work(threads),
        ),
        tops=read_shares(_texts(top)),
        top_by=top_by,
        by=by,
        min_rows=min_rows,
        boundary=None if boundary is None else open_model(boundary),
        decision=decision,
        grid=None if grid is None else open_frame(grid, "grid"),
        grid_score=grid_score,
        groups=groups,
        intervals=intervals,
        confidence=confidence,
        seed=seed,
        probs=tuple(patterns),
        votes=votes,
    )
    found = evaluation.evaluate(open_frame(frame), spec)
    tell(found.warnings)
    return found.metrics


def _texts(value: Numbers | None) -> list[str]:
    """Return numbers as they would be typed."""
    if value is None:
        return []
    return [str(value)] if isinstance(value, str | int | float) else [str(one) for one in value]
