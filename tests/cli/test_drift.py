"""``drift``: outputs, gates and exit codes, for boundaries and bundles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, make

HEADLINES = {"selected_share", "psi_score", "psi_uncertainty", "outside_range", "missing_share"}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with fitting rows, new rows, moved rows and models."""
    folder = tmp_path_factory.mktemp("drift")
    fit = write(simulate(900, seed=1), folder / "fit.parquet")
    new = simulate(600, seed=2)
    write(new, folder / "new.parquet")
    write(new.with_columns(pl.col("score").sqrt()), folder / "moved.parquet")
    exact = "--precision 0.75 --method exact"
    for name, options in (
        ("boundary", exact),
        ("single", "--recall 0.9 --method st"),
        ("certified", "--precision 0.6 --confidence 0.9"),
        ("random", "--fpr 0.2 --method stochastic"),
    ):
        make(folder / f"{name}.json", "boundary", fit, options)
    cal = make(folder / "cal.json", "calibrate", fit)
    grid = make(folder / "grid.parquet", "bin", fit, "--score-bins 20")
    make(folder / "grid.json", "boundary", grid, exact)
    parts = [f"{part}={folder / name}.json" for part, name in (("a", "boundary"), ("b", "random"))]
    make(folder / "service.json", "bundle", cal, *parts)
    return folder


def content(invoke: Invoke, *words: object) -> dict[str, Any]:
    return invoke("drift", *words, "--json").result()


def test_headlines_metrics_and_intervals(models: Path, invoke: Invoke) -> None:
    found = content(invoke, models / "boundary.json", models / "new.parquet")
    assert found.keys() >= HEADLINES
    assert not {"precision", "recall", "certificate"} & found.keys()
    values = found["metrics"]["boundary"]["all"]
    assert all(found[name] == values[name] for name in HEADLINES)
    assert found["rows"] == values["count"] == 600
    fit = json.loads((models / "boundary.json").read_bytes())["fit"]
    seen = found["metrics"]["boundary"]["fit"]
    assert seen["selected_share"] == fit["reference"]["selected_share"]
    assert seen["precision"] == fit["cross_validated"]["precision"]
    ends = found["intervals"]["boundary"]["all"]
    assert ends["psi_score"]["low"] == 0.0  # the same law
    moved = content(invoke, models / "boundary.json", models / "moved.parquet")
    assert moved["intervals"]["boundary"]["all"]["psi_score"]["low"] > 0.1
    assert moved["psi_uncertainty"] == found["psi_uncertainty"]


def test_labels_and_the_certificate(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    words = (models / "certified.json", models / "new.parquet", "--label", "label")
    found = content(invoke, *words)
    assert {"precision", "recall"} <= found.keys()
    assert found["certificate"]["bound"] == 0.6
    gate = ("--fail-if", "precision.high < certificate/precision", "-q")
    assert invoke("drift", *words, *gate, "-o", tmp_path / "d.json").code == 0
    frame = pl.read_parquet(models / "new.parquet")
    wrong = frame.with_columns(label=1 - pl.col("label"))
    words = (models / "certified.json", write(wrong, tmp_path / "wrong.csv"), "--label", "label")
    done = invoke("drift", *words, *gate, "-o", tmp_path / "d.json")
    assert done.code == 1
    assert "precision.high" in done.stderr
    assert "no longer holds" in invoke("drift", *words, "-o", tmp_path / "d.json").stderr


def test_late_labels(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    frame = pl.read_parquet(models / "new.parquet")
    late = frame.with_columns(label=pl.when(pl.col("id") < 200).then(pl.col("label")))
    rows = write(late, tmp_path / "late.csv")
    words = (models / "boundary.json", rows, "--label", "label")
    invoke("drift", *words).refused(3, "--unlabelled drop")
    found = content(invoke, *words, "--unlabelled", "drop")
    known = content(invoke, models / "boundary.json", models / "new.parquet")
    early = write(frame.head(200), tmp_path / "early.csv")
    judged = content(invoke, models / "boundary.json", early, "--label", "label")
    assert found["psi_score"] == known["psi_score"]
    assert found["metrics"]["boundary"]["all"]["labelled"] == 200
    assert (found["precision"], found["recall"]) == (judged["precision"], judged["recall"])
    assert invoke("drift", models / "boundary.json", rows, "--unlabelled", "drop").code == 2


def test_gates_fail_after_writing(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    output = tmp_path / "drift.json"
    words = (models / "boundary.json", models / "moved.parquet", "-q", "-o", output)
    for expression, code in (
        ("psi_score.low>0.1", 1),
        ("psi_score>100", 0),
        ("selected_share.low>fit/selected_share", 1),
        ("boundary/all/missing_share>0", 0),
        ("psi_sore>1", 2),
        ("psi_score", 2),
    ):
        output.unlink(missing_ok=True)
        done = invoke("drift", *words, "--fail-if", expression)
        assert done.code == code, (expression, done.stderr)
        assert output.exists() == (code < 2)
        if code < 2:
            assert invoke("gate", output, "--fail-if", expression, "-q").code == code
    done = invoke("diff", output, output) if output.exists() else None
    assert done is None


def test_a_figure_that_is_not_defined_fails_its_gate(models: Path, invoke: Invoke) -> None:
    words = (models / "single.json", models / "new.parquet", "-q")
    assert content(invoke, *words)["psi_uncertainty"] is None
    assert invoke("drift", *words, "--fail-if", "psi_uncertainty>0.1").code == 1


def test_a_bundle_has_a_line_for_each_decision(models: Path, invoke: Invoke) -> None:
    found = content(invoke, models / "service.json", models / "new.parquet")
    alone = content(invoke, models / "boundary.json", models / "new.parquet")
    assert found["metrics"].keys() == {"a", "b"}
    assert found["a"] == {name: alone[name] for name in HEADLINES}
    assert found["metrics"]["a"] == alone["metrics"]["boundary"]
    own = content(invoke, models / "random.json", models / "new.parquet")
    assert found["b"] == {name: own[name] for name in HEADLINES}
    words = (models / "service.json", models / "moved.parquet", "-q")
    assert invoke("drift", *words, "--fail-if", "a/psi_score.low>0.1").code == 1
    assert invoke("drift", *words, "--fail-if", "block/psi_score>0.1").code == 2


def test_calibrated_scores_in_a_bundle(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    calibrated = tmp_path / "calibrated.parquet"
    apply = ("apply", models / "cal.json", models / "fit.parquet", "-q", "-o", calibrated)
    assert invoke(*apply).code == 0
    fit = ("boundary", calibrated, "--score", "calibrated", "--recall", "0.7", "--method", "st")
    assert invoke(*fit, "-q", "-o", tmp_path / "b.json").code == 0
    parts = (models / "cal.json", f"b={tmp_path / 'b.json'}")
    assert invoke("bundle", *parts, "-q", "-o", tmp_path / "s.json").code == 0
    found = content(invoke, tmp_path / "s.json", models / "new.parquet")
    straight = content(invoke, models / "boundary.json", models / "new.parquet")
    assert found["b"]["psi_score"] == pytest.approx(straight["psi_score"], abs=1e-12)


def test_kinds_that_keep_no_reference(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    invoke("drift", models / "cal.json", models / "new.parquet").refused(3, "'calibrator'")
    assert invoke("bundle", models / "cal.json", "-q", "-o", tmp_path / "s.json").code == 0
    assert invoke("drift", tmp_path / "s.json", models / "new.parquet").code == 3
    invoke("drift", models / "grid.json", models / "new.parquet").refused(2, "grid")


def test_bad_rows_and_options(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    frame = pl.read_parquet(models / "new.parquet")
    model = models / "boundary.json"
    outside = write(frame.with_columns(pl.col("score") * 2), tmp_path / "outside.csv")
    text = write(frame.with_columns(score=pl.lit("high")), tmp_path / "text.csv")
    for words, code, said in (
        ([model, outside], 3, "'score'"),
        ([model, text], 3, "'score'"),
        ([model, write(frame.drop("uncertainty"), tmp_path / "less.csv")], 2, "'uncertainty'"),
        ([model, models / "new.parquet", "--label", "lable"], 2, "did you mean 'label'"),
        ([model, models / "new.parquet", "--weight", "w"], 2, "'w'"),
        ([model, models / "new.parquet", "--confidence", "1"], 2, "--confidence"),
        ([model, models / "new.parquet", "-o", tmp_path / "d.parquet"], 2, "not a table"),
        ([models / "new.parquet", model], 2, "the model comes first"),
        ([model, tmp_path / "none.csv"], 2, "no such file"),
        ([model, outside, "-o", f"{tmp_path}/", "--fail-if", "psi_score>1"], 2, "-o DIR/"),
    ):
        done = invoke("drift", *words)
        assert (done.code, done.stdout) == (code, b""), (words, done)
        assert said in done.stderr, done.stderr
    error = json.loads(invoke("drift", model, outside, "--json").stdout)["error"]
    assert (error["code"], error["column"]) == (3, "score")


def test_weights_are_those_of_the_fit(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    fit = pl.read_parquet(models / "fit.parquet")
    new = pl.read_parquet(models / "new.parquet")
    goal = ("--precision", "0.75", "--method", "exact", "--folds", "0", "-q")
    files = {}
    for name, frame, more in (
        ("weighted", fit, ("--weight", "weight")),
        ("repeated", fit.select(pl.all().repeat_by("weight").explode()), ()),
    ):
        files[name] = tmp_path / f"{name}.json"
        rows = write(frame, tmp_path / f"{name}.parquet")
        assert invoke("boundary", rows, *goal, *more, "-o", files[name]).code == 0
    twice = write(new.select(pl.all().repeat_by("weight").explode()), tmp_path / "twice.parquet")
    found = content(invoke, files["weighted"], models / "new.parquet")
    expected = content(invoke, files["repeated"], twice)
    for name in HEADLINES:
        assert found[name] == expected[name]
    assert found["intervals"] == {
        "boundary": {
            "all": expected["intervals"]["boundary"]["all"]
            | {"missing_share": found["intervals"]["boundary"]["all"]["missing_share"]}
        }
    }


def test_outputs(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    words = (models / "boundary.json", models / "new.parquet", "-q")
    texts = {}
    for suffix in ("prom", "csv", "md", "tex", "json"):
        output = tmp_path / f"drift.{suffix}"
        assert invoke("drift", *words, "-o", output).code == 0
        texts[suffix] = output.read_text()
    assert 'calibkit_psi_score{score="boundary",slice="all"}' in texts["prom"]
    assert 'calibkit_selected_share{score="boundary",slice="fit"}' in texts["prom"]
    assert "boundary,all,psi_score," in texts["csv"]
    assert "| boundary | all | psi_score |" in texts["md"]
    piped = invoke("drift", *words)
    assert piped.stdout.decode() == texts["json"]
    plan = invoke("drift", *words, "--dry-run", "--json")
    assert json.loads(plan.stdout)["columns"] == {"score": "score", "uncertainty": "uncertainty"}
    frame = pl.read_parquet(models / "new.parquet")
    halves = [write(frame[part], tmp_path / f"part-{k}.csv") for k, part in enumerate(
        (slice(0, 250), slice(250, None))
    )]  # fmt: skip
    assert invoke("drift", models / "boundary.json", *halves, "-q", "--json").stdout == piped.stdout
    (tmp_path / "each").mkdir()
    assert invoke("drift", *words[:1], *halves, "-q", "-o", tmp_path / "each").code == 0
    assert json.loads((tmp_path / "each" / "part-0.json").read_bytes())["rows"] == 250


def test_the_table_on_a_terminal(
    models: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calibkit_cli import console

    monkeypatch.setattr(console, "_is_terminal", lambda stream: True)
    words = (models / "certified.json", models / "new.parquet", "--label", "label")
    done = invoke("drift", *words)
    assert (done.code, done.stderr) == (0, "")
    text = done.stdout.decode()
    for word in ("psi_score", "certified", "expected", "is not refuted"):
        assert word in text
    (shown,) = (line.split() for line in text.splitlines() if "selected_share" in line)
    (own,) = content(invoke, *words)["intervals"].values()
    found = own["all"]["selected_share"]
    for end in (found["low"], found["high"]):
        assert f"{end:.6g}" in shown


def test_rows_from_a_pipe(models: Path, command: Callable[..., Any]) -> None:
    data = (models / "new.parquet").read_bytes()
    done = command("drift", models / "boundary.json", "-", "-q", "--json", input=data)
    assert done.returncode == 0
    assert json.loads(done.stdout)["rows"] == 600


def test_segments_and_other_certificates(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    frame = pl.read_parquet(models / "fit.parquet")
    group = pl.when(pl.col("id") % 3 == 0).then(pl.lit("a")).otherwise(pl.lit("b"))
    rows = write(frame.with_columns(g=group), tmp_path / "rows.parquet")
    fit = ("boundary", rows, "--precision", "0.7", "--method", "exact", "--by", "g", "-q")
    assert invoke(*fit, "--min-group-positives", "20", "-o", tmp_path / "seg.json").code == 0
    found = content(invoke, tmp_path / "seg.json", rows)
    fitted = json.loads((tmp_path / "seg.json").read_bytes())["fit"]
    assert found["selected_share"] == fitted["reference"]["selected_share"]
    assert found["psi_score"] == pytest.approx(0.0, abs=1e-12)
    fit = ("boundary", rows, "--capacity", "0.2", "--confidence", "0.9", "-q")
    assert invoke(*fit, "-o", tmp_path / "cap.json").code == 0
    words = (tmp_path / "cap.json", models / "new.parquet", "--label", "label", "-q")
    gate = ("--fail-if", "selected_share.low > certificate/selected_share")
    assert invoke("drift", *words, *gate, "-o", tmp_path / "d.json").code == 0


def test_rows_that_stand_for_others_count_as_fewer(
    models: Path, invoke: Invoke, tmp_path: Path
) -> None:
    frame = pl.read_parquet(models / "fit.parquet").with_columns(pl.col("weight") + 0.5)
    rows, model = write(frame, tmp_path / "rows.parquet"), tmp_path / "w.json"
    fit = ("boundary", rows, "--precision", "0.7", "--method", "st", "--folds", "0", "-q")
    expected = {}
    for kind in ("frequency", "sampling"):
        weight = ("--weight", "weight", "--weight-kind", kind)
        assert invoke(*fit, *weight, "-o", model).code == 0
        found = content(invoke, model, models / "new.parquet")["metrics"]["boundary"]["all"]
        expected[kind] = found["psi_score_expected"]
        assert invoke("drift", model, write(frame.drop("weight"), tmp_path / "x.csv")).code == 2
    assert expected["sampling"] > 1.2 * expected["frequency"]
    parts = (f"w={model}", f"plain={models / 'boundary.json'}")
    assert invoke("bundle", *parts, "-q", "-o", tmp_path / "s.json").code == 0
    both = content(invoke, tmp_path / "s.json", models / "new.parquet")["metrics"]
    assert both["w"]["all"] == found
    alone = content(invoke, models / "boundary.json", models / "new.parquet")["metrics"]
    assert both["plain"] == alone["boundary"]
