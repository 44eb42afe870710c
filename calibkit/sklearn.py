"""Estimators in the shape of scikit-learn (extra ``sklearn``): classifiers of two classes.

Without an estimator the first column of X is the score, any number that grows with the probability of
the second class.  With one, X is what that estimator takes, and the scores are its own: on the rows of
a fit out of fold, unless it is frozen (`sklearn.frozen.FrozenEstimator`).

After a fit `model_` is calibkit's model, which can be saved, shown and applied to files, `classes_` are
the classes in ascending order, the second being the positive one, and `estimator_` is the estimator,
fitted on all rows.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, _safe_indexing, check_consistent_length, get_tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from calibkit.api.commands import fit_boundary, fit_calibrator, fit_hetcal
from calibkit.arrays import Numbers, UInt8s
from calibkit.errors import UsageError
from calibkit.files.frames import frame_of_arrays
from calibkit.options.objective import OPTIONS

__all__ = ["BoundaryClassifier", "HeterogeneousCalibrator", "ScoreCalibrator"]

Scale = Literal["probability", "percent", "logit", "raw"]

#: Parameters that are no options of a fit, or are given to it otherwise.
_OF_HERE = ("estimator", "scale", "uncertainty", "cv", "random_state")

#: What `BoundaryClassifier` reaches where no objective is given.
_HIGHEST = {"maximize": "balanced-accuracy"}


class _Binary(ClassifierMixin, BaseEstimator):
    """What they share: checks of X and y, and scores, also those of an estimator.

    Parameters are fields: kept as they are given, compared and shown by scikit-learn.
    """

    estimator: Any = None
    scale: Scale = "raw"
    cv: Any = None
    random_state: int | None = 0
    classes_: Numbers
    #: How many columns X has at least, if the first is the score.
    _least = 1

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # other columns than the score say nothing
        if self.estimator is not None:
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _fit(self, X: Any, y: Any, fit: Any, sample_weight: Any = None, **options: Any) -> Self:
        """Fit `model_` by a function of calibkit: it has the other parameters too."""
        X, y = validate_data(self, X, y, **self._checks(X, self._least))
        if self.estimator is None and X.shape[1] < self._least:  # which of frames is not checked
            raise ValueError(f"X has {X.shape[1]} columns; at least {self._least} are needed.")
        check_consistent_length(X, y)  # of frames too
        codes = self._codes(y)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            if len(np.unique(codes[weight > 0.0])) < 2:
                raise ValueError("y has one class in the rows whose sample_weight is above 0.")
        rows, roles, scale = self._training(X, self.classes_[codes], weight)
        roles |= {"label": codes[rows], **self._beside(_safe_indexing(X, rows))}
        if weight is not None:
            roles["weight"] = weight[rows]
        frame, names = frame_of_arrays(roles)
        own = self.get_params(deep=False).items()
        options = {name: value for name, value in own if name not in _OF_HERE} | options
        self.model_ = fit(frame, **options, **names, scale=scale, seed=self.random_state or 0)
        return self

    def _checks(self, X: Any, least: int = 1) -> dict[str, Any]:
        """Return how X is checked: frames, and texts for an estimator, are left as they are."""
        takes = get_tags(self).input_tags
        texts = getattr(X, "ndim", 2) == 1 and X.dtype.kind in "OUT"
        if hasattr(X, "columns") or (texts and self.estimator is not None):
            return {"skip_check_array": True}
        return {
            "accept_sparse": "csr" if takes.sparse else False,
            "ensure_all_finite": not takes.allow_nan,
            "ensure_min_features": least if self.estimator is None else 1,
        }

    def _codes(self, y: Any) -> UInt8s:
        """Return 0 for the first class and 1 for the second, whose names are `classes_`."""
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y")
        if kind == "multiclass":
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]}; a fit needs two classes.")
        return codes.astype(np.uint8)

    def _training(
        self, X: Any, y: Numbers, weight: Numbers | None
    ) -> tuple[Numbers, dict[str, Numbers], Scale]:
        """Return the rows to fit on, their scores and what goes with these, and the scale."""
        every = np.arange(len(y))
        self.__dict__.pop("estimator_", None)  # of an earlier fit
        if self.estimator is None:
            return every, self._scored(X, None), self.scale
        weighs = weight is not None and has_fit_parameter(self.estimator, "sample_weight")

        def fitted(X: Any, rows: Numbers) -> Any:
            more = {"sample_weight": weight[rows]} if weighs and weight is not None else {}
            return clone(self.estimator).fit(X, y[rows], **more)

        self.estimator_ = fitted(X, every)
        scale: Scale = "probability" if hasattr(self.estimator_, "predict_proba") else "raw"
        if isinstance(self.estimator, FrozenEstimator):
            return every, self._scored(X, self.estimator_), scale
        rows, parts = [], []
        for train, test in check_cv(self.cv, y, classifier=True).split(X, y):
            rows.append(test)
            parts.append(
                self._scored(_safe_indexing(X, test), fitted(_safe_indexing(X, train), train))
            )
        whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return np.concatenate(rows), whole, scale

    def _scored(self, X: Any, estimator: Any) -> dict[str, Numbers]:
        """Return the scores of rows: the first column, or what an estimator says."""
        if estimator is None:
            score = np.asarray(_safe_indexing(X, 0, axis=1))
            if score.dtype.kind == "f" and np.isnan(score).any():
                raise ValueError("Input X contains NaN in its first column, which is the score.")
            return {"score": score}
        if hasattr(estimator, "predict_proba"):
            found = np.asarray(estimator.predict_proba(X))
            if found.shape[1] != 2:
                raise ValueError(
                    f"predict_proba of {type(estimator).__name__} has the shape {found.shape}; "
                    "expected two columns: both classes of y have to be in every part that cv makes."
                )
            return {"score": found[:, 1]}
        return {"score": np.asarray(estimator.decision_function(X))}

    def _beside(self, X: Any) -> dict[str, Any]:
        """Return what the model reads besides, by role."""
        return {}

    def _applied(self, X: Any) -> pl.DataFrame:
        """Return what the model adds to rows."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **self._checks(X))
        roles = self._scored(X, getattr(self, "estimator_", None)) | self._beside(X)
        frame, _ = frame_of_arrays(roles)
        key = "row-number" if getattr(self.model_, "tie_probability", None) else None
        return self.model_.apply(frame, keep="score", key=key)


class _Calibrator(_Binary):
    """A classifier by calibrated probabilities."""

    def predict_proba(self, X: Any) -> Numbers:
        """Return the calibrated probabilities of both classes, rows x 2."""
        positive = self._applied(X)["calibrated"].to_numpy()
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: Any) -> Numbers:
        """Return the more probable class of each row."""
        found = self.predict_proba(X)
        return self.classes_[(found[:, 1] >= found[:, 0]).astype(np.intp)]


@dataclass(eq=False, repr=False)
class ScoreCalibrator(_Calibrator):
    """Maps scores to probabilities, as `calibkit.fit_calibrator` does.

    Parameters
    ----------
    method
        ``"platt"``, or another of `calibkit.fit_calibrator` but ``"prior-shift"``; ``"auto"`` chooses.
        Of raw scores there are no ``"beta"``, ``"temperature"`` and ``"none"``.
    bins, clip
        Bins of the methods that have some; how far results stay from 0 and 1.
    scale
        What scores are: ``"raw"`` (any numbers), ``"probability"`` or ``"logit"``.
    random_state
        A seed.

    Examples
    --------
    >>> import numpy as np
    >>> scores, y = np.array([[0.1], [0.4], [0.3], [0.9]]), np.array(["no", "no", "yes", "yes"])
    >>> ScoreCalibrator().fit(scores, y).predict([[0.0], [1.0]]).tolist()
    ['no', 'yes']
    """

    method: str = "platt"
    _: KW_ONLY
    bins: int | None = None
    clip: float | None = None
    scale: Scale = "raw"
    random_state: int | None = 0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the map on scores (the first column of X) and classes."""
        return self._fit(X, y, fit_calibrator, sample_weight)


@dataclass(eq=False, repr=False)
class BoundaryClassifier(_Binary):
    """Decides by a boundary over score and uncertainty, as `calibkit.fit_boundary` finds it.

    Parameters
    ----------
    estimator
        A classifier that makes the scores; None: the first column of X is the score, the second, if
        there is one, the uncertainty.
    precision, recall, fpr, capacity, maximize, minimize
        The objective, one of them: as those of `calibkit.fit_boundary`.  None of them: the highest
        balanced accuracy.
    method, uncertainty_bins, confidence
        How the boundary is fitted, and with what confidence its bound is to hold on new rows.  A
        stochastic one decides rows by their place.
    uncertainty
        Where the uncertainty is: a column of X (its place or name), or ``"spread"``: the standard
        deviation of what the members of an ensemble predict.
    scale
        What the scores of the first column are; those of an estimator are probabilities, or raw.
    cv
        Folds of the scores that an estimator makes; as scikit-learn has it.
    random_state
        A seed.
    """

    estimator: Any = None
    _: KW_ONLY
    precision: float | str | None = None
    recall: float | str | None = None
    fpr: float | str | None = None
    capacity: float | str | None = None
    maximize: str | None = None
    minimize: str | None = None
    method: str = "auto"
    uncertainty: int | str | None = None
    uncertainty_bins: int | None = None
    confidence: float | None = None
    scale: Scale = "raw"
    cv: Any = None
    random_state: int | None = 0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator, if there is one, and the boundary of its scores."""
        given = [name for name in OPTIONS if getattr(self, name) is not None]
        if len(given) > 1:  # two bounds would make three decisions
            raise UsageError(f"exactly one objective is needed; got {' and '.join(given)}.")
        if self.uncertainty not in (None, "spread") and hasattr(X, "shape"):
            self._column(X, self.uncertainty)  # before an estimator is fitted
        return self._fit(X, y, fit_boundary, sample_weight, **({} if given else _HIGHEST))

    def predict(self, X: Any) -> Numbers:
        """Return the second class for rows on or above the boundary, else the first."""
        decision = self._applied(X)["decision"].to_numpy()  # which sees that it is fitted
        return self.classes_[decision]

    def _scored(self, X: Any, estimator: Any) -> dict[str, Numbers]:
        found = super()._scored(X, estimator)
        place = self.uncertainty
        if place == "spread":
            return {**found, "uncertainty": _spread(estimator, X)}
        if place is None and estimator is None and X.shape[1] > 1:
            place = 1
        return found if place is None else {**found, "uncertainty": self._column(X, place)}

    def _column(self, X: Any, place: int | str) -> Numbers:
        try:
            return np.asarray(_safe_indexing(X, place, axis=1))
        except (KeyError, IndexError, ValueError, pl.exceptions.PolarsError) as error:
            raise ValueError(f"uncertainty={place!r} is no column of X: {error}") from error


@dataclass(eq=False, repr=False)
class HeterogeneousCalibrator(_Calibrator):
    """Calibrates scores by parts of the feature space, as `calibkit.fit_hetcal` does.

    Parameters
    ----------
    estimator
        A classifier that makes the scores, of which all columns of X are features; None: the first
        column of X is the score, the others are features (of a frame also text and categories).
    partition, map, max_depth, min_leaf, shrinkage
        As those of `calibkit.fit_hetcal`.
    scale, cv, random_state
        As those of `BoundaryClassifier`.
    """

    estimator: Any = None
    _: KW_ONLY
    partition: Literal["tree", "forest", "boosted", "sequential", "auto"] = "tree"
    map: Literal["platt", "beta", "isotonic", "histogram"] = "platt"
    max_depth: int | None = None
    min_leaf: int | None = None
    shrinkage: float | None = None
    scale: Scale = "raw"
    cv: Any = None
    random_state: int | None = 0

    _least = 2

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator, if there is one, and the calibration of its scores."""
        return self._fit(X, y, fit_hetcal, sample_weight)

    def _beside(self, X: Any) -> dict[str, Any]:
        named, frame = getattr(self, "feature_names_in_", None), hasattr(X, "columns")
        if frame and not hasattr(X, "rename"):
            X = pl.DataFrame(X)
        if frame and named is None and all(isinstance(name, str) for name in X.columns):
            X = X.to_numpy()  # fitted on an array: columns go by their place
        elif named is not None and not frame:
            X = pl.DataFrame(X, schema=[*named])
        if self.estimator is None:
            X = _safe_indexing(X, list(range(1, X.shape[1])), axis=1)
        if hasattr(X, "columns"):  # a feature may be called as a role is
            named = {role: f"{role} of X" for role in ("score", "label", "weight") if role in X}
            X = X.rename(columns=named) if hasattr(X, "iloc") else X.rename(named)
        return {"features": X}


def _spread(ensemble: Any, X: Any) -> Numbers:
    """Return how far the members of an ensemble differ: the deviation of their probabilities."""
    members = getattr(ensemble, "estimators_", None)
    if members is None or not all(hasattr(one, "predict_proba") for one in members):
        raise ValueError(
            "uncertainty='spread' needs an ensemble of classifiers, such as a random forest."
        )
    array = X.to_numpy() if hasattr(X, "to_numpy") else X
    own = getattr(ensemble, "estimators_features_", [slice(None)] * len(members))
    said = [  # a member that was fitted on a frame, as those that vote are, wants one
        one.predict_proba(X if hasattr(one, "feature_names_in_") else array[:, few])[:, 1]
        for one, few in zip(members, own, strict=True)
    ]
    return np.std(said, axis=0)
