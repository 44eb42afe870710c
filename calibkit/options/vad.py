"""The options of ``vad``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, cast

from calibkit.errors import ModelError, UsageError
from calibkit.options.option import listed, option
from calibkit.options.shared import (
    COLUMNS,
    By,
    FitOptions,
    FrameLike,
    ModelLike,
    Names,
    OnMissing,
    Scale,
    Weight,
    model_of,
)

if TYPE_CHECKING:
    from calibkit.models.model import Model

METHOD, TANDEM = "Method", "In tandem with a calibrator"


@dataclass(frozen=True, kw_only=True)
class VadOptions(FitOptions):
    """What `vad` fits, and on which columns."""

    members: Annotated[
        Names,
        option(
            metavar="PATTERN",
            group=COLUMNS,
            help="Scores of replicate predictors, first the one in service (names and globs; commas "
            "or repetition).",
            shown="score_*",
            many="commas",
            read=listed,
        ),
    ] = ("score_*",)
    link: Annotated[
        Literal["logit", "identity"],
        option(group=METHOD, help="The scale on which scores are compared and shrunk."),
    ] = "logit"
    replicates: Annotated[
        Literal["exchangeable", "bootstrap"],
        option(
            group=METHOD,
            help="exchangeable: all members made alike, such as by other seeds. bootstrap: the first "
            "is the fit on all rows, the others (two or more) are refits on bootstrap samples.",
        ),
    ] = "exchangeable"
    min_rows: Annotated[
        int,
        option(
            metavar="N",
            group=METHOD,
            least=2,
            help="With --by: values with fewer rows are shrunk as all rows together.",
        ),
    ] = 100
    calibrator: Annotated[
        ModelLike | None,
        option(
            metavar="MODEL",
            group=TANDEM,
            read=model_of,
            help="A calibrator to apply to the first member before; it becomes part of the model.",
            shown=False,
        ),
    ] = None
    calibrated: Annotated[
        str | None,
        option(
            metavar="NAME",
            group=TANDEM,
            help="Or the column of calibrated probabilities, which is then what apply reads.",
            shown=False,
        ),
    ] = None
    train_input: Annotated[
        FrameLike | None,
        option(
            metavar="FILE",
            group=TANDEM,
            path=True,
            help="Unlabelled rows with the same members, distributed like the training rows.",
            shown=False,
        ),
    ] = None
    scale: Scale = "probability"
    by: By = None
    weight: Weight = None
    on_missing: OnMissing = "error"

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

    @property
    def tandem(self) -> bool:
        """Whether a calibrator comes first."""
        return self.calibrator is not None or self.calibrated is not None

    def steps(self, members: int) -> list[str]:
        """Return what a fit does, in words."""
        how = "all" if self.replicates == "exchangeable" else "the others, bootstrap refits"
        return [
            f"compare {members} members on the {self.link} scale (replicates: {how})",
            "shrink the first one towards its mean by lambda",
        ]
