"""What to fit: the options of ``boundary`` as one value, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calibkit.bins.binning import Grid, check_bins
from calibkit.bins.grid_table import GridTable
from calibkit.boundary.methods import Method, at_ties, method, on_scale
from calibkit.boundary.model import BOUNDS
from calibkit.boundary.target import Target
from calibkit.errors import UsageError
from calibkit.maths.bounds import Bound
from calibkit.rows.columns import ScoreRows

#: The method that is chosen by cross-validation, see `calibkit.boundary.auto`.
AUTO = "auto"

#: A part of a split is kept in eight bits.
MOST_FOLDS = 255


@dataclass(frozen=True, kw_only=True)
class BoundarySpec:
    """What to fit, as the options of ``boundary`` say it.

    Attributes
    ----------
    target
        The objective.
    method
        A key of `calibkit.boundary.methods.METHODS`, or ``auto``, which `calibkit.boundary.run.count`
        resolves by cross-validation.
    uncertainty_bins
        K; None is 3 where rows have uncertainties (100 for the logistic surface), 1 for the single
        threshold and without them.
    score_bins
        L; 0 tries every distinct score; None is the method's default.
    strategy, order
        Of the bins, see `calibkit.bins.binning.fit_grid`.
    randomise
        Of the stochastic method: ``block``, or ``tie`` for one level.
    folds
        Of the cross-validation; 0 leaves it out.
    confidence
        With which the bound is to hold on new data, see `calibkit.boundary.certificate`.
    groups, time
        A column of groups that stay in one fold, or of times along which the folds go forward.
    by, bound, min_group_positives
        A column whose values, the segments, have thresholds of their own; whether the bound holds
        for all rows together (``overall``) or for ``each`` segment; segments with fewer positive
        rows share one (None: 50 with ``each``, none with ``overall``).
    seed, threads
        The seed of the folds; how many threads may work.
    """

    target: Target
    method: str = AUTO
    uncertainty_bins: int | None = None
    score_bins: int | None = None
    strategy: str = "equal-mass"
    order: str = "uncertainty-score"
    randomise: str = "block"
    folds: int = 5
    confidence: Bound | None = None
    groups: str | None = None
    time: str | None = None
    by: str | None = None
    bound: str = "overall"
    min_group_positives: int | None = None
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        least = self.min_group_positives
        if self.bound not in BOUNDS:
            raise UsageError(f"--bound is one of {', '.join(BOUNDS)}, not {self.bound!r}.")
        if self.by is None and (self.bound != "overall" or least is not None):
            option = f"--bound {self.bound}" if least is None else "--min-group-positives"
            raise UsageError(f"{option} goes with --by, which names the segments.")
        if least is not None and least < 0:
            raise UsageError(f"--min-group-positives is {least}; expected at least 0.")


@dataclass(frozen=True)
class Plan:
    """A specification with everything resolved: what the fit will do."""

    spec: BoundarySpec
    method: Method
    levels: int
    score_bins: int

    def steps(self) -> list[str]:
        """Return in words what the fit will do."""
        spec = self.spec
        scores = f"{self.score_bins} score bins" if self.score_bins else "every distinct score"
        fit = (
            f"fit a boundary by {self.method.name} over {self.levels} uncertainty level"
            f"{'s' if self.levels > 1 else ''} and {scores}: {spec.target.text}"
        )
        folds = f"cross-validate it in {spec.folds} folds" if spec.folds else ""
        return [fit, folds] if folds else [fit]


def plan(spec: BoundarySpec, data: ScoreRows | GridTable) -> Plan:
    """Return what a specification means for some rows, or for a grid of them.

    Raises
    ------
    UsageError
        Options that are impossible or do not go together.
    """
    if spec.confidence is not None:
        raise UsageError("a confidence needs calibkit.boundary.certificate.certify_boundary.")
    chosen = method(spec.method, spec.target.option, spec.target.worths)
    if spec.target.worths and (isinstance(data, GridTable) or spec.score_bins):
        raise UsageError(
            f"{spec.target.worths} needs the rows and every distinct score: a grid of score bins has "
            "counts alone; leave --score-bins out."
        )
    if chosen.mix is not None:
        order = data.grid.order if isinstance(data, GridTable) else spec.order
        chosen = _check_random(spec, chosen, order, isinstance(data, GridTable))
    elif spec.randomise != "block":
        raise UsageError(f"--randomise {spec.randomise} goes with --method stochastic only.")
    if spec.folds < 0 or spec.folds == 1 or spec.folds > MOST_FOLDS:
        raise UsageError(f"--folds is {spec.folds}; expected 0 (none) or 2 to {MOST_FOLDS}.")
    if spec.groups is not None and spec.time is not None:
        raise UsageError("give --groups or --time: folds follow one of them.")
    if isinstance(data, GridTable):
        if chosen.surface is not None:
            raise UsageError(f"a grid has lost the scores; --method {chosen.name} needs the rows.")
        if spec.groups is not None or spec.time is not None:
            raise UsageError("a grid has lost its rows: --groups and --time need the rows.")
        return _plan_of_grid(spec, chosen, data.grid)
    levels = spec.uncertainty_bins
    if levels is None:
        levels = 1 if chosen.together or data.uncertainty is None else chosen.levels
    score_bins = chosen.score_bins if spec.score_bins is None else spec.score_bins
    if score_bins < 0:
        raise UsageError(f"--score-bins is {score_bins}; 0 stands for every distinct score.")
    if score_bins == 0 and chosen.needs_grid:
        raise UsageError(f"--method {chosen.name} needs score bins; --score-bins 0 has none.")
    if chosen.surface is not None:
        if score_bins:
            raise UsageError(
                f"--method {chosen.name} works on the scores themselves; leave --score-bins out."
            )
        chosen = on_scale(chosen, data.options.scale, spec.threads)
    check_bins(levels, max(score_bins, 1), has_uncertainty=data.uncertainty is not None)
    if spec.order == "score-uncertainty" and score_bins == 0:
        raise UsageError("--order score-uncertainty needs --score-bins.")
    return Plan(spec, chosen, levels, score_bins)


def _check_random(spec: BoundarySpec, chosen: Method, order: str, is_grid: bool) -> Method:
    if order == "score-uncertainty":
        raise UsageError(f"--method {chosen.name} goes with --order uncertainty-score only.")
    if spec.randomise == "block":
        return chosen
    if is_grid or spec.uncertainty_bins not in (None, 1) or spec.score_bins:
        raise UsageError(
            "--randomise tie is random at one score of all rows together: give the rows, not a grid, "
            "and leave out --uncertainty-bins and --score-bins; or use --randomise block."
        )
    return at_ties(chosen)


def _plan_of_grid(spec: BoundarySpec, chosen: Method, grid: Grid) -> Plan:
    levels, score_bins = grid.shape
    for option, asked, have in (
        ("--uncertainty-bins", spec.uncertainty_bins, levels),
        ("--score-bins", spec.score_bins, score_bins),
    ):
        if asked is not None and asked != have:
            raise UsageError(f"{option} is {asked}, but the grid has {have}; leave it out.")
    if spec.strategy != "equal-mass":
        raise UsageError(f"--strategy {spec.strategy}: the grid is binned already; leave it out.")
    if spec.order not in ("uncertainty-score", grid.order):
        raise UsageError(f"--order is {spec.order}, but the grid's is {grid.order}; leave it out.")
    return Plan(replace(spec, order=grid.order), chosen, levels, score_bins)
