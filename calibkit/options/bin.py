"""The options of ``bin``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from calibkit.options.levels import LevelOptions, Order, Strategy
from calibkit.options.option import option
from calibkit.options.shared import LabelledColumns, Threaded, Uncertainty

of_bins = partial(option, group="Bins")


@dataclass(frozen=True, kw_only=True)
class BinOptions(LevelOptions, LabelledColumns, Threaded):
    """What grid to make, of which columns."""

    uncertainty_bins: int | None = of_bins(
        "Uncertainty bins.", "K", least=1, shown="3; 1 for rows without uncertainty"
    )
    score_bins: int = of_bins("Score bins.", "L", default=500, least=1)
    strategy: Strategy = of_bins("Bins equal in rows, or equally wide.", default="equal-mass")
    order: Order = of_bins(
        "The axis binned first; the other is binned within its bins.", default="uncertainty-score"
    )
    add_level: bool = of_bins(
        "Write the rows, each with its uncertainty bin as level (from 0).", default=False
    )
    uncertainty: Uncertainty = None
