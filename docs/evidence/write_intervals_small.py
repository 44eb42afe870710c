"""Fill in intervals_small.md: how often intervals of nominal 95 % hold the truth on 50 to 500 rows.

The populations are those of write_intervals.py, of single rows.
"""

from __future__ import annotations

import math
from datetime import date

from pages import arguments, fill, paragraph, table
from studies import monte_carlo
from write_intervals import Population, held

SIZES = (50, 100, 200, 500)
POPULATIONS = [
    Population(f"{rate}, {rows}", level, rows=rows)
    for rate, level in ((".5", 0.0), (".05", -4.05))
    for rows in SIZES
]
#: Fewer samples with an interval than this tell nothing of a share.
FEWEST = 30


def page(results: dict[Population, list[dict[str, bool]]]) -> dict[str, str]:
    """Return the parts of the page."""
    draws = max(map(len, results.values()))
    plain = {cell: list(map(_without_parameters, found)) for cell, found in results.items()}
    names = dict.fromkeys(name for samples in plain.values() for one in samples for name in one)
    rows = [[name, *(_cell(name, samples) for samples in plain.values())] for name in names]
    short = [row[0] for row in rows if sum("**" in cell for cell in row[1:5]) >= 2]
    return {
        "samples": paragraph(
            f"How often the interval held the true value, in per cent, over {draws:,} samples of each "
            f"size and base rate (Monte Carlo error {100 * math.sqrt(0.05 * 0.95 / draws):.1f}); in "
            "brackets the share of samples that have an interval, where not all do. **Bold** is below "
            f"92. {date.today():%Y-%m-%d}."
        ),
        "shares": table(["metric", *(one.name for one in results)], rows, "lr"),
        "short": paragraph(
            "At base rate .5 below 92 at two sizes or more: "
            + (", ".join(f"`{name}`" for name in short) or "none")
            + "."
        ),
    }


def _without_parameters(found: dict[str, bool]) -> dict[str, bool]:
    return {name.partition(":")[0]: value for name, value in found.items()}


def _cell(name: str, samples: list[dict[str, bool]]) -> str:
    tries = [one[name] for one in samples if name in one]
    had = len(tries) / len(samples)
    if len(tries) < FEWEST:
        return f"({100 * had:.0f})"
    share = 100 * sum(tries) / len(tries)
    text = f"{share:.1f}" if share >= 92 else f"**{share:.1f}**"
    return text if had == 1 else f"{text} ({100 * had:.0f})"


def main() -> None:
    """Run the study and fill its page in."""
    draws = arguments(__doc__, draws=400).draws
    fill("intervals_small", **page(monte_carlo(held, POPULATIONS, draws)))


if __name__ == "__main__":
    main()
