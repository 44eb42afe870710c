"""The options of ``alpha-cal``."""

from __future__ import annotations

from typing import Final, Literal

from calibkit.errors import UsageError
from calibkit.options import shared
from calibkit.options.calibrate import Penalties, penalties
from calibkit.options.option import listed
from calibkit.options.shared import of_method

#: Features that are made of the probabilities themselves.
OWN_FEATURES: Final = ("probs", "sorted-probs")


class AlphaOptions(shared.Rows, shared.Seeded, shared.FitOptions, shared.ClassColumns):
    """Fit how much raters agree: a Dirichlet distribution over class probabilities for each row.

    The class probabilities stay as they are (unless --map calibrates them). What is fitted is
    alpha0, how much raters agree on each row, and with it the probability that two raters differ.
    Votes are the number of raters who chose each class; only rows with at least two votes carry
    information.

    Examples:
      calibkit alpha-cal votes.parquet -o alpha.json
      calibkit alpha-cal votes.parquet --features sorted-probs --map temperature -o alpha.json
      calibkit alpha-cal votes.csv --probs 'p_*' --counts 'n_*' --features 'embedding_*' -o alpha.json
    """

    scale: Literal["probability", "logit"] = shared.of_columns(
        "Whether the class probabilities are given as such, or as their logits.",
        default="probability",
    )
    features: shared.Names | None = shared.of_patterns(
        "What alpha0 depends on: feature columns (names and globs), probs or sorted-probs "
        "(the logarithms of the probabilities, sorted).",
        shown="alpha0 is constant",
    )
    map: Literal["none", "temperature", "vector", "matrix"] = of_method(
        "Calibrate the class probabilities first.", default="none"
    )
    map_regularization: Penalties = of_method(
        "Penalties for --map vector and matrix; cv: chosen by cross-validation.",
        "INTERCEPT[,OFF]|cv",
        default="cv",
        read=penalties,
    )
    regularization: float = of_method(
        "Penalty on (ln alpha0)^2, per row.", "NUMBER", default=0.005, least=0
    )
    disagreement_map: Literal["none", "isotonic"] = of_method(
        "Correct predicted disagreement, up or down, by a rising step function.", default="none"
    )

    def check(self) -> None:
        """Refuse more than one predictor, and penalties of what has none."""
        _ = self.pattern
        if self.penalties is not None and self.map in ("none", "temperature"):
            raise UsageError("--map-regularization goes with --map vector and matrix.")

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of the features."""
        return listed(self.features or ())

    @property
    def needed(self) -> list[str]:
        """The features: the fit goes through its rows many times, and a state holds them."""
        return [name for name in self.patterns if name not in OWN_FEATURES]

    @property
    def penalties(self) -> tuple[float, float] | None:
        """Penalties of the map of class probabilities; None chooses them by cross-validation."""
        chosen = self.map_regularization
        return chosen if isinstance(chosen, tuple) else None

    def steps(self, features: list[str] | str | None) -> list[str]:
        """Return in words what the fit will do with the features that were found."""
        said = [] if self.map == "none" else [f"fit {self.map} scaling of the logits"]
        if features is None:
            said.append("fit one alpha0 for all rows")
        elif isinstance(features, str):
            said.append(f"fit ln alpha0 linear in {features}")
        else:
            many = "s" * (len(features) != 1)
            said.append(f"fit ln alpha0 linear in {len(features)} feature{many}")
        if self.disagreement_map != "none":
            said.append("fit a rising step function to the predicted disagreement")
        return said
