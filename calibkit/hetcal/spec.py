"""What ``hetcal`` fits."""

from __future__ import annotations

from dataclasses import dataclass

from calibkit.errors import UsageError
from calibkit.hetcal.grow import CRITERIA
from calibkit.hetcal.model import PARTITIONS

#: What cross-validation chooses from.
DEPTHS = tuple(range(9))
LEAF_SIZES = (100, 200, 500, 1000, 2000)
FOREST_LEAF_SIZES = (20, 50, 100, 200, 500)
SHRINKAGES = (0.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)

#: The kinds of maps a leaf can have.
MAPS = ("platt", "isotonic", "beta", "histogram")

DEEPEST = 30

#: Quantile bins of each feature of a boosted model.
BOOSTED_BINS = 255


@dataclass(frozen=True, kw_only=True)
class HetcalSpec:
    """How rows are partitioned and calibrated.

    Attributes
    ----------
    partition
        `tree`, `forest` or `boosted`.
    criterion
        `gini`, `entropy` or `auc`.
    max_depth, min_leaf, shrinkage
        None: chosen by cross-validation (boosted: 5, 20, none).
    trees
        How many trees a forest has, or a boosted model at most; None: 100, 1000.
    map
        Of each leaf.
    precalibrate
        `platt` or `none`.
    clip
        How far probabilities stay from 0 and 1.
    max_bins
        Quantile bins of features with more distinct values; None: 1024 beyond 65,535 (boosted: 255).
    groups, time
        A column of rows that share a fold, or of times along which folds go forward.
    folds, seed, threads
        Of cross-validation; of chance; how many threads may be used.

    Raises
    ------
    UsageError
        Numbers out of range, an unknown choice or an impossible pair.
    """

    partition: str = "tree"
    criterion: str = "gini"
    max_depth: int | None = None
    min_leaf: int | None = None
    shrinkage: float | None = None
    trees: int | None = None
    map: str = "platt"
    precalibrate: str = "platt"
    clip: float = 0.0
    max_bins: int | None = None
    groups: str | None = None
    time: str | None = None
    folds: int = 5
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        _choice("--partition", self.partition, PARTITIONS)
        _choice("--criterion", self.criterion, tuple(CRITERIA))
        _choice("--map", self.map, MAPS)
        _choice("--precalibrate", self.precalibrate, ("platt", "none"))
        _range("--max-depth", self.max_depth, 0, DEEPEST)
        _range("--min-leaf", self.min_leaf, 1, 2**31)
        _range("--trees", self.trees, 1, 100_000)
        _range("--max-bins", self.max_bins, 2, 65_535)
        _range("--folds", self.folds, 2, 100)
        if self.shrinkage is not None and not 0.0 <= self.shrinkage <= 1e12:
            raise UsageError(f"--shrinkage is {self.shrinkage:g}; expected 0 to 1e12 rows.")
        if not 0.0 <= self.clip < 0.5:
            raise UsageError(f"--clip is {self.clip:g}; expected at least 0 and below 0.5.")
        if self.groups is not None and self.time is not None:
            raise UsageError("give --groups or --time: folds follow one of them.")
        if self.partition == "tree" and self.trees is not None:
            raise UsageError("--trees goes with --partition forest or boosted.")
        if self.partition != "boosted":
            return
        if self.map != "platt":
            raise UsageError("--partition boosted moves a linear score: its --map is platt.")
        if self.shrinkage is not None:
            raise UsageError("--shrinkage goes with --partition tree or forest.")
        if self.criterion != "gini":
            raise UsageError(
                "--partition boosted has a criterion of its own, the log loss; leave --criterion out."
            )

    @property
    def bins(self) -> int | None:
        """Quantile bins of a feature with more values, or None; see `features.bin_features`."""
        return self.max_bins or (BOOSTED_BINS if self.partition == "boosted" else None)


def _choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{option} {value!r} is not known; use one of {', '.join(choices)}.")


def _range(option: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise UsageError(f"{option} is {value}; expected {low} to {high}.")
