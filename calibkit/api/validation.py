"""`validate`: whether rows are what the other functions need."""

from __future__ import annotations

from calibkit.api.options import Missing, Scale
from calibkit.files.frames import Frame, Names, names, open_frame
from calibkit.validation import run
from calibkit.validation.report import Report
from calibkit.validation.spec import ValidateSpec


def validate(
    frame: Frame,
    *,
    score: Names | None = None,
    scale: Scale = "probability",
    label: str | None = None,
    positive: str | None = None,
    unlabelled: Missing = "error",
    uncertainty: str | None = None,
    weight: str | None = None,
    groups: str | None = None,
    time: str | None = None,
    by: str | None = None,
    members: Names | None = None,
    probs: Names | None = None,
    counts: str | None = None,
    features: Names | None = None,
    on_missing: Missing = "error",
) -> Report:
    """Look at rows as the other functions would, and report all that is wrong or odd with them.

    Parameters
    ----------
    frame
        Rows.
    score, label, uncertainty, weight, groups, time, by, members, probs, counts, features
        The columns; those that are not named are looked at under their default names, where the
        frame has them.
    scale, positive, unlabelled, on_missing
        What they are claimed to hold, as the options of ``calibkit validate``.

    Returns
    -------
    Report
        ``ok`` (no errors), ``findings`` (``level``, ``check``, ``message``, ``column``, ``rows``,
        ``first_rows``) and ``columns``, see docs/validate.md.

    Raises
    ------
    UsageError
        A column that was named and is not there, or nothing to look at.

    Examples
    --------
    >>> import calibkit as ck
    >>> report = ck.validate({"score": [0.2, 1.5, None], "label": [0, 1, 1]})
    >>> report.ok, [(one.check, one.column, one.first_rows) for one in report.findings]
    (False, [('missing', 'score', [3]), ('range', 'score', [2])])
    """
    spec = ValidateSpec(
        scores=tuple(names(score)),
        scale=scale,
        label=label,
        positive=positive,
        unlabelled=unlabelled,
        uncertainty=uncertainty,
        weight=weight,
        groups=groups,
        time=time,
        by=by,
        members=tuple(names(members)),
        probs=tuple(names(probs)),
        counts=counts,
        features=tuple(names(features)),
        on_missing=on_missing,
    )
    return run.validate(open_frame(frame), spec)
