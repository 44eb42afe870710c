"""`boundary --max-gap` from the command line: gaps as counted from the decisions, states, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.conftest import Invoke

BASE = ("--precision", 0.7, "--by", "site")
COUNT = 1000


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(3)
    site = random.integers(0, 3, COUNT)
    truth = random.beta(np.array([1.2, 0.8, 0.5])[site], 2.0)
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pl.DataFrame(
        {
            "score": np.clip(truth + random.normal(0.0, 0.1, COUNT), 0.0, 1.0).round(3),
            "uncertainty": random.random(COUNT).round(2),
            "label": (random.random(COUNT) < truth).astype(np.int64),
            "site": np.array(["north", "south", "west"])[site],
            "weight": random.integers(1, 4, COUNT),
        }
    ).write_parquet(path)
    return path


def fit(invoke: Invoke, rows: Path, *options: object) -> dict[str, Any]:
    done = invoke("boundary", rows, *options, "-o", rows.parent / "model.json")
    assert done.code == 0, done.stderr
    return dict(json.loads((rows.parent / "model.json").read_text()))


def gaps(invoke: Invoke, rows: Path, weight: str = "one") -> dict[str, float]:
    """Return precision, recall and both gaps of the model as its decisions have them."""
    out = rows.parent / "out.parquet"
    assert invoke("apply", rows.parent / "model.json", rows, "-o", out).code == 0
    taken, positive = pl.col("decision") == 1, pl.col("label") == 1
    frame = pl.read_parquet(out).with_columns(one=1)
    rate = [
        (pl.col(weight).filter(taken & kind).sum() / pl.col(weight).filter(kind).sum()).alias(name)
        for name, kind in (("recall", positive), ("fpr", ~positive))
    ]
    apart = frame.group_by("site").agg(rate).select("recall", "fpr")
    return {
        "precision": frame.select(
            pl.col(weight).filter(taken & positive).sum() / pl.col(weight).filter(taken).sum()
        ).item(),
        "whole": frame.select(rate[0]).item(),
        **{name: float(np.ptp(apart[name].to_numpy())) for name in ("recall", "fpr")},
    }


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "options",
    [
        ("--max-gap", "recall:0.05"),
        ("--max-gap", "fpr:0.02", "--uncertainty-bins", 1),
        ("--max-gap", "recall:0.02", "--method", "exact", "--uncertainty-bins", 3),
        ("--max-gap", "fpr:0.01", "--method", "exact", "--weight", "weight"),
    ],
)
def test_the_decisions_keep_the_gap(options: tuple[Any, ...], rows: Path, invoke: Invoke) -> None:
    weight = "weight" if "--weight" in options else "one"
    free = fit(invoke, rows, *BASE, *options[2:])["fit"]["in_sample"]
    measure, most = options[1].split(":")
    before = gaps(invoke, rows, weight)
    assert before[measure] > float(most)
    model = fit(invoke, rows, *BASE, *options, "--test", rows)
    seen, known = gaps(invoke, rows, weight), model["fit"]["gap"]
    assert seen[measure] <= float(most) and seen["precision"] >= 0.7
    assert known["in_sample"] == pytest.approx(seen[measure])
    assert known["test"] == pytest.approx(seen[measure])
    assert model["fit"]["in_sample"]["recall"] == pytest.approx(seen["whole"])
    assert model["objective"]["max_gap"] == {measure: float(most)}
    values = [price["objective_value"] or 0.0 for price in known["prices"]]
    levels = len(next(iter(model["groups"].values()))["score_thresholds"])
    if levels == 1:
        assert model["fit"]["optimal_in_sample"] and values == sorted(values)
        assert model["fit"]["upper_bound"] == model["fit"]["in_sample"]["objective_value"]
    assert seen["whole"] <= model["fit"]["upper_bound"] + 1e-12
    if "exact" in options:
        assert known["prices"][-1]["objective_value"] == pytest.approx(free["recall"])
        assert known["without_limit"] == pytest.approx(before[measure])
    assert 0.0 <= known["cross_validated"] <= 0.2


def test_a_candidate_is_judged_as_a_fit_of_its_own(rows: Path, invoke: Invoke) -> None:
    """The gap lies between segments, however many levels a candidate has within them."""
    options = (*BASE, "--max-gap", "recall:0.05")
    tried = {
        one["uncertainty_bins"]: one for one in fit(invoke, rows, *options)["fit"]["candidates"]
    }
    own = fit(invoke, rows, *options, "--method", "exact", "--uncertainty-bins", 3)
    for name in ("precision", "recall"):
        assert tried[3][name] == pytest.approx(own["fit"]["cross_validated"][name], rel=1e-12)


@pytest.mark.parametrize("gap", ["recall:0.3", "fpr:0.2"])
def test_a_gap_is_certified_with_its_bound(gap: str, rows: Path, invoke: Invoke) -> None:
    options = ("--recall", 0.3, *BASE[2:], "--max-gap", gap, "--confidence", 0.8, "--test", rows)
    model = fit(invoke, rows, *options, "--weight", "weight")
    (measure, most), seen = gap.split(":"), gaps(invoke, rows, "weight")
    sure = model["fit"]["certificate"]
    said = [(one["quantity"], one["bound"], one["side"]) for one in sure["promises"]]
    assert said == [("recall", 0.3, "lower"), (f"gap in {measure}", float(most), "upper")]
    assert seen[measure] <= float(most) and seen["whole"] >= 0.3
    assert model["fit"]["gap"]["in_sample"] == pytest.approx(seen[measure])
    assert model["fit"]["gap"]["test"] is not None
    assert model["objective"]["max_gap"] == {measure: float(most)}
    shown = invoke("show", rows.parent / "model.json").stdout.decode()
    assert f"recall >= 0.3 and gap in {measure} <= {most} with confidence 0.8" in shown
    assert f"Their {measure} is at most {most} apart" in shown
    options = ("--label", "label", "--json")
    drift = invoke("drift", rows.parent / "model.json", rows, *options)
    assert drift.code == 0, drift.stderr


@pytest.mark.parametrize(("measure", "of"), [("recall", 1), ("fpr", 0)])
def test_a_certified_gap_is_that_of_its_own_class(
    measure: str, of: int, tmp_path: Path, invoke: Invoke
) -> None:
    """Rows of one class have lower scores in one segment; those of the other one are alike in both."""
    draw = np.random.default_rng(4)
    label, site = draw.integers(0, 2, 4000), draw.choice(["a", "b"], 4000)
    moved = np.where((label == of) & (site == "b"), 1.5, 0.0)
    score = 1 / (1 + np.exp(-draw.normal(1.5 * label - moved, 1.0)))
    rows = tmp_path / "rows.parquet"
    frame = {"score": score, "label": label, "site": site, "weight": np.ones(4000)}
    pl.DataFrame(frame).write_parquet(rows)
    sure = ("--by site --confidence 0.9 --method exact --uncertainty-bins 1",)
    bound = "--precision 0.5" if measure == "recall" else "--recall 0.3"
    fit(invoke, rows, bound, *sure, "--max-gap", f"{measure}:0.15")
    assert gaps(invoke, rows, "weight")[measure] <= 0.15


def test_a_segment_of_a_few_rows_has_no_certificate(tmp_path: Path, invoke: Invoke) -> None:
    draw = np.random.default_rng(0)
    score = draw.uniform(size=3000)
    site = np.where(np.arange(3000) < 1500, "a", "b")
    site[:6] = "c"
    label = (draw.uniform(size=3000) < score).astype(int)
    rows = tmp_path / "rows.parquet"
    pl.DataFrame({"score": score, "label": label, "site": site}).write_parquet(rows)
    sure = ("--precision 0.6 --by site --confidence 0.9 --min-group-positives 1",)
    each = fit(invoke, rows, *sure, "--method st --bound each")  # each segment for itself
    assert [own["score_thresholds"] for own in each["groups"].values()].count([None]) == 1
    gap = ("--method exact --max-gap recall:0.2", "-o", tmp_path / "gap.json")
    invoke("boundary", rows, *sure, *gap).refused(4, "segment 'c' has too few rows for a recall")


@pytest.mark.more
def test_a_wide_gap_changes_nothing(rows: Path, invoke: Invoke) -> None:
    free = fit(invoke, rows, *BASE, "--method", "exact", "--uncertainty-bins", 1)
    wide = fit(invoke, rows, *BASE, "--method exact --uncertainty-bins 1 --max-gap recall:1")
    assert wide["fit"]["in_sample"] == free["fit"]["in_sample"]


def test_show_says_what_the_gap_costs(rows: Path, tmp_path: Path, invoke: Invoke) -> None:
    model = tmp_path / "m.json"
    done = invoke("boundary", rows, *BASE, "--max-gap", "recall:.02", "-o", model)
    assert "Their recall is at most 0.02 apart: " in done.stderr
    shown = invoke("show", model).stdout.decode()
    assert "largest gap in recall" in shown and "Without --max-gap: recall 0." in shown


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--precision", 0.7, "--max-gap", "recall:.1"), 2, "--max-gap goes with --by"),
        ((*BASE, "--max-gap", "auc:.1"), 2, "measures: recall, fpr"),
        ((*BASE, "--max-gap", "recall:1.5"), 2, "expected a number from 0 to 1"),
        ((*BASE, "--max-gap", "recall:.1", "--bound", "each"), 2, "one bound on all rows"),
        ((*BASE, "--max-gap", "recall:.1", "--method", "mist"), 2, "auto and exact, not mist"),
        (
            (*BASE, "--max-gap", "recall:.1", "--confidence", 0.9, "--groups", "uncertainty"),
            2,
            "count once",
        ),
        ((*BASE, "--max-gap", "recall:.001", "--confidence", 0.9), 4, "allow a larger gap"),
        ((*BASE, "--max-gap", "recall:.1", "--value", "weight"), 2, "--value"),
        (("--maximize", "f1", "--by", "site", "--max-gap", "fpr:.1"), 2, "--max-gap goes with"),
        (
            ("--precision", 1, "--by", "site", "--max-gap", "recall:0", "--uncertainty-bins", 1),
            4,
            "allow a larger gap",
        ),
    ],
)
def test_what_is_refused(
    options: tuple[Any, ...], code: int, said: str, rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    done = invoke("boundary", rows, *options, "-o", tmp_path / "none.json")
    assert done.code == code and said in done.stderr
    assert not (tmp_path / "none.json").exists()


def test_several_promises_with_a_gap_say_what_could_be_had(tmp_path: Path, invoke: Invoke) -> None:
    random = np.random.default_rng(0)
    score = random.random(300)
    label = (random.random(300) < score).astype(int)
    path = tmp_path / "few.parquet"
    pl.DataFrame({"score": score, "label": label, "shop": ["a", "b"] * 150}).write_parquet(path)
    given = ("--precision 0.95 --recall 0.6 --confidence 0.95 --by shop --max-gap recall:0.3",)
    done = invoke("boundary", path, *given, "-o", tmp_path / "m.json")
    done.refused(4, "may be enough")
