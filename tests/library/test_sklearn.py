"""``calibkit.sklearn``: scikit-learn's own checks, and what the estimators promise."""

from __future__ import annotations

import doctest
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, precision_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

import calibkit as ck
import calibkit.sklearn
from calibkit.sklearn import BoundaryClassifier, HeterogeneousCalibrator, ScoreCalibrator


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ck.CalibkitWarning)
        yield


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    return ck.simulate_posterior(4_000, seed=3)


@pytest.fixture(scope="module")
def blobs() -> tuple[Any, Any]:
    made: tuple[Any, Any] = make_classification(
        2_000, n_features=6, weights=[0.8], class_sep=0.7, random_state=1
    )
    return made


ESTIMATORS = {
    "scores": ScoreCalibrator(),
    "isotonic": ScoreCalibrator("isotonic"),
    "boundary": BoundaryClassifier(),
    "wrapping": BoundaryClassifier(GaussianNB(), method="st", cv=2),
    "spread": BoundaryClassifier(
        BaggingClassifier(GaussianNB(), 3, random_state=0), uncertainty="spread", cv=2
    ),
    "hetcal": HeterogeneousCalibrator(),
    "hetcal of": HeterogeneousCalibrator(GaussianNB(), cv=2),
}


@pytest.mark.filterwarnings("ignore:divide by zero encountered in log")  # naive Bayes of one class
@pytest.mark.few(3)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_checks_of_scikit_learn_pass(name: str) -> None:
    results = check_estimator(ESTIMATORS[name], on_skip=None)
    skipped = {one["check_name"] for one in results if one["status"] != "passed"}
    assert skipped <= {"check_array_api_input"}  # needs an environment variable before scipy


def test_the_examples_run() -> None:
    assert doctest.testmod(calibkit.sklearn).failed == 0


def test_a_calibrator_is_that_of_the_library(rows: pl.DataFrame) -> None:
    scores, label = rows.select("score").to_numpy(), rows["label"]
    made = ScoreCalibrator("isotonic", scale="probability").fit(scores, label)
    alone = ck.fit_calibrator(rows, method="isotonic")
    found = made.predict_proba(scores)
    np.testing.assert_array_equal(found[:, 1], alone.apply(rows)["calibrated"])
    np.testing.assert_array_equal(found.sum(axis=1), 1.0)
    assert isinstance(made.model_, ck.CalibratorModel)
    weighted = ScoreCalibrator().fit(scores, label, np.where(label, 2.0, 1.0)).predict_proba(scores)
    assert (weighted[:, 1] > ScoreCalibrator().fit(scores, label).predict_proba(scores)[:, 1]).all()


def test_a_boundary_is_that_of_the_library(rows: pl.DataFrame) -> None:
    x, y = rows.select("score", "uncertainty").to_numpy(), rows["label"].to_numpy()
    goal: dict[str, Any] = {"precision": 0.7, "method": "exact", "uncertainty_bins": 3}
    made = BoundaryClassifier(**goal, scale="probability").fit(x, y)
    alone = ck.fit_boundary(rows, **goal)
    assert made.model_.score_thresholds == alone.score_thresholds
    np.testing.assert_array_equal(made.predict(x), alone.apply(rows)["decision"])
    assert precision_score(y, made.predict(x)) >= 0.7
    # The second class in order is the positive one.
    named = BoundaryClassifier(**goal).fit(-x, np.where(y, "fraud", "ok"))
    assert named.classes_.tolist() == ["fraud", "ok"]
    assert BoundaryClassifier().fit(x, y).model_.objective.maximize == "balanced-accuracy"
    chance = {"method": "stochastic", "precision": 0.7}
    alone = ck.fit_boundary(rows, **chance, scale="raw")
    decisions = alone.apply(rows, key="row-number")["decision"]
    np.testing.assert_array_equal(BoundaryClassifier(**chance).fit(x, y).predict(x), decisions)
    by_name = BoundaryClassifier(**goal, scale="probability", uncertainty="uncertainty")
    frame = rows.select("score", "label", "uncertainty").to_pandas()
    np.testing.assert_array_equal(by_name.fit(frame, y).predict(frame), made.predict(x))


def test_scores_of_an_estimator_are_made_out_of_fold(blobs: tuple[Any, Any]) -> None:
    x, y = blobs
    seen, new = (x[:1000], y[:1000]), (x[1000:], y[1000:])
    forest, goal = RandomForestClassifier(20, random_state=0), {"precision": 0.8, "method": "st"}
    made = BoundaryClassifier(forest, **goal).fit(*seen)
    frozen = BoundaryClassifier(FrozenEstimator(forest.fit(*seen)), **goal)
    # On rows that it has seen the forest is nearly always right.
    fooled = frozen.fit(*seen).model_.fit.in_sample
    assert made.model_.fit.in_sample.recall < fooled.recall == 1.0
    assert precision_score(new[1], made.predict(new[0])) > 0.7
    assert precision_score(new[1], frozen.fit(*new).predict(new[0])) >= 0.8


def test_the_spread_of_an_ensemble_is_an_uncertainty(blobs: tuple[Any, Any]) -> None:
    x, y = blobs
    bags = BaggingClassifier(GaussianNB(), 8, max_features=0.5, random_state=0)
    own: dict[str, Any] = {"method": "exact", "uncertainty_bins": 2, "precision": 0.75}
    made = BoundaryClassifier(bags, uncertainty="spread", **own).fit(x, y)
    assert len(made.model_.score_thresholds) == 2
    assert set(made.predict(x)) == {0, 1}
    column = BoundaryClassifier(GaussianNB(), uncertainty=3, **own).fit(x, y)
    assert len(column.model_.score_thresholds) == 2
    # Members that want a frame get it.
    frame = pl.DataFrame(x).to_pandas()
    by_name = make_pipeline(ColumnTransformer([("own", "passthrough", ["column_0"])]), GaussianNB())
    both = VotingClassifier([("a", by_name), ("b", GaussianNB())], voting="soft")
    made = BoundaryClassifier(both, recall=0.9, method="st", uncertainty="spread")
    assert set(made.fit(frame, y).predict(frame)) == {0, 1}


def test_parts_of_the_feature_space_have_maps_of_their_own(blobs: tuple[Any, Any]) -> None:
    rows = ck.simulate_partitions(4_000, seed=1)
    frame = rows.select("score", "^feature_.*$").to_pandas()
    own: dict[str, Any] = {"max_depth": 1, "min_leaf": 100, "shrinkage": 0.0}
    made = HeterogeneousCalibrator(scale="probability", **own).fit(frame, rows["label"].to_numpy())
    alone = ck.fit_hetcal(rows, features=list(frame)[1:], **own).apply(rows)["calibrated"]
    np.testing.assert_array_equal(made.predict_proba(frame)[:, 1], alone.to_numpy())
    assert isinstance(made.model_, ck.HetcalModel)
    assert made.feature_names_in_[0] == "score"
    # A wrapped classifier is calibrated by its features.
    seen, (x, y) = ([one[:1000] for one in blobs], (one[1000:] for one in blobs))
    bare, made = (one.fit(*seen) for one in (GaussianNB(), HeterogeneousCalibrator(GaussianNB())))
    assert log_loss(y, made.predict_proba(x)) < log_loss(y, bare.predict_proba(x))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_features_may_be_called_as_roles_are(kind: Any, blobs: tuple[Any, Any]) -> None:
    features, y = blobs
    names = ["score", "label", "weight", "x"]
    frame = kind({name: features[:, place] for place, name in enumerate(names)})
    model = HeterogeneousCalibrator(LogisticRegression()).fit(frame, y)
    assert log_loss(y, model.predict_proba(frame)) < log_loss(y, np.full(len(y), np.mean(y)))


def test_search_cross_validation_clone_and_pickle(rows: pl.DataFrame) -> None:
    x, y = rows.select("score", "uncertainty").to_numpy(), rows["label"].to_numpy()
    search = GridSearchCV(
        BoundaryClassifier(method="exact", precision=0.6),
        {"uncertainty_bins": [1, 2]}, scoring="recall", cv=2,
    ).fit(x, y)  # fmt: skip
    assert search.best_params_["uncertainty_bins"] in (1, 2)
    scores = cross_val_score(ScoreCalibrator(), x, y, scoring="neg_log_loss", cv=3)
    assert (scores > -1.0).all()
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(x), search.predict(x))
    copy = clone(search.best_estimator_)
    assert not hasattr(copy, "model_")
    assert copy.get_params() == search.best_estimator_.get_params()


@pytest.mark.parametrize(
    "made",
    [BoundaryClassifier(precision=0.6, method="st"), HeterogeneousCalibrator(partition="tree")],
    ids=lambda made: type(made).__name__,
)
def test_a_fit_forgets_the_estimator_of_the_last_one(made: Any, rows: pl.DataFrame) -> None:
    x, y = rows.select("score", "uncertainty").to_numpy(), rows["label"].to_numpy()
    again = clone(made).set_params(estimator=LogisticRegression()).fit(x, y)
    again.set_params(estimator=None).fit(x, y)
    assert (again.predict(x) == clone(made).fit(x, y).predict(x)).all()


@pytest.mark.filterwarnings("ignore:X (has|does not have) (valid )?feature names")
def test_columns_without_names_go_by_their_place(rows: pl.DataFrame) -> None:
    x, y = rows.select("score", "uncertainty").to_pandas(), rows["label"].to_numpy()
    framed = HeterogeneousCalibrator().fit(x, y)
    plain = HeterogeneousCalibrator().fit(x.to_numpy(), y)
    arrow = HeterogeneousCalibrator().fit(pa.table(x), y)
    expected = framed.predict_proba(x)
    for fitted in (framed, plain, arrow):
        for given in (x, x.to_numpy(), pa.table(x)):
            assert (fitted.predict_proba(given) == expected).all()


def test_what_cannot_be_fitted_is_said(rows: pl.DataFrame, blobs: tuple[Any, Any]) -> None:
    x, y = rows.select("score").to_numpy(), rows["label"].to_numpy()
    thirds = FrozenEstimator(GaussianNB().fit(x, np.arange(len(x)) % 3))
    lone = np.arange(len(x)) == 0  # a part has no positives
    short = pd.DataFrame({"score": [0.1, 0.2]})
    spread = {"uncertainty": "spread"}
    for made, features, label, said in (
        (BoundaryClassifier(precision=0.5, recall=0.5), x, y, "exactly one objective"),
        (BoundaryClassifier(thirds, recall=0.5), x, y, "expected two columns"),
        (BoundaryClassifier(GaussianNB(), cv=KFold(2)), x, lone, "expected two columns"),
        (BoundaryClassifier(None, **spread), *blobs, "needs an ensemble"),
        (BoundaryClassifier(LogisticRegression(), **spread), *blobs, "needs an ensemble"),
        (
            BoundaryClassifier(LogisticRegression(), uncertainty=9),
            *blobs,
            "uncertainty=9 is no column",
        ),
        (BoundaryClassifier(LogisticRegression(), uncertainty="z"), rows, y, "'z' is no column"),
        (ScoreCalibrator(), pd.DataFrame({"s": [0.1, np.nan, 0.9]}), [0, 1, 0], "NaN in its first"),
        (ScoreCalibrator("beta"), x, y, "beta' needs probabilities"),
        (ScoreCalibrator(), x, np.ones(len(x)), "one class"),
        (ScoreCalibrator(), short, y, "inconsistent numbers"),
        (HeterogeneousCalibrator(), x, y, "minimum of 2"),
        (HeterogeneousCalibrator(), pd.DataFrame({"score": x[:, 0]}), y, "at least 2"),
        (HeterogeneousCalibrator(), pl.DataFrame({"score": x[:, 0]}), y, "at least 2"),
    ):
        with pytest.raises(ValueError, match=said):
            made.fit(features, label)
    listed = BoundaryClassifier(uncertainty=1).fit(blobs[0].tolist(), blobs[1])
    known = BoundaryClassifier(uncertainty=1).fit(*blobs)
    assert listed.predict(blobs[0]).tolist() == known.predict(blobs[0]).tolist()
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        ScoreCalibrator().fit(x, y, sample_weight=np.full(len(x), -1.0))
    with pytest.raises(TypeError, match="dense data is required"):
        ScoreCalibrator().fit(csr_array(blobs[0]), blobs[1])


def test_estimators_of_margins_text_and_sparse_rows_are_wrapped(blobs: tuple[Any, Any]) -> None:
    x, y = blobs
    made = BoundaryClassifier(LinearSVC(), recall=0.9, method="st").fit(x, y)
    assert made.model_.columns["score"].scale == "raw"
    words = np.where(y, "good bad worse", "good good better").astype(object)
    words[::7] = "worse"
    text = make_pipeline(CountVectorizer(), LogisticRegression())
    assert set(BoundaryClassifier(text, precision=0.5).fit(words, y).predict(words)) == {0, 1}
    made, x = BoundaryClassifier(LogisticRegression(), recall=0.9, method="st"), np.round(x)
    dense, thin = (clone(made).fit(own, y) for own in (x, csr_array(x)))
    np.testing.assert_array_equal(thin.predict(csr_array(x)), dense.predict(x))


def test_texts_and_numbers_of_numpy_are_options(rows: pl.DataFrame) -> None:
    named = {"method": np.str_("platt"), "score": np.str_("score"), "tags": {"a": np.str_("b")}}
    expected = ck.fit_calibrator(rows, method="platt", tags={"a": "b"})
    assert ck.fit_calibrator(rows, **named).to_json() == expected.to_json()
    options: dict[str, Any] = {"max_depth": 1, "min_leaf": 200, "shrinkage": 0.0}
    whole = ck.fit_hetcal(rows, features=["uncertainty"], **options).to_json()
    for several in (list, tuple):
        features = several(np.array(["uncertainty"]))
        assert ck.fit_hetcal(rows, features=features, **options).to_json() == whole
    edges = np.quantile(rows["uncertainty"], [0.3, 0.6])
    model = ck.fit_boundary(rows, recall=0.5, method="exact", uncertainty_edges=edges)
    assert model.uncertainty_edges == edges.tolist()
    votes, more = ck.simulate_raters(200, seed=1), {"probs": "prob_*", "counts": "count_*"}
    first, second = (
        ck.fit_calibrator(votes, method="vector", regularization=penalties, **more).to_json()
        for penalties in (np.array([1.0, 10.0]), (1, 10))
    )
    assert first == second
