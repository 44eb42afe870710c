"""The options of ``simulate``: a class a kind of simulation, whose docstring is its help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from calibkit.errors import UsageError
from calibkit.options.option import Options, listed, option
from calibkit.options.shared import OUTPUT, RUN, Names

TRUTH, MODEL, MODELS = "Truth", "Model", "Models"

_LARGEST_EVIDENCE: Final = 10**9
_MOST_RATERS: Final = 10**6
_MOST_INPUTS: Final = 1000
_MOST_REFITS: Final = 1000


def _keep(value: Any, flag: str) -> tuple[str, ...]:
    found = listed(value, flag)
    if not found and not isinstance(value, str):
        raise UsageError("no column is kept; name at least one.")
    return found


def _pair(value: Any, flag: str) -> tuple[float, float]:
    """Return two numbers: a pair, or text with a comma between them."""
    parts = value.split(",") if isinstance(value, str) else value
    try:
        first, second = (float(part) for part in parts)
    except (TypeError, ValueError):
        raise UsageError(f"{flag} is {value!r}; expected two numbers, such as 0.5,1.5.") from None
    return first, second


def _whole_pair(value: Any, flag: str) -> tuple[int, int]:
    first, second = _pair(value, flag)
    if not all(math.isfinite(number) and number == int(number) for number in (first, second)):
        raise UsageError(f"{flag} is {value!r}; expected two whole numbers, such as 2,1000.")
    return int(first), int(second)


def _told(pair: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in pair)


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(Options):
    """What every simulation takes: how many rows, which columns, and where randomness begins."""

    rows: Annotated[int, option(metavar="N", group=OUTPUT, least=1, help="How many rows.")] = field(
        kw_only=False
    )
    keep: Annotated[
        Names | None,
        option(
            metavar="PATTERN",
            group=OUTPUT,
            help="Columns to write (globs; commas or repetition).",
            shown="all",
            many="commas",
            read=_keep,
        ),
    ] = None
    seed: Annotated[
        int,
        option(
            metavar="NUMBER",
            group=RUN,
            least=0,
            most=2**64 - 1,
            env="CALIBKIT_SEED",
            help="Where randomness begins: same seed, same result.",
        ),
    ] = 0

    @property
    def kept(self) -> tuple[str, ...] | None:
        """The patterns of the columns wanted; None: all."""
        return None if self.keep is None else listed(self.keep)


@dataclass(frozen=True, kw_only=True)
class PosteriorOptions(SimulateOptions):
    """Simulate scores of a classifier trained on data of varying density.

    Each row has a true positivity, some training rows near it (its evidence), the score of a model
    that counted their labels, and a label. Where evidence is scarce the score is less certain, and
    here a boundary over score and uncertainty finds more than a threshold on the score.

    Columns: `id`, `label`, `score`, `uncertainty` (minus the strength of the model's posterior),
    `evidence`, `entropy` (of that posterior), `true_positivity` (the probability of label 1).
    """

    true_prior: Annotated[
        tuple[float, float],
        option(
            metavar="B1,B0",
            group=TRUTH,
            read=_pair,
            help="The true positivity is drawn from Beta(B1, B0).",
            shown="0.5,1.5",
        ),
    ] = (0.5, 1.5)
    evidence: Annotated[
        tuple[int, int],
        option(
            metavar="MIN,MAX",
            group=TRUTH,
            read=_whole_pair,
            help="Training rows near a row: log-uniform over the whole numbers from MIN to MAX.",
            shown="2,1000",
        ),
    ] = (2, 1000)
    tau: Annotated[
        float,
        option(
            metavar="NUMBER",
            group=TRUTH,
            least=1e-12,
            most=1e12,
            help="In training, negatives were kept at the rate 1/tau.",
        ),
    ] = 3.0
    model_prior: Annotated[
        tuple[float, float],
        option(
            metavar="P1,P0",
            group=MODEL,
            read=_pair,
            help="Prior counts of the model: score = (P1 + positives) / (P1 + P0 + evidence).",
            shown="0.05,0.05",
        ),
    ] = (0.05, 0.05)
    dtype: Annotated[
        Literal["float64", "float32"],
        option(group=OUTPUT, help="Of the columns that hold real numbers."),
    ] = "float64"

    def check(self) -> None:
        """Refuse priors, rates and numbers of rows that are none."""
        for name, prior in (("true prior", self.true_prior), ("model prior", self.model_prior)):
            if not all(math.isfinite(number) and number > 0 for number in prior):
                raise UsageError(
                    f"the {name} is {_told(prior)}; expected two positive numbers, "
                    "for the positives and for the negatives."
                )
        smallest, largest = self.evidence
        if not 1 <= smallest <= largest <= _LARGEST_EVIDENCE:
            raise UsageError(
                f"the evidence is {_told(self.evidence)}; expected a smallest and a largest "
                f"number of training rows, 1 <= smallest <= largest <= {_LARGEST_EVIDENCE}."
            )


@dataclass(frozen=True, kw_only=True)
class SelectionOptions(SimulateOptions):
    """Simulate scores of a model and of its bootstrap refits, on rows unlike the training rows.

    The model is unbiased, yet rows selected by its highest scores have fewer positives than the
    scores say: of rows equally good, those are taken whose error raises the score. All parts of one
    seed are scored by the same models.

    Columns: `id`, `label` (not in validation), `score_1` (the model), `score_2`, `score_3`, … (its
    refits), `true_probability`.
    """

    # The function's word; nothing asks for a part of these options.
    part: Annotated[
        Literal["test", "validation", "train"],
        option(
            group=TRUTH,
            help="test: labelled, with shifted inputs. validation: the same without labels. "
            "train: labelled, with inputs like those of the training rows.",
        ),
    ] = "test"  # type: ignore[assignment]
    shift: Annotated[
        float,
        option(
            metavar="NUMBER",
            group=TRUTH,
            least=-10,
            most=10,
            help="The inputs' mean in training; elsewhere it is minus this.",
        ),
    ] = 0.05
    inputs: Annotated[
        int,
        option(
            metavar="D",
            group=MODELS,
            least=1,
            most=_MOST_INPUTS,
            help="How many inputs there are.",
        ),
    ] = 20
    train_rows: Annotated[
        int,
        option(metavar="N", group=MODELS, least=2, help="On how many rows the models are fitted."),
    ] = 3000
    refits: Annotated[
        int,
        option(metavar="S", group=MODELS, least=1, most=_MOST_REFITS, help="Bootstrap refits."),
    ] = 2

    def check(self) -> None:
        """Refuse more training rows than fit into memory."""
        if self.train_rows * self.inputs > 10**9:
            raise UsageError(f"train rows is {self.train_rows}; expected 2 to 10^9 / inputs.")

    @property
    def scores(self) -> list[str]:
        """The names of the models' scores."""
        return [f"score_{place}" for place in range(1, self.refits + 2)]


@dataclass(frozen=True, kw_only=True)
class RatersOptions(SimulateOptions):
    """Simulate votes of several raters on two classes, and a model's class probabilities.

    Under `ideal` the model knows how likely each vote is: its losses of calibration and dispersion
    are 0, and what an estimator says beyond is its bias. Under `modes` there are clear rows, rows
    on which raters agree though the model cannot see which way, and rows on which they disagree.

    Columns: `id`, `prob_0`, `prob_1`, `count_0`, `count_1`; under `modes` also `true_probability`,
    `mode` and the indicators `feature_0` to `feature_9`.
    """

    design: Annotated[
        Literal["ideal", "modes"],
        option(group=TRUTH, help="What the raters and the model are like."),
    ] = "ideal"
    raters: Annotated[
        int, option(metavar="N", group=TRUTH, least=1, most=_MOST_RATERS, help="Votes a row.")
    ] = 5


@dataclass(frozen=True, kw_only=True)
class PartitionsOptions(SimulateOptions):
    """Simulate scores of a model that memorised its training rows.

    A binary pattern in the data helps; but on the rows it was trained on the model hardly needed
    it, and gave it half the weight that new rows ask for. Calibrating both values of the pattern
    apart mends that, and ranks better.

    Columns: `id`, `label`, `score`, `feature_pattern`, `feature_noise` (of no use),
    `true_positivity`.
    """

    kind: Annotated[
        Literal["new", "training"],
        option(group=TRUTH, help="New rows, or those the model was trained on."),
    ] = "new"
    weight: Annotated[
        float,
        option(
            "--pattern-weight",
            metavar="W",
            group=MODEL,
            least=-100,
            most=100,
            help="What the pattern adds to the linear score; new rows ask for 3.6 to 4.4.",
        ),
    ] = 1.8
