"""Fill in watch.md: how often `calibkit watch` alarms falsely, and how soon it finds a fall."""

from __future__ import annotations

import numpy as np
from pages import arguments, fill, table
from scipy.stats import beta
from studies import monte_carlo

from calibkit.methods.watch.bets import Promise, evidence

BOUND, ALPHA, ALERTS = 0.7, 0.05, 128
NIGHTS, AFTER = 365, 90

#: Nights at a precision of .75 before the fall, and the precision from then on.
FALLS = [(0, 0.6), (0, 0.65), (200, 0.6), (200, 0.65)]
PAST = 0.75


def year(precision: float, seed: int) -> tuple[bool, bool]:
    """Return whether a year has an alarm, and whether a look at an interval each night has one."""
    hits = np.random.default_rng([20, seed]).binomial(ALERTS, precision, NIGHTS)
    high = beta.ppf(1.0 - ALPHA / 2.0, hits + 1, ALERTS - hits)  # Clopper and Pearson
    return alarm(hits) is not None, bool((high < BOUND).any())


def delay(fall: tuple[int, float], seed: int) -> float:
    """Return on which night after a fall it is found; infinity where it is not within the time."""
    before, precision = fall
    draw = np.random.default_rng([21, seed])
    hits = [draw.binomial(ALERTS, PAST, before), draw.binomial(ALERTS, precision, AFTER)]
    found = alarm(np.concatenate(hits))
    return np.inf if found is None else max(1.0, found + 1.0 - before)


def alarm(hits: np.ndarray) -> int | None:
    """Return the night of the first alarm, counted from 0."""
    nights = [{(1.0, 1.0): (ALERTS - hit, hit)} for hit in hits.tolist()]
    return evidence(Promise("precision", BOUND), nights).passed(1.0 / ALPHA)


def main() -> None:
    """Simulate, and write the page."""
    streams = arguments(__doc__, streams=1000).streams
    years = monte_carlo(year, [BOUND, BOUND + 0.02], streams)
    falls = monte_carlo(delay, FALLS, streams)
    fill(
        "watch",
        years=table(
            f"true precision|years with an alarm, of {streams:,}|with an interval below the bound",
            [
                [f"{precision:.2f}", *(f"{share:.1%}" for share in np.mean(found, axis=0))]
                for precision, found in years.items()
            ],
            "r",
        ),
        falls=table(
            "nights at .75 before|precision then|found on night (median)|9 of 10 by night",
            [
                [before, f"{then:.2f}", f"{np.median(found):.0f}", f"{np.quantile(found, 0.9):.0f}"]
                for (before, then), found in falls.items()
            ],
            "r",
        ),
    )


if __name__ == "__main__":
    main()
