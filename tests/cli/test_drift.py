"""``drift``: outputs, gates and exit codes, for boundaries and bundles, with and without labels."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calibkit as ck
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, Outcome, make

HEADLINES = {"selected_share", "psi_score", "psi_uncertainty", "outside_range", "missing_share"}
RATES = {"precision", "recall", "auc", "base_rate"}

#: What the fixture `drift` is.
Drift = Callable[..., Outcome]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with fitting rows, new rows (also in parts), moved rows and models."""
    folder = tmp_path_factory.mktemp("drift")
    frame, new = simulate(2000, seed=1), simulate(1500, seed=2)
    logit = (pl.col("score") / (1 - pl.col("score"))).log()
    fit, bare, raw, *_ = (
        write(rows, folder / name)
        for name, rows in (
            ("fit.parquet", frame),
            ("bare.csv", frame.drop("label")),
            ("raw.parquet", frame.with_columns(score=logit)),
            ("new.parquet", new),
            ("moved.parquet", new.with_columns(pl.col("score").sqrt())),
            ("a.csv", new[:400]),
            ("b.parquet", new[400:]),
            ("outside.csv", new.with_columns(pl.col("score") * 2)),
            ("text.csv", new.with_columns(score=pl.lit("high"))),
            ("less.csv", new.drop("uncertainty")),
        )
    )
    exact = "--precision 0.75 --method exact"
    for name, *words in (
        ("boundary", "boundary", fit, exact),
        ("single", "boundary", fit, "--recall 0.5 --method st"),
        ("certified", "boundary", fit, "--precision 0.6 --confidence 0.9"),
        ("random", "boundary", fit, "--fpr 0.2 --method stochastic"),
        ("raw", "boundary", raw, "--scale raw --recall 0.5 --method st"),
        ("cal", "calibrate", fit),
        ("het", "hetcal", fit, "--features uncertainty"),
        ("shift", "calibrate", bare, "--method prior-shift --negatives-kept 0.5"),
    ):
        make(folder / f"{name}.json", *words)
    grid = make(folder / "grid.parquet", "bin", fit, "--score-bins 20")
    make(folder / "grid.json", "boundary", grid, exact)
    parts = [f"{part}={folder / name}.json" for part, name in (("a", "boundary"), ("b", "random"))]
    make(folder / "service.json", "bundle", folder / "cal.json", *parts)
    make(folder / "raw_service.json", "bundle", f"a={folder / 'raw'}.json")
    return folder


@pytest.fixture
def drift(models: Path, invoke: Invoke, tmp_path: Path) -> Drift:
    """Compare rows with a model; both are a path or the name of a file, rows may be a frame too."""

    def call(model: str | Path, rows: Any, *words: object) -> Outcome:
        if isinstance(rows, pl.DataFrame):
            rows = write(rows, tmp_path / "rows.csv")
        return invoke("drift", models / f"{model}.json", models / rows, *words)

    return call


@pytest.fixture
def new(models: Path) -> pl.DataFrame:
    return pl.read_parquet(models / "new.parquet")


def test_headlines_metrics_and_intervals(models: Path, drift: Drift) -> None:
    found = drift("boundary", "new.parquet").result()
    assert found.keys() >= HEADLINES
    assert not {"precision", "recall", "certificate", "estimated"} & found.keys()
    values = found["metrics"]["boundary"]["all"]
    assert all(found[name] == values[name] for name in HEADLINES)
    assert found["rows"] == values["count"] == 1500
    fit = json.loads((models / "boundary.json").read_bytes())["fit"]
    seen = found["metrics"]["boundary"]["fit"]
    assert seen["selected_share"] == fit["reference"]["selected_share"]
    assert seen["precision"] == fit["cross_validated"]["precision"]
    ends = found["intervals"]["boundary"]["all"]
    assert ends["psi_score"]["low"] == 0.0  # the same law
    moved = drift("boundary", "moved.parquet").result()
    assert moved["intervals"]["boundary"]["all"]["psi_score"]["low"] > 0.1
    assert moved["psi_uncertainty"] == found["psi_uncertainty"]


def test_labels_and_the_certificate(
    models: Path, drift: Drift, invoke: Invoke, new: pl.DataFrame, tmp_path: Path
) -> None:
    found = drift("certified", "new.parquet", "--label label").result()
    assert {"precision", "recall"} <= found.keys()
    assert found["certificate"]["bound"] == 0.6
    gate = ("--label", "label", "--fail-if", "precision.high < certificate/precision")
    drift("certified", "new.parquet", *gate).succeeded()
    done = drift("certified", new.with_columns(label=1 - pl.col("label")), *gate)
    assert (done.code, "precision.high" in done.stderr) == (1, True)
    assert "no longer holds" in done.stderr
    fit = ("boundary", models / "fit.parquet", "--capacity 0.2 --confidence 0.9 -q")
    assert invoke(*fit, "-o", tmp_path / "cap.json").code == 0
    gate = ("--label", "label", "--fail-if", "selected_share.low > certificate/selected_share")
    drift(tmp_path / "cap", "new.parquet", *gate).succeeded()


def test_late_labels(drift: Drift, new: pl.DataFrame) -> None:
    late = new.with_columns(label=pl.when(pl.col("id") < 200).then(pl.col("label")))
    drift("boundary", late, "--label label").refused(3, "--unlabelled drop")
    drift("boundary", late, "--unlabelled drop").refused(2)
    found = drift("boundary", late, "--label label --unlabelled drop").result()
    known = drift("boundary", "new.parquet").result()
    judged = drift("boundary", new.head(200), "--label label").result()
    assert found["psi_score"] == known["psi_score"]
    assert found["metrics"]["boundary"]["all"]["labelled"] == 200
    assert (found["precision"], found["recall"]) == (judged["precision"], judged["recall"])


@pytest.mark.parametrize(
    ("model", "expression", "code"),
    [
        ("boundary", "psi_score.low>0.1", 1),
        ("boundary", "psi_score>100", 0),
        ("boundary", "selected_share.low>fit/selected_share", 1),
        ("boundary", "boundary/all/missing_share>0", 0),
        ("boundary", "psi_sore>1", 2),
        ("boundary", "psi_score", 2),
        ("single", "psi_uncertainty>0.1", 1),  # not defined
        ("service", "a/psi_score.low>0.1", 1),
        ("service", "block/psi_score>0.1", 2),
    ],
)
def test_gates_fail_after_writing(
    model: str, expression: str, code: int, drift: Drift, invoke: Invoke, tmp_path: Path
) -> None:
    output = tmp_path / "drift.json"
    done = drift(model, "moved.parquet", "-q", "-o", output, "--fail-if", expression)
    assert (done.code, output.exists()) == (code, code < 2), done.stderr
    if code < 2:
        assert invoke("gate", output, "--fail-if", expression, "-q").code == code


def test_a_bundle_has_a_line_for_each_decision(
    models: Path, drift: Drift, invoke: Invoke, tmp_path: Path
) -> None:
    found = drift("service", "new.parquet").result()
    alone = drift("boundary", "new.parquet").result()
    own = drift("random", "new.parquet").result()
    assert found["metrics"] == {"a": alone["metrics"]["boundary"], "b": own["metrics"]["boundary"]}
    for name, one in (("a", alone), ("b", own)):
        assert found[name] == {figure: one[figure] for figure in HEADLINES}
    # A boundary of scores that another part calibrates.
    calibrated = tmp_path / "calibrated.parquet"
    make(calibrated, "apply", models / "cal.json", models / "fit.parquet")
    fit = ("--score calibrated --recall 0.7 --method st",)
    own_file = make(tmp_path / "b.json", "boundary", calibrated, *fit)
    make(tmp_path / "s.json", "bundle", models / "cal.json", f"b={own_file}")
    found = drift(tmp_path / "s", "new.parquet").result()
    assert found["b"]["psi_score"] == pytest.approx(alone["psi_score"], abs=1e-12)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("boundary.json outside.csv", 3, "'score'"),
        ("boundary.json text.csv", 3, "'score'"),
        ("boundary.json less.csv", 2, "'uncertainty'"),
        ("boundary.json none.csv", 2, "no such file"),
        ("new.parquet boundary.json", 2, "the model comes first"),
        ("boundary.json new.parquet --label lable", 2, "did you mean 'label'"),
        ("boundary.json new.parquet --weight w", 2, "'w'"),
        ("boundary.json new.parquet --confidence 1", 2, "--confidence"),
        ("boundary.json new.parquet -o d.parquet", 2, "not a table"),
        ("boundary.json outside.csv -o ./ --fail-if psi_score>1", 2, "-o DIR/"),
        ("grid.json new.parquet", 2, "grid"),
        ("single.json new.parquet --assume prior", 2, "--estimate"),
        ("single.json new.parquet --calibrator cal.json", 2, "--estimate"),
        ("single.json new.parquet --estimate --assume label", 2, "--assume"),
        ("single.json new.parquet --estimate --calibrator none.json", 2, "no such file"),
        ("single.json new.parquet --partial -o x.state --fail-if auc>1", 2, "--fail-if"),
        ("single.json new.parquet --estimate --assume prior --calibrator shift.json", 2, "prior"),
        ("raw.json raw.parquet --estimate", 2, "--calibrator"),
        ("raw_service.json raw.parquet --estimate", 2, "its own file"),
        ("service.json new.parquet --estimate --calibrator cal.json", 2, "a bundle"),
    ],
)
def test_bad_rows_and_options(
    words: str, code: int, said: str, models: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models)
    done = invoke("drift", *words.split())
    done.refused(code, said)
    assert done.stdout == b""
    if code == 3:
        assert invoke("drift", *words.split(), "--json").refused(3)["column"] == "score"


def test_weights_are_those_of_the_fit(
    models: Path, drift: Drift, new: pl.DataFrame, tmp_path: Path
) -> None:
    goal = "--precision 0.75 --method exact --folds 0"
    fit = models / "fit.parquet"
    repeat = pl.all().repeat_by("weight").explode()
    twice = write(pl.read_parquet(fit).select(repeat), tmp_path / "twice.parquet")
    make(tmp_path / "weighted.json", "boundary", fit, goal, "--weight weight")
    make(tmp_path / "repeated.json", "boundary", twice, goal)
    found = drift(tmp_path / "weighted", "new.parquet", "--label label").result()
    expected = drift(tmp_path / "repeated", new.select(repeat), "--label label").result()
    for name in HEADLINES:
        assert found[name] == expected[name]
    assert found["metrics"] == expected["metrics"]
    assert found["metrics"]["boundary"]["all"]["count"] == new["weight"].sum()
    (ends,), (others,) = (one["intervals"].values() for one in (found, expected))
    assert ends["all"] == others["all"] | {"missing_share": ends["all"]["missing_share"]}


def test_rows_that_stand_for_others_count_as_fewer(
    models: Path, drift: Drift, tmp_path: Path
) -> None:
    frame = pl.read_parquet(models / "fit.parquet").with_columns(pl.col("weight") + 0.5)
    rows = write(frame, tmp_path / "all.parquet")
    fit = ("boundary", rows, "--precision 0.7 --method st --folds 0 --weight weight --weight-kind")
    found = {}
    for kind in ("frequency", "sampling"):
        make(tmp_path / f"{kind}.json", *fit, kind)
        (found[kind],) = drift(tmp_path / kind, "new.parquet").result()["metrics"].values()
        drift(tmp_path / kind, frame.drop("weight")).refused(2)
    many, few = (found[kind]["all"]["psi_score_expected"] for kind in ("sampling", "frequency"))
    assert many > 1.2 * few
    parts = (f"w={tmp_path / 'sampling.json'}", f"plain={models / 'boundary.json'}")
    make(tmp_path / "s.json", "bundle", *parts)
    both = drift(tmp_path / "s", "new.parquet").result()["metrics"]
    alone = drift("boundary", "new.parquet").result()["metrics"]
    assert both == {"w": found["sampling"], "plain": alone["boundary"]}


def test_the_scale_of_sampling_weights_means_nothing(drift: Drift, tmp_path: Path) -> None:
    options = "--precision 0.7 --method st --folds 0 --weight weight --weight-kind sampling"
    figures: dict[str, list[Any]] = {"covariate": [], "prior": [], "calibrated": []}
    for scale in (2**-11, 1, 2**10):  # powers of two change no digit
        frame, new = (
            simulate(1500, seed=seed).with_columns(weight=(pl.col("weight") + 0.5) * scale)
            for seed in (1, 2)
        )
        fit = write(frame, tmp_path / "fit.parquet")
        make(tmp_path / "m.json", "boundary", fit, options)
        made = make(
            tmp_path / "c.json",
            "calibrate",
            fit,
            "--method platt --targets mle --clip 0 --weight weight",
        )
        for assume, found in figures.items():
            by = ("--calibrator", made) if assume == "calibrated" else ("--assume", assume)
            done = drift(tmp_path / "m", new, "--estimate", *by).result()
            both = done["metrics"]["boundary"], done["intervals"]["boundary"]
            assert both[0]["all"].pop("count") == new["weight"].sum()
            found.append([part[name] for part in both for name in ("all", "estimated")])
    for first, *others in figures.values():
        assert others == [first, first]


def test_outputs(
    models: Path, drift: Drift, invoke: Invoke, command: Callable[..., Any], tmp_path: Path
) -> None:
    texts = {}
    for suffix in ("prom", "csv", "md", "tex", "json"):
        output = tmp_path / f"drift.{suffix}"
        drift("boundary", "new.parquet", "-o", output).succeeded()
        texts[suffix] = output.read_text()
    assert 'calibkit_psi_score{score="boundary",slice="all"}' in texts["prom"]
    assert 'calibkit_selected_share{score="boundary",slice="fit"}' in texts["prom"]
    assert "boundary,all,psi_score," in texts["csv"]
    assert "| boundary | all | psi_score |" in texts["md"]
    assert drift("boundary", "new.parquet").stdout.decode() == texts["json"]
    plan = drift("boundary", "new.parquet", "--dry-run --json").result()
    assert plan["columns"] == {"score": "score", "uncertainty": "uncertainty"}
    data = (models / "new.parquet").read_bytes()
    piped = command("drift", models / "boundary.json", "-", "-q --json", input=data)
    assert (piped.returncode, piped.stdout.decode()) == (0, texts["json"])
    halves = (models / "a.csv", models / "b.parquet")
    assert drift("boundary", halves[0], halves[1], "--json").stdout.decode() == texts["json"]
    (tmp_path / "each").mkdir()
    drift("boundary", *halves, "-q", "-o", tmp_path / "each").succeeded()
    assert json.loads((tmp_path / "each" / "a.json").read_bytes())["rows"] == 400


def test_the_table_on_a_terminal(drift: Drift, monkeypatch: pytest.MonkeyPatch) -> None:
    found = drift("certified", "new.parquet", "--label label").result()
    monkeypatch.setattr("calibkit_cli.console._is_terminal", lambda stream: True)
    done = drift("certified", "new.parquet", "--label label")
    assert (done.code, done.stderr) == (0, "")
    text = done.stdout.decode()
    for word in ("psi_score", "certified", "expected", "is not refuted"):
        assert word in text
    (shown,) = (line.split() for line in text.splitlines() if "selected_share" in line)
    ends = found["intervals"]["boundary"]["all"]["selected_share"]
    for end in (ends["low"], ends["high"]):
        assert f"{end:.6g}" in shown


def test_segments(models: Path, drift: Drift, tmp_path: Path) -> None:
    group = pl.when(pl.col("id") % 3 == 0).then(pl.lit("a")).otherwise(pl.lit("b"))
    frame = pl.read_parquet(models / "fit.parquet").with_columns(g=group)
    rows = write(frame, tmp_path / "rows.parquet")
    options = "--precision 0.7 --method exact --by g --min-group-positives 20"
    model = make(tmp_path / "seg.json", "boundary", rows, options)
    found = drift(tmp_path / "seg", rows).result()
    fitted = json.loads(model.read_bytes())["fit"]
    assert found["selected_share"] == fitted["reference"]["selected_share"]
    assert found["psi_score"] == pytest.approx(0.0, abs=1e-12)
    each = "--precision 0.6 --confidence 0.8 --by g --bound each --min-group-positives 20"
    make(tmp_path / "each.json", "boundary", rows, each)
    done = drift(tmp_path / "each", rows, "--label label")
    assert "is certified in each segment of g, and drift judges all rows together" in done.stderr
    assert "certificate" not in done.result()


@pytest.mark.parametrize("assume", ["covariate", "prior"])
def test_estimated_rates_are_near_those_that_labels_show(
    assume: str, models: Path, drift: Drift
) -> None:
    words = ("--estimate", "--assume", assume, "--calibrator", models / "cal.json")
    found = drift("single", "new.parquet", *words, "--label label").result()
    own = found["estimated"]
    assert own.pop("assumes") == assume
    assert own.keys() == RATES
    for name in ("precision", "recall"):
        assert own[name]["low"] < own[name]["value"] < own[name]["high"]
        assert own[name]["low"] < found[name] < own[name]["high"]
    seen = found["metrics"]["boundary"]["estimated"]
    assert seen == {name: rate["value"] for name, rate in own.items()}
    gate = "--fail-if estimated/precision.high<0.99"
    assert drift("single", "new.parquet", *words, gate).code == 1


def test_covariate_is_the_default_and_the_score_a_probability(
    models: Path, drift: Drift, new: pl.DataFrame
) -> None:
    found = drift("single", "new.parquet", "--estimate").result()["estimated"]
    assert found["assumes"] == "covariate"
    assert found["base_rate"]["value"] == pytest.approx(new["score"].mean(), rel=1e-6)
    model = ck.load(str(models / "single.json"))
    assert model.drift(new, estimate=True).as_dict()["estimated"] == found
    assert "estimated" in drift("service", "new.parquet", "--estimate").result()["a"]


def test_a_boundary_that_knows_more_than_the_probabilities(models: Path, drift: Drift) -> None:
    for more, told in (([], True), (["cal"], True), (["het"], False)):
        own = [word for name in more for word in ("--calibrator", models / f"{name}.json")]
        done = drift("boundary", "new.parquet", "--estimate", *own)
        assert ("which the probabilities ignore" in done.stderr) == told


@pytest.mark.parametrize("model", ["single", "boundary", "random"])
def test_shards_give_the_same_bytes(
    model: str, models: Path, drift: Drift, invoke: Invoke, tmp_path: Path
) -> None:
    options = ("--estimate --label label -q --calibrator", models / "cal.json")
    whole = tmp_path / "whole.json"
    drift(model, "new.parquet", *options, "-o", whole).succeeded()
    a, b, both, other = (tmp_path / f"{name}.state" for name in ("a", "b", "both", "other"))
    drift(model, "a.csv", *options, "--partial", "-o", a).succeeded()
    drift(model, "b.parquet", *options, "--partial", "-o", b).succeeded()
    assert invoke("merge", b, a, "-q", "-o", both).code == 0
    for number, states in enumerate(((b, a), (both,))):
        merged = tmp_path / f"{number}.json"
        assert invoke("merge", *states, "-q", "-o", merged).code == 0
        assert merged.read_bytes() == whole.read_bytes()
    invoke("merge", a, a).refused(3, "count twice")
    drift(model, "a.csv", "-q --partial", "-o", other).succeeded()
    invoke("merge", b, other).refused(3, "another problem")
