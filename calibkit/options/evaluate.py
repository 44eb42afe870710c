"""The options of ``evaluate``; those of what judges scores by labels or votes ``plot`` has too."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

from calibkit.errors import UsageError
from calibkit.models.scales import measure
from calibkit.numerics.bounds import is_decimal
from calibkit.options import shared
from calibkit.options.option import Options, inside, listed, option
from calibkit.options.shared import FrameLike, Names, named_column

if TYPE_CHECKING:
    from calibkit.files.sources import Source
    from calibkit.models.model import Model
    from calibkit.numerics.bounds import Bound
    from calibkit.options.metrics import Settings, Share

of_slices, of_metrics = partial(option, group="Slices"), partial(option, group="Metrics")
of_votes = partial(option, group="Votes of several raters")

#: The bins of reliability; of votes always so many.
_BINS: Final = 15
#: Options that mean nothing for class probabilities.
_OF_SCORES: Final = (
    *("boundary", "decision", "threshold", "grid", "top"),
    *("weight", "groups", "prevalence", "positive", "recall_at_precision", "precision_at_recall"),
)

BinStrategy = Literal["equal-width", "equal-mass", "range"]
#: Numbers, by their shortest decimal, or as text; one or several.
Numbers = float | str | tuple[str, ...] | list[float] | list[str]


def decimals(value: Any, flag: str) -> tuple[str, ...]:
    """Return numbers as they would be typed: one, several, or text with commas between them."""
    if isinstance(value, str):
        return listed(value)
    several = list(value) if isinstance(value, Sequence) else [value]
    if not all(isinstance(one, str | int | float) for one in several):
        raise UsageError(f"{flag} is {value!r}; expected a number, or a list of numbers.")
    return tuple(map(str, several))


#: One number or several.
of_numbers = partial(option, many="commas", read=decimals)


def _metrics(value: Any, flag: str) -> tuple[str, ...]:
    """Return names of metrics; a text has commas between them, and between the parameters of one."""
    if isinstance(value, str):
        value = [one.strip() for one in re.split(r",(?!\s*[-+.\d])", value) if one.strip()]
    return listed(value, flag)


def _complete_metrics(incomplete: str) -> list[str]:
    """Complete the last of a list of metrics with commas."""
    from calibkit.options.metrics import MEANINGS

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in MEANINGS if name.startswith(last)]


class Intervals(Options):
    """Whether there are intervals, and how sure they are."""

    confidence: float = of_metrics("Confidence of the intervals.", "C", default=0.95)
    intervals: bool = of_metrics("No intervals.", flags=("--no-intervals",), default=True)

    def check(self) -> None:
        """Refuse a confidence that is none."""
        super().check()
        if not 0.0 < self.confidence < 1.0:
            raise UsageError(f"--confidence is {self.confidence:g}; expected more than 0, below 1.")

    @property
    def sure(self) -> float | None:
        """The confidence of intervals; None where none are wanted."""
        return self.confidence if self.intervals else None


class Scored(Options):
    """Scores, one or several."""

    scores: Names | None = named_column(
        "Column with the score of the positive class; may be repeated.",
        flags=("--score",),
        shown="score",
        many="commas",
    )

    @property
    def names(self) -> tuple[str, ...]:
        """The scores, each once."""
        return tuple(dict.fromkeys(listed(self.scores or "score")))


class EvaluateOptions(shared.Segmented, shared.Seeded, Scored, shared.JudgedClasses, Intervals):
    """Judge scores by labels: ranking, calibration and decisions, with intervals.

    The result is metrics.json, as DVC and MLflow read it: a number for each score, slice and
    metric.

    Examples:
      calibkit evaluate test.parquet -o metrics.json
      calibkit evaluate test.parquet --score new --score old --baseline old --top 0.02,0.1
      calibkit evaluate test.csv --boundary boundary.json --by country -o metrics.json
      calibkit evaluate test.parquet --boundary boundary.json --report report.html -o metrics.json
      calibkit evaluate test.parquet --boundary boundary.json --decision-curve costs.csv -o metrics.json
      calibkit evaluate test.parquet --metrics auc,ece --fail-if 'auc<0.75' -o metrics.json
      calibkit evaluate test.parquet --probs 'prob_*' --label class -o metrics.json
      calibkit evaluate votes.parquet --probs 'prob_*' --counts 'count_*' -o metrics.json
    """

    baseline: str | None = named_column(
        "The score that the others are compared with.", shown="the first score"
    )
    uncertainty: Annotated[str | None, shared.ColumnOptions] = None
    weight_kind: Annotated[Literal["frequency", "sampling"], shared.ColumnOptions] = "frequency"
    groups: str | None = named_column(
        "Column of rows that belong together (user, patient): in intervals they vary together.",
        shown="none",
    )
    top: Numbers | None = of_numbers(
        "Also judge the rows with the highest scores: shares such as 0.02,0.1; ties are kept whole.",
        "SHARES",
        group="Slices",
    )
    top_by: str | None = of_slices(
        "The column that ranks rows for --top.", "NAME", shown="the baseline"
    )
    min_rows: int = of_slices(
        "Metrics of a --by value with fewer rows are null.", "ROWS", least=0, default=100
    )
    bins: int = of_metrics("Bins of ece and mce.", "M", least=1, most=65_535, default=_BINS)
    bin_strategy: BinStrategy = of_metrics(
        "Bins of equal width over [0, 1], of equal mass, or of equal width over the range of "
        "the scores.",
        default="equal-width",
    )
    recall_at_precision: Numbers | None = of_numbers(
        "The highest recall of one threshold with precision >= P; may be repeated.",
        "P",
        group="Metrics",
    )
    precision_at_recall: Numbers | None = of_numbers(
        "The highest precision of one threshold with recall >= R; may be repeated.",
        "R",
        group="Metrics",
    )
    boundary: shared.ModelLike | None = of_metrics(
        "Judge the decisions of a boundary, under the score 'boundary'.", "MODEL"
    )
    decision: str | None = of_metrics("Judge a column of decisions: 0/1, boolean or t/f.", "NAME")
    threshold: Numbers | None = of_numbers(
        "Judge the decision to flag rows with score >= X, under the score 'threshold:X'; may be "
        "repeated. With several scores the baseline decides.",
        "X",
        group="Metrics",
    )
    grid: FrameLike | None = of_metrics(
        "A table of `calibkit bin`: calibration error over its cells, ece_at:J for score bin J.",
        "FILE",
        path=True,
    )
    grid_score: str | None = of_metrics(
        "The column with the score that the grid bins.", "NAME", shown="as the grid names it"
    )
    metrics: shared.Names | None = of_metrics(
        "Only these metrics.",
        "LIST",
        shown="all",
        many="commas",
        completes=_complete_metrics,
        read=_metrics,
    )
    prevalence: float | str | None = of_metrics(
        "Reweight the classes to this share of positives.",
        "P",
        read=lambda value, flag: str(inside(str(value), flag, "more than 0 and less than 1")),
    )
    ensemble: bool = of_votes(
        "With --counts: the patterns of --probs are members of one predictor, their mean.",
        default=False,
    )
    alpha0: Names | None = of_votes(
        "With --counts: column of strengths, as alpha-cal adds it; one for all patterns of "
        "--probs, or one for each.",
        "NAME",
        many="commas",
    )
    disagreement: str | None = of_votes(
        "With --counts: column of the predicted probability that two raters differ.",
        "NAME",
        shown="as the class probabilities (and --alpha0) say",
    )
    class_disagreement: str | None = of_votes(
        "With --counts: columns of the predicted probability that they differ about a class.",
        "PATTERN",
        shown="as the class probabilities (and --alpha0) say",
    )
    rater_weight: str | None = of_votes(
        "With --counts: a column of weights of the rows in squared_loss.", "NAME"
    )

    def check(self) -> None:
        """Refuse options that contradict each other."""
        super().check()
        if (self.probs or self.counts) and self.scores:
            raise UsageError("--probs and --score: evaluate one of them at a time.")
        self._check_votes()
        _ = self.tops, self._chosen  # these are read here, so that a wrong one is refused at once
        if self.top_by is not None and not self.tops:
            raise UsageError("--top-by chooses the rows of --top; name shares by --top 0.02,0.1.")
        if self.grid_score is not None and self.grid is None:
            raise UsageError("--grid-score is the score of --grid; name its table.")
        if self.uncertainty is not None and self.grid is None and self.boundary is None:
            raise UsageError("--uncertainty is that of --grid or --boundary; leave it out.")
        if self.boundary is not None and self.decision is not None:
            raise UsageError("--boundary and --decision: judge one of them at a time.")
        named = "boundary" if self.boundary is not None else self.decision
        for name in (named, *self.thresholds):
            if name in self.ranked or (name == named and name in self.thresholds):
                raise UsageError(f"{name!r} is a score and names the decisions; rename the column.")
        if self.patterns:
            self._check_classes()

    def _check_votes(self) -> None:
        given = self.disagreement or self.class_disagreement
        if self.counts is None:
            if self.ensemble or self.alpha0 or given or self.rater_weight:
                raise UsageError(
                    "--ensemble, --alpha0, --rater-weight and disagreements are judged by votes: "
                    "name --counts."
                )
            return
        strengths, predictors = len(self.strengths), len(self.patterns)
        if strengths not in (0, 1, predictors):
            raise UsageError(
                f"--alpha0 names {strengths} columns for {predictors} predictors; name one "
                "for all of them, or one for each."
            )
        if given and predictors > 1 and not self.ensemble:
            raise UsageError(
                "--disagreement goes with one predictor: give --probs once, or add --ensemble."
            )
        if self.ensemble and self.baseline is not None:
            raise UsageError("--baseline: an ensemble is one predictor, with none to compare with.")
        if self.weight_kind == "sampling":
            raise UsageError("--weight-kind sampling goes with a score, not with votes.")
        if self.bins != _BINS or self.bin_strategy != "equal-width":
            raise UsageError(
                f"--bins and --bin-strategy: votes are judged in {_BINS} bins of equal width; leave "
                "them out."
            )

    def _check_classes(self) -> None:
        for name in _OF_SCORES:
            of_votes = self.counts is not None and name in ("weight", "groups")
            if getattr(self, name) is not None and not of_votes:
                flag = name.replace("_", "-")
                raise UsageError(f"--{flag} goes with a score, not with class probabilities.")

    @property
    def ranked(self) -> tuple[str, ...]:
        """The score columns, the baseline first."""
        first = [self.baseline] if self.baseline and not self.patterns else []
        return tuple(dict.fromkeys([*first, *self.names]))

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of class probabilities, one a predictor; none where scores are judged."""
        return listed(self.probs or ("prob_*" if self.counts is not None else ()))

    @property
    def strengths(self) -> tuple[str, ...]:
        """The columns of strengths, as ``--alpha0`` names them."""
        return listed(self.alpha0 or ())

    @property
    def columns(self) -> shared.ColumnOptions:
        """What the columns are called, and how they are read; the score is the baseline."""
        first = self.ranked[0]
        return self.part(
            shared.ColumnOptions, score=first, uncertainty=None, weight_kind="frequency"
        )

    @cached_property
    def model(self) -> Model | None:
        """The model whose decisions are judged."""
        return None if self.boundary is None else shared.model_of(self.boundary, "--boundary")

    @cached_property
    def grid_table(self) -> Source | None:
        """The table over whose cells calibration is judged."""
        from calibkit.files.frames import open_frame

        return None if self.grid is None else open_frame(self.grid, "grid")

    @cached_property
    def thresholds(self) -> dict[str, float]:
        """The thresholds to judge, by the name under which their metrics stand."""
        found = {}
        for text in listed(cast("Sequence[str]", self.threshold or ())):
            value = float(text) if is_decimal(text) else math.nan
            if not math.isfinite(value):
                raise UsageError(f"--threshold is {text!r}; expected a number.")
            found[f"threshold:{text}"] = value
        return found

    @cached_property
    def tops(self) -> tuple[Share, ...]:
        """The shares of the rows with the highest scores that are slices."""
        from calibkit.options.metrics import read_shares

        return read_shares(cast("Sequence[str]", self.top or ()))

    @cached_property
    def _chosen(self) -> tuple[tuple[str, ...] | None, dict[str, list[Bound]]]:
        from calibkit.options.metrics import WITH_BOUND, read_bounds, read_metrics

        bounds = {name: read_bounds(name, getattr(self, name) or ()) for name in WITH_BOUND}
        return read_metrics(listed(self.metrics or ()), bounds), bounds

    @property
    def chosen(self) -> tuple[str, ...] | None:
        """The names of the metrics wanted, with their bounds; None is all."""
        return self._chosen[0]

    @cached_property
    def settings(self) -> Settings:
        """What shapes the metrics."""
        from calibkit.options.metrics import Settings

        bounds = self._chosen[1]
        return self.part(
            Settings,
            scale=measure(self.scale),
            strategy=self.bin_strategy,
            precisions=tuple(dict.fromkeys(bounds["recall_at_precision"])),
            recalls=tuple(dict.fromkeys(bounds["precision_at_recall"])),
            weighted=self.weight is not None,
            threads=self.workers,
        )

    @property
    def needs_each(self) -> str | None:
        """The option that needs every row as it is, if one does."""
        needing = {
            "--groups": self.groups,
            "--weight-kind sampling": self.weight_kind == "sampling",
            "--prevalence (its intervals)": self.intervals and self.prevalence,
        }
        return next((flag for flag, given in needing.items() if given), None)

    def wanted(self, known: Sequence[str]) -> list[str]:
        """Return the metrics that are wanted of some known ones."""
        from calibkit.options.metrics import ON_REQUEST

        if self.chosen is None:
            return [name for name in known if name not in ON_REQUEST]
        return [name for name in known if name in self.chosen]

    def steps(self) -> list[str]:
        """Return what an evaluation does, in words."""
        slices = ["all rows", *(f"the top {share.text}" for share in self.tops)]
        slices += [f"each value of {self.by!r}"] if self.by else []
        names = "all metrics" if self.chosen is None else ", ".join(self.chosen)
        return [f"compute {names} on {', '.join(slices)}"]
