"""`boundary --max-gap` from the command line: gaps as counted from the decisions, states, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.cli.score_files import write
from tests.conftest import Invoke

BASE = ("--precision", 0.7, "--by", "site")


SITE = "--precision .7 --by site"
COUNT = 1000


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(3)
    site = random.integers(0, 3, COUNT)
    truth = random.beta(np.array([1.2, 0.8, 0.5])[site], 2.0)
    table = {
        "score": np.clip(truth + random.normal(0.0, 0.1, COUNT), 0.0, 1.0).round(3),
        "uncertainty": random.random(COUNT).round(2),
        "label": (random.random(COUNT) < truth).astype(np.int64),
        "site": np.array(["north", "south", "west"])[site],
        "weight": random.integers(1, 4, COUNT),
    }
    return write(pl.DataFrame(table), tmp_path_factory.mktemp("rows") / "rows.parquet")


def fit(invoke: Invoke, rows: Path, *options: object) -> dict[str, Any]:
    done = invoke("boundary", rows, *options, "-o", rows.parent / "model.json")
    found: dict[str, Any] = done.result()
    return found


def gaps(invoke: Invoke, rows: Path, weight: str = "one") -> dict[str, float]:
    """Return precision, recall and both gaps of the model as its decisions have them."""
    out = rows.parent / "out.parquet"
    frame = invoke("apply", rows.parent / "model.json", rows, "-o", out).result()
    taken, positive = pl.col("decision") == 1, pl.col("label") == 1

    def share(of: pl.Expr, where: pl.Expr) -> pl.Expr:
        return pl.col(weight).filter(of & where).sum() / pl.col(weight).filter(where).sum()

    kinds = {"recall": share(taken, positive), "fpr": share(taken, ~positive)}
    frame = frame.with_columns(one=1)
    apart = frame.group_by("site").agg(**kinds)
    whole = {"precision": share(positive, taken), "whole": kinds["recall"]}
    return {
        **frame.select(**whole).row(0, named=True),
        **{name: float(np.ptp(apart[name].to_numpy())) for name in kinds},
    }


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("gap", "options"),
    [
        ("recall:0.05", ""),
        ("fpr:0.02", "--uncertainty-bins 1"),
        ("recall:0.02", "--method exact --uncertainty-bins 3"),
        ("fpr:0.01", "--method exact --weight weight"),
    ],
)
def test_the_decisions_keep_the_gap(gap: str, options: str, rows: Path, invoke: Invoke) -> None:
    weight, line = "weight" if "--weight" in options else "one", (*BASE, *options.split())
    free = fit(invoke, rows, *line)["fit"]["in_sample"]
    measure, most = gap.split(":")
    before = gaps(invoke, rows, weight)
    assert before[measure] > float(most)
    model = fit(invoke, rows, *line, "--max-gap", gap, "--test", rows)
    seen, known, fitted = gaps(invoke, rows, weight), model["fit"]["gap"], model["fit"]
    assert seen[measure] <= float(most) and seen["precision"] >= 0.7
    assert known["in_sample"] == known["test"] == pytest.approx(seen[measure])
    assert fitted["in_sample"]["recall"] == pytest.approx(seen["whole"])
    assert model["objective"]["max_gap"] == {measure: float(most)}
    values = [price["objective_value"] or 0.0 for price in known["prices"]]
    if len(next(iter(model["groups"].values()))["score_thresholds"]) == 1:
        assert fitted["optimal_in_sample"] and values == sorted(values)
        assert fitted["upper_bound"] == fitted["in_sample"]["objective_value"]
    assert seen["whole"] <= fitted["upper_bound"] + 1e-12
    if "exact" in options:
        assert values[-1] == pytest.approx(free["recall"])
        assert known["without_limit"] == pytest.approx(before[measure])
    assert 0.0 <= known["cross_validated"] <= 0.2


def test_a_candidate_is_judged_as_a_fit_of_its_own(rows: Path, invoke: Invoke) -> None:
    """The gap lies between segments, however many levels a candidate has within them."""
    options = (*BASE, "--max-gap", "recall:0.05")
    tried = fit(invoke, rows, *options)["fit"]["candidates"]
    (one,) = [one for one in tried if one["uncertainty_bins"] == 3]
    own = fit(invoke, rows, *options, "--method", "exact", "--uncertainty-bins", 3)
    for name in ("precision", "recall"):
        assert one[name] == pytest.approx(own["fit"]["cross_validated"][name], rel=1e-12)


@pytest.mark.parametrize("gap", ["recall:0.3", "fpr:0.2"])
def test_a_gap_is_certified_with_its_bound(gap: str, rows: Path, invoke: Invoke) -> None:
    options = ("--recall", 0.3, *BASE[2:], "--max-gap", gap, "--confidence", 0.8, "--test", rows)
    model = fit(invoke, rows, *options, "--weight", "weight")
    (measure, most), seen = gap.split(":"), gaps(invoke, rows, "weight")
    said = [
        (one["quantity"], one["bound"], one["side"])
        for one in model["fit"]["certificate"]["promises"]
    ]
    assert said == [("recall", 0.3, "lower"), (f"gap in {measure}", float(most), "upper")]
    assert seen[measure] <= float(most) and seen["whole"] >= 0.3
    assert model["fit"]["gap"]["in_sample"] == pytest.approx(seen[measure])
    assert model["fit"]["gap"]["test"] is not None
    assert model["objective"]["max_gap"] == {measure: float(most)}
    shown = invoke("show", rows.parent / "model.json").stdout.decode()
    assert f"recall >= 0.3 and gap in {measure} <= {most} with confidence 0.8" in shown
    assert f"Their {measure} is at most {most} apart" in shown
    invoke("drift", rows.parent / "model.json", rows, "--label label --json").succeeded()


@pytest.mark.parametrize(("measure", "of"), [("recall", 1), ("fpr", 0)])
def test_a_certified_gap_is_that_of_its_own_class(measure: str, of: int, invoke: Invoke) -> None:
    """Rows of one class have lower scores in one segment; those of the other one are alike in both."""
    draw = np.random.default_rng(4)
    label, site = draw.integers(0, 2, 4000), draw.choice(["a", "b"], 4000)
    moved = np.where((label == of) & (site == "b"), 1.5, 0.0)
    score = 1 / (1 + np.exp(-draw.normal(1.5 * label - moved, 1.0)))
    rows = Path("rows.parquet")
    frame = {"score": score, "label": label, "site": site, "weight": np.ones(4000)}
    pl.DataFrame(frame).write_parquet(rows)
    sure = ("--by site --confidence 0.9 --method exact --uncertainty-bins 1",)
    bound = "--precision 0.5" if measure == "recall" else "--recall 0.3"
    fit(invoke, rows, bound, *sure, "--max-gap", f"{measure}:0.15")
    assert gaps(invoke, rows, "weight")[measure] <= 0.15


def test_a_segment_of_a_few_rows_has_no_certificate(invoke: Invoke) -> None:
    draw = np.random.default_rng(0)
    score = draw.uniform(size=3000)
    site = np.array(["c"] * 6 + ["a"] * 1494 + ["b"] * 1500)
    label = (draw.uniform(size=3000) < score).astype(int)
    frame = pl.DataFrame({"score": score, "label": label, "site": site})
    rows = write(frame, "rows.parquet")
    sure = ("--precision 0.6 --by site --confidence 0.9 --min-group-positives 1",)
    each = fit(invoke, rows, *sure, "--method st --bound each")  # each segment for itself
    assert [own["score_thresholds"] for own in each["groups"].values()].count([None]) == 1
    gap = ("--method exact --max-gap recall:0.2", "-o", Path("gap.json"))
    invoke("boundary", rows, *sure, *gap).refused(4, "segment 'c' has too few rows for a recall")


def test_show_says_what_the_gap_costs(rows: Path, invoke: Invoke) -> None:
    done = invoke("boundary", rows, *BASE, "--max-gap", "recall:.02", "-o m.json")
    assert "Their recall is at most 0.02 apart: " in done.stderr
    shown = invoke("show", "m.json").stdout.decode()
    assert "largest gap in recall" in shown and "Without --max-gap: recall 0." in shown


def test_several_promises_with_a_gap_say_what_could_be_had(invoke: Invoke) -> None:
    random = np.random.default_rng(0)
    score = random.random(300)
    label = (random.random(300) < score).astype(int)
    frame = pl.DataFrame({"score": score, "label": label, "shop": ["a", "b"] * 150})
    path = write(frame, "few.parquet")
    given = ("--precision 0.95 --recall 0.6 --confidence 0.95 --by shop --max-gap recall:0.3",)
    invoke("boundary", path, *given, "-o m.json").refused(4, "may be enough")


@pytest.mark.parametrize(
    "options",
    [
        "--precision .7 --max-gap recall:.001 --confidence .9",
        "--precision 1 --max-gap recall:0 --uncertainty-bins 1",
    ],
)
def test_a_gap_that_cannot_be_kept(options: str, rows: Path, invoke: Invoke) -> None:
    invoke("boundary", rows, options, "--by site -o none.json").refused(4, "allow a larger gap")
