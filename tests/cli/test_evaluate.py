"""``calibkit evaluate`` from the command line: files, pipes, slices, decisions, bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as oracle

from tests.cli.score_files import changed, encode, simulate, write
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
def good(tmp_path: Path) -> Path:
    """Return a file of good rows with a second score, a segment and a decision."""
    return write(rows(), tmp_path / "good.parquet")


def rows(count: int = 600) -> pl.DataFrame:
    random = np.random.default_rng(4)
    return simulate(count, ties=True).with_columns(
        other=pl.Series(random.random(count).round(2)),
        country=pl.Series(random.choice(["at", "be", "de", "lu"], count, p=[0.4, 0.3, 0.2, 0.1])),
        decision=pl.Series(random.integers(0, 2, count)),
        user=pl.Series(random.integers(0, 90, count)),
    )


@pytest.mark.parametrize("name", ["points", "score"])
def test_the_score_of_a_boundary_is_on_its_scale(
    tmp_path: Path, evaluate: Evaluate, name: str
) -> None:
    frame = rows().with_columns(pl.col("score") * 770).rename({"score": name})
    path = write(frame, tmp_path / "points.parquet")
    fit = f"--precision 0.5 --score {name} --scale raw --method st --uncertainty-bins 1"
    boundary = make(tmp_path / "b.json", "boundary", path, fit)
    found = evaluate(path, "--boundary", boundary, "--metrics", "auc,precision")
    said = evaluate(path, "--boundary", boundary, "--metrics", "auc,precision", "--scale raw")
    assert found["metrics"] == said["metrics"]
    frame.with_columns(score=pl.lit(0.5)).write_parquet(tmp_path / "other.parquet")
    if name != "score":  # which is a probability, as ever
        other = evaluate(tmp_path / "other.parquet", "--boundary", boundary, "--metrics", "brier")
        assert other["metrics"]["score"]["all"]["brier"] == 0.25
    assert found["metrics"]["boundary"]["all"]["precision"] >= 0.5


def test_metrics_json_has_its_structure(good: Path, evaluate: Evaluate) -> None:
    found = evaluate(good)
    assert sorted(found) == ["differences", "intervals", "metrics", "rows", "signature"]
    own = found["metrics"]["score"]["all"]
    frame = rows()
    assert found["rows"] == own["count"] == frame.height
    assert own["positives"] == frame["label"].sum()
    expected = oracle.roc_auc_score(frame["label"], frame["score"])
    assert own["auc"] == pytest.approx(expected, rel=1e-12)
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


def test_intervals_hold_their_metrics(good: Path, evaluate: Evaluate) -> None:
    found = evaluate(good, intervals=True)
    own, spans = found["metrics"]["score"]["all"], found["intervals"]["score"]["all"]
    assert {"auc", "brier", "log_loss", "base_rate"} <= set(spans)
    for name in ("auc", "brier", "log_loss", "base_rate"):
        assert spans[name]["low"] <= own[name] <= spans[name]["high"]
        assert "|interval:" in found["signature"][name]
    narrow = evaluate(good, "--confidence", "0.5", intervals=True)["intervals"]["score"]["all"]
    assert narrow["auc"]["high"] < spans["auc"]["high"]


def test_several_scores_are_compared_with_the_baseline(good: Path, evaluate: Evaluate) -> None:
    found = evaluate(good, "--score", "score,other", "--baseline", "other", "--top", "0.1,.5")
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


def test_a_baseline_stands_beside_the_default_score(good: Path, evaluate: Evaluate) -> None:
    assert list(evaluate(good, "--baseline", "other")["differences"]) == ["score-other"]


def test_a_slice_is_what_its_rows_alone_would_be(
    good: Path, evaluate: Evaluate, tmp_path: Path
) -> None:
    found = evaluate(good, "--by", "country", "--top", "0.2", "--top-by", "uncertainty")
    frame = rows()
    cut = np.sort(frame["uncertainty"])[::-1][120 - 1]
    parts = {"top:0.2": frame.filter(pl.col("uncertainty") >= cut)}
    for name in ("at", "be", "de"):
        parts[f"country:{name}"] = frame.filter(country=name)
    base = found["metrics"]["score"]["all"]["base_rate"]
    for part, own in parts.items():
        alone = evaluate(write(own, tmp_path / "part.parquet"))["metrics"]["score"]["all"]
        alone["lift"] = alone["base_rate"] / base
        assert found["metrics"]["score"][part] == alone


def test_small_segments_are_null(good: Path, evaluate: Evaluate) -> None:
    own = evaluate(good, "--by", "country", "--boundary", boundary(good, evaluate))
    small = own["metrics"]["score"]["country:lu"]
    assert small.pop("count") < 100
    assert set(small.values()) == {None}
    assert set(own["metrics"]["boundary"]["country:lu"].values()) == {None}
    found = evaluate(good, "--by", "country", "--min-rows", "10")
    assert found["metrics"]["score"]["country:lu"]["auc"] is not None


def boundary(good: Path, evaluate: Evaluate, *more: str) -> Path:
    return make(good.with_name("boundary.json"), "boundary", good, "--precision 0.7", *more)


def test_decisions_of_a_model_and_of_a_column(
    good: Path, evaluate: Evaluate, invoke: Invoke, tmp_path: Path
) -> None:
    model, applied = boundary(good, evaluate), tmp_path / "applied.parquet"
    found = evaluate(good, "--boundary", model)["metrics"]["boundary"]["all"]
    columns = ["--overwrite-columns", "-q", "-o", applied]
    assert invoke("apply", model, good, *columns).code == 0
    given = evaluate(applied, "--decision", "decision")["metrics"]["decision"]["all"]
    assert found == given
    frame = pl.read_parquet(applied)
    label, decision = frame["label"].to_numpy(), frame["decision"].to_numpy()
    assert found["tp"] == int((label & decision).sum())
    assert found["selected"] == int(decision.sum())
    expected = {
        "precision": oracle.precision_score(label, decision),
        "recall": oracle.recall_score(label, decision),
        "f1": oracle.f1_score(label, decision),
        "mcc": oracle.matthews_corrcoef(label, decision),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-12)
    names = {"tp", "fp", "fn", "tn", "selected", "selected_share", "precision", "recall"}
    assert set(found) == names | {"specificity", "fpr", "npv", "f1", "mcc"}


def test_a_boundary_and_a_grid_read_the_uncertainty_named(
    good: Path, evaluate: Evaluate, invoke: Invoke, tmp_path: Path
) -> None:
    model, grid = boundary(good, evaluate), tmp_path / "grid.parquet"
    options = ("--uncertainty-bins", "2", "--score-bins", "3", "-q", "-o", grid)
    assert invoke("bin", good, *options).code == 0
    given = ["--boundary", model, "--grid", grid]
    known = evaluate(good, *given)["metrics"]
    assert {f"ece_at:{j}" for j in range(3)} < set(known["score"]["all"])
    renamed = write(rows().rename({"uncertainty": "spread"}), tmp_path / "renamed.parquet")
    assert invoke("evaluate", renamed, *given).code == 2
    assert evaluate(renamed, *given, "--uncertainty", "spread")["metrics"] == known


def test_a_boundary_says_the_score_where_none_is_named(
    good: Path, evaluate: Evaluate, invoke: Invoke, tmp_path: Path
) -> None:
    renamed = write(rows().rename({"score": "p"}), tmp_path / "renamed.parquet")
    model, page = boundary(renamed, evaluate, "--score", "p"), tmp_path / "page.html"
    found = evaluate(renamed, "--boundary", model, "--report", page)
    assert set(found["metrics"]) == {"p", "boundary"}
    assert found == evaluate(renamed, "--boundary", model, "--score", "p")
    both = write(rows().with_columns(p="score"), tmp_path / "both.parquet")
    assert set(evaluate(both, "--boundary", model)["metrics"]) == {"score", "boundary"}
    state = invoke("evaluate", renamed, "--boundary", model, "--partial -o", tmp_path / "a.state")
    assert state.code == 0, state.stderr
    done = invoke("evaluate", good, "--boundary", model, "--score", "score")
    done.refused(2, "no column 'p' for the boundary's score (apply it with --score")
    words = "decisions other than 0/1", "write them as 0 and 1"
    invoke("evaluate", good, "--decision", "country").refused(3, *words)


def test_metrics_wanted(good: Path, evaluate: Evaluate) -> None:
    found = evaluate(good, "--metrics", "auc,recall_at_precision:.80", "--metrics", "ece")
    own = found["metrics"]["score"]["all"]
    assert sorted(own) == ["auc", "ece", "recall_at_precision:0.8"]
    more = ("--recall-at-precision", "0.8", "--precision-at-recall", "0.5,1")
    also = evaluate(good, *more)["metrics"]["score"]["all"]
    assert also["recall_at_precision:0.8"] == own["recall_at_precision:0.8"]
    assert also["precision_at_recall:1"] <= also["precision_at_recall:0.5"]


def test_narrow_scores_count_as_wide_ones(tmp_path: Path, evaluate: Evaluate) -> None:
    narrow = rows().cast({"score": pl.Float32, "other": pl.Float32})
    wide = narrow.cast({"score": pl.Float64, "other": pl.Float64})
    found = [
        evaluate(
            write(frame, tmp_path / f"{name}.parquet"),
            *("--score", "score,other", "--weight", "weight"),
            intervals=True,
        )
        for name, frame in (("narrow", narrow), ("wide", wide))
    ]
    assert found[0] == found[1]
    assert found[0]["differences"]["other-score"]["all"]["calibration_bias"]["low"] is not None


def test_cells_of_logits_are_those_of_their_probabilities(
    good: Path, tmp_path: Path, invoke: Invoke, evaluate: Evaluate
) -> None:
    p = pl.col("score").clip(0.01, 0.99)
    rows = tmp_path / "both.parquet"
    frame = pl.read_parquet(good).with_columns(score=p, z=(p / (1 - p)).log())
    frame.write_parquet(rows)
    found = []
    for name, scale in (("score", "probability"), ("z", "logit")):
        grid = tmp_path / f"{name}.parquet"
        on = ("--score", name, "--scale", scale)
        invoke("bin", rows, *on, "--score-bins 4 --uncertainty-bins 2 -q -o", grid)
        own = evaluate(rows, *on, "--grid", grid)["metrics"][name]["all"]
        found.append([value for key, value in own.items() if "ece_at" in key])
    assert len(found[0]) == 8 and found[1] == pytest.approx(found[0])


def test_prevalence_reweights_classes(good: Path, evaluate: Evaluate) -> None:
    found = evaluate(good, "--prevalence", "0.1")["metrics"]["score"]["all"]
    plain = evaluate(good)["metrics"]["score"]["all"]
    assert found["base_rate"] == pytest.approx(0.1)
    assert found["count"] == pytest.approx(600)
    assert found["auc"] == pytest.approx(plain["auc"], rel=1e-9)
    assert found["average_precision"] < plain["average_precision"]


def test_reliability_diagrams(good: Path, tmp_path: Path, evaluate: Evaluate) -> None:
    output = tmp_path / "curve.parquet"
    found = evaluate(good, "--reliability", output, "--bins", "7", intervals=True)
    frame = pl.read_parquet(output)
    bins, corp = frame.filter(curve="bins"), frame.filter(curve="corp")
    assert bins.height == 7
    assert bins["count"].sum() == corp["count"].sum() == 600
    assert bins["positives"].sum() == corp["positives"].sum()
    assert corp["mean_label"].is_sorted()
    gaps = (bins["mean_label"] - bins["mean_score"]).abs() * bins["count"]
    assert gaps.sum() / 600 == pytest.approx(found["metrics"]["score"]["all"]["ece"])
    held = bins.filter(pl.col("count") > 0)
    assert ((held["low"] <= held["mean_label"]) & (held["mean_label"] <= held["high"])).all()
    assert (corp["score_low"] <= corp["score_high"]).all()


def test_many_classes(tmp_path: Path, evaluate: Evaluate) -> None:
    random = np.random.default_rng(2)
    chance = random.dirichlet([1, 1, 1], 500)
    label = [random.choice(3, p=row) for row in chance]
    frame = pl.DataFrame({f"p_{name}": chance[:, k] for k, name in enumerate("abc")})
    frame = frame.with_columns(label=pl.Series(["abc"[k] for k in label]))
    found = evaluate(write(frame, tmp_path / "a.parquet"), "--probs", "p_*")
    own = found["metrics"]["p_*"]["all"]
    assert sorted(own) == ["accuracy", "brier", "classwise_ece", "count", "ece", "log_loss"]
    assert own["accuracy"] == pytest.approx(oracle.accuracy_score(label, chance.argmax(axis=1)))
    assert own["log_loss"] == pytest.approx(oracle.log_loss(label, chance), rel=1e-9)
    truth = np.eye(3)[label]
    assert own["brier"] == pytest.approx(((chance - truth) ** 2).sum(axis=1).mean(), rel=1e-9)
    assert "of:top-label" in found["signature"]["ece"]
    logits = frame.with_columns(pl.col("^p_.*$").log() + 0.3)
    again = evaluate(write(logits, tmp_path / "l.parquet"), "--probs", "p_*", "--scale", "logit")
    assert again["metrics"]["p_*"]["all"] == pytest.approx(own, rel=1e-9)


def test_outputs_of_every_kind(good: Path, tmp_path: Path, invoke: Invoke) -> None:
    for name in ("m.json", "m.prom", "m.csv", "m.md"):
        done = invoke("evaluate", good, "--metrics", "auc,ece", "-o", tmp_path / name)
        assert (done.code, done.stdout) == (0, b""), done.stderr
        assert b"auc" in (tmp_path / name).read_bytes()
    piped = invoke("evaluate", good, "--metrics", "auc,ece", "-q")
    assert piped.stdout == (tmp_path / "m.json").read_bytes()
    assert invoke("evaluate", good, "-o", tmp_path / "m.parquet").code == 2


def test_one_output_for_each_input(good: Path, tmp_path: Path, invoke: Invoke) -> None:
    other = write(rows(300), tmp_path / "b.csv")
    done = invoke("evaluate", good, other, "--metrics", "count", "-q", "-o", f"{tmp_path}/out/")
    assert done.code == 0, done.stderr
    counts = [
        json.loads((tmp_path / "out" / name).read_text())["rows"]
        for name in ("good.json", "b.json")
    ]
    assert counts == [600, 300]


def test_standard_input(
    good: Path, invoke: Invoke, command: Callable[..., CompletedProcess[bytes]]
) -> None:
    text = encode(rows(), ".csv")
    given = ["--metrics", "auc,ece,log_loss", "--no-intervals"]
    done = command("evaluate", "-", *given, input=text)
    assert done.returncode == 0, done.stderr
    assert done.stdout == invoke("evaluate", good, *given).stdout


def test_gates(good: Path, tmp_path: Path, invoke: Invoke) -> None:
    output = tmp_path / "m.json"
    given = ["evaluate", good, "--metrics", "auc", "-q", "-o", output]
    assert invoke(*given, "--fail-if", "auc<0.5").code == 0
    output.unlink()
    failed = invoke(*given, "--fail-if", "auc>0.5")
    assert failed.code == 1
    assert "auc" in failed.stderr
    assert output.exists()
    assert invoke(*given, "--fail-if", "acu>0.5").code == 2
    assert invoke(*given, "--fail-if", "auc>>").code == 2


BAD_USAGE = {
    "no score": (["--score", "scor"], "scor"),
    "metric": (["--metrics", "aux,brie"], "'auc'"),
    "another field's word": (["--metrics", "sensitivity"], "did you mean 'recall'"),
    "bound": (["--metrics", "recall_at_precision"], "needs a bound"),
    "share": (["--top", "1.5"], "--top"),
    "no share": (["--top", "0"], "--top"),
    "share twice": (["--top", "0.1,.1"], "one share"),
    "top by": (["--top-by", "score"], "--top"),
    "confidence": (["--confidence", "1"], "--confidence"),
    "prevalence": (["--prevalence", "1"], "--prevalence"),
    "by": (["--by", "land"], "--by"),
    "both": (["--boundary", "b.json", "--decision", "decision"], "one of them"),
    "uncertainty": (["--uncertainty", "uncertainty"], "--grid"),
    "decision that is a score": (["--decision", "score"], "rename"),
    "grid score": (["--grid-score", "score"], "--grid"),
    "probs and score": (["--probs", "p_*", "--score", "score"], "--probs"),
    "no grid": (["--grid", "nowhere.parquet"], "nowhere.parquet"),
}


@pytest.mark.parametrize("case", BAD_USAGE)
def test_bad_usage(case: str, good: Path, invoke: Invoke) -> None:
    given, word = BAD_USAGE[case]
    invoke("evaluate", good, *given).refused(2, word)


BAD_ROWS = {
    "null score": ({"score": {3: None}}, "no value"),
    "score above one": ({"score": {3: 1.5}}, "[0, 1]"),
    "label": ({"label": {3: 2}}, "0/1"),
    "weight": ({"weight": {3: -1.0}}, "weights"),
    "segment": ({"country": {3: None}}, "no value"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows(case: str, tmp_path: Path, invoke: Invoke) -> None:
    values, word = BAD_ROWS[case]
    frame = changed(rows(40).with_columns(pl.col("weight").cast(pl.Float64)), **values)
    path = write(frame, tmp_path / "bad.parquet")
    done = invoke("evaluate", path, "--weight", "weight", "--by", "country")
    done.refused(3, word, "row 3", "bad.parquet")


def test_rows_left_out(tmp_path: Path, invoke: Invoke, evaluate: Evaluate) -> None:
    frame = rows().with_columns(
        score=pl.when(pl.col("id") < 5).then(None).otherwise("score"),
        label=pl.when(pl.col("id") > 595).then(None).otherwise("label"),
    )
    path = write(frame, tmp_path / "a.parquet")
    done = invoke("evaluate", path, "--on-missing drop --unlabelled drop --no-intervals")
    done.succeeded("5 rows", "4 rows")
    assert json.loads(done.stdout)["rows"] == 591


def test_dry_run_writes_nothing(good: Path, tmp_path: Path, invoke: Invoke) -> None:
    output = tmp_path / "m.json"
    done = invoke("evaluate", good, "--by", "country", "--dry-run", "-o", output)
    assert done.code == 0
    assert b"by: column 'country'" in done.stdout
    assert not output.exists()
    pl.read_parquet(good).with_columns(third=pl.col("score")).write_parquet(tmp_path / "3.parquet")
    three = ("--score", "score,other,third", "--dry-run")
    planned = invoke("evaluate", tmp_path / "3.parquet", *three).stdout.decode()
    for place, name in enumerate(("other", "third"), 1):
        assert f"scores {place}: column '{name}'" in planned


def test_the_table_on_a_terminal(
    good: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibkit_cli.console._is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "160")
    given = ["--score", "score,other", "--by", "country", "--decision", "decision"]
    shown = invoke("evaluate", good, *given).stdout.decode()
    for text in ("600 rows", "auc", "other-score", "precision", "score by slice", "country:at"):
        assert text in shown


@pytest.mark.parametrize(
    "named",
    [
        ("--recall-at-precision", "0.5", "--metrics", "recall_at_precision:0.5"),
        ("--recall-at-precision", "0.5,.50"),
        ("--metrics", "precision_at_recall:0.5,precision_at_recall:.5"),
    ],
)
def test_a_bound_named_twice_is_one(named: tuple[str, ...], good: Path, invoke: Invoke) -> None:
    done = invoke("evaluate", good, *named, "--no-intervals")
    assert done.code == 0, done.stderr
    assert any(name.endswith(":0.5") for name in json.loads(done.stdout)["metrics"]["score"]["all"])


@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_at_another_base_rate_are_compared_exactly(
    weighted: bool, tmp_path: Path, invoke: Invoke
) -> None:
    """All rows have the precision of the base rate; roundings would decide whether they reach it."""
    for positives in range(3, 30):
        label = np.repeat([1, 0], [positives, 37])
        frame = pl.DataFrame({"score": np.where(label == 1, 0.1, 0.9), "label": label})
        words = ["--prevalence", "0.3", "--recall-at-precision", "0.3", "--no-intervals"]
        if weighted:
            frame = frame.with_columns(w=pl.int_range(1, pl.len() + 1) % 5 + 1)
            words += ["--weight", "w"]
        done = invoke("evaluate", write(frame, tmp_path / "rows.csv"), *words)
        found = json.loads(done.stdout)["metrics"]["score"]["all"]
        assert found["recall_at_precision:0.3"] == 1.0, positives


def test_a_missing_baseline_is_named_so(good: Path, invoke: Invoke) -> None:
    invoke("evaluate", good, "--baseline", "nope").refused(2, "--baseline")
