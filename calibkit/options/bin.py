"""The options of ``bin``, and of all that has uncertainty levels: how many, or which edges."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import isfinite
from os import PathLike
from typing import Annotated, Any, Literal, Self, cast

from calibkit.errors import ModelError, UsageError
from calibkit.options.option import Options, option
from calibkit.options.shared import ColumnOptions, LabelledColumns, ModelLike, Threaded, of_input

Strategy = Literal["equal-mass", "equal-width"]
Order = Literal["uncertainty-score", "score-uncertainty"]


def edges_of(value: Any, flag: str) -> tuple[float, ...]:
    """Return inner edges that are given as numbers that rise, as a boundary, or as a file of these."""
    from calibkit.models.model import Model

    name = flag
    if isinstance(value, Model):
        value = value.as_dict().get("uncertainty_edges")
    elif isinstance(value, str | PathLike):
        name = str(value)
        value = _read(name)
    elif hasattr(value, "tolist"):  # an array
        value = value.tolist()
    numbers = isinstance(value, list | tuple) and len(value) > 0
    numbers = numbers and all(isinstance(one, int | float) and isfinite(one) for one in value)
    if not numbers or not all(one <= other for one, other in pairwise(value)):
        raise UsageError(
            f"{name}: edges of uncertainty levels are finite numbers that rise, at least one; this "
            f"is {str(value)[:60]}",
            file=None if name == flag else name,
        )
    return tuple(float(edge) for edge in value)


def _read(path: str) -> Any:
    from calibkit.files.paths import read_bytes
    from calibkit.models.model import decode_as, decode_object

    data = read_bytes(path)
    try:
        found = decode_object(data, path).get("uncertainty_edges") if data[:1] == b"{" else None
        return decode_as(data, list[float], "a list") if found is None else found
    except ModelError as error:
        raise UsageError(
            f"{path}: no edges of uncertainty levels ({error}); give a JSON list of rising numbers, "
            "or the model of a boundary",
            file=path,
        ) from None


class LevelOptions(Options):
    """Uncertainty levels, and score bins within them; a subclass says what it makes of them."""

    uncertainty_bins: int | Literal["auto"] | None = option(metavar="K")
    order: Order = option(default="uncertainty-score")
    uncertainty_edges: ModelLike | tuple[float, ...] | list[float] | None = of_input(
        "Edges of the uncertainty levels: a JSON list of numbers, or the model of a boundary.",
        "FILE",
        read=edges_of,
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


of_bins = partial(option, group="Bins")


class BinOptions(LevelOptions, LabelledColumns, Threaded):
    """Count rows and positive rows over a grid of uncertainty bins by score bins.

    One row per cell, with its limits, counts, share of positives and mean score. With --add-level
    the rows themselves, each with its uncertainty bin.

    Examples:
      calibkit bin calib.parquet --uncertainty-bins 3 --score-bins 500 -o grid.parquet
      calibkit bin scores.csv --score-bins 10 --strategy equal-width | column -s, -t
      calibkit bin calib.parquet --uncertainty-bins 3 --add-level -o levels.parquet
    """

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
    uncertainty: Annotated[str | None, ColumnOptions] = None
