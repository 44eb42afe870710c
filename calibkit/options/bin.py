"""The options of ``bin``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from calibkit.options.levels import LevelOptions, Order, Strategy
from calibkit.options.option import option
from calibkit.options.shared import LabelledColumns, Threaded, Uncertainty

BINS = "Bins"


@dataclass(frozen=True, kw_only=True)
class BinOptions(LevelOptions, LabelledColumns, Threaded):
    """What grid to make, of which columns."""

    uncertainty_bins: Annotated[
        int | None,
        option(
            metavar="K",
            group=BINS,
            least=1,
            help="Uncertainty bins.",
            shown="3; 1 for rows without uncertainty",
        ),
    ] = None
    score_bins: Annotated[int, option(metavar="L", group=BINS, least=1, help="Score bins.")] = 500
    strategy: Annotated[
        Strategy, option(group=BINS, help="Bins of equal mass or of equal width.")
    ] = "equal-mass"
    order: Annotated[
        Order,
        option(
            group=BINS,
            help="Which axis is binned first; the other is binned within each of its bins.",
        ),
    ] = "uncertainty-score"
    add_level: Annotated[
        bool,
        option(
            group=BINS,
            help="Write the rows, each with its uncertainty bin as level (from 0), not the grid.",
        ),
    ] = False
    uncertainty: Uncertainty = None
