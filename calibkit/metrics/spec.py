"""What to evaluate: the options of ``calibkit evaluate``, checked as far as they can be unread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.metrics.reliability import STRATEGIES
from calibkit.metrics.settings import Share
from calibkit.metrics.views import Settings
from calibkit.models import Model
from calibkit.raters.spec import Votes
from calibkit.rows.columns import ColumnOptions


@dataclass(frozen=True, kw_only=True)
class EvaluateSpec:
    """What to evaluate.

    Attributes
    ----------
    scores
        Score columns, the baseline first.
    columns
        How columns are read; its `score` is the first of `scores`.
    settings
        What shapes the metrics.
    tops, top_by
        Shares of the rows with the largest values of a column (None: the baseline), as slices.
    by, min_rows
        A column whose values are slices, and the rows below which their metrics are null.
    metrics
        The names of the metrics wanted; None is all.
    boundary, decision
        A model (or its file) whose decisions are judged, or a column that holds them.
    grid, grid_score
        A table of `calibkit bin` (or its file) over whose cells ECE@j is taken, and the score column
        it bins (None: as the table says).
    groups
        The column of rows that belong together.
    intervals, confidence, seed
        Whether intervals are wanted, of which confidence, and where their randomness begins.
    probs
        Patterns of class probabilities: several classes instead of a score.
    votes
        The votes of several raters that judge class probabilities; None: a label does.
    curves
        Whether reliability diagrams are wanted.
    """

    scores: tuple[str, ...]
    columns: ColumnOptions
    settings: Settings = field(default_factory=Settings)
    tops: tuple[Share, ...] = ()
    top_by: str | None = None
    by: str | None = None
    min_rows: int = 100
    metrics: tuple[str, ...] | None = None
    boundary: str | Model | None = None
    decision: str | None = None
    grid: str | Source | None = None
    grid_score: str | None = None
    groups: str | None = None
    intervals: bool = True
    confidence: float = 0.95
    seed: int = 0
    probs: tuple[str, ...] = ()
    votes: Votes | None = None
    curves: bool = False

    def __post_init__(self) -> None:
        if self.settings.strategy not in STRATEGIES:
            raise UsageError(
                f"--bin-strategy {self.settings.strategy!r} is not known; use one of "
                f"{', '.join(STRATEGIES)}."
            )
        if not 0.0 < self.confidence < 1.0:
            raise UsageError(f"--confidence is {self.confidence:g}; expected more than 0, below 1.")
        if self.top_by is not None and not self.tops:
            raise UsageError("--top-by chooses the rows of --top; name shares by --top 0.02,0.1.")
        if self.grid_score is not None and self.grid is None:
            raise UsageError("--grid-score is the score of --grid; name its table.")
        if self.columns.uncertainty is not None and self.grid is None and self.boundary is None:
            raise UsageError("--uncertainty is that of --grid or --boundary; leave it out.")
        if self.boundary is not None and self.decision is not None:
            raise UsageError("--boundary and --decision: judge one of them at a time.")
        named = "boundary" if self.boundary is not None else self.decision
        if named in self.scores:
            raise UsageError(f"{named!r} is a score and names the decisions; rename the column.")
        if self.votes is not None:
            self.votes.check(len(self.probs))
            if self.settings.weight_kind == "sampling":
                raise UsageError("--weight-kind sampling goes with a score, not with votes.")
        if self.probs:
            self._check_classes()

    def _check_classes(self) -> None:
        without = {
            "--boundary": self.boundary,
            "--decision": self.decision,
            "--grid": self.grid,
            "--top": self.tops,
            "--weight": None if self.votes else self.columns.weight,
            "--groups": None if self.votes else self.groups,
            "--prevalence": self.settings.prevalence,
            "--positive": self.columns.positive,
        }
        for option, value in without.items():
            if value:
                raise UsageError(f"{option} goes with a score, not with class probabilities.")

    @property
    def needs_each(self) -> str | None:
        """The option that needs every row as it is, if one does."""
        for option, given in (
            ("--groups", self.groups),
            ("--weight-kind sampling", self.settings.weight_kind == "sampling"),
            ("--prevalence (its intervals)", self.intervals and self.settings.prevalence),
        ):
            if given:
                return option
        return None

    def wanted(self, known: Sequence[str]) -> list[str]:
        """Return the metrics that are wanted of some known ones."""
        return [name for name in known if self.metrics is None or name in self.metrics]
