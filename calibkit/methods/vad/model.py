"""The model that ``vad`` writes: one shrinkage and one mean, or those of each segment."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from calibkit.errors import ModelError
from calibkit.models.model import Column, Model, decode, known

LINKS = ("logit", "identity")
REPLICATES = ("exchangeable", "bootstrap")


class _Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A part of a model: strict, like the whole."""


class Seen(_Part):
    """What the rows said: counts (sums of weights), and variances on the scale of the link.

    `variance` is that of the first member over rows, `conditional_variance` that over replicates.
    """

    rows: int | float
    variance: float
    conditional_variance: float
    clipped: int | float


class TrainSeen(Seen):
    """What the rows of the training distribution said, with their own lambda."""

    lambda_train: float


class VadFit(Seen):
    """What is known from the fit; in tandem also the two lambdas whose ratio is the model's."""

    lambda_test: float | msgspec.UnsetType = msgspec.UNSET
    train: TrainSeen | msgspec.UnsetType = msgspec.UNSET


class Segment(_Part):
    """Shrinkage, mean and figures of one segment."""

    lambda_: float = msgspec.field(name="lambda")
    mean: float
    fit: VadFit


class SegmentTable(_Part):
    """The segments of a ``--by`` column.

    `pooled` names the values that are shrunk as all rows together, like values never seen: those
    with less than `min_rows` rows, or without a shrinkage of their own.
    """

    min_rows: int
    values: dict[str, Segment]
    pooled: list[str]


class VadModel(Model):
    """Predictions shrunk towards their mean on the scale of a link.

    ``calibrated = phi(lambda phi^-1(score) + (1 - lambda) mean)`` with max(lambda, 0) for lambda.

    Attributes
    ----------
    link
        ``logit`` or ``identity``: phi^-1.
    lambda_
        The estimate (``lambda`` in the file); below 0 it is applied as 0, and the ranking is lost.
    mean
        On the scale of the link.
    members
        The replicates that were compared, first the one in service.
    replicates
        ``exchangeable`` or ``bootstrap``.
    calibrator
        A calibrator that comes first, as a model of its own; null without one.
    groups
        Of a ``--by`` column; null without one.
    """

    KIND: ClassVar[str] = "vad"
    VERSION: ClassVar[int] = 1

    link: Annotated[str, known(LINKS)]
    lambda_: float = msgspec.field(name="lambda")
    mean: float
    members: list[str]
    replicates: Annotated[str, known(REPLICATES)]
    calibrator: dict[str, Any] | None
    groups: SegmentTable | None
    fit: VadFit

    def check(self) -> None:
        """Raise `ModelError` where the fields contradict each other."""
        if "score" not in self.columns:
            raise ModelError("a vad model names a score column; 'columns' has none")
        if not self.members:
            raise ModelError("'members' names at least the column in service")
        if (self.fit.train is msgspec.UNSET) != (self.fit.lambda_test is msgspec.UNSET):
            raise ModelError("'train' and 'lambda_test' go together")
        if (self.groups is None) != ("by" not in self.columns):
            raise ModelError("'groups' and a column 'by' go together")
        if self.calibrator is not None and self.inner().kind != "calibrator":
            raise ModelError("'calibrator' holds a model of kind 'calibrator'")

    def lines(self) -> list[tuple[float, float]]:
        """Return factor and offset of each segment, last those of all rows together.

        Below 0 a lambda counts as 0.
        """
        segments = () if self.groups is None else self.groups.values.values()
        factors = [(max(one.lambda_, 0.0), one.mean) for one in (*segments, self)]
        return [(factor, (1.0 - factor) * mean) for factor, mean in factors]

    def inputs(self) -> dict[str, Column]:
        """Return the columns that it reads when it is applied, by role."""
        inner = {} if self.calibrator is None else self.inner().inputs()
        return super().inputs() | {role: inner[role] for role in inner if role == "by"}

    def inner(self) -> Model:
        """Return the calibrator that comes first."""
        return decode(msgspec.json.encode(self.calibrator))
