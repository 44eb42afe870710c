"""What a result says of itself in Python: messages, one line, a page in a notebook, a table."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import polars as pl
import pytest

import calibkit as ck
from calibkit.errors import MissingFileError
from calibkit.words import in_python, python_words
from tests.conftest import ROOT, Invoke

WORDS = {
    "--score-bins is 0; expected a whole number": "score_bins is 0; expected a whole number",
    "give one of --precision, --recall or --fpr.": "give one of precision, recall or fpr.",
    "no column 'scor' for --score (see --label)": "no column 'scor' for score (see label)",
    "use --scale logit or --scale raw for it": "use scale='logit' or scale='raw' for it",
    "or leave --score-bins 0 out.": "or leave score_bins=0 out.",
    "more than --max-missing 0.5.": "more than max_missing=0.5.",
    "--method {x} does not take --by": "method {x} does not take by",
    "--method exakt does not take it": "method='exakt' does not take it",
    "choose another --method": "choose another method",
    "as in --regularization 1,10, or": "as in regularization=(1, 10), or",
    "give --minimize cost:FP,FN columns": "give minimize='cost:FP,FN' columns",
    "goes with --minimize cost:FP,FN, and": "goes with minimize='cost:FP,FN', and",
    "but --minimize cost:3.5,0.25 needs some": "but minimize='cost:3.5,0.25' needs some",
    "with --maximize fbeta:0.5.": "with maximize='fbeta:0.5'.",
    "no --maximize f1 or --maximize": "no maximize='f1' or maximize",
    "use --targets smoothed, whose": "use targets='smoothed', whose",
    "by --decision decision.": "by decision='decision'.",
    "by --decision decision_NAME": "by decision='decision_NAME'",
    "for --split thirds; use --split same": "for split='thirds'; use split='same'",
    "(see --positive VALUE)": "(see positive=VALUE)",
    "such as --fail-if 'auc<0.75'.": "such as fail_if='auc<0.75'.",
    "by --positive VALUE": "by positive=VALUE",
    "--tag a, --no-intervals, --train-input": "tags a, intervals=False, train_input",
    "make it by `calibkit bin --order uncertainty-score`.": (
        "make it by `calibkit bin --order uncertainty-score`."
    ),
    "a -- b--c": "a -- b--c",
}


@pytest.mark.parametrize("text", WORDS)
def test_options_become_arguments(text: str) -> None:
    assert python_words(text) == WORDS[text]
    assert python_words(WORDS[text]) == WORDS[text]


def test_a_function_may_have_names_of_its_own() -> None:
    assert python_words("--score and --top", {"score": "scores"}) == "scores and top"
    with pytest.raises(ck.UsageError, match=r"^folds=0 is none$") as caught, in_python():
        raise ck.UsageError("--folds 0 is none", column="a")
    assert caught.value.column == "a"
    assert caught.value.as_dict()["message"] == "folds=0 is none"


def test_errors_are_those_of_python_too() -> None:
    assert issubclass(ck.UsageError, ValueError)
    assert issubclass(ck.DataError, ValueError)
    assert issubclass(ck.ResourceError, OSError)
    with pytest.raises(FileNotFoundError, match="nowhere") as caught:
        ck.load("nowhere.json")
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, MissingFileError)
    assert (str(again), again.file, again.code) == (str(caught.value), "nowhere.json", 2)
    for missing in ("nowhere.csv", "nowhere_*.csv"):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            ck.fit_calibrator(missing)
    assert not issubclass(ck.InfeasibleError, ValueError)


def test_falling_scores_are_told_of_in_python() -> None:
    rows = ck.simulate_posterior(300, seed=1).with_columns(score=1.0 - pl.col("score"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ck.fit_calibrator(rows, method="platt")
    said = [str(one.message) for one in caught]
    assert any("(see positive=VALUE)" in one for one in said)
    assert any("or positive=VALUE the wrong one?" in one for one in said)


def test_apply_and_drift_speak_python() -> None:
    rows = ck.simulate_posterior(300, seed=1)
    model = ck.fit_calibrator(rows, method="platt")
    with pytest.raises(ck.UsageError, match="rename the added one by column, leave"):
        model.apply(rows.with_columns(calibrated=0.5))
    with pytest.raises(ck.UsageError, match=r"^positive and unlabelled say how label is read"):
        model.drift(rows, positive="yes")


# In a notebook -------------------------------------------------------------------------------

MODELS = sorted((ROOT / "tests" / "compat" / "0.1.0").glob("*.json"))


@pytest.mark.parametrize("path", MODELS, ids=[path.stem for path in MODELS])
def test_a_model_says_in_one_line_on_a_page_and_as_text_what_it_is(
    path: Path, invoke: Invoke
) -> None:
    model = ck.load(path)
    assert repr(model).startswith(f"<{type(model).__name__}: ")
    assert "\n" not in repr(model)
    assert len(repr(model)) < 120
    assert model.summary() + "\n" == python_words(invoke("show", path).stdout.decode())
    page = model._repr_html_()
    assert page.startswith("<p>")
    assert page.count("<table>") == page.count("</table>") <= 3
    assert "<style" not in page


def test_hints_are_those_of_python() -> None:
    parts = ck.simulate_partitions(4_000, seed=1)
    tree = ck.fit_hetcal(parts, max_depth=4, min_leaf=20, shrinkage=0.0)
    assert "leaves; summary() shows them, the splits and the losses." in tree._repr_html_()
    votes = ck.simulate_raters(300, raters=3, seed=1)
    shown = ck.evaluate(votes, counts="count_*", intervals=False).summary()
    assert "metrics of single classes; as_dict() has them." in shown


def test_metrics_are_a_table() -> None:
    rows = ck.simulate_posterior(600, seed=1).with_columns(old=pl.col("score") ** 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ck.CalibkitWarning)
        found = ck.evaluate(rows, scores=["score", "old"], top=0.1, metrics=["auc", "ece"])
    assert repr(found) == "<Metrics: score, old: 2 metrics, 2 slices, 600 rows>"
    table = found.to_polars()
    assert table.columns == ["score", "slice", "metric", "value", "low", "high"]
    (auc,) = table.filter(score="old", slice="all", metric="auc").iter_rows(named=True)
    assert auc["value"] == found.metrics["old"]["all"]["auc"]
    assert auc["low"] == found.intervals["old"]["all"]["auc"].low
    (difference,) = table.filter(score="old-score", slice="all", metric="auc.delta")["value"]
    assert difference == found.differences["old-score"]["all"]["auc"].value
    assert found.to_pandas().equals(table.to_pandas())
    assert found.to_dict() == found.as_dict()
    assert "<caption>600 rows</caption>" in found._repr_html_()
    assert found.summary().startswith("600 rows\nmetric")


def test_drift_and_reports_say_what_they_are() -> None:
    rows = ck.simulate_posterior(600, seed=1)
    drift = ck.fit_boundary(rows, recall=0.5, method="st", folds=0).drift(rows)
    assert repr(drift) == "<Drift: boundary, 600 rows>"
    assert drift.summary().startswith("boundary: score PSI 0.0000 (no more than chance")
    assert "<th>expected</th>" in drift._repr_html_()
    report = ck.validate({"score": [0.2, 1.5], "label": [0, 1]})
    said = "2 rows in 1 file: not usable as it is; 1 error"
    assert repr(report) == f"<Report: {said}>"
    assert report.summary().splitlines()[0] == f"{said}."
