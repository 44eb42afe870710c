"""All methods side by side on the same rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
from msgspec import Struct, structs

from calibkit.errors import DataError, InfeasibleError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.boundary.choice import fit_rows
from calibkit.methods.boundary.result.fit import FittedBoundary, delivered
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.run import Inputs, fit_inputs, inputs
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.options.boundary import AUTO, BoundaryOptions
from calibkit.summaries.binning import GridTable
from calibkit.summaries.score_rows import ScoreRows

#: The columns of a comparison, and how a table on a terminal calls them.
HEADER = {
    name: name.replace("cross_validated", "cross-validated").replace("_", " ")
    for name in (
        *("method", "levels", "score_bins", "selected", "precision", "recall"),
        *("cross_validated_precision", "cross_validated_recall"),
        *("test_precision", "test_recall", "note"),
    )
}

#: Those that are no shares; rows are selected in whole numbers, or by weight.
_KINDS = {"method": pl.String, "levels": pl.Int64, "score_bins": pl.Int64, "note": pl.String}
#: What is to be said of a method whatever it finds.
_NOTES = {"st": "best single threshold", "logistic": "best cut of its surface"}


class Compared(Struct, frozen=True):
    """One method of a comparison; without a model the note says why it found none."""

    method: str
    model: BoundaryModel | None
    note: str

    def row(self) -> dict[str, Any]:
        """Return the row of the table: a value for each of `HEADER`."""
        found = dict.fromkeys(HEADER) | {"method": self.method, "note": self.note}
        if self.model is None:
            return found
        fit, origin = self.model.fit, self.model.provenance
        options = origin.options if origin else {}
        found |= {"levels": options.get("uncertainty_bins"), "selected": fit.in_sample.selected}
        found["score_bins"] = options.get("score_bins") or None
        seen = {"": fit.in_sample, "cross_validated_": fit.cross_validated, "test_": fit.test}
        for start, figures in seen.items():
            if figures is not None:
                found |= {start + "precision": figures.precision, start + "recall": figures.recall}
        return found


class Comparison(Struct, frozen=True):
    """All methods that take the objective, those that meet the bound first."""

    options: BoundaryOptions
    inputs: Inputs
    methods: tuple[Compared, ...]

    @property
    def frame(self) -> pl.DataFrame:
        """The methods as a table, one row each."""
        rows = [one.row() for one in self.methods]
        kinds = {name: _KINDS.get(name, pl.Float64) for name in HEADER if name != "selected"}
        return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None)

    def fit(self) -> FittedBoundary:
        """Fit the method that was asked for on the same rows."""
        return fit_inputs(self.options, structs.replace(self.inputs))


def compare(options: BoundaryOptions, source: Source) -> Comparison:
    """Return all methods that take the objective, side by side; errors as of a fit."""
    options.check_comparison()
    read = inputs(options, source)
    methods = compare_methods(read.data, options, read.test)
    # Those that meet the bound, those that miss it, those without a boundary.
    methods.sort(key=lambda one: (one.model is None, one.model and not one.model.fit.bound_met))
    return Comparison(options, read, tuple(methods))


def compare_methods(
    data: ScoreRows | GridTable, options: BoundaryOptions, test: ScoreRows | None = None
) -> list[Compared]:
    """Fit every method that takes the objective.

    A method that selects nothing, or whose table would be too large, is a row that says so.  With
    the method ``auto`` its choice has a row of its own.
    """
    options = replace(options, provenance="hash")  # of which the table says a part
    target = options.target
    names = [AUTO] if options.method == AUTO else []
    names += [name for name, own in METHODS.items() if own.takes(target.option, target.worths)]
    return [_one(data, replace(options, method=name), test) for name in names]


def _one(data: ScoreRows | GridTable, options: BoundaryOptions, test: ScoreRows | None) -> Compared:
    if options.method != AUTO:  # what a method has no use for is left out
        chosen = METHODS[options.method]
        if chosen.take is not None and options.score_bins == 0:
            options = replace(options, score_bins=None)
        if chosen.mix is None:
            options = replace(options, randomise="block")
        if chosen.surface is not None:
            options = options.at_levels(None)
    try:
        fitted = delivered(fit_rows(data, options), options, test)
    except InfeasibleError:
        return Compared(options.method, None, "infeasible: selects nothing")
    except (UsageError, DataError) as error:
        if isinstance(error, DataError) and options.method in (AUTO, "exact"):
            raise  # what these two cannot take is bad data for every method
        return Compared(options.method, None, f"skipped: {error.message}")
    model, note = fitted.model, _NOTES.get(options.method, "")
    if not model.fit.bound_met:
        note = "misses the bound"
    elif options.method == AUTO:
        note = f"chooses {model.method}"
    elif not note and model.fit.optimal_in_sample:
        binned = fitted.summary is not None and fitted.summary.grid is not None
        note = "optimal on its grid" if binned else "optimal"
    return Compared(options.method, model, note)
