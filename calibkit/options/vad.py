"""The options of ``vad``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from calibkit.errors import ModelError, UsageError
from calibkit.options import shared
from calibkit.options.option import listed, option
from calibkit.options.shared import of_method

if TYPE_CHECKING:
    from calibkit.models.model import Model

of_tandem = partial(option, group="In tandem with a calibrator")


class VadOptions(shared.Segmented, shared.FitOptions):
    """Shrink scores so that selected rows are not over-scored: variance-adjusting debiasing.

    Rows selected for their high scores are over-scored: errors that raise a score are selected
    more often. Replicates of the model (other seeds, bootstrap refits) show how large such errors
    are. No labels are needed, and the rows may be distributed differently from the training rows.

    Examples:
      calibkit vad unlabelled.parquet -o vad.json
      calibkit vad unlabelled.parquet --members 'p_*' --replicates bootstrap --by country -o vad.json
      calibkit vad unlabelled.csv --calibrator cal.json --train-input like_training.csv -o vad.json
    """

    members: shared.Names = shared.of_patterns(
        "Scores of replicate predictors, first the one in service (names and globs; commas "
        "or repetition).",
        default=("score_*",),
    )
    link: Literal["logit", "identity"] = of_method(
        "The scale on which scores are compared and shrunk.", default="logit"
    )
    replicates: Literal["exchangeable", "bootstrap"] = of_method(
        "exchangeable: all members made alike, such as by other seeds. bootstrap: the first "
        "is the fit on all rows, the others (two or more) are refits on bootstrap samples.",
        default="exchangeable",
    )
    min_rows: int = of_method(
        "With --by: values with fewer rows use the fit of all rows.", "N", default=100, least=2
    )
    calibrator: shared.ModelLike | None = of_tandem(
        "A calibrator to apply to the first member beforehand; it becomes part of the model.",
        "MODEL",
        read=shared.model_of,
    )
    calibrated: str | None = of_tandem(
        "Alternatively, the column of calibrated probabilities, which apply then reads.", "NAME"
    )
    train_input: shared.FrameLike | None = of_tandem(
        "Unlabelled rows with the same members, distributed as in training.", "FILE", path=True
    )

    def check(self) -> None:
        """Refuse choices that exclude each other, and a model of another kind."""
        if self.link == "logit" and self.scale == "raw":
            raise UsageError(
                "--link logit needs probabilities or their logits; --scale raw goes with "
                "--link identity."
            )
        if self.map is None:
            return
        if self.map.kind != "calibrator":
            raise ModelError(
                f"--calibrator holds a model of kind {self.map.kind!r}; expected one that "
                "calibrate wrote"
            )
        if self.calibrated is not None:
            raise UsageError("--calibrator and --calibrated say the same; keep one.")
        score = self.map.columns.get("score")
        if score is None:
            raise UsageError(
                "--calibrator holds a map of class probabilities; expected one of scores."
            )
        if score.scale not in (None, self.scale):
            raise UsageError(
                f"--calibrator was fitted on scores of --scale {score.scale}, but the members are "
                f"of --scale {self.scale}."
            )

    @property
    def map(self) -> Model | None:
        """The calibrator, if there is one."""
        return cast("Model | None", self.calibrator)

    @property
    def names(self) -> tuple[str, ...]:
        """The members as they are named: columns and globs."""
        return listed(self.members)

    def steps(self, members: int) -> list[str]:
        """Return what a fit does, in words."""
        how = "all" if self.replicates == "exchangeable" else "the others, bootstrap refits"
        return [
            f"compare {members} members on the {self.link} scale (replicates: {how})",
            "shrink the first one towards its mean by lambda",
        ]
