"""What a fit will do: its options resolved for the rows that there are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calibkit.bins.binning import Grid, check_bins
from calibkit.bins.grid_table import GridTable
from calibkit.columns.columns import ScoreRows
from calibkit.errors import UsageError
from calibkit.methods.boundary.solvers.methods import Method, at_ties, method, on_scale
from calibkit.options.boundary import BoundaryOptions


@dataclass(frozen=True)
class Plan:
    """Options with everything resolved: what the fit will do."""

    options: BoundaryOptions
    method: Method
    levels: int
    score_bins: int

    @property
    def kept_levels(self) -> int:
        """How many levels the model has: of cells, the leaves that they are gathered in."""
        return self.method.leaves or self.levels

    def steps(self) -> list[str]:
        """Return in words what the fit will do."""
        options = self.options
        scores = f"{self.score_bins} score bins" if self.score_bins else "every distinct score"
        fit = (
            f"fit a boundary by {self.method.name} over {self.kept_levels} uncertainty level"
            f"{'s' if self.kept_levels > 1 else ''} and {scores}: {options.target.text}"
        )
        return [fit, f"cross-validate it in {options.folds} folds"] if options.folds else [fit]


def plan(options: BoundaryOptions, data: ScoreRows | GridTable) -> Plan:
    """Return what options mean for some rows, or for a grid of them.

    Raises
    ------
    UsageError
        Options that are impossible or do not go together.
    """
    if options.confidence is not None:
        raise UsageError(
            "a confidence needs calibkit.methods.boundary.certificate.certificate.certify_boundary."
        )
    worths = options.target.worths
    chosen = method(options.method, options.target.option, worths)
    if worths and (isinstance(data, GridTable) or options.score_bins):
        raise UsageError(
            f"{worths} needs the rows and every distinct score: a grid of score bins has counts "
            "alone; leave --score-bins out."
        )
    if chosen.mix is not None:
        chosen = _check_random(options, chosen, data)
    elif options.randomise != "block":
        raise UsageError(f"--randomise {options.randomise} goes with --method stochastic only.")
    if isinstance(data, GridTable):
        return _plan_of_grid(options, chosen, data.grid)
    return _plan_of_rows(options, chosen, data)


def _plan_of_rows(options: BoundaryOptions, chosen: Method, data: ScoreRows) -> Plan:
    levels = options.levels
    if levels is None:
        levels = 1 if chosen.together or data.uncertainty is None else chosen.levels
    score_bins = chosen.score_bins if options.score_bins is None else options.score_bins
    if score_bins == 0 and chosen.needs_grid:
        raise UsageError(f"--method {chosen.name} needs score bins; --score-bins 0 has none.")
    if chosen.surface is not None:
        if score_bins:
            raise UsageError(
                f"--method {chosen.name} works on the scores themselves; leave --score-bins out."
            )
        chosen = on_scale(chosen, data.options.measure, options.workers)
    if data.cells is not None and levels > 1:
        return Plan(options, replace(chosen, leaves=levels), data.cells.cells, 0)
    check_bins(levels, max(score_bins, 1), has_uncertainty=data.uncertainty is not None)
    if options.order == "score-uncertainty" and score_bins == 0:
        raise UsageError("--order score-uncertainty needs --score-bins.")
    return Plan(options, chosen, levels, score_bins)


def _check_random(options: BoundaryOptions, chosen: Method, data: ScoreRows | GridTable) -> Method:
    grid = data.grid if isinstance(data, GridTable) else None
    if (grid or options).order == "score-uncertainty":
        raise UsageError(f"--method {chosen.name} goes with --order uncertainty-score only.")
    if options.randomise == "block":
        return chosen
    if grid is not None or options.levels not in (None, 1) or options.score_bins:
        raise UsageError(
            "--randomise tie is random at one score of all rows together: give the rows, not a grid, "
            "and leave out --uncertainty-bins and --score-bins; or use --randomise block."
        )
    return at_ties(chosen)


def _plan_of_grid(options: BoundaryOptions, chosen: Method, grid: Grid) -> Plan:
    if chosen.surface is not None:
        raise UsageError(f"a grid has lost the scores; --method {chosen.name} needs the rows.")
    if options.groups is not None or options.time is not None:
        raise UsageError("a grid has lost its rows: --groups and --time need the rows.")
    levels, score_bins = grid.shape
    for option, asked, have in (
        ("--uncertainty-bins", options.levels, levels),
        ("--score-bins", options.score_bins, score_bins),
    ):
        if asked is not None and asked != have:
            raise UsageError(f"{option} is {asked}, but the grid has {have}; leave it out.")
    if options.strategy != "equal-mass":
        raise UsageError(
            f"--strategy {options.strategy}: the grid is binned already; leave it out."
        )
    if options.order not in ("uncertainty-score", grid.order):
        raise UsageError(
            f"--order is {options.order}, but the grid's is {grid.order}; leave it out."
        )
    return Plan(replace(options, order=grid.order), chosen, levels, score_bins)
