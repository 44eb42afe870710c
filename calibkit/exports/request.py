"""What the user asks of an export besides the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calibkit.errors import UsageError
from calibkit.models.applier import Request as Asked
from calibkit.models.model import Model

#: The key of `apply` that is no column; a table's rows have no numbers.
ROW_NUMBER = "row-number"


@dataclass(frozen=True, kw_only=True)
class Request(Asked):
    """How a model is exported: see also `calibkit.models.applier.Request`."""

    #: The columns that a pattern of class probabilities stands for, where a file tells.
    class_columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.key == ROW_NUMBER:
            raise UsageError(
                f"--key {ROW_NUMBER}: the rows of a table have no numbers; name a column that "
                "identifies a row."
            )

    def column(self, model: Model, role: str) -> str | None:
        """Return the column of a role, None where the model has no such role."""
        if role not in model.columns:
            return None
        return self.columns.get(role, model.columns[role].name)

    def refuse_key(self, model: Model) -> None:
        """Refuse a key or a seed for a model that decides nothing at random."""
        if self.key is not None or self.seed is not None:
            raise UsageError(
                f"a model of kind {model.kind!r} decides nothing by chance; leave --key and --seed out."
            )
