"""How a watch is shown: one sentence that says what to do, then a line a promise."""

from __future__ import annotations

from calibkit.methods.watch.watch import Watched
from calibkit.models.page import Page

#: Of how many promises a summary tells each.
_MOST_TOLD = 12


def headline(found: Watched) -> str:
    """Return in a few words what was found."""
    names = ", ".join(dict.fromkeys(test.name for test in found.tests))
    count = len(found.state.nights)
    nights = f"{count} night{'s' * (count != 1)}"
    return f"{names}, {nights}, {'alarm' if found.alarm else 'no alarm'}"


def lines(found: Watched) -> list[str]:
    """Return what to do, and where each promise stands."""
    tests = [test for test in found.tests if test.estimate is not None]
    told = tests
    if len(tests) > _MOST_TOLD:  # those that are refuted, or nearest to it
        told = sorted(tests, key=lambda test: -test.highest)[:_MOST_TOLD]
    return [
        found.advice,
        *(
            f"{test.text}: {test.estimate:.4f} of {test.rows:,} labelled rows, "
            f"between {test.low:.4f} and {test.high:.4f}; e-value {test.e_value:.4g}, alarm at "
            f"{test.threshold:g}."
            for test in told
        ),
        *[f"{len(tests) - _MOST_TOLD} more promises are in the result."] * (told is not tests),
        *(
            f"{one.name} against the fit: {one.moved:.1%} of {one.rows:,} rows moved; e-value "
            f"{one.e_value:.4g}, drift at {one.threshold:g}."
            for one in found.drift
            if one.moved is not None
        ),
    ]


def view(found: Watched, page: Page) -> None:
    """Print what to do, and a table of the promises."""
    page.say(found.advice, "")

    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 4)

    rows: list[list[object]] = []
    for test in found.tests:
        seen = map(rounded, (test.estimate, test.low, test.high))
        rows.append([test.text, *seen, test.rows, float(f"{test.e_value:.4g}"), test.threshold])
    for one in found.drift:
        name, e_value = f"{one.name} moved", float(f"{one.e_value:.4g}")
        rows.append([name, rounded(one.moved), None, None, one.rows, e_value, one.threshold])
    page.table(["promise", "estimate", "low", "high", "rows", "e-value", "alarm at"], rows)
