"""``drift --estimate`` and states of drift: keys, refusals, and the same bytes from shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calibkit as ck
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, make

RATES = {"precision", "recall", "auc", "base_rate"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with new rows in parts, a boundary of one threshold, and calibrators."""
    folder = tmp_path_factory.mktemp("estimate")
    fit = write(simulate(2000, seed=1), folder / "fit.parquet")
    bare = write(simulate(2000, seed=1).drop("label"), folder / "bare.csv")
    new = simulate(1500, seed=2)
    write(new, folder / "new.parquet")
    write(new[:400], folder / "a.csv")
    write(new[400:], folder / "b.parquet")
    for name, *words in (
        ("single", "boundary", fit, "--recall 0.5 --method st"),
        ("levels", "boundary", fit, "--precision 0.7 --method exact"),
        ("random", "boundary", fit, "--fpr 0.2 --method stochastic"),
        ("cal", "calibrate", fit),
        ("het", "hetcal", fit, "--features uncertainty"),
        ("shift", "calibrate", bare, "--method prior-shift --negatives-kept 0.5"),
    ):
        make(folder / f"{name}.json", *words)
    return folder


def content(invoke: Invoke, *words: object) -> dict[str, Any]:
    return invoke("drift", *words, "--json").result()


@pytest.mark.parametrize("assume", ["covariate", "prior"])
def test_rates_are_near_those_that_labels_show(made: Path, invoke: Invoke, assume: str) -> None:
    words = (made / "single.json", made / "new.parquet", "--calibrator", made / "cal.json")
    found = content(invoke, *words, "--estimate", "--assume", assume, "--label", "label")
    own = found["estimated"]
    assert own.pop("assumes") == assume
    assert own.keys() == RATES
    for name in ("precision", "recall"):
        assert own[name]["low"] < own[name]["value"] < own[name]["high"]
        assert own[name]["low"] < found[name] < own[name]["high"]
    seen = found["metrics"]["boundary"]["estimated"]
    assert seen == {name: rate["value"] for name, rate in own.items()}
    gate = ("--estimate", "--fail-if", "estimated/precision.high<0.99", "-q")
    assert invoke("drift", *words, *gate, "-o", made / "gated.json").code == 1


def test_covariate_is_the_default_and_the_score_a_probability(made: Path, invoke: Invoke) -> None:
    words = (made / "single.json", made / "new.parquet", "--estimate")
    found = content(invoke, *words)["estimated"]
    assert found["assumes"] == "covariate"
    frame = pl.read_parquet(made / "new.parquet")
    assert found["base_rate"]["value"] == pytest.approx(frame["score"].mean(), rel=1e-6)
    model = ck.load(str(made / "single.json"))
    assert model.drift(frame, estimate=True).as_dict()["estimated"] == found
    assert "estimated" not in content(invoke, *words[:2])


def test_a_boundary_that_knows_more_than_the_probabilities(made: Path, invoke: Invoke) -> None:
    words = (made / "levels.json", made / "new.parquet", "--estimate", "-o", made / "d.json")
    told = "which the probabilities ignore"
    assert told in invoke("drift", *words).stderr
    assert told in invoke("drift", *words, "--calibrator", made / "cal.json").stderr
    assert told not in invoke("drift", *words, "--calibrator", made / "het.json").stderr


@pytest.mark.parametrize("model", ["single", "levels", "random"])
def test_shards_give_the_same_bytes(made: Path, invoke: Invoke, tmp_path: Path, model: str) -> None:
    options = ("--estimate", "--calibrator", made / "cal.json", "--label", "label", "-q")
    words = ("drift", made / f"{model}.json")
    whole = tmp_path / "whole.json"
    assert invoke(*words, made / "new.parquet", *options, "-o", whole).code == 0
    for name in ("a.csv", "b.parquet"):
        state = tmp_path / f"{name[0]}.state"
        done = invoke(*words, made / name, *options, "--partial", "-o", state)
        assert done.code == 0, done.stderr
    both = (tmp_path / "b.state", tmp_path / "a.state")
    assert invoke("merge", *both, "-q", "-o", tmp_path / "merged.json").code == 0
    assert (tmp_path / "merged.json").read_bytes() == whole.read_bytes()
    assert invoke("merge", *both, "-q", "-o", tmp_path / "both.state").code == 0
    assert invoke("merge", tmp_path / "both.state", "-q", "-o", tmp_path / "m.json").code == 0
    assert (tmp_path / "m.json").read_bytes() == whole.read_bytes()
    again = invoke("merge", tmp_path / "a.state", tmp_path / "a.state")
    assert (again.code, "count twice" in again.stderr) == (3, True)
    other = tmp_path / "other.state"
    assert invoke(*words, made / "a.csv", "-q", "--partial", "-o", other).code == 0
    done = invoke("merge", tmp_path / "b.state", other)
    assert (done.code, "another problem" in done.stderr) == (3, True)


def test_what_cannot_be_estimated_is_refused(made: Path, invoke: Invoke, tmp_path: Path) -> None:
    frame = simulate(800, seed=5).with_columns(
        score=(pl.col("score") / (1 - pl.col("score"))).log()
    )
    raw = write(frame, tmp_path / "raw.parquet")
    fit = ("boundary", raw, "--scale", "raw", "--recall", "0.5", "--method", "st", "-q")
    assert invoke(*fit, "-o", tmp_path / "raw.json").code == 0
    service = ("bundle", made / "cal.json", f"a={made / 'single.json'}", "-q")
    assert invoke(*service, "-o", tmp_path / "s.json").code == 0
    assert invoke("bundle", f"a={tmp_path / 'raw.json'}", "-q", "-o", tmp_path / "r.json").code == 0
    single, new = made / "single.json", made / "new.parquet"
    for words, said in (
        ([single, new, "--assume", "prior"], "--estimate"),
        ([single, new, "--calibrator", made / "cal.json"], "--estimate"),
        ([tmp_path / "raw.json", raw, "--estimate"], "--calibrator"),
        ([tmp_path / "r.json", raw, "--estimate"], "its own file"),
        ([tmp_path / "s.json", new, "--estimate", "--calibrator", made / "cal.json"], "a bundle"),
        ([single, new, "--estimate", "--assume", "label"], "--assume"),
        ([single, new, "--estimate", "--calibrator", tmp_path / "none.json"], "no such file"),
        ([single, new, "--partial", "-o", tmp_path / "x.state", "--fail-if", "auc>1"], "--fail-if"),
    ):
        invoke("drift", *words).refused(2, said)
    shift = ("--estimate", "--assume", "prior", "--calibrator", made / "shift.json")
    assert invoke("drift", single, new, *shift).code == 2
    assert "estimated" in content(invoke, tmp_path / "s.json", new, "--estimate")["a"]
