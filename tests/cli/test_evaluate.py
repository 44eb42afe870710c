"""``calibkit evaluate`` from the command line: files, slices, decisions, bad input."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as oracle

from tests.cli.score_files import changed, simulate, write
from tests.conftest import Invoke, make

Evaluate = Callable[..., dict[str, Any]]


@pytest.fixture
def evaluate(invoke: Invoke) -> Evaluate:
    """Evaluate and return metrics.json, without intervals unless they are asked for."""

    def call(*given: object, intervals: bool = False) -> dict[str, Any]:
        more = [] if intervals else ["--no-intervals"]
        return invoke("evaluate", *given, *more, "--json").result()

    return call


@pytest.fixture
def good() -> Path:
    """Return a file of good rows with a second score, a segment and a decision."""
    return write(rows(), "good.parquet")


def rows(count: int = 600) -> pl.DataFrame:
    random = np.random.default_rng(4)
    return simulate(count, ties=True).with_columns(
        other=pl.Series(random.random(count).round(2)),
        country=pl.Series(random.choice(["at", "be", "de", "lu"], count, p=[0.4, 0.3, 0.2, 0.1])),
        decision=pl.Series(random.integers(0, 2, count)),
        user=pl.Series(random.integers(0, 90, count)),
    )


def boundary(good: Path, *more: str) -> Path:
    return make(good.with_name("boundary.json"), "boundary", good, "--precision 0.7", *more)


@pytest.mark.parametrize("name", ["points", "score"])
def test_the_score_of_a_boundary_is_on_its_scale(evaluate: Evaluate, name: str) -> None:
    frame = rows().with_columns(pl.col("score") * 770).rename({"score": name})
    path = write(frame, "points.parquet")
    fit = f"--precision 0.5 --score {name} --scale raw --method st --uncertainty-bins 1"
    model = make("b.json", "boundary", path, fit)
    found = evaluate(path, "--boundary", model, "--metrics auc,precision")
    said = evaluate(path, "--boundary", model, "--metrics auc,precision --scale raw")
    assert found["metrics"] == said["metrics"]
    if name != "score":  # which is a probability, as ever
        other = write(frame.with_columns(score=pl.lit(0.5)), "other.parquet")
        judged = evaluate(other, "--boundary", model, "--metrics brier")
        assert judged["metrics"]["score"]["all"]["brier"] == 0.25
    assert found["metrics"]["boundary"]["all"]["precision"] >= 0.5


def test_metrics_json_has_its_structure(good: Path, evaluate: Evaluate) -> None:
    found = evaluate(good)
    assert sorted(found) == ["differences", "intervals", "metrics", "rows", "signature"]
    own = found["metrics"]["score"]["all"]
    frame = rows()
    assert found["rows"] == own["count"] == frame.height
    assert own["positives"] == frame["label"].sum()
    names = {
        *("count", "positives", "base_rate", "mean_score", "lift", "calibration_bias", "auc"),
        *("average_precision", "log_loss", "brier", "ece", "ace", "mce", "ece_debiased"),
        *("smooth_ece", "miscalibration", "discrimination", "brier_uncertainty"),
    }
    assert set(own) == set(found["signature"]) == names
    assert found["intervals"] == found["differences"] == {}
    assert found["signature"]["ece"].startswith(
        "ece|bins:15|norm:l1|strategy:equal-width|ties:whole|v:"
    )
    wide, narrow = (
        evaluate(good, "--confidence", level, intervals=True) for level in ("0.95", "0.5")
    )
    assert "|interval:" in wide["signature"]["auc"]
    one, two = (each["intervals"]["score"]["all"]["auc"] for each in (wide, narrow))
    assert one["low"] < two["low"] < own["auc"] < two["high"] < one["high"]


def test_several_scores_are_compared_with_the_baseline(good: Path, evaluate: Evaluate) -> None:
    assert list(evaluate(good, "--baseline other")["differences"]) == ["score-other"]
    found = evaluate(good, "--score score,other --baseline other --top 0.1,.5")
    one, two = found["metrics"]["other"], found["metrics"]["score"]
    assert list(found["differences"]) == ["score-other"]
    assert set(one) == {"all", "top:0.1", "top:.5"}
    for part, differences in found["differences"]["score-other"].items():
        assert one[part]["count"] == two[part]["count"]
        assert not {"count", "positives", "base_rate"} & set(differences)
        for name, difference in differences.items():
            known = one[part][name] is not None and two[part][name] is not None
            assert difference["value"] == (two[part][name] - one[part][name] if known else None)
    ratio = two["all"]["log_loss"] / one["all"]["log_loss"] - 1
    assert two["all"]["log_loss_reduction"] == pytest.approx(ratio)
    assert one["all"]["log_loss_reduction"] == 0


def test_a_slice_is_what_its_rows_alone_would_be(good: Path, evaluate: Evaluate) -> None:
    found = evaluate(good, "--by country --top 0.2 --top-by uncertainty")["metrics"]["score"]
    frame = rows()
    cut = np.sort(frame["uncertainty"])[::-1][120 - 1]
    parts = {f"country:{name}": frame.filter(country=name) for name in ("at", "be", "de")}
    parts["top:0.2"] = frame.filter(pl.col("uncertainty") >= cut)
    for part, own in parts.items():
        alone = evaluate(write(own, "part.parquet"))["metrics"]["score"]["all"]
        alone["lift"] = alone["base_rate"] / found["all"]["base_rate"]
        assert found[part] == alone


def test_small_segments_are_null(good: Path, evaluate: Evaluate) -> None:
    own = evaluate(good, "--by country", "--boundary", boundary(good))["metrics"]
    small = own["score"]["country:lu"]
    assert small.pop("count") < 100
    assert set(small.values()) == {None} == set(own["boundary"]["country:lu"].values())
    found = evaluate(good, "--by country --min-rows 10")
    assert found["metrics"]["score"]["country:lu"]["auc"] is not None


def test_decisions_of_a_model_and_of_a_column(
    good: Path, evaluate: Evaluate, invoke: Invoke
) -> None:
    model, applied = boundary(good), Path("applied.parquet")
    found = evaluate(good, "--boundary", model)["metrics"]["boundary"]["all"]
    frame = invoke("apply", model, good, "--overwrite-columns -q -o", applied).result()
    given = evaluate(applied, "--decision decision")["metrics"]["decision"]["all"]
    assert found == given
    label, decision = frame["label"].to_numpy(), frame["decision"].to_numpy()
    assert found["tp"] == int((label & decision).sum())
    assert found["selected"] == int(decision.sum())
    names = {"tp", "fp", "fn", "tn", "selected", "selected_share", "precision", "recall"}
    assert set(found) == names | {"specificity", "fpr", "npv", "f1", "mcc"}


def test_a_boundary_and_a_grid_read_the_columns_named(
    good: Path, evaluate: Evaluate, invoke: Invoke
) -> None:
    model, grid = boundary(good), Path("grid.parquet")
    make(grid, "bin", good, "--uncertainty-bins 2 --score-bins 3")
    given = ["--boundary", model, "--grid", grid]
    known = evaluate(good, *given)["metrics"]
    assert {f"ece_at:{j}" for j in range(3)} < set(known["score"]["all"])
    renamed = write(rows().rename({"uncertainty": "spread"}), "renamed.parquet")
    assert invoke("evaluate", renamed, *given).code == 2
    assert evaluate(renamed, *given, "--uncertainty spread")["metrics"] == known


def piped(path: Path) -> str:
    """Return a pipe with the bytes of a small file."""
    end, start = os.pipe()
    with os.fdopen(start, "wb") as file:
        file.write(path.read_bytes())
    return f"/dev/fd/{end}"


@pytest.mark.parametrize(
    "more", [[], ["--score", "score"], ["--report", "page.html"], ["--partial"], ["--dry-run"]]
)
def test_a_boundary_and_a_grid_come_by_pipes(good: Path, invoke: Invoke, more: list[str]) -> None:
    model, grid = boundary(good), make("grid.parquet", "bin", good, "--score-bins 3")
    said, files = [], [Path("a.state"), Path("b.state")]
    for given, out in zip([(model, grid), (piped(model), piped(grid))], files, strict=True):
        line = ["--boundary", given[0], "--grid", given[1], *more]
        output = ["-o", out] if "--partial" in more else []
        said.append(invoke("evaluate", good, *line, "-q", *output))
        assert said[-1].code == 0, said[-1]
    assert said[0].stdout == said[1].stdout
    assert len({out.read_bytes() for out in files if out.exists()}) <= 1


def test_a_boundary_says_the_score_where_none_is_named(
    good: Path, evaluate: Evaluate, invoke: Invoke
) -> None:
    renamed = write(rows().rename({"score": "p"}), "renamed.parquet")
    model, page = boundary(renamed, "--score p"), Path("page.html")
    found = evaluate(renamed, "--boundary", model, "--report", page)
    assert set(found["metrics"]) == {"p", "boundary"}
    assert found == evaluate(renamed, "--boundary", model, "--score p")
    both = write(rows().with_columns(p="score"), "both.parquet")
    assert set(evaluate(both, "--boundary", model)["metrics"]) == {"score", "boundary"}
    make("a.state", "evaluate", renamed, "--boundary", model, "--partial")
    done = invoke("evaluate", good, "--boundary", model, "--score score")
    done.refused(2, "no column 'p' for the boundary's score (apply it with --score")


def test_metrics_wanted(good: Path, evaluate: Evaluate) -> None:
    found = evaluate(good, "--metrics auc,recall_at_precision:.80 --metrics ece")
    own = found["metrics"]["score"]["all"]
    assert sorted(own) == ["auc", "ece", "recall_at_precision:0.8"]
    more = "--recall-at-precision 0.8,.80 --precision-at-recall 0.5,1"
    also = evaluate(good, more)["metrics"]["score"]["all"]
    assert also["recall_at_precision:0.8"] == own["recall_at_precision:0.8"]
    assert also["precision_at_recall:1"] <= also["precision_at_recall:0.5"]
    for twice in (
        "--recall-at-precision 0.5 --metrics recall_at_precision:0.5",
        "--metrics recall_at_precision:0.5,recall_at_precision:.5",
    ):
        assert list(evaluate(good, twice)["metrics"]["score"]["all"]) == ["recall_at_precision:0.5"]
    # What an option of its own asks for is there beside the names.
    grid = make("grid.parquet", "bin", good, "--uncertainty-bins 2 --score-bins 2")
    more = ("--metrics auc --recall-at-precision 0.5 --precision-at-recall 0.5 --grid", grid)
    assert sorted(evaluate(good, *more)["metrics"]["score"]["all"]) == [
        *("auc", "cumulative_ece_at:0", "cumulative_ece_at:1", "ece_at:0", "ece_at:1"),
        *("precision_at_recall:0.5", "recall_at_precision:0.5"),
    ]


def test_narrow_scores_count_as_wide_ones(evaluate: Evaluate) -> None:
    narrow = rows().cast({"score": pl.Float32, "other": pl.Float32})
    wide = narrow.cast({"score": pl.Float64, "other": pl.Float64})
    one, two = (
        evaluate(write(frame, path), "--score score,other --weight weight", intervals=True)
        for frame, path in ((narrow, Path("n.parquet")), (wide, Path("w.parquet")))
    )
    assert one == two
    assert one["differences"]["other-score"]["all"]["calibration_bias"]["low"] is not None


def test_cells_of_logits_are_those_of_their_probabilities(evaluate: Evaluate) -> None:
    p = pl.col("score").clip(0.01, 0.99)
    both = write(rows().with_columns(score=p, z=(p / (1 - p)).log()), "both.parquet")
    found = []
    for name, scale in (("score", "probability"), ("z", "logit")):
        on = f"--score {name} --scale {scale}"
        grid = make("grid.parquet", "bin", both, on, "--score-bins 4")
        own = evaluate(both, on, "--grid", grid)["metrics"][name]["all"]
        found.append([value for key, value in own.items() if "ece_at" in key])
    assert len(found[0]) == 8 and found[1] == pytest.approx(found[0])


def test_prevalence_reweights_classes(good: Path, evaluate: Evaluate) -> None:
    found = evaluate(good, "--prevalence 0.1")["metrics"]["score"]["all"]
    plain = evaluate(good)["metrics"]["score"]["all"]
    assert found["base_rate"] == pytest.approx(0.1)
    assert found["count"] == pytest.approx(600)
    assert found["auc"] == pytest.approx(plain["auc"], rel=1e-9)
    assert found["average_precision"] < plain["average_precision"]


@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_at_another_base_rate_are_compared_exactly(
    weighted: bool, evaluate: Evaluate
) -> None:
    """All rows have the precision of the base rate; roundings would decide whether they reach it."""
    for positives in range(3, 30):
        label = np.repeat([1, 0], [positives, 37])
        frame = pl.DataFrame({"score": np.where(label == 1, 0.1, 0.9), "label": label})
        frame = frame.with_columns(w=pl.int_range(1, pl.len() + 1) % 5 + 1)
        words = "--prevalence 0.3 --recall-at-precision 0.3" + " --weight w" * weighted
        found = evaluate(write(frame, "rows.csv"), words)["metrics"]["score"]["all"]
        assert found["recall_at_precision:0.3"] == 1.0, positives


def test_reliability_diagrams(good: Path, evaluate: Evaluate) -> None:
    output = Path("curve.parquet")
    found = evaluate(good, "--reliability", output, "--bins 7", intervals=True)
    frame = pl.read_parquet(output)
    bins, corp = frame.filter(curve="bins"), frame.filter(curve="corp")
    assert bins.height == 7
    assert bins["count"].sum() == corp["count"].sum() == 600
    assert bins["positives"].sum() == corp["positives"].sum()
    assert corp["mean_label"].is_sorted()
    gaps = (bins["mean_label"] - bins["mean_score"]).abs() * bins["count"]
    assert gaps.sum() / 600 == pytest.approx(found["metrics"]["score"]["all"]["ece"])
    held = bins.filter(pl.col("count") > 0)
    assert held["mean_label"].is_between(held["low"], held["high"]).all()
    assert (corp["score_low"] <= corp["score_high"]).all()


def test_many_classes(evaluate: Evaluate) -> None:
    random = np.random.default_rng(2)
    chance = random.dirichlet([1, 1, 1], 500)
    label = [random.choice(3, p=row) for row in chance]
    frame = pl.DataFrame({f"p_{name}": chance[:, k] for k, name in enumerate("abc")})
    frame = frame.with_columns(label=pl.Series(["abc"[k] for k in label]))
    found = evaluate(write(frame, "a.parquet"), "--probs p_*")
    own = found["metrics"]["p_*"]["all"]
    assert sorted(own) == ["accuracy", "brier", "classwise_ece", "count", "ece", "log_loss"]
    assert own["accuracy"] == pytest.approx(oracle.accuracy_score(label, chance.argmax(axis=1)))
    assert own["log_loss"] == pytest.approx(oracle.log_loss(label, chance), rel=1e-9)
    truth = np.eye(3)[label]
    assert own["brier"] == pytest.approx(((chance - truth) ** 2).sum(axis=1).mean(), rel=1e-9)
    assert "of:top-label" in found["signature"]["ece"]
    logits = frame.with_columns(pl.col("^p_.*$").log() + 0.3)
    again = evaluate(write(logits, "l.parquet"), "--probs p_* --scale logit")
    assert again["metrics"]["p_*"]["all"] == pytest.approx(own, rel=1e-9)


def test_outputs(good: Path, invoke: Invoke) -> None:
    for name in ("m.json", "m.prom", "m.csv", "m.md"):
        done = invoke("evaluate", good, "--metrics auc,ece -o", Path(name))
        assert (done.code, done.stdout) == (0, b""), done.stderr
        assert b"auc" in Path(name).read_bytes()
    assert invoke("evaluate", good, "--metrics auc,ece -q").stdout == Path("m.json").read_bytes()
    assert invoke("evaluate", good, "-o m.parquet").code == 2
    other = write(rows(300), "b.csv")
    done = invoke("evaluate", good, other, "--metrics count -q -o", "out/")
    assert done.code == 0, done.stderr
    for name, count in (("good.json", 600), ("b.json", 300)):  # one output for each input
        assert json.loads((Path("out") / name).read_text())["rows"] == count


def test_gates(good: Path, invoke: Invoke) -> None:
    output = Path("m.json")
    given = ["evaluate", good, "--metrics auc -q -o", output, "--fail-if"]
    assert invoke(*given, "auc<0.5").code == 0
    output.unlink()
    failed = invoke(*given, "auc>0.5")
    assert (failed.code, "auc" in failed.stderr, output.exists()) == (1, True, True)
    assert invoke(*given, "acu>0.5").code == 2
    assert invoke(*given, "auc>>").code == 2


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"score": {3: None}}, "no value"),
        ({"score": {3: 1.5}}, "[0, 1]"),
        ({"label": {3: 2}}, "0/1"),
        ({"weight": {3: -1.0}}, "weights"),
        ({"country": {3: None}}, "no value"),
    ],
)
def test_bad_rows(values: dict[str, dict[int, Any]], word: str, invoke: Invoke) -> None:
    frame = changed(rows(40).with_columns(pl.col("weight").cast(pl.Float64)), **values)
    path = write(frame, "bad.parquet")
    done = invoke("evaluate", path, "--weight weight --by country")
    done.refused(3, word, "row 3", "bad.parquet")


def test_rows_left_out(invoke: Invoke) -> None:
    frame = rows().with_columns(
        score=pl.when(pl.col("id") < 5).then(None).otherwise("score"),
        label=pl.when(pl.col("id") > 595).then(None).otherwise("label"),
    )
    path = write(frame, "a.parquet")
    done = invoke("evaluate", path, "--on-missing drop --unlabelled drop --no-intervals")
    done.succeeded("5 rows", "4 rows")
    assert json.loads(done.stdout)["rows"] == 591


def test_dry_run_writes_nothing(invoke: Invoke) -> None:
    path, output = write(rows().with_columns(third="score"), "3.parquet"), "m.json"
    given = "--by country --score score,other,third --dry-run -o"
    done = invoke("evaluate", path, given, Path(output))
    assert done.code == 0
    for role in ("by: column 'country'", "scores 1: column 'other'", "scores 2: column 'third'"):
        assert role in done.stdout.decode()
    assert not Path(output).exists()


def test_the_table_on_a_terminal(
    good: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibkit_cli.console._is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "160")
    shown = invoke("evaluate", good, "--score score,other --by country --decision decision")
    for text in ("600 rows", "auc", "other-score", "precision", "score by slice", "country:at"):
        assert text in shown.stdout.decode()


def test_groups_that_weigh_nothing_are_not_there(evaluate: Evaluate) -> None:
    frame = rows(80).with_columns(weight=pl.when(pl.col("user") > 20).then(2.0).otherwise(0.0))
    some = write(frame.filter(pl.col("weight") > 0), "some.parquet")
    options = "--weight weight --groups user --top 0.3 --metrics auc,ece,mce"
    found = [evaluate(path, options, intervals=True) for path in (write(frame, "a.csv"), some)]
    assert found[0]["intervals"] == found[1]["intervals"]


def test_a_table_of_counts_has_the_rates_and_intervals_of_its_rows(evaluate: Evaluate) -> None:
    """Also under another base rate, where the top is cut exactly: half a positive row's weight."""
    counts = pl.DataFrame(
        {"score": [0.2, 0.8, 0.3, 0.9], "label": [0, 1, 1, 0], "n": [90, 8, 2, 20]}
    ).with_columns(decision=pl.col("score") > 0.5, s=pl.lit("a"))
    each = counts.select(pl.all().repeat_by("n").explode())
    options = "--prevalence 0.3 --top 0.1 --by s --decision decision --metrics auc,ece,recall,count"
    found = [
        evaluate(write(frame, "rows.parquet"), options, *more, intervals=True)
        for frame, more in ((counts, ["--weight n"]), (each, []))
    ]
    for part in ("metrics", "intervals"):
        for score, slices in found[1][part].items():
            for name, values in slices.items():
                for metric, value in values.items():
                    assert found[0][part][score][name][metric] == pytest.approx(value), metric
