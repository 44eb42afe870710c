"""`fit_calibrator`: a map from scores, or from class probabilities, to probabilities."""

from __future__ import annotations

from typing import Literal

from calibkit.api.options import (
    Missing,
    Provenance,
    Scale,
    at_work,
    chosen,
    delivered,
    one_pattern,
    tagged,
    whole,
)
from calibkit.calibrators import fit
from calibkit.calibrators.classes import ClassSpec, fit_class_calibrator, refuse_score_options
from calibkit.calibrators.model import CalibratorModel
from calibkit.calibrators.rows import read_calibration_rows
from calibkit.calibrators.spec import CalibratorSpec
from calibkit.errors import UsageError
from calibkit.files.frames import Frame, open_frame
from calibkit.raters.rows import RaterOptions
from calibkit.raters.stored import read_rater_rows
from calibkit.rows.columns import ColumnOptions

#: Penalties of intercept and of weights off the diagonal, or how they are chosen.
Penalties = float | tuple[float, float] | Literal["cv"]


def fit_calibrator(
    frame: Frame,
    *,
    method: str | None = None,
    targets: Literal["smoothed", "mle"] | None = None,
    bins: int | None = None,
    bin_strategy: Literal["equal-mass", "equal-width"] | None = None,
    split: Literal["same", "thirds"] | None = None,
    negatives_kept: float | None = None,
    regularization: Penalties | None = None,
    by: str | None = None,
    min_rows: int = 100,
    clip: float | None = None,
    out_of_range: Literal["error", "clip"] | None = None,
    score: str = "score",
    scale: Scale = "probability",
    probs: str | None = None,
    counts: str | None = None,
    label: str = "label",
    positive: str | None = None,
    unlabelled: Missing = "error",
    weight: str | None = None,
    on_missing: Missing = "error",
    provenance: Provenance = "hash",
    tags: dict[str, str] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> CalibratorModel:
    """Fit a map from scores to probabilities on labelled rows.

    Parameters
    ----------
    frame
        Rows with a score and a label 0/1; or class probabilities (`probs`) with a label or votes.
    method
        ``"beta"`` (None), ``"platt"``, ``"isotonic"``, ``"histogram"``, ``"scaling-binning"``,
        ``"venn-abers"``, ``"temperature"`` or ``"prior-shift"``; of class probabilities
        ``"temperature"`` (None), ``"vector"`` or ``"matrix"``.
    targets, bins, bin_strategy, split, negatives_kept, regularization
        Of the methods that have them.
    by, min_rows
        A column whose values have a map each, those with fewer rows one together.
    clip, out_of_range
        How far results stay inside (0, 1), None: 1 / (rows + 2); what becomes of scores outside.
    score, scale, probs, counts, label, positive, unlabelled, weight
        The columns, and what they hold.
    on_missing, provenance, tags, seed, threads
        As the options of ``calibkit calibrate``, which docs/calibrate.md explains.

    Returns
    -------
    CalibratorModel
        The model that ``calibkit calibrate`` writes for the same rows and options, byte for byte.

    Raises
    ------
    UsageError
        An option, a column or a pair of options that is impossible.
    DataError
        Values that are missing, out of range or of the wrong type; no finite solution.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> model = ck.fit_calibrator(rows, method="isotonic")
    >>> model.fit.log_loss < model.fit.log_loss_before
    True
    """
    chosen("--provenance", provenance, Provenance)
    whole("--seed", seed, 0)
    source = open_frame(frame)
    if probs is not None or counts is not None:
        given = {
            "--targets": targets,
            "--bins": bins,
            "--bin-strategy": bin_strategy,
            "--split": split,
            "--negatives-kept": negatives_kept,
            "--by": by,
            "--clip": clip,
            "--out-of-range": out_of_range,
            "--positive": positive,
            "--weight": weight,
        }
        refuse_score_options(given)
        classes = ClassSpec(
            method=method or "temperature",
            regularization=penalties(regularization or "cv", "--regularization"),
            scale=scale,
            seed=seed,
        )
        roles = RaterOptions(
            probs=(one_pattern(probs),),
            counts=counts,
            label=label,
            scale=scale,
            logits=True,
            on_missing=on_missing,
            unlabelled=unlabelled,
        )
        votes = read_rater_rows(source, roles)
        of_classes = fit_class_calibrator(votes, classes, provenance=provenance, tags=tagged(tags))
        return delivered(of_classes.model, source, (*votes.warnings, *of_classes.warnings))
    if regularization is not None:
        raise UsageError("--regularization goes with --probs, for vector and matrix scaling.")
    spec = CalibratorSpec(
        method=method or "beta",
        targets=targets,
        bins=bins,
        bin_strategy=bin_strategy,
        split=split,
        negatives_kept=negatives_kept,
        by=by,
        min_rows=min_rows,
        clip=clip,
        out_of_range=out_of_range or "error",
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
        on_missing=on_missing,
    )
    rows = read_calibration_rows(source, columns, spec)
    made = fit.fit_calibrator(rows, spec, provenance=provenance, tags=tagged(tags))
    return delivered(made.model, source, (*rows.warnings, *made.warnings))


def penalties(value: Penalties, option: str) -> tuple[float, float] | None:
    """Return one or two penalties as two; None for ``"cv"``, which chooses them.

    Raises
    ------
    UsageError
        For anything but numbers from 0 up.
    """
    if value == "cv":
        return None
    parts = value if isinstance(value, tuple) else (value,)
    numbers = [part for part in parts if isinstance(part, int | float) and 0 <= part < float("inf")]
    if len(numbers) != len(parts) or len(parts) not in (1, 2):
        raise UsageError(f"{option} is {value!r}; expected one number or two from 0 up, or 'cv'.")
    return float(numbers[0]), float(numbers[1]) if len(numbers) == 2 else 0.0
