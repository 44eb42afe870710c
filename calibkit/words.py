"""What messages and views say of options, in the words of Python.

They are written for the command line: ``--score-bins 0``; in Python it is ``score_bins=0``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from calibkit.errors import CalibkitError

#: Options that have another name in Python; functions may have more of them.
_RENAMED = {
    "tag": "tags",
    "no-intervals": "intervals=False",
    "help-all": "docs/boundary.md",
}

#: A word with what it takes: ``cost:3.5,0.25``.
_WITH = r"[a-z][\w-]*:[\w.-]+(?:,[\w.-]+)*(?<!\.)"

#: A value that stands behind an option: a number or several, quoted text, a placeholder, or one of
#: the words that options take.  Any other word goes on with the sentence.
_VALUE = (
    rf"-?\d[\w.]*(?:,\d[\w.]*)*(?<!\.)|'[^']*'|[A-Z]{{4,}}\b|{_WITH}|"
    r"(?:probability|percent|logit|raw|drop|null|tie|block|equal-(?:mass|width)|uncertainty-score|"
    r"score-uncertainty|sampling|frequency|each|overall|auto|identity|row-number|smoothed|"
    r"clip|thirds|same|forest|vector|prior|decision(?:_NAME)?)\b"
)
#: What goes on with a sentence where the name of a method or a measure could stand.
_SENTENCE = "(?:is|and|or|takes?|needs?|goes|cannot|has|of|with|to|for|in|by|that|says|fits)"
_OPTION = re.compile(
    r"`(?!--[a-z0-9-]+`)[^`]*`|"  # a command line that is quoted as one
    rf"(?<![\w-])--(?:(?P<option>method|maximize|minimize) "
    rf"(?P<method>{_WITH}|(?!{_SENTENCE}\b)[a-z][\w-]*)|"
    rf"(?P<name>[a-z][a-z0-9-]*)(?: (?P<value>{_VALUE}))?)"
)


def python_words(text: str, renamed: Mapping[str, str] | None = None) -> str:
    """Return a message with the options of the command line as arguments of Python.

    One in Python's words already stays as it is; `renamed`: options that the function calls otherwise.

    >>> python_words("--precision is 90; use --scale logit, or leave --score-bins 0 out")
    "precision is 90; use scale='logit', or leave score_bins=0 out"
    """
    names = {**_RENAMED, **(renamed or {})}

    def argument(found: re.Match[str]) -> str:
        option = found["option"] or found["name"]
        if option is None:
            return found[0]
        name = names.get(option, option.replace("-", "_"))
        value = found["method"] or found["value"]
        if value is None:
            return name
        if "," in value and value[0].isdigit():
            return f"{name}=({value.replace(',', ', ')})"
        bare = value[0] in "'-0123456789" or value.isupper()
        return f"{name}={value}" if bare else f"{name}={value!r}"

    return _OPTION.sub(argument, text)


@contextmanager
def in_python(renamed: Mapping[str, str] | None = None) -> Iterator[None]:
    """Let errors leave in the words of Python; see `python_words`."""
    try:
        yield
    except CalibkitError as error:
        error.message = python_words(error.message, renamed)
        raise
