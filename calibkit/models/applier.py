"""What a model does with rows: which columns it reads, and which it adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.models.model import Model

#: The column of a bundle that says which decision fired first, and what it says where none did.
ACTION = "action"
PASS = "pass"
#: What three-way decisions are called: neither, reviewed, blocked.
ACTIONS = (PASS, "review", "block")

#: The column of a row's uncertainty level, from 0.
LEVEL = "level"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of a model besides its own word."""

    #: Where a role's column is, if not where the model says: ``{"score": "p"}``.
    columns: dict[str, str] = field(default_factory=dict)
    #: Of a stochastic boundary the column whose value decides a row together with the seed
    #: (``row-number``: the number of the row, from 1), and a seed other than the model's.
    key: str | None = None
    seed: int | None = None
    level: bool = False  # whether the uncertainty level of a row is added


@dataclass(frozen=True)
class Reads:
    """The columns that an application reads."""

    needed: dict[str, str]  # of each role without whose value a row has no result
    #: Those whose missing values mean something to the model, or which it checks itself.
    optional: tuple[str, ...] = ()
    written: tuple[str, ...] | None = None  # the order of the added columns; None: as added


class Applier(Protocol):
    """What one model does with rows."""

    added: tuple[str, ...]  # the names of the columns it adds; the first can be renamed

    def reads(self, source: Source, request: Request) -> Reads:
        """Return the columns to read, after refusing options and columns that do not fit."""

    def values(
        self, frame: pl.DataFrame, where: Any, reads: Reads, request: Request
    ) -> list[pl.Series]:
        """Return the added columns of rows that have every needed value, in the order of `added`.

        `where` (a `calibkit.columns.rows.RowFinder`) finds these rows in the inputs; there may be none.
        """


def find_columns(
    model: Model, source: Source, request: Request, roles: Sequence[str]
) -> dict[str, str]:
    """Return the column of each role that a model uses: where the user says, or as the model does."""
    used: dict[str, str] = {}
    for role in roles:
        if role in model.columns:
            used[role] = request.columns.get(role, model.columns[role].name)
            said = f"--{role}" if role in request.columns else f"the model's {role} (see --{role})"
            source.require([used[role]], said)
    for role in request.columns:
        if f"{role}_2" in used:
            raise UsageError(f"the model reads several {role} columns; leave --{role} out.")
        if role not in used:
            raise UsageError(f"the model uses no {role} column; leave --{role} out.")
    return used
