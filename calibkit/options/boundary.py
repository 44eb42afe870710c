"""The options of ``boundary``, and of what compares its methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from numbers import Integral
from typing import Annotated, Any, Final, Literal

from msgspec.structs import replace

from calibkit.errors import UsageError
from calibkit.numerics.bounds import Bound
from calibkit.options import shared
from calibkit.options.bin import LevelOptions, Order, Strategy
from calibkit.options.objective import OF_REVIEW, OPTIONS, Target, read_gap, read_target
from calibkit.options.option import above_zero, inside, listed, option
from calibkit.options.shared import of_method

of_objective = partial(option, group="Objective (exactly one; bounds: several with --confidence)")
of_largest = partial(of_method, shown="twice the largest in the part of the rows that fits")

#: The method that is chosen by cross-validation, see `calibkit.methods.boundary.choice`.
AUTO: Final = "auto"

#: What each method is, in the order of the help.
METHODS: Final = {
    AUTO: "st, logistic or exact, whichever cross-validation favours",
    "exact": "one threshold for each uncertainty level",
    "st": "one threshold for all rows",
    "logistic": "one cut on a logistic surface over score and uncertainty",
    "stochastic": "the optimum over randomised boundaries",
    "mist": "isotonic regression in each level, then one cut on the fitted rate",
    "gmt": "in each level on its own, the best threshold that meets the bound",
    "vw-dpmt": "the optimum over a grid, by a table over the number of rows",
    "vw-dpmt-mono": "the same, with never more bins in a more uncertain level",
    "ew-dpmt": "as if all bins of the grid held equally many rows",
    "ew-dpmt-mono": "the same, with never more bins in a more uncertain level",
    "staircase": "two numbers of bins: one up to some level, one from there on",
}

#: What each method is that a model may name.
EVERY_METHOD: Final = METHODS | {
    "curved": "a logistic surface with squared terms; what --confidence takes with auto"
}

#: What a shell completes, known here without loading anything.
MEASURES: Final = (
    *("accuracy", "weighted-accuracy:", "balanced-accuracy", "precision", "f1", "fbeta:"),
    *("jaccard", "mcc", "kappa", "gmean", "fowlkes-mallows", "youden", "lift", "utility:"),
)

#: The methods over several uncertainties, and how many of these there may be.
SEVERAL: Final = (AUTO, "exact", "st", "logistic")
MOST_UNCERTAINTIES: Final = 8

#: A part of a split is kept in eight bits.
MOST_FOLDS: Final = 255

#: What a certificate takes to be limited, and by which option it is there.
LIMITS: Final = {"max_weight": "weight", "max_value": "value", "max_group_rows": "groups"}

#: A number, or the text of one, whose decimal digits count.
Number = float | str


def _levels(value: Any, flag: str) -> int | str:
    """Return a number of levels, or ``auto``."""
    if value == AUTO:
        return AUTO
    text = str(value) if isinstance(value, Integral) and not isinstance(value, bool) else value
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10 and int(text):
        return int(text)
    raise UsageError(f"{flag} is {value!r}; expected a whole number, at least 1, or auto.")


def _one_or_several(value: Any, flag: str) -> str | tuple[str, ...] | None:
    """Return the name of a column, or several as a tuple."""
    names = listed(value, flag)
    return names if len(names) > 1 else next(iter(names), None)


def _one_of(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Return what completes one name."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


class BoundaryOptions(
    shared.Seeded, LevelOptions, shared.ColumnOptions, shared.FitOptions, shared.Folded
):
    """Fit a decision boundary over score and uncertainty.

    In each uncertainty level the rows from one score threshold up are selected; the thresholds
    together reach the most recall within a bound, the most precision at a recall bound, or the
    best value of a measure or a cost. Recall may count value instead of rows, rates may be those
    of another base rate, and each value of a column may have thresholds of its own.

    Examples:
      calibkit boundary calib.parquet --precision 0.9 -o boundary.json
      calibkit boundary calib.parquet --precision 0.9 --test test.parquet --compare
      calibkit boundary calib.parquet --precision 0.9 --confidence 0.95 -o boundary.json
      calibkit boundary calib.csv --recall 0.5 --method st --test test.csv -o boundary.json
      calibkit boundary calib.parquet --precision 0.9 --value amount --by country -o boundary.json
      zcat scores.csv.gz | calibkit boundary - --precision 0.8 --score p --label y > boundary.json
    """

    precision: Number | None = of_objective("Most recall at precision >= P.", "P")
    recall: Number | None = of_objective("Most precision at recall >= R.", "R")
    fpr: Number | None = of_objective("Most recall at false positive rate <= A.", "A")
    capacity: Number | None = of_objective(
        "Most recall with at most N rows selected; below 1: a share of the rows.", "N"
    )
    maximize: str | None = of_objective(
        "accuracy, weighted-accuracy:W, balanced-accuracy, precision, f1, fbeta:B, "
        "jaccard, mcc, kappa, gmean, fowlkes-mallows, youden, lift or utility:TP,FP,FN,TN.",
        "METRIC",
        completes=_one_of(MEASURES),
    )
    minimize: str | None = of_objective("Least expected cost; numbers or columns.", "cost:FP,FN")
    max_gap: str | None = of_objective(
        "With --by: how far apart the recall or fpr of segments may be (recall:0.05).",
        "MEASURE:EPS",
    )
    review_capacity: Number | None = of_objective(
        "Block, review or pass: at most N rows are reviewed; below 1: a share of the rows. "
        "--precision binds block, --recall binds block and review together. With one of them the most "
        "of the other; with both the least review, which must not exceed N if given.",
        "N",
    )
    review_cost: Number | None = of_objective(
        "Block, review or pass at least cost, C a review; with --minimize cost:FP,FN.", "C"
    )
    prevalence: Number | None = of_method(
        "Reweight the classes to this base rate; all rates refer to it.",
        "P",
        shown="that of the rows",
    )
    method: str = of_method(
        "Method; auto chooses one; --help-all explains each.",
        "METHOD",
        default=AUTO,
        completes=_one_of(list(METHODS)),
    )
    uncertainty_bins: int | Literal["auto"] | None = of_method(
        "Uncertainty levels; auto: chosen among 1, 2, 3, 5, 7 and 11 by cross-validation.",
        "K|auto",
        read=_levels,
        shown="auto for auto; 100 for logistic; 1 for st, no uncertainty; else 3",
    )
    score_bins: int | None = of_method(
        "Score bins within each level; 0: every distinct score.",
        "L",
        least=0,
        shown="0; 500 for the -dpmt methods and staircase",
    )
    strategy: Strategy = of_method("Bins equal in rows, or equally wide.", default="equal-mass")
    order: Order = of_method("Which axis is binned first.", default="uncertainty-score")
    randomise: Literal["block", "tie"] = of_method(
        "With --method stochastic: random over a block of scores in one level (the "
        "optimum over randomised boundaries), or at one score of all rows together.",
        default="block",
    )
    folds: int = of_method("Folds of cross-validation; 0: none.", "F", default=5)
    confidence: Number | None = of_method(
        "Certify the bound: it holds on new data with this probability.",
        "C",
        shown="none: nothing is guaranteed",
    )
    max_weight: Number | None = of_largest(
        "With --confidence: no weight is larger, in future rows either.", "W"
    )
    max_value: Number | None = of_largest(
        "With --confidence: no value of a positive row is larger.", "V"
    )
    max_group_rows: int | None = of_method(
        "With --confidence: no group has more rows.",
        "N",
        least=1,
        shown="twice the most in the part of the rows that fits",
    )
    test: shared.FrameLike | None = of_method(
        "Labelled rows to judge the boundary.", "FILE", path=True
    )
    value: str | None = shared.named_column(
        "Column of values: recall is the share of its sum among the positives.",
        shown="none: recall counts rows",
    )
    uncertainty: shared.Names | None = shared.named_column(
        f"{shared.UNCERTAINTY_HELP} Several (A,B): levels are leaves of a partition of them.",
        shown="uncertainty, if the file has it",
        many="commas",
        read=_one_or_several,
    )  # type: ignore[assignment]
    by: Annotated[str | None, shared.Segmented] = None
    bound: Literal["overall", "each"] = of_method(
        "With --by: the bound holds for all rows together, or for each segment.", default="overall"
    )
    min_group_positives: int | None = of_method(
        "With --by: segments with fewer positive rows share the thresholds of one, other.",
        "N",
        least=0,
        shown="50 with --bound each, else 0",
    )
    calibrator: shared.ModelLike | None = shared.of_columns(
        "The model that made the score column: scores made by another are refused from then "
        "on. Parquet files written by apply record it themselves.",
        "MODEL",
        read=shared.model_of,
    )

    def check(self) -> None:
        """Refuse objectives that are none or several, and options that exclude each other."""
        super().check()
        _ = self.target, self.confidence_level
        least = self.min_group_positives
        if self.by is None and (self.bound != "overall" or least is not None):
            named = f"--bound {self.bound}" if least is None else "--min-group-positives"
            raise UsageError(f"{named} goes with --by, which names the segments.")
        if self.folds < 0 or self.folds == 1 or self.folds > MOST_FOLDS:
            raise UsageError(f"--folds is {self.folds}; expected 0 (none) or 2 to {MOST_FOLDS}.")
        _ = self.limits
        self.check_folds()
        if self.target.review is not None:
            self._check_alone("three-way decisions")
        if self.several:
            self._check_several()
        if self.max_gap is not None:
            self._check_gap()
        if not self.auto_levels:
            return
        if self.folds == 0:
            raise UsageError(
                "--uncertainty-bins auto is chosen by cross-validation: give it --folds."
            )
        if self.confidence is not None and self.method != AUTO:
            raise UsageError(
                "--uncertainty-bins auto chooses by cross-validation, which --confidence does "
                "without."
            )

    def _check_several(self) -> None:
        if len(set(self.several)) < len(self.several) or len(self.several) > MOST_UNCERTAINTIES:
            raise UsageError(
                f"--uncertainty takes up to {MOST_UNCERTAINTIES} columns, each once; got "
                f"{', '.join(self.several)}."
            )
        others = {
            "--strategy equal-width": self.strategy != "equal-mass",
            "--uncertainty-edges": self.edges,
        }
        self._check_alone("several uncertainties", others)
        if self.method not in SEVERAL:
            raise UsageError(
                f"--method {self.method} takes one uncertainty; for several: {', '.join(SEVERAL)}."
            )

    def _check_gap(self) -> None:
        if self.by is None or self.bound != "overall":
            raise UsageError("--max-gap goes with --by, and one bound on all rows together.")
        if self.target.bound is None:
            raise UsageError(
                "--max-gap goes with --precision, --recall, --fpr or --capacity, one of them."
            )
        if self.value is not None:
            raise UsageError("--max-gap does not go with --value; leave one of them out.")
        if self.method not in ("auto", "exact"):
            raise UsageError(f"--max-gap goes with --method auto and exact, not {self.method}.")

    @property
    def limits(self) -> dict[str, float]:
        """What a certificate may take to be the largest weight, value and group, as far as said.

        Limits of what is not there are refused.
        """
        found = {}
        for name, needs in LIMITS.items():
            given, flag = getattr(self, name), f"--{name.replace('_', '-')}"
            if given is None:
                continue
            if self.confidence is None or getattr(self, needs) is None:
                raise UsageError(f"{flag} goes with --confidence and --{needs}.")
            found[name] = float(above_zero(given, flag, "a number above 0", most=None))
        return found

    def _check_alone(self, what: str, others: Mapping[str, Any] | None = None) -> None:
        """Refuse what neither several uncertainties nor three-way decisions go with, and others."""
        without = {
            "--by": self.by,
            "--score-bins": self.score_bins,
            "--order score-uncertainty": self.order != "uncertainty-score",
        }
        for flag, given in {**without, **(others or {})}.items():
            if given:
                raise UsageError(f"{what} do not go with {flag}; leave it out.")

    def check_comparison(self) -> None:
        """Refuse what a comparison of methods would ignore."""
        if self.auto_levels:
            raise UsageError("--compare takes one number of levels for all methods, not auto.")
        self._need_one_threshold("--compare")
        if self.by is not None:
            raise UsageError("--compare fits all rows together; leave --by out.")

    def check_frontier(self) -> None:
        """Refuse what the frontier of precision and recall would ignore."""
        self._need_one_threshold("--frontier")
        reweighted = "--prevalence" if self.target.prevalence else self.target.worths
        if self.by is not None or reweighted:
            raise UsageError(
                "--frontier counts rows as they are; it does not go with "
                f"{'--by' if self.by is not None else reweighted}."
            )

    def _need_one_threshold(self, option: str) -> None:
        if self.several:
            raise UsageError(f"{option} takes one uncertainty.")
        if self.target.review is not None:
            raise UsageError(
                f"{option} is of boundaries with one threshold a level, not of three-way decisions."
            )
        if self.confidence is not None:
            raise UsageError(
                "--confidence certifies one boundary; it goes with neither --compare nor --frontier."
            )

    @cached_property
    def target(self) -> Target:
        """The objective."""
        target = read_target(
            {name: getattr(self, name) for name in (*OPTIONS, *OF_REVIEW)},
            value=self.value,
            prevalence=self.prevalence,
            several=self.confidence is not None,
        )
        return replace(target, gap=read_gap(self.max_gap))

    @property
    def confidence_level(self) -> Bound | None:
        """The probability with which the bound is to hold on new data, if one is asked for."""
        return None if self.confidence is None else inside(self.confidence, "--confidence")

    @property
    def columns(self) -> shared.ColumnOptions:
        """What the columns are called, and how they are read; several uncertainties stand beside."""
        alone = None if self.several else self.uncertainty
        return self.part(shared.ColumnOptions, uncertainty=alone)

    @property
    def several(self) -> tuple[str, ...]:
        """The uncertainties, where there are several."""
        return self.uncertainty if isinstance(self.uncertainty, tuple) else ()

    @property
    def needs_each(self) -> str | None:
        """The option that needs every row as it is, if one does."""
        needing = {
            "--by": self.by,
            "--confidence": self.confidence,
            "--uncertainty with several columns": self.several,
            "--weight-kind sampling": self.sampled,
        }
        flags = (flag for flag, given in needing.items() if given)
        return super().needs_each or next(flags, self.target.worths or None)

    @property
    def whole(self) -> BoundaryOptions:
        """The same for rows that no column cuts into segments."""
        unset: dict[str, Any] = dict.fromkeys(("by", "min_group_positives", "max_gap"))
        return dataclasses.replace(self, bound="overall", **unset)

    @property
    def auto_levels(self) -> bool:
        """Whether cross-validation chooses the number of uncertainty levels, or of leaves."""
        unsaid = self.uncertainty_bins is None and self.method == "exact" and self.folds > 0
        checked = bool(self.several) and self.confidence is None
        return self.uncertainty_bins == AUTO or (checked and unsaid)
