"""The options of ``alpha-cal``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from calibkit.options.maps import METHOD, Penalties, chosen_penalties, one_pattern, penalties
from calibkit.options.option import listed, option
from calibkit.options.shared import (
    COLUMNS,
    Counts,
    FitOptions,
    Names,
    OnMissing,
    Probs,
    Scale,
    Seed,
)

#: Features that are made of the probabilities themselves.
OWN_FEATURES: Final = ("probs", "sorted-probs")


@dataclass(frozen=True, kw_only=True)
class AlphaOptions(FitOptions):
    """What `alpha-cal` fits, and on which columns."""

    features: Annotated[
        Names | None,
        option(
            metavar="PATTERN",
            group=COLUMNS,
            help="What alpha0 depends on: feature columns (names and globs), probs or sorted-probs "
            "(the logarithms of the probabilities, sorted).",
            shown="alpha0 is constant",
            many="commas",
            read=listed,
        ),
    ] = None
    map: Annotated[
        Literal["none", "temperature", "vector", "matrix"],
        option(group=METHOD, help="Calibrate the class probabilities first."),
    ] = "none"
    map_regularization: Annotated[
        Penalties,
        option(
            metavar="INTERCEPT[,OFF]|cv",
            group=METHOD,
            read=penalties,
            help="Penalties of --map vector and matrix; cv: chosen by cross-validation.",
            shown="cv",
        ),
    ] = "cv"
    regularization: Annotated[
        float,
        option(
            metavar="NUMBER",
            group=METHOD,
            least=0,
            help="Penalty of (ln alpha0)^2, a row.",
        ),
    ] = 0.005
    disagreement_map: Annotated[
        Literal["none", "isotonic"],
        option(
            group=METHOD,
            help="A rising step function on the predicted disagreement, which may also raise it.",
        ),
    ] = "none"
    probs: Probs = None
    counts: Counts = None
    scale: Scale = "probability"
    on_missing: OnMissing = "error"
    seed: Seed = 0

    def check(self) -> None:
        """Refuse more than one predictor."""
        one_pattern(self.probs)

    @property
    def of_rows(self) -> bool:
        """Whether a state holds the rows themselves: the fit goes through them many times."""
        return True

    @property
    def pattern(self) -> str:
        """The pattern of the class probabilities."""
        return one_pattern(self.probs)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of the features."""
        return listed(self.features or ())

    @property
    def columns_of_features(self) -> list[str]:
        """The columns that are features, where these were named one by one."""
        return [name for name in self.patterns if name not in OWN_FEATURES]

    @property
    def penalties(self) -> tuple[float, float] | None:
        """Penalties of the map of class probabilities; None chooses them by cross-validation."""
        return chosen_penalties(self.map_regularization)

    def steps(self, features: list[str] | str | None) -> list[str]:
        """Return in words what the fit will do with the features that were found."""
        said = [] if self.map == "none" else [f"fit {self.map} scaling of the logits"]
        if features is None:
            said.append("fit one alpha0 for all rows")
        elif isinstance(features, str):
            said.append(f"fit ln alpha0 linear in {features}")
        else:
            said.append(f"fit ln alpha0 linear in {len(features)} features")
        if self.disagreement_map != "none":
            said.append("fit a rising step function to the predicted disagreement")
        return said
