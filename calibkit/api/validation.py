"""`validate`: whether rows are what the other functions need."""

from __future__ import annotations

from calibkit.api.functions import python_function
from calibkit.files.sources import Source
from calibkit.options.validate import ValidateOptions
from calibkit.validation import run
from calibkit.validation.report import Report


@python_function(ValidateOptions)
def validate(source: Source, options: ValidateOptions) -> Report:
    """Look at rows as the other functions would, and report all that is wrong or odd with them.

    Returns
    -------
    Report
        ``ok`` (no errors), ``findings`` (``level``, ``check``, ``message``, ``column``, ``rows``,
        ``first_rows``) and ``columns``, see docs/validate.md.

    Examples
    --------
    >>> import calibkit as ck
    >>> report = ck.validate({"score": [0.2, 1.5, None], "label": [0, 1, 1]})
    >>> report.ok, [(one.check, one.column, one.first_rows) for one in report.findings]
    (False, [('missing', 'score', [3]), ('range', 'score', [2])])
    """
    return run.validate(options, source)
