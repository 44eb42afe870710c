"""A search that goes on from what is known: all of it is repeated, and only new questions are asked."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Q = TypeVar("Q")
R = TypeVar("R")


@dataclass(frozen=True)
class Open(Generic[Q]):
    """Questions whose answers are not known yet."""

    questions: list[Q]


def replayed(
    search: Generator[list[Q], list[Any], R],
    known: Mapping[Q, Any],
    take: Callable[[Q, Any], Any],
) -> Open[Q] | R:
    """Return the result of a search, or the first questions that nobody has answered yet.

    Parameters
    ----------
    search
        Yields lists of questions (`calibkit.maths.questions.in_step`); a function of its answers.
    known
        Answers by question.
    take
        Makes of an answer what the search is sent.
    """
    try:
        questions = next(search)
        while True:
            missing = [question for question in questions if question not in known]
            if missing:
                return Open(list(dict.fromkeys(missing)))
            questions = search.send([take(one, known[one]) for one in questions])
    except StopIteration as end:
        result: R = end.value
        return result
