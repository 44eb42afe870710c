"""Which partition: each is fitted whole without the rows that judge it; the first of the good ones.

So the figures of all are of the same rows, and count what each fit chooses by itself, which it does by
folds of the rows that it learns from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import UsageError
from calibkit.maps.methods import FOLDS, HeldOut, compared, first_good, parts_of_many
from calibkit.maps.model import Candidate
from calibkit.methods.hetcal import in_turn, trees_fit
from calibkit.methods.hetcal.first import first_map, moved
from calibkit.methods.hetcal.grow import Growth
from calibkit.methods.hetcal.maps import Found, pooled_line
from calibkit.methods.hetcal.model import CrossValidated, FirstMap
from calibkit.methods.hetcal.rows import Folds, HetcalRows
from calibkit.numerics.streams import folds_of_keys
from calibkit.options.hetcal import HetcalOptions

Floats = NDArray[np.float64]

#: What is compared, in order of preference: what has fewer parts is easier to read.
Name = Literal["tree", "sequential", "forest", "boosted"]
CANDIDATES: Final[tuple[Name, ...]] = ("tree", "sequential", "forest", "boosted")

#: Fewer folds leave a fit without two of its own to choose by.
_FEWEST_FOLDS: Final = 3
#: Probabilities are moved so far inside (0, 1) for the logarithmic loss.
_LEAST: Final = 1e-15


def fit_partition(
    rows: HetcalRows,
    train: HetcalRows | None,
    options: HetcalOptions,
    folds: Folds | None,
    before: FirstMap | None,
) -> tuple[Found, HetcalRows]:
    """Return a partition with its maps, and the rows after the map that all scores go through first."""
    after = rows
    if before is not None and before.name != "none":
        after = rows.with_scores(lambda score: moved(before, score))
    if options.in_turn:
        return in_turn.fit(after, options, folds), after
    # Trees look at scores as they are, so that they need no map to be fitted before.
    growth = Growth(train or rows, options.criterion, own=train is None)
    return trees_fit.fit(after, growth, options, folds, pooled_line(after)), after


def choose_partition(
    rows: HetcalRows, train: HetcalRows | None, options: HetcalOptions, folds: Folds | None
) -> tuple[HetcalOptions, list[Candidate], CrossValidated | None]:
    """Return the options with the partition chosen, what was found of each, and of the one chosen.

    Chosen is the first whose log loss on rows held out is within one standard error of the least, as in
    `calibkit.maps.methods`; of many rows a part is looked at.  A tree where nothing can be compared.
    """
    asked = {name: _asked(name, options, train) for name in CANDIDATES}
    open_to = {str(name): own for name, own in asked.items() if isinstance(own, HetcalOptions)}
    if folds is not None:
        looked = folds_of_keys(rows.key, parts_of_many(rows.count) // FOLDS, options.seed) == 0
        rows, folds = rows.only(looked), replace(folds, part=folds.part[looked])
    if folds is None or len(folds.present) < _FEWEST_FOLDS:
        few = [Candidate(method=name, reason="there are too few rows for folds") for name in asked]
        return open_to["tree"], few, None
    # Where folds go forward in time the first that is judged would leave one to choose by.
    parts = [Part.of(rows, folds, part, options) for part in folds.judged()[folds.forward :]]
    judged: dict[str, HeldOut | str] = {
        name: _together([part.losses(own, train) for part in parts])
        if isinstance(own, HetcalOptions)
        else own
        for name, own in asked.items()
    }
    table = compared(judged, "log_loss")
    name = first_good(table, "log_loss")
    checked = CrossValidated(
        pooled=_together([part.losses(None, None) for part in parts]).mean("log_loss"),
        calibrated=next(one.log_loss or 0.0 for one in table if one.method == name),
        folds=len(parts),
    )
    return open_to[name], table, checked


def _asked(name: Name, options: HetcalOptions, train: HetcalRows | None) -> HetcalOptions | str:
    """Return the options of a candidate; in words why it is left out."""
    try:
        asked = replace(options, partition=name, max_bins=options.bins)
    except UsageError as error:
        return str(error)
    return "--train takes no part in it" if asked.in_turn and train is not None else asked


def _together(found: list[HeldOut]) -> HeldOut:
    """Return the losses on the rows of all folds."""
    log_loss, brier, weight = zip(
        *((one.log_loss, one.brier, one.weight) for one in found), strict=True
    )
    return HeldOut(np.concatenate(log_loss), np.concatenate(brier), np.concatenate(weight), 1)


@dataclass(frozen=True)
class Part:
    """A fold: rows of which the others weigh nothing, their own folds, and their first map."""

    rows: HetcalRows
    mass: Floats
    held: NDArray[np.bool_]
    folds: Folds
    before: FirstMap | None

    @classmethod
    def of(cls, rows: HetcalRows, folds: Folds, part: int, options: HetcalOptions) -> Self:
        """Return a fold, with the first map that the other rows give."""
        own, held = rows.learning(folds.used(part)), folds.held(part)
        before = first_map(own, options.precalibrate, options.seed, options.workers)
        return cls(own, rows.mass[held], held, folds.before(part), before)

    def losses(self, options: HetcalOptions | None, train: HetcalRows | None) -> HeldOut:
        """Return the losses on the rows held out, under a partition, or under one map of all rows."""
        if options is None:
            slope, intercept = pooled_line(self.rows).tolist()
            value = 1.0 / (1.0 + np.exp(-(slope * self.rows.score + intercept)))
        else:
            found, _ = fit_partition(self.rows, train, options, self.folds, self.before)
            value = found.probability.clip(options.clip, 1.0 - options.clip)
        value, positive = value[self.held], self.rows.label[self.held] == 1
        near = value.clip(_LEAST, 1.0 - _LEAST)
        log_loss = -np.log(np.where(positive, near, 1.0 - near))
        return HeldOut(log_loss, (positive - value) ** 2, self.mass, times=1)
