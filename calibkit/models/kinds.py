"""What there is of each kind of model, given from above, and what a model does with rows.

Models are applied, shown, exported and put into bundles by rooms that stand above them.  Whoever
needs one of these by the kind of a model asks here; `calibkit.registry.methods` fills the tables, when
calibkit is imported, with functions that load what they return when it is used.  Models themselves
are built on this module, so are not named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from calibkit.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

    from calibkit.files.sources import Source

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
    #: Of an export: the columns that a pattern of class probabilities stands for, where a file tells.
    class_columns: Sequence[str] | None = None

    def column(self, model: Any, role: str) -> str:
        """Return the column of a role: where the user says, or as the model does."""
        return self.columns.get(role, model.columns[role].name)

    def refuse_key_of(self, kind: str) -> None:
        """Refuse a key and a seed for a kind of model that leaves nothing to chance."""
        if kind not in ("boundary", "bundle"):  # which know whether they are stochastic
            self.refuse_key(f"a model of kind {kind!r}")

    def refuse_key(self, said: str) -> None:
        """Refuse a key and a seed for a model that leaves nothing to chance."""
        if self.key is not None or self.seed is not None:
            raise UsageError(f"{said} is not stochastic; leave --key and --seed out.")

    def refuse_unused(self, used: Collection[str]) -> None:
        """Refuse columns of roles that a model does not use."""
        for role in self.columns:
            if f"{role}_2" in used:
                raise UsageError(f"the model reads several {role} columns; leave --{role} out.")
            if role not in used:
                raise UsageError(f"the model uses no {role} column; leave --{role} out.")


@dataclass(frozen=True)
class Reads:
    """The columns that an application reads, and the request that they are read for."""

    needed: dict[str, str]  # of each role without whose value a row has no result
    #: Those whose missing values mean something to the model, or which it checks itself.
    optional: tuple[str, ...] = ()
    written: tuple[str, ...] | None = None  # the order of the added columns; None: as added
    request: Request = Request()


class Applier(Protocol):
    """What one model does with rows."""

    added: tuple[str, ...]  # the names of the columns it adds; the first can be renamed

    def reads(self, source: Source, request: Request) -> Reads:
        """Return the columns to read, after refusing options and columns that do not fit."""

    def values(self, frame: pl.DataFrame, where: Any, reads: Reads) -> list[pl.Series]:
        """Return the added columns of rows that have every needed value, in the order of `added`.

        `where` (a `calibkit.columns.rows.RowFinder`) finds these rows in the inputs; there may be none.
        """


class View(Protocol):
    """How a result is shown: what the module `view` of its room has."""

    def view(self, result: Any, page: Any, /) -> None:
        """Put on a page (`calibkit.models.page.Page`) what a person wants to know first."""

    def headline(self, result: Any, /) -> str:
        """Return in a few words what a result is."""

    def lines(self, result: Any, /) -> list[str]:
        """Return its summary."""


class Kind(NamedTuple):
    """One kind of model; each loads what it returns."""

    structure: Callable[[], Any]  # the class of its models, a `calibkit.models.model.Model`
    applier: Callable[[Any], Applier]  # what a model does with rows
    #: What writes a model into a program, from which exports are printed.
    translate: Callable[[], Callable[..., dict[str, Any]]]


#: By kind.
KINDS: Final[dict[str, Kind]] = {}

#: How models are shown, by kind, and results that are none, by the name of their class.
VIEWS: Final[dict[str, Callable[[], View]]] = {}

#: What methods of models and results do in Python: ``apply``, ``drift``, ``html``.
IN_PYTHON: Final[dict[str, Callable[[], Callable[..., Any]]]] = {}


def view_of(result: Any) -> View:
    """Return how a result is shown: a model by its kind, any other by its class."""
    return VIEWS[getattr(result, "kind", type(result).__name__)]()


def doubts_of(model: Any) -> Sequence[str]:
    """Return what speaks against using a model, by the view of its kind if that says it."""
    doubts = getattr(view_of(model), "doubts", None)
    return () if doubts is None else doubts(model)


def find_columns(
    model: Any, source: Source, request: Request, roles: Sequence[str]
) -> dict[str, str]:
    """Return the column of each role that a model uses: where the user says, or as the model does."""
    used: dict[str, str] = {}
    for role in roles:
        if role in model.columns:
            used[role] = request.column(model, role)
            said = f"--{role}" if role in request.columns else f"the model's {role} (see --{role})"
            source.require([used[role]], said)
    request.refuse_unused(used)
    return used
