"""What to evaluate: the options of ``calibkit evaluate``, checked as far as they can be unread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from calibkit.bounds import Bound, decimal_bound
from calibkit.columns import ColumnOptions
from calibkit.errors import UsageError, nearest
from calibkit.metrics import cells, decisions, multiclass, registry
from calibkit.metrics.reliability import STRATEGIES
from calibkit.metrics.views import Settings


@dataclass(frozen=True)
class Share:
    """A share of the rows, and how it was typed."""

    text: str
    bound: Bound


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
        A model whose decisions are judged, or a column that holds them.
    grid, grid_score
        A table of `calibkit bin` over whose cells ECE@j is taken, and the score column it bins
        (None: as the table says).
    groups
        The column of rows that belong together.
    intervals, confidence, seed
        Whether intervals are wanted, of which confidence, and where their randomness begins.
    probs
        Patterns of class probabilities: several classes instead of a score.
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
    boundary: str | None = None
    decision: str | None = None
    grid: str | None = None
    grid_score: str | None = None
    groups: str | None = None
    intervals: bool = True
    confidence: float = 0.95
    seed: int = 0
    probs: tuple[str, ...] = ()
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
        if self.boundary is not None and self.decision is not None:
            raise UsageError("--boundary and --decision: judge one of them at a time.")
        if self.probs:
            self._check_multiclass()

    def _check_multiclass(self) -> None:
        without = {
            "--boundary": self.boundary,
            "--decision": self.decision,
            "--grid": self.grid,
            "--top": self.tops,
            "--weight": self.columns.weight,
            "--groups": self.groups,
            "--prevalence": self.settings.prevalence,
            "--positive": self.columns.positive,
            "--reliability": self.curves,
        }
        for option, value in without.items():
            if value:
                raise UsageError(f"{option} goes with a score, not with class probabilities.")

    def wanted(self, known: Sequence[str]) -> list[str]:
        """Return the metrics that are wanted of some known ones."""
        return [name for name in known if self.metrics is None or name in self.metrics]


def read_shares(texts: Sequence[str]) -> tuple[Share, ...]:
    """Return the shares of ``--top``.

    Raises
    ------
    UsageError
        For text that is no number above 0 and up to 1, or one given twice.
    """
    found: dict[Bound, Share] = {}
    for text in texts:
        bound = decimal_bound(text, "--top")
        if not bound.numerator:
            raise UsageError(f"--top is {text}; expected a share above 0, up to 1.")
        if bound in found:
            raise UsageError(f"--top has {found[bound].text} and {text}, which are one share.")
        found[bound] = Share(text, bound)
    return tuple(found.values())


def read_metrics(
    texts: Sequence[str], precisions: Sequence[str], recalls: Sequence[str]
) -> tuple[tuple[str, ...] | None, tuple[Bound, ...], tuple[Bound, ...]]:
    """Return the metrics wanted (None: all), and the bounds of those that take one.

    Bounds come from options of their own or with the name: ``recall_at_precision:0.9``.

    Raises
    ------
    UsageError
        For names that are not known, all of them in one message.
    """
    bounds = {
        "recall_at_precision": [_bound(text, "--recall-at-precision") for text in precisions],
        "precision_at_recall": [_bound(text, "--precision-at-recall") for text in recalls],
    }
    plain = (
        set(registry.metrics()) | decisions.METRICS.keys() | multiclass.METRICS.keys()
    ) - bounds.keys()
    wanted, unknown = [], []
    for text in texts:
        name, _, parameter = text.partition(":")
        if name in bounds and parameter:
            bound = _bound(parameter, name)
            bounds[name].append(bound)
            wanted.append(f"{name}:{bound}")
        elif name in bounds:
            if not bounds[name]:
                raise UsageError(f"--metrics {name} needs a bound, such as {name}:0.9.")
            wanted += [f"{name}:{bound}" for bound in bounds[name]]
        elif text in plain or (name in cells.NAMES and parameter.isdecimal()):
            wanted.append(text)
        else:
            unknown.append(text)
    if unknown:
        known = sorted(plain | bounds.keys() | {f"{name}:J" for name in cells.NAMES})
        hints = "".join(f" {text!r}{nearest(text, known)}" for text in unknown)
        raise UsageError(f"--metrics: not known:{hints}; the metrics are {', '.join(known)}.")
    precise, recalled = (tuple(dict.fromkeys(found)) for found in bounds.values())
    return tuple(dict.fromkeys(wanted)) if texts else None, precise, recalled


def _bound(text: str, name: str) -> Bound:
    bound = decimal_bound(text, name)
    if not bound.numerator:
        raise UsageError(f"{name} is {text}; expected more than 0, at most 1.")
    return bound
