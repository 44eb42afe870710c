"""Searches as questions and answers: what asks for a function's values need not know who has them.

A search is a generator that yields a question (a point) and is sent the answer (the value there).  In
memory a function answers at once; a fit in rounds writes the question down and answers it later.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")
P = TypeVar("P")
V = TypeVar("V")

#: Yields questions, is sent answers, returns a result.
Search = Generator[Q, A, R]


@dataclass(frozen=True)
class Together:
    """Searches that know nothing of each other.

    Yielded in place of a question; the answer is the list of their results.
    """

    searches: Sequence[Generator[Any, Any, Any]]


def answered(search: Generator[Any, Any, R], answer: Callable[[Any], Any]) -> R:
    """Return the result of a search whose questions a function answers, one after the other."""
    try:
        question = next(search)
        while True:
            if isinstance(question, Together):
                found: Any = [answered(one, answer) for one in question.searches]
            else:
                found = answer(question)
            question = search.send(found)
    except StopIteration as end:
        result: R = end.value
        return result


def in_step(search: Generator[Any, Any, R]) -> Generator[list[Any], list[Any], R]:
    """Ask the questions of a search as lists: those that need not wait for each other are one."""
    try:
        question = next(search)
        while True:
            if isinstance(question, Together):
                found: Any = yield from _abreast(question)
            else:
                (found,) = yield [question]
            question = search.send(found)
    except StopIteration as end:
        result: R = end.value
        return result


def _abreast(together: Together) -> Generator[list[Any], list[Any], list[Any]]:
    """Ask the questions of several searches at the same time, until all have ended."""
    searches = [in_step(one) for one in together.searches]
    results: list[Any] = [None] * len(searches)
    asked: dict[int, list[Any]] = {}

    def go_on(place: int, answers: list[Any] | None) -> None:
        asked.pop(place, None)
        try:
            asked[place] = searches[place].send(answers)  # type: ignore[arg-type]
        except StopIteration as end:
            results[place] = end.value

    for place in range(len(searches)):
        go_on(place, None)
    while asked:
        places = sorted(asked)
        answers = yield [question for place in places for question in asked[place]]
        for place in places:
            size = len(asked[place])
            own, answers = answers[:size], answers[size:]
            go_on(place, own)
    return results


def translated(
    search: Generator[P, V, R], ask: Callable[[P], Q], take: Callable[[P, A], V]
) -> Generator[Q, A, R]:
    """Return a search that asks other questions, of whose answers it makes those that are wanted."""
    try:
        point = next(search)
        while True:
            answer = yield ask(point)
            point = search.send(take(point, answer))
    except StopIteration as end:
        result: R = end.value
        return result
