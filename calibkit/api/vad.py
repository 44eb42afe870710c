"""`fit_vad`: scores without the bias of selection, by replicates of the model."""

from __future__ import annotations

import os
from typing import Literal

from calibkit.api.options import (
    Missing,
    Provenance,
    Scale,
    at_work,
    chosen,
    delivered,
    open_model,
    tagged,
    whole,
)
from calibkit.files.frames import Frame, Names, names, open_frame
from calibkit.models import Model
from calibkit.vad import fit
from calibkit.vad.model import VadModel
from calibkit.vad.rows import MemberOptions
from calibkit.vad.spec import VadSpec
from calibkit.vad.summary import read_vad_rows


def fit_vad(
    frame: Frame,
    *,
    members: Names | None = None,
    link: Literal["logit", "identity"] = "logit",
    replicates: Literal["exchangeable", "bootstrap"] = "exchangeable",
    min_rows: int = 100,
    calibrator: Model | str | os.PathLike[str] | None = None,
    calibrated: str | None = None,
    train_input: Frame | None = None,
    scale: Scale = "probability",
    by: str | None = None,
    weight: str | None = None,
    on_missing: Missing = "error",
    provenance: Provenance = "hash",
    tags: dict[str, str] | None = None,
    threads: int | None = None,
) -> VadModel:
    """Shrink scores so that the highest of them are not too high: variance-adjusting debiasing.

    Parameters
    ----------
    frame
        Unlabelled rows of the distribution that the model will be applied to, with the scores of
        at least two replicate predictors.
    members
        Their columns (names and globs; None: ``"score_*"``), first the one in service.
    link, replicates
        The scale of comparison; whether all members are made alike (``"exchangeable"``) or the
        others are refits of the first on bootstrap samples.
    calibrator, calibrated, train_input
        In tandem: a calibrator to come first (a model or its file) or the column of calibrated
        probabilities; rows distributed like the training rows.
    by, min_rows
        A column whose values are shrunk each by itself; those with fewer rows as all together.
    scale, weight, on_missing, provenance, tags, threads
        As the options of ``calibkit vad``, which docs/vad.md explains.

    Returns
    -------
    VadModel
        The model that ``calibkit vad`` writes for the same rows and options, byte for byte.

    Raises
    ------
    UsageError
        An option, a column or a pair of options that is impossible.
    DataError
        Values that are missing, infinite, out of range or of the wrong type.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_selection(2_000, train_rows=500, seed=1)
    >>> model = ck.fit_vad(rows)
    >>> 0 < model.lambda_ < 1
    True
    """
    chosen("--provenance", provenance, Provenance)
    whole("--min-rows", min_rows, 2)
    spec = VadSpec(
        link=link,
        replicates=replicates,
        min_rows=min_rows,
        calibrator=None if calibrator is None else open_model(calibrator),
        threads=at_work(threads),
    )
    columns = MemberOptions(
        members=tuple(names(members)) or ("score_*",),
        scale=scale,
        calibrated=calibrated,
        weight=weight,
        by=by,
        on_missing=on_missing,
    )
    train = None if train_input is None else open_frame(train_input, "train_input")
    source = open_frame(frame)
    rows = read_vad_rows(source, columns, spec, train)
    made = fit.fit_vad(rows, spec, provenance=provenance, tags=tagged(tags))
    beside = rows.train.told() if rows.train is not None else ()
    return delivered(made.model, source, (*rows.test.told(), *beside, *made.warnings))
