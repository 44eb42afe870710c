"""All methods side by side on the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from calibkit.bins.grid_table import GridTable
from calibkit.boundary.auto import fit_rows
from calibkit.boundary.fit import delivered
from calibkit.boundary.methods import METHODS
from calibkit.boundary.model import BoundaryModel
from calibkit.errors import InfeasibleError, UsageError
from calibkit.options.boundary import AUTO, BoundaryOptions
from calibkit.rows.columns import ScoreRows

#: The columns of a comparison.
HEADER = (
    "method",
    "levels",
    "score bins",
    "selected",
    "precision",
    "recall",
    "cross-validated precision",
    "cross-validated recall",
    "test precision",
    "test recall",
    "note",
)

#: The types of a table of it that are no shares; rows are selected in whole numbers, or by weight.
_KINDS = {"method": pl.String, "levels": pl.Int64, "score_bins": pl.Int64, "note": pl.String}


@dataclass(frozen=True)
class Compared:
    """One method of a comparison.

    Attributes
    ----------
    method
        Its name.
    model
        The boundary it found, None where it found none.
    note
        Why there is none, or what is to be said of it.
    """

    method: str
    model: BoundaryModel | None
    note: str

    @property
    def rank(self) -> int:
        """0 where the bound is met, 1 where it is missed, 2 where there is no boundary."""
        if self.model is None:
            return 2
        return 0 if self.model.fit.bound_met else 1

    def row(self) -> list[object]:
        """Return the row of the table, in the order of `HEADER`."""
        if self.model is None:
            return [self.method, *[None] * (len(HEADER) - 2), self.note]
        fit = self.model.fit
        checked, test = fit.cross_validated, fit.test
        options = self.model.provenance.options if self.model.provenance else {}
        return [
            self.method,
            options.get("uncertainty_bins"),
            options.get("score_bins") or None,
            fit.in_sample.selected,
            fit.in_sample.precision,
            fit.in_sample.recall,
            checked.precision if checked else None,
            checked.recall if checked else None,
            test.precision if test else None,
            test.recall if test else None,
            self.note,
        ]

    def as_dict(self) -> dict[str, object]:
        """Return the row as an object with the names of `HEADER`, words joined by underscores."""
        names = (name.replace(" ", "_").replace("-", "_") for name in HEADER)
        return dict(zip(names, self.row(), strict=True))


def comparison_frame(methods: Sequence[Compared]) -> pl.DataFrame:
    """Return a comparison as a table, one row a method."""
    rows = [one.as_dict() for one in methods]
    kinds = {name: _KINDS.get(name, pl.Float64) for name in rows[0] if name != "selected"}
    return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None)


def compare_methods(
    data: ScoreRows | GridTable, options: BoundaryOptions, test: ScoreRows | None = None
) -> list[Compared]:
    """Fit every method that takes the objective.

    A method that selects nothing, or whose table would be too large, is a row that says so.  With
    the method ``auto`` its choice has a row of its own.
    """
    options = replace(options, provenance="hash")  # of which the table says a part
    chosen = [_one(data, options, test)] if options.method == AUTO else []
    return chosen + [
        _one(data, replace(options, method=name), test)
        for name, method in METHODS.items()
        if options.target.option in method.objectives
        and (method.worths or not options.target.worths)
    ]


def _one(data: ScoreRows | GridTable, options: BoundaryOptions, test: ScoreRows | None) -> Compared:
    if options.method != AUTO:
        options = _suited(options)
    try:
        fitted = delivered(fit_rows(data, options), options, test)
    except InfeasibleError:
        return Compared(options.method, None, "infeasible: selects nothing")
    except UsageError as error:
        return Compared(options.method, None, f"skipped: {error.message}")
    note = ""
    if fitted.model.fit.optimal_in_sample:
        note = "optimal on its grid" if _binned(fitted.model) else "optimal"
    if options.method == "st":
        note = "best single threshold"
    if options.method == "logistic":
        note = "best cut of its surface"
    if options.method == AUTO:
        note = f"chooses {fitted.model.method}"
    if not fitted.model.fit.bound_met:
        note = "misses the bound"
    return Compared(options.method, fitted.model, note)


def _suited(options: BoundaryOptions) -> BoundaryOptions:
    """Leave out of a specification what its method has no use for."""
    chosen = METHODS[options.method]
    if chosen.needs_grid and options.score_bins == 0:
        options = replace(options, score_bins=None)
    if chosen.mix is None:
        options = replace(options, randomise="block")
    return options if chosen.surface is None else options.at_levels(None)


def _binned(model: BoundaryModel) -> bool:
    return model.provenance is not None and bool(model.provenance.options.get("score_bins"))
