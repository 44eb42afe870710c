"""How a watch is shown: one sentence that says what to do, then a line a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibkit.models.page import Page

if TYPE_CHECKING:
    from calibkit.methods.watch.watch import Watched


def headline(found: Watched) -> str:
    """Return in a few words what was found."""
    names = ", ".join(test.name for test in found.tests)
    return f"{names}, {len(found.state.nights)} nights, {'alarm' if found.alarm else 'no alarm'}"


def lines(found: Watched) -> list[str]:
    """Return what to do, and where each promise stands."""
    return [
        found.advice,
        *(
            f"{test.text}: {test.estimate:.4f} of {test.rows:,} labelled rows, "
            f"between {test.low:.4f} and {test.high:.4f}; e-value {test.e_value:.4g}, alarm at "
            f"{test.threshold:g}."
            for test in found.tests
            if test.estimate is not None
        ),
    ]


def view(found: Watched, page: Page) -> None:
    """Print what to do, and a table of the promises."""
    page.say(found.advice, "")
    rows: list[list[object]] = []
    for test in found.tests:
        seen = (test.estimate, test.low, test.high)
        rounded = [None if value is None else round(value, 4) for value in seen]
        rows.append([test.text, *rounded, test.rows, float(f"{test.e_value:.4g}"), test.threshold])
    header = ["promise", "estimate", "low", "high", "rows", "e-value", "alarm at"]
    page.table(header, rows)
