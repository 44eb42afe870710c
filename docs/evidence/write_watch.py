"""Fill in watch.md: how often `calibkit watch` alarms falsely, and how soon it finds a fall."""

from __future__ import annotations

import json

import numpy as np
from pages import FOLDER, arguments, fill, table
from scipy.stats import beta, norm
from studies import monte_carlo
from watch_streams import ALERTS, ALPHA, BOUND, FALLS, NIGHTS, YEARS
from watch_streams import fall as fall_of
from watch_streams import year as year_of

from calibkit.methods.watch import bins
from calibkit.methods.watch.bets import Promise, evidence
from calibkit.methods.watch.bins import QUANTILES

#: Fitting rows, rows a night, and how many equal scores there are.
SAME = [
    *((fitted, rows, "none") for fitted in (300, 3_000, 100_000) for rows in (128, 100_000)),
    *((fitted, 128, "a third 0, others of two digits") for fitted in (300, 100_000)),
]

#: Fitting rows, rows a night, nights before scores move, and by how many standard deviations.
MOVED = [
    (300, 128, 0, 0.5),
    (300, 128, 200, 0.5),
    (3_000, 128, 0, 0.5),
    (3_000, 128, 200, 0.5),
    (100_000, 128, 200, 0.2),
    (100_000, 5_000, 200, 0.05),
]
#: For how many nights.
AFTER = 90


def year(precision: float, seed: int) -> tuple[bool, bool]:
    """Return whether a year has an alarm, and whether a look at an interval each night has one."""
    hits = year_of(precision, seed)
    high = beta.ppf(1.0 - ALPHA / 2.0, hits + 1, ALERTS - hits)  # Clopper and Pearson
    return alarm(hits) is not None, bool((high < BOUND).any())


def delay(fall: tuple[int, float], seed: int) -> float:
    """Return on which night after a fall it is found; infinity where it is not within the time."""
    found = alarm(fall_of(*fall, seed))
    return np.inf if found is None else max(1.0, found + 1.0 - fall[0])


def alarm(hits: np.ndarray) -> int | None:
    """Return the night of the first alarm, counted from 0."""
    nights = [{(1.0, 1.0): (ALERTS - hit, hit)} for hit in hits.tolist()]
    return evidence(Promise("precision", BOUND), nights).passed(1.0 / ALPHA)


def same(cell: tuple[int, int, str], seed: int) -> bool:
    """Return whether drift is found in a year of rows drawn as the fitting rows were."""
    fitted, rows, equal = cell
    draw = np.random.default_rng([23, seed])
    values = np.sort(draw.random(fitted))
    if equal != "none":
        values = np.where(values < 1.0 / 3.0, 0.0, np.ceil(values * 100.0))
    edges = values[[place * fitted // 20 for place in QUANTILES]]
    below = edges  # the share of rows below each
    if equal != "none":
        below = np.where(edges > 0.0, np.maximum(edges - 1.0, 100.0 / 3.0) / 100.0, 0.0)
    known = bins.drift_counts(values, edges).tolist()
    nights = draw.multinomial(rows, np.diff([0.0, *below, 1.0]), NIGHTS)
    return bins.drift_evidence(known, nights.tolist()).passed(1.0 / ALPHA) is not None


def moved(cell: tuple[int, int, int, float], seed: int) -> float:
    """Return on which night drift is found after scores have moved; below 1: before."""
    fitted, rows, before, by = cell
    draw = np.random.default_rng([24, seed])
    values = np.sort(draw.normal(size=fitted))
    edges = values[[place * fitted // 20 for place in QUANTILES]]
    known = bins.drift_counts(values, edges).tolist()
    nights = [
        draw.multinomial(rows, np.diff([0.0, *norm.cdf(edges - mean), 1.0]), size)
        for mean, size in ((0.0, before), (by, AFTER))
    ]
    found = bins.drift_evidence(known, np.concatenate(nights).tolist()).passed(1.0 / ALPHA)
    return np.inf if found is None else found + 1.0 - before


def ends(nights: list[float]) -> list[str]:
    """Return by which night half of all falls are found, and nine tenths."""
    return [f"{np.median(nights):.0f}", f"{np.quantile(nights, 0.9):.0f}"]


def peers(
    years: dict[float, list[tuple[bool, bool]]], falls: dict[tuple[int, float], list[float]]
) -> str:
    """Return the same streams through monitors of other libraries, by watch_peers.json."""
    own = [
        "calibkit watch",
        len(years[BOUND]),
        *(f"{np.mean(found, axis=0)[0]:.1%}" for found in years.values()),
        *(", ".join(ends(found)) for found in falls.values()),
    ]
    lines = [own]
    for name, found in json.loads((FOLDER / "watch_peers.json").read_bytes()).items():
        cells = []
        for before, then in FALLS:
            part = found[f"fall {before} {then}"]
            within = [
                "never" if part[end] is None else str(part[end])
                for end in ("median", "nine_tenths")
            ]
            share = part["early"] / part["streams"]
            early = f" ({share:.0%} before)" if part["early"] else ""
            cells.append("before" if share == 1.0 else f"{', '.join(within)}{early}")
        parts = [found[f"year {precision}"] for precision in YEARS]
        alarms = (f"{part['alarms'] / part['streams']:.1%}" for part in parts)
        streams = [part["streams"] for part in found.values() if isinstance(part, dict)]
        few, many = min(streams), max(streams)
        said = f"{few:,}" if few == many else f"{few:,} to {many:,}"
        lines.append([f"{name} {found['version']}", said, *alarms, *cells])
    lines[0][1] = f"{lines[0][1]:,}"
    header = "monitor|streams|alarms in a year at .70|at .72|to .60|to .65|to .60 after 200 nights"
    return table(f"{header}|to .65 after 200", lines, "lr")


def main() -> None:
    """Simulate, and write the page."""
    given = arguments(__doc__, streams=2000, drift=400)
    years = monte_carlo(year, YEARS, given.streams)
    falls = monte_carlo(delay, FALLS, given.streams)
    fill(
        "watch",
        years=table(
            f"true precision|years with an alarm, of {given.streams:,}|with an interval below",
            [
                [f"{precision:.2f}", *(f"{share:.1%}" for share in np.mean(results, axis=0))]
                for precision, results in years.items()
            ],
            "r",
        ),
        falls=table(
            "nights at .75 before|precision then|found on night (median)|9 of 10 by night",
            [[before, f"{then:.2f}", *ends(nights)] for (before, then), nights in falls.items()],
            "r",
        ),
        peers=peers(years, falls),
        some=True,
    )
    alike = monte_carlo(same, SAME, given.drift)
    found = monte_carlo(moved, MOVED, given.drift)
    fill(
        "watch",
        some=True,
        same=table(
            f"fitting rows|rows a night|equal scores|years in which drift is found, of {given.drift:,}",
            [
                [f"{fitted:,}", f"{rows:,}", equal, f"{np.mean(results):.1%}"]
                for (fitted, rows, equal), results in alike.items()
            ],
            "rrlr",
        ),
        moved=table(
            "fitting rows|rows a night|nights before|moved by|found on night (median)|9 of 10 by"
            "|not in 90",
            [
                [
                    *(f"{fitted:,}", f"{rows:,}", before, f"{by:g} sd"),
                    *(_night(nights, share) for share in (0.5, 0.9)),
                    f"{np.mean(np.isinf(nights)):.1%}",
                ]
                for (fitted, rows, before, by), nights in found.items()
            ],
            "r",
        ),
    )


def _night(nights: list[float], share: float) -> str:
    night = np.quantile(nights, share, method="higher")
    return "never" if np.isinf(night) else f"{night:.0f}"


if __name__ == "__main__":
    main()
