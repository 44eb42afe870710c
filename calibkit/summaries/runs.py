"""What a fit takes and returns, whichever method it is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from calibkit.models.model import Model, Provenance
from calibkit.options.option import Options
from calibkit.options.shared import FitOptions
from calibkit.version import __version__

if TYPE_CHECKING:
    from calibkit.files.sources import Source
    from calibkit.runtime.memory import Memory
    from calibkit.summaries.states import State

M = TypeVar("M", bound=Model)
M_co = TypeVar("M_co", bound=Model, covariant=True)
R_co = TypeVar("R_co", covariant=True)
O_contra = TypeVar("O_contra", bound=Options, contravariant=True)


@dataclass(frozen=True)
class Fitted(Generic[M_co]):
    """A fitted model, and what the user should be told.

    The columns of the model say which models made them, where that is known.  Warnings are told
    whatever the verbosity, notes in a summary, details to those who ask for more.
    """

    model: M_co
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What a run would do: with the column of each role, the steps in words, after "would"."""

    columns: Mapping[str, str]
    steps: Sequence[str]


class Run(Protocol[O_contra, R_co]):
    """How a result is made of rows, or of a state of them: what a module ``run`` has."""

    def fit(self, options: O_contra, source: Source) -> R_co:
        """Return the result of all rows."""

    def plan(self, options: O_contra, source: Source) -> Plan:
        """Return what `fit` would do; no row is read."""

    def state(self, options: O_contra, source: Source) -> State:
        """Return what `finish` needs of the rows of a shard."""

    def finish(self, state: State, memory: Memory, threads: int) -> R_co:
        """Return the result of the rows of a merged state."""


class Fit(Run[O_contra, Fitted[M_co]], Protocol[O_contra, M_co]):
    """How a model is fitted."""


def provenance(
    options: FitOptions,
    shaped: Mapping[str, Any],
    rows: int,
    fingerprint: str,
    files: Sequence[str],
) -> Provenance | None:
    """Return what a model says of its origin, as much as the options allow.

    That is what shaped it, how many rows were used, their hash, and the inputs they are from.
    """
    if options.provenance == "none":
        return None
    named = list(files) if options.provenance == "names" else None
    return Provenance(__version__, dict(shaped), rows, fingerprint, named)
