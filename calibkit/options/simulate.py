"""The options of ``simulate``: a class a kind of simulation, whose docstring is its help."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import Annotated, Any, Final, Literal

from calibkit.errors import UsageError
from calibkit.options.option import Options, listed, option
from calibkit.options.shared import Names, of_output, of_seed

of_truth, of_model = partial(option, group="Truth"), partial(option, group="Model")
of_models = partial(option, group="Models")

_LARGEST_EVIDENCE: Final = 10**9


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


class SimulateOptions(Options):
    """Generate score files with a known truth, to try methods on.

    Examples:
      calibkit simulate posterior --rows 10000 -o calib.parquet
      calibkit simulate selection --part test --rows 20000 -o test.parquet
      calibkit simulate raters --rows 1000 --raters 3 -o votes.parquet
    """

    rows: Annotated[int, of_output("How many rows.", "N", least=1)] = field(kw_only=False)
    keep: Names | None = of_output(
        "Columns to write (globs; commas or repetition).",
        "PATTERN",
        shown="all",
        many="commas",
        read=_keep,
    )
    seed: int = of_seed(
        "Random seed: same seed, same result.", default=0, most=2**64 - 1, env="CALIBKIT_SEED"
    )


class PosteriorOptions(SimulateOptions):
    """Simulate scores of a classifier trained on data of varying density.

    Each row has a true positivity, some training rows near it (its evidence), the score of a model
    that counted their labels, and a label. Where evidence is scarce the score is less certain, and
    here a boundary over score and uncertainty finds more than a threshold on the score.

    Columns: `id`, `label`, `score`, `uncertainty` (minus the strength of the model's posterior),
    `evidence`, `entropy` (of that posterior), `true_positivity` (the probability of label 1).

    Examples:
      calibkit simulate posterior --rows 100000 --seed 1 -o calib.parquet
      calibkit simulate posterior --rows 300 --keep 'label,score,uncertainty' | column -s, -t
    """

    true_prior: tuple[float, float] = of_truth(
        "The true positivity is drawn from Beta(B1, B0).", "B1,B0", default=(0.5, 1.5), read=_pair
    )
    evidence: tuple[int, int] = of_truth(
        "Training rows near a row: log-uniform over the whole numbers from MIN to MAX.",
        "MIN,MAX",
        default=(2, 1000),
        read=_whole_pair,
    )
    tau: float = of_truth(
        "Training kept negatives at rate 1/tau.", "NUMBER", default=3.0, least=1e-12, most=1e12
    )
    model_prior: tuple[float, float] = of_model(
        "Prior counts of the model: score = (P1 + positives) / (P1 + P0 + evidence).",
        "P1,P0",
        default=(0.05, 0.05),
        read=_pair,
    )
    theory: bool = of_output(
        "Add what theory says: `expected_positivity`, the mean true positivity of inputs with this "
        "score and evidence, and `bias`, the score less it.",
        default=False,
    )
    dtype: Literal["float64", "float32"] = of_output(
        "Type of the columns of real numbers.", default="float64"
    )

    def check(self) -> None:
        """Refuse priors, rates and numbers of rows that are none."""
        for name, (one, zero) in {"true": self.true_prior, "model": self.model_prior}.items():
            if not (0.0 < one < math.inf and 0.0 < zero < math.inf):
                raise UsageError(
                    f"the {name} prior is {one:g},{zero:g}; expected two positive numbers, "
                    "for the positives and for the negatives."
                )
        smallest, largest = self.evidence
        if not 1 <= smallest <= largest <= _LARGEST_EVIDENCE:
            raise UsageError(
                f"the evidence is {smallest:g},{largest:g}; expected a smallest and a largest "
                f"number of training rows, 1 <= smallest <= largest <= {_LARGEST_EVIDENCE}."
            )


class SelectionOptions(SimulateOptions):
    """Simulate scores of a model and of its bootstrap refits, on rows unlike the training rows.

    The model is unbiased, yet rows selected by its highest scores have fewer positives than the
    scores say: of rows equally good, those are taken whose error raises the score. All parts of one
    seed are scored by the same models.

    Columns: `id`, `label` (not in validation), `score_1` (the model), `score_2`, `score_3`, … (its
    refits), `true_probability`.

    Examples:
      calibkit simulate selection --rows 30000 --part validation -o unlabelled.parquet
      calibkit simulate selection --rows 30000 --part test -o test.parquet
      calibkit simulate selection --rows 30000 --part train --refits 3 --seed 1 -o like_training.parquet
    """

    # The function's word; nothing asks for a part of these options.
    part: Literal["test", "validation", "train"] = of_truth(
        "test: labelled, with shifted inputs. validation: the same without labels. "
        "train: labelled, with inputs like those of the training rows.",
        default="test",
    )  # type: ignore[assignment]
    shift: float = of_truth(
        "The inputs' mean in training; elsewhere it is minus this.",
        "NUMBER",
        default=0.05,
        least=-10,
        most=10,
    )
    inputs: int = of_models("How many inputs.", "D", default=20, least=1, most=1000)
    train_rows: int = of_models("How many rows models are fitted on.", "N", default=3000, least=2)
    refits: int = of_models("Bootstrap refits.", "S", default=2, least=1, most=1000)

    def check(self) -> None:
        """Refuse more training rows than fit into memory."""
        if self.train_rows * self.inputs > 10**9:
            raise UsageError(f"train rows is {self.train_rows}; expected 2 to 10^9 / inputs.")

    @property
    def scores(self) -> list[str]:
        """The names of the models' scores."""
        return [f"score_{place}" for place in range(1, self.refits + 2)]


class RatersOptions(SimulateOptions):
    """Simulate votes of several raters on two classes, and a model's class probabilities.

    Under `ideal` the model knows how likely each vote is: its losses of calibration and dispersion
    are 0, and what an estimator says beyond is its bias. Under `modes` there are clear rows, rows
    on which raters agree though the model cannot see which way, and rows on which they disagree.

    Columns: `id`, `prob_0`, `prob_1`, `count_0`, `count_1`; under `modes` also `true_probability`,
    `mode` and the indicators `feature_0` to `feature_9`.

    Examples:
      calibkit simulate raters --rows 10000 --raters 2 -o votes.parquet
      calibkit simulate raters --rows 10000 --design modes --seed 1 -o modes.parquet
    """

    design: Literal["ideal", "modes"] = of_truth(
        "How raters and the model behave.", default="ideal"
    )
    raters: int = of_truth("Votes a row.", "N", default=5, least=1, most=10**6)


class PartitionsOptions(SimulateOptions):
    """Simulate scores of a model that memorised its training rows.

    A binary pattern in the data helps; but on the rows it was trained on the model hardly needed
    it, and gave it half the weight that new rows ask for. Calibrating both values of the pattern
    apart corrects that, and ranks better.

    Columns: `id`, `label`, `score`, `feature_pattern`, `feature_noise` (of no use),
    `true_positivity`.

    Examples:
      calibkit simulate partitions --rows 20000 --seed 1 -o calib.parquet
      calibkit simulate partitions --rows 20000 --kind training -o train.parquet
    """

    kind: Literal["new", "training"] = of_truth(
        "New rows, or those the model was trained on.", default="new"
    )
    weight: float = of_model(
        "What the pattern adds to the linear score; new rows need 3.6 to 4.4.",
        "W",
        default=1.8,
        flags=("--pattern-weight",),
        least=-100,
        most=100,
    )


#: All kinds, in the order of the help.
KINDS: Final[Mapping[str, type[SimulateOptions]]] = {
    "posterior": PosteriorOptions,
    "selection": SelectionOptions,
    "raters": RatersOptions,
    "partitions": PartitionsOptions,
}
