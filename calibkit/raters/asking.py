"""What a fit on class probabilities in rounds asks, and what it makes of the sums that come back."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import ModelError
from calibkit.maths.sums import LEAST_PRODUCT, ExactSum, nearest_float
from calibkit.models import Column, canonical_text
from calibkit.raters.alpha import (
    SAMPLE,
    Moments,
    MomentsAsked,
    Objective,
    SampleSlopes,
    StrengthAt,
    positive_probabilities,
)
from calibkit.raters.histograms import BINS, BinSums
from calibkit.raters.logit_maps import LogitMap
from calibkit.raters.map_search import FOLDS, FoldSizes, MapAt, MapSums
from calibkit.raters.model import DisagreementMap
from calibkit.rounds.exact import Whole

Floats = NDArray[np.float64]

#: The fields of `BinSums`.
_OF_BINS: Final = tuple(BinSums.__dataclass_fields__)
#: What an overview counts.
OVERVIEW: Final = ("rows", "votes", "several", "clipped", "hash")
_ONE: Final = 1 << -LEAST_PRODUCT


class Overview(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="overview"):
    """A question: rows, votes, rows with several votes and with clipped probabilities, their hash."""


class Figures(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="figures"):
    """A question: the sums of which losses are made, at the map before and after a fit.

    Of a calibrator (`strength` is None) the classes; of an alpha-calibration the disagreements, of
    the strength with these weights and, last, this intercept.
    """

    strength: list[float] | None = None
    knots: list[float] = []
    values: list[float] = []


class StepCells(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="cells"):
    """A question: which cells of predicted disagreements may hold a step of their isotonic map."""

    strength: list[float]


class Steps(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="steps"):
    """A question: the isotonic map of predicted disagreements, from the rows of some cells."""

    strength: list[float]
    cells: list[int]


Question = (
    MapAt
    | FoldSizes
    | StrengthAt
    | MomentsAsked
    | SampleSlopes
    | Overview
    | Figures
    | StepCells
    | Steps
)


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A question about rows whose logits a map may have gone over before.

    `weights` and `intercept` are those of this map, none where there is none.
    """

    question: Question
    weights: list[float] = []
    intercept: list[float] = []

    def __hash__(self) -> int:
        return hash(canonical_text(self))

    @property
    def map(self) -> LogitMap | None:
        """The map before."""
        if not self.intercept:
            return None
        weights, intercept = MapAt(self.weights, self.intercept).arrays
        return LogitMap(method="", weights=weights, intercept=intercept, objective=0.0, loss=0.0)


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question and its answer."""

    asked: Asked
    sums: dict[str, list[str]]


class RaterAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a plan says to these fits.

    Attributes
    ----------
    column
        What the model says of the column of class probabilities.
    classes
        The names of the classes; empty where rows have to be read to know how many there are.
    known
        What was answered so far, in the order of the questions.
    questions
        What is asked now.
    remarks
        What the first answers said of rows that were left out.
    """

    column: Column
    classes: list[str]
    known: list[Known]
    questions: list[Asked]
    remarks: list[tuple[str, str, str, int]] = []
    width: int = 0


def taken(asked: Asked, sums: Whole) -> Any:
    """Return what a search makes of the sums of all rows.

    Raises
    ------
    ModelError
        Where sums cannot be those of the question.
    """
    try:
        return _taken(asked.question, sums)
    except (KeyError, ValueError, IndexError, ZeroDivisionError) as error:
        raise ModelError(f"damaged: sums that do not answer the question ({error!r})") from None


def _taken(question: Question, sums: Whole) -> Any:
    if isinstance(question, MapAt):
        (votes,), (loss,) = sums["votes"], sums["loss"]
        weights, intercept = question.arrays
        rise = _floats(sums["rise"], 0 if question.held else intercept.size)
        products = _floats(sums["products"])
        if question.held:
            return MapSums(votes, _loss(sums, loss), rise, products)
        shape = weights.shape if weights.ndim == 2 else intercept.shape
        return MapSums(votes, _loss(sums, loss), rise, products.reshape(shape))
    if isinstance(question, FoldSizes):
        return _counted(sums["folds"], FOLDS)
    if isinstance(question, StrengthAt):
        (rows,), (cost,) = sums["rows"], sums["loss"]
        return _loss(sums, cost) / rows, _floats(sums["rise"], len(question.point)) / rows
    if isinstance(question, MomentsAsked):
        (rows,) = sums["rows"]
        mean = [Fraction(total, rows * _ONE) for total in sums["values"]]
        squares = [Fraction(total, rows * _ONE) for total in sums["squares"]]
        variance = [
            nearest_float(square - centre * centre)
            for square, centre in zip(squares, mean, strict=True)
        ]
        return Moments.of(np.array([nearest_float(one) for one in mean]), np.array(variance))
    if isinstance(question, SampleSlopes):
        return _floats(sums["slopes"], len(question.places)).tolist()
    if isinstance(question, StepCells):
        return sums["cells"]
    if isinstance(question, Steps):
        knots = _floats(sums["knots"]).tolist()
        values = _floats(sums["values"], len(knots)).tolist()
        return DisagreementMap(knots=knots, values=values)
    if isinstance(question, Figures):
        return bins_from_sums(sums, "after"), bins_from_sums(sums, "before")
    return {name: sums[name][0] for name in OVERVIEW}


def _loss(sums: Whole, units: int) -> float:
    """Return a sum of costs, infinite where that of a row was no number."""
    (infinite,) = sums["infinite"]
    return float("inf") if infinite else ExactSum(units).value


def _floats(units: list[int], count: int | None = None) -> Floats:
    return np.array([ExactSum(one).value for one in _counted(units, count)], np.float64)


def _counted(units: list[int], count: int | None) -> list[int]:
    """Return sums of which there are so many; raises `ValueError` where there are not."""
    if count is not None and len(units) != count:
        raise ValueError(f"{len(units)} numbers, not {count}")
    return units


def units_of(values: Floats | list[float]) -> list[int]:
    """Return numbers as exact sums of one number each."""
    found = []
    for value in np.asarray(values, np.float64):
        total = ExactSum()
        total.add(np.array([value]))
        found.append(total.units)
    return found


def bins_as_sums(bins: BinSums, name: str) -> Whole:
    """Return sums by bin as named numbers."""
    return {
        f"{name} {field}": [int(one) for one in getattr(bins, field).ravel()] for field in _OF_BINS
    }


def bins_from_sums(sums: Whole, name: str) -> BinSums:
    """Return the sums by bin of `bins_as_sums`; raises `KeyError` or `ValueError` for others."""
    fields, size = [], len(sums[f"{name} {_OF_BINS[0]}"])
    if not size:
        raise ValueError("no bins")
    for field in _OF_BINS:
        found = np.empty(size, object)
        found[:] = _counted(sums[f"{name} {field}"], size)
        fields.append(found.reshape(-1, BINS))
    return BinSums(*fields)


def slopes_of_sample(table: pl.DataFrame, question: SampleSlopes, regularization: float) -> Whole:
    """Return the answer that the sample of all rows gives."""
    classes = sum(name.startswith("p") for name in table.columns)
    z = table.select(f"p{k}" for k in range(classes)).to_numpy()
    y = table.select(f"c{k}" for k in range(classes)).to_numpy()
    rows = Objective(
        positive_probabilities(np.ascontiguousarray(z)),
        np.ascontiguousarray(y),
        None,
        regularization,
        threads=1,
    )
    return {"slopes": units_of(rows.slopes(question.places))}


def first_of_sample(table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a sample that stay in it, in their order."""
    return table.sort(table.columns).head(SAMPLE)
