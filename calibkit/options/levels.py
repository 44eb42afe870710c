"""The options of what has uncertainty levels: how many, or which edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self, cast

from calibkit.errors import UsageError
from calibkit.options.option import Options, option
from calibkit.options.shared import ModelLike, of_input

Strategy = Literal["equal-mass", "equal-width"]
Order = Literal["uncertainty-score", "score-uncertainty"]


def _edges(value: Any, flag: str) -> tuple[float, ...]:
    from calibkit.options.level_edges import edges_of

    return edges_of(value, flag)


@dataclass(frozen=True, kw_only=True)
class LevelOptions(Options):
    """Uncertainty levels, and score bins within them; a subclass says what it makes of them."""

    uncertainty_bins: int | Literal["auto"] | None = option(metavar="K")
    order: Order = option(default="uncertainty-score")
    uncertainty_edges: ModelLike | tuple[float, ...] | list[float] | None = of_input(
        "Edges of the uncertainty levels: a JSON list of numbers, or the model of a boundary.",
        "FILE",
        read=_edges,
        shown="from the rows",
    )

    def check(self) -> None:
        """Refuse edges beside another number of levels, or for levels that have edges of their own."""
        if not self.edges:
            return
        if self.uncertainty_bins not in (None, len(self.edges) + 1):
            raise UsageError(
                f"--uncertainty-edges makes {len(self.edges) + 1} levels; leave --uncertainty-bins "
                "out."
            )
        if self.order == "score-uncertainty":
            raise UsageError(
                "--order score-uncertainty cuts uncertainties in each score bin anew; leave "
                "--uncertainty-edges out."
            )

    @property
    def edges(self) -> tuple[float, ...]:
        """The inner edges of the uncertainty levels, where they are given."""
        return cast("tuple[float, ...]", self.uncertainty_edges or ())

    @property
    def levels(self) -> int | None:
        """The number of uncertainty levels, where it is given."""
        if self.edges:
            return len(self.edges) + 1
        return self.uncertainty_bins if isinstance(self.uncertainty_bins, int) else None

    def at_levels(self, levels: int | None) -> Self:
        """Return the options with another number of levels; edges that are given are those of rows."""
        return replace(self, uncertainty_bins=levels, uncertainty_edges=None)
