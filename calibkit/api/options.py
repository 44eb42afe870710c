"""What the functions share: options checked as the command line checks them, warnings."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any, Literal, TypeVar, get_args

from calibkit.api.words import python_words
from calibkit.errors import CalibkitWarning, UsageError
from calibkit.files.frames import Names, names
from calibkit.files.sources import Source
from calibkit.makers import record_makers
from calibkit.models import Model, load
from calibkit.threads import later, thread_count, warm_up

M = TypeVar("M", bound=Model)

Scale = Literal["probability", "logit", "raw"]
WeightKind = Literal["frequency", "sampling"]
Missing = Literal["error", "drop"]
Provenance = Literal["hash", "names", "none"]
Strategy = Literal["equal-mass", "equal-width"]
Order = Literal["uncertainty-score", "score-uncertainty"]


def open_model(model: Model | str | os.PathLike[str]) -> Model:
    """Return a model that is given as one, or as its file."""
    return model if isinstance(model, Model) else load(os.fspath(model))


def chosen(option: str, value: object, choices: Any) -> None:
    """Refuse a value that is none of a ``Literal``'s.

    Raises
    ------
    UsageError
        If it is none.
    """
    known = get_args(choices)
    if value not in known:
        raise UsageError(f"{option} {value!r} is not known; use one of {', '.join(known)}.")


def whole(option: str, value: object, least: int) -> None:
    """Refuse what is no whole number from `least` up; None passes.

    Raises
    ------
    UsageError
        If it is none.
    """
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int) or value < least
    ):
        raise UsageError(f"{option} is {value!r}; expected a whole number, at least {least}.")


def at_work(threads: int | None) -> int:
    """Return how many threads may work, and begin to load what kernels need."""
    whole("--threads", threads, 1)
    count = thread_count(threads)
    later(count, warm_up)
    return count


def tagged(tags: dict[str, str] | None) -> dict[str, str]:
    """Return the tags of a model; refuse what is no text.

    Raises
    ------
    UsageError
        A key or a value that is no text.
    """
    for key, value in (tags or {}).items():
        if not isinstance(key, str) or not isinstance(value, str) or not key:
            raise UsageError(f"tags: {key!r}: {value!r} is no pair of texts.")
    return dict(tags or {})


def tell(remarks: Iterable[str], depth: int = 3) -> None:
    """Warn of each remark once, as the caller of the public function `depth` calls up."""
    for remark in dict.fromkeys(remarks):
        warnings.warn(python_words(remark), CalibkitWarning, stacklevel=depth)


def delivered(
    model: M, source: Source, remarks: Iterable[str], said: dict[str, str] | None = None
) -> M:
    """Return a fitted model that knows which models made its columns, after the warnings."""
    record_makers(model, source, said)
    tell(remarks, depth=4)
    return model


def one_pattern(probs: Names | None) -> str:
    """Return the pattern of one predictor's class probabilities.

    Raises
    ------
    UsageError
        Several patterns.
    """
    found = names(probs) or ["prob_*"]
    if len(found) > 1:
        raise UsageError("a fit takes one predictor: give --probs one pattern.")
    return found[0]
