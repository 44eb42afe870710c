"""The options of ``hetcal``."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final, Literal

from calibkit.errors import UsageError
from calibkit.options import shared
from calibkit.options.option import listed, option

of_partition, of_maps = partial(option, group="Partition"), partial(option, group="Maps")

#: What cross-validation chooses from.
DEPTHS: Final = tuple(range(9))
LEAF_SIZES: Final = (100, 200, 500, 1000, 2000)
FOREST_LEAF_SIZES: Final = (20, 50, 100, 200, 500)
SHRINKAGES: Final = (0.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)

#: Folds of cross-validation.
FOLDS: Final = 5

#: Quantile bins of each feature of partitions in turn.
BOOSTED_BINS: Final = 255


class HetcalOptions(shared.Seeded, shared.LabelledColumns, shared.FitOptions, shared.Folded):
    """Partition the rows by their features, and calibrate each part separately.

    Scores can be right on average and wrong in parts of the data. A tree finds such parts;
    calibrating each of them makes the scores of different parts comparable, so that rows rank
    better too.

    Missing values and values not seen before go to a side of their own at each split.

    Examples:
      calibkit hetcal calib.parquet --train train.parquet --features 'age,job,feature_*' -o hetcal.json
      calibkit hetcal calib.csv --features 'x*' --max-depth 3 --min-leaf 500 -o hetcal.json
      calibkit hetcal calib.parquet --features 'x*' --partition auto -o hetcal.json
    """

    train: shared.FrameLike | None = of_partition(
        "Rows to grow the partition on; may be repeated.",
        "TRAIN",
        path=True,
        many="repetition",
        shown="the calibration rows, cross-fitted",
    )
    partition: Literal["tree", "forest", "boosted", "sequential", "auto"] = of_partition(
        "One tree, whose leaves can be read; the mean of a forest; many shallow trees in "
        "turn, each a small step; a few in turn, each with a map for every leaf; auto: chosen "
        "among these on held-out rows.",
        default="tree",
    )
    criterion: Literal["gini", "entropy", "auc"] = of_partition(
        "What a split improves; auc: area under the ROC curve after calibration.", default="gini"
    )
    max_depth: int | None = of_partition(
        "Splits between the root and a leaf, at most.",
        "D",
        least=0,
        most=30,
        shown="0 to 8 by cross-validation; boosted: 5; sequential: 3",
    )
    min_leaf: int | None = of_partition(
        "Fewest rows in a leaf.",
        "N",
        least=1,
        most=2**31,
        shown="100 to 2000 by cross-validation (forest: 20 to 500); boosted: 20; sequential: 200",
    )
    trees: int | None = of_partition(
        "Trees of a forest; the most partitions in turn.",
        "N",
        least=1,
        most=100_000,
        shown="forest: 100; boosted: 1000, sequential: 10, stopped early",
    )
    max_bins: int | None = of_partition(
        "Search the cuts of a feature with more distinct values at N quantiles.",
        "N",
        least=2,
        most=65_535,
        shown="1024 for over 65,535 values; boosted, sequential and auto: 255",
    )
    map: Literal["platt", "beta", "isotonic", "histogram"] = of_maps(
        "The map of each leaf.", default="platt"
    )
    shrinkage: float | None = of_maps(
        "Average the map of a leaf of n rows with that of all rows, weights n and R; "
        "0: the leaf's own map alone.",
        "R",
        least=0,
        most=1e12,
        shown="0 to 10,000 by cross-validation",
    )
    precalibrate: Literal["platt", "auto", "none"] = of_maps(
        "The map applied to all scores first; auto: chosen on held-out rows.", default="platt"
    )
    clip: float = of_maps(
        "Keep calibrated probabilities this far from 0 and 1.", "EPS", default=0.0, least=0
    )
    features: shared.Names | None = shared.of_patterns(
        "Feature columns: numbers, text or categories (names and globs; commas or repetition)."
    )
    weight_kind: Annotated[Literal["frequency", "sampling"], shared.ColumnOptions] = "frequency"

    def check(self) -> None:
        """Refuse impossible pairs."""
        if not self.clip < 0.5:
            raise UsageError(f"--clip is {self.clip:g}; expected at least 0 and below 0.5.")
        self.check_folds()
        if self.partition in ("tree", "auto") and self.trees is not None:
            raise UsageError("--trees goes with --partition forest, boosted or sequential.")
        if not self.in_turn:
            return
        if self.map != "platt":
            raise UsageError(
                f"--partition {self.partition} moves a linear score: its --map is platt."
            )
        if self.shrinkage is not None:
            raise UsageError("--shrinkage goes with --partition tree or forest.")
        if self.criterion != "gini":
            raise UsageError(
                f"--partition {self.partition} has a criterion of its own, the log loss; leave "
                "--criterion out."
            )

    @property
    def in_turn(self) -> bool:
        """Whether each partition goes on from the linear scores that the last one left."""
        return self.partition in ("boosted", "sequential")

    @property
    def patterns(self) -> tuple[str, ...]:
        """The features as they are named: columns and globs."""
        return listed(self.features or ("feature_*",))

    @property
    def needed(self) -> list[str]:
        """All columns: the fit goes through its rows many times, and a state holds them."""
        named = (self.score, self.label, self.weight, *self.patterns, self.groups, self.time)
        return [name for name in named if name is not None]

    @property
    def bins(self) -> int | None:
        """Quantile bins of a feature with more values, or None: those of its trees."""
        coarse = self.in_turn or self.partition == "auto"
        return self.max_bins or (BOOSTED_BINS if coarse else None)

    def steps(self, grown: str) -> list[str]:
        """Return in words what a fit does, with a partition grown on some rows."""
        if self.partition == "auto":
            return [f"choose a partition on held-out rows, grow it on {grown}, and fit its maps"]
        said = [
            f"grow a {self.partition} partition on {grown}, and fit a {self.map} map to each leaf"
        ]
        chosen = [
            f"{name} from {', '.join(f'{value:g}' for value in values)}"
            for name, value, values in (
                ("depth", self.max_depth, DEPTHS),
                ("leaf size", self.min_leaf, LEAF_SIZES),
                ("shrinkage", self.shrinkage, SHRINKAGES),
            )
            if value is None and self.partition == "tree"
        ]
        return [*said, f"choose by cross-validation {'; '.join(chosen)}"] if chosen else said
