"""The options of ``watch``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

from calibkit.errors import UsageError
from calibkit.numerics.bounds import Bound
from calibkit.options import shared
from calibkit.options.option import inside, option
from calibkit.options.shared import named_column, of_output

of_promises = partial(option, group="Promises")

#: The largest weight that can be declared: with more no row says anything.
MOST_WEIGHT: Final = 1e12

_NOT_NAMED: Final = "the model's own bound"


def _promise(metavar: str, text: str) -> Any:
    return of_promises(text, metavar, shown=_NOT_NAMED, read=inside, text=str)


@dataclass(frozen=True, kw_only=True)
class WatchOptions(shared.OfModel, shared.Labelled):
    """What is promised of a boundary, which rows judge it, and when."""

    model: Annotated[
        shared.ModelLike, option("A boundary (JSON).", "MODEL", argument=True, read=shared.model_of)
    ]
    state: Annotated[
        str, of_output("File of the counts so far: read if it exists, then written.", "FILE")
    ]
    precision: Any = _promise("P", "Each night's precision is at least this.")
    recall: Any = _promise("R", "Each night's recall is at least this.")
    fpr: Any = _promise("A", "Each night's false positive rate is at most this.")
    calibration: bool = of_promises(
        "Also test that each score is the probability of a positive.", default=False
    )
    drift: bool = of_promises(
        "Say from which night scores and uncertainties differ from those of the fitting rows; rows "
        "without a label count too. It never raises an alarm.",
        default=False,
    )
    confidence: Any = of_promises(
        "Probability that no promise ever raises a false alarm.",
        "C",
        shown="that of the model's certificate, else 0.95",
        read=inside,
        text=str,
    )
    period: str | None = named_column(
        "Column with the night of a row: a date, a time or a whole number.",
        shown="none: each run is the next night",
    )
    labelled_at: str | None = named_column(
        "Column with the night on which a label arrived, to which its row belongs; a row "
        "without one has no label yet.",
        shown="as --period",
    )
    weight: str | None = named_column(
        "Column with the sampling weight of a row: one over the chance that it was drawn for a label.",
        shown="none: each row counts once",
    )
    max_weight: float | None = of_promises(
        "The largest --weight that a row can ever have, as the sampling plan says: the tests rest on "
        "it.",
        "W",
    )
    maturity: int | None = of_promises(
        "Count a row so many nights after its --period, and not before.",
        "DAYS",
        least=0,
        shown="when its label arrives",
    )

    def check(self) -> None:
        """Refuse an age without a date, and a state that is no file."""
        if self.state in ("", "-") or self.state.endswith("/"):
            raise UsageError("--state names a file: it is read and written.")
        if self.maturity is not None and self.period is None:
            raise UsageError("--maturity counts nights from --period; name its column.")
        if self.drift and self.labelled_at is not None and self.period is None:
            raise UsageError("--drift counts a row on its --period; name its column.")
        if (self.weight is None) != (self.max_weight is None):
            raise UsageError(
                "--weight and --max-weight go together: the largest weight is declared beforehand, not "
                "taken from the rows seen."
            )
        if self.max_weight is not None and not 0.0 < self.max_weight <= MOST_WEIGHT:
            raise UsageError(
                f"--max-weight is {self.max_weight:g}; expected above 0, up to {MOST_WEIGHT:g}."
            )
        if self.weight is not None and self.calibration:
            raise UsageError("--calibration counts each row once; leave --weight out.")

    @property
    def late(self) -> bool:
        """Whether labels may come after the night of their row."""
        return self.labelled_at is not None or self.maturity is not None

    @property
    def named(self) -> dict[str, Bound]:
        """The bounds that were named."""
        found = {"precision": self.precision, "recall": self.recall, "fpr": self.fpr}
        return {name: bound for name, bound in found.items() if bound is not None}
