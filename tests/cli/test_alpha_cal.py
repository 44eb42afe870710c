"""``calibkit alpha-cal``, its model applied, and ``calibkit simulate raters``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit import simulate_raters
from tests.conftest import Invoke


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return simulate_raters(400, seed=2, raters=4, design="modes")


@pytest.fixture
def votes(tmp_path: Path, frame: pl.DataFrame) -> Path:
    path = tmp_path / "votes.parquet"
    frame.write_parquet(path)
    return path


def fit(invoke: Invoke, path: Path, *more: object) -> dict[str, Any]:
    return invoke("alpha-cal", path, "--json", *more).result()


def test_one_strength_for_all_rows(invoke: Invoke, votes: Path, tmp_path: Path) -> None:
    out = tmp_path / "alpha.json"
    said = invoke("alpha-cal", votes, "-o", out)
    assert said.code == 0, said
    assert said.stdout == b""
    assert said.stderr.startswith("alpha0 = ")
    assert f"Model written to {out}." in said.stderr
    model = json.loads(out.read_text())
    assert model["kind"] == "alpha"
    assert model["classes"] == ["0", "1"]
    assert model["features"] is None
    assert "weights" not in model
    assert model["fit"]["votes"] == 1600
    assert invoke("show", out).code == 0
    schema = invoke("show", "--schema", "alpha")
    assert b"log_alpha0" in schema.stdout


def test_features_tell_epistemic_from_aleatoric_rows(
    invoke: Invoke, votes: Path, frame: pl.DataFrame, tmp_path: Path
) -> None:
    out = tmp_path / "alpha.json"
    model = invoke("alpha-cal", votes, "--features", "feature_*", "-q", "-o", out).result()
    assert model["features"] == [f"feature_{kind}" for kind in range(10)]
    weights = np.array(model["weights"])
    assert weights[2:6].max() < weights[6:].min()
    found = invoke("apply", out, votes, "-o", tmp_path / "out.parquet").result()
    added = ["alpha0", "disagreement", "disagreement_0", "disagreement_1"]
    assert found.columns == [*frame.columns, *added]
    features = frame.select("^feature_.*$").to_numpy()
    alpha0 = np.exp(features @ weights + model["intercept"])
    assert found["alpha0"].to_numpy() == pytest.approx(alpha0)
    p = frame["prob_1"].to_numpy()
    expected = alpha0 / (alpha0 + 1) * 2 * p * (1 - p)
    assert found["disagreement"].to_numpy() == pytest.approx(expected)
    assert found["disagreement_0"].to_numpy() == pytest.approx(expected)
    assert "intercept" in invoke("show", out).stdout.decode()


@pytest.mark.parametrize("features", ["probs", "sorted-probs"])
@pytest.mark.parametrize("logit_map", ["none", "temperature", "vector", "matrix"])
def test_own_features_after_a_map(
    invoke: Invoke, votes: Path, tmp_path: Path, features: str, logit_map: str
) -> None:
    out, rows = tmp_path / "alpha.json", tmp_path / "rows.csv"
    options = ["--features", features, "--map", logit_map, "--disagreement-map", "isotonic"]
    model = invoke("alpha-cal", votes, *options, "-q", "-o", out).result()
    assert model["features"] == features
    assert (model["logit_map"] is None) == (logit_map == "none")
    found = invoke("apply", out, votes, "--keep", "id", "-q", "-o", rows).result()
    assert ("calibrated_0" in found.columns) == (logit_map != "none")
    if logit_map != "none":
        total = found["calibrated_0"] + found["calibrated_1"]
        assert total.to_numpy() == pytest.approx(1.0)
    assert set(found["disagreement"]) <= set(model["disagreement_map"]["values"])
    assert model["fit"]["disagreement_loss"] <= model["fit"]["disagreement_loss_before"]
    assert invoke("show", out).code == 0


def in_order(frame: pl.DataFrame, path: Path) -> None:
    """Write rows whose class columns are not sorted by name."""
    names = {"prob_1": "prob_a", "prob_0": "prob_b", "count_1": "count_a", "count_0": "count_b"}
    frame.rename(names).select("id", "prob_b", "prob_a", "count_a", "count_b").write_csv(path)


def test_columns_of_classes_stand_as_in_the_input(
    invoke: Invoke, votes: Path, frame: pl.DataFrame, tmp_path: Path
) -> None:
    rows, model, out = (tmp_path / name for name in ("rows.csv", "m.json", "out.csv"))
    in_order(frame, rows)
    differ = ["alpha0", "disagreement", "disagreement_b", "disagreement_a"]
    maps = ["calibrated_b", "calibrated_a"]
    for fitted, added in (
        (("alpha-cal",), differ),
        (("alpha-cal", "--map", "vector"), [*maps, *differ]),
        (("calibrate", "--counts", "count_*", "--probs", "prob_*", "--method", "vector"), maps),
    ):
        content = invoke(fitted[0], rows, *fitted[1:], "-q", "-o", model).result()
        assert (content["version"], content["classes"]) == (2, ["a", "b"])
        said = invoke("apply", model, rows, "--keep", "id", "-o", out, "--json")
        assert json.loads(said.stdout)["columns_added"] == added, said
        found = pl.read_csv(out)
        assert found.columns == ["id", *added]
        mirrored = tmp_path / "sorted.csv"
        frame_a = pl.read_csv(rows).select("id", "prob_a", "prob_b", "count_a", "count_b")
        frame_a.write_csv(mirrored)
        assert invoke("apply", model, mirrored, "--keep", "id", "-q", "-o", out).code == 0
        assert pl.read_csv(out).select(found.columns).equals(found)
        assert pl.read_csv(out).columns != found.columns
        bundle = tmp_path / "bundle.json"
        assert invoke("bundle", model, "-q", "-o", bundle).code == 0
        assert invoke("apply", bundle, rows, "--keep", "id", "-q", "-o", out).code == 0
        assert pl.read_csv(out).columns == ["id", *added, "action"]
        first = invoke("apply", model, rows, "--column", "x", "--keep", "id", "-q", "-o", out)
        assert (first.code, pl.read_csv(out).columns) == (0, ["id", "x", *added[1:]])
        # What 0.1 wrote: sorted, and the class probabilities in any case.
        model.write_text(json.dumps({**content, "version": 1}))
        old = invoke("apply", model, rows, "--keep", "id", "-q", "-o", out).result()
        assert old.columns[:3] == ["id", "calibrated_a", "calibrated_b"]
        assert old.select(added).equals(found.select(added))


def test_a_pipe_and_a_plan(
    command: Callable[..., Any], invoke: Invoke, votes: Path, frame: pl.DataFrame
) -> None:
    done = command("alpha-cal", "-", input=frame.write_csv().encode())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "alpha"
    said = invoke("alpha-cal", votes, "--dry-run", "--features", "probs")
    assert b"Would fit ln alpha0 linear in probs." in said.stdout


def test_rows_without_votes_are_left_out_and_counted(
    invoke: Invoke, tmp_path: Path, frame: pl.DataFrame
) -> None:
    path = tmp_path / "some.parquet"
    some = pl.col("id") <= 10
    empty = frame.with_columns(
        pl.when(some).then(0).otherwise(pl.col(f"count_{k}")).alias(f"count_{k}") for k in range(2)
    )
    empty.write_parquet(path)
    said = invoke("alpha-cal", path, "--json")
    assert "10 rows without a vote left out" in said.stderr
    assert json.loads(said.stdout)["fit"]["rows"] == 390


def at(row: int, name: str, value: object) -> dict[str, pl.Expr]:
    """Return the change of one value."""
    return {name: pl.when(pl.col("id") == row).then(value).otherwise(name)}


@pytest.mark.parametrize(
    ("changes", "words", "column", "row"),
    [
        (at(3, "prob_1", 1.5), "not in [0, 1]", "prob_1", 3),
        (at(3, "prob_1", 0.0), "sum to 1", "prob_*", 3),
        (at(4, "prob_1", None), "no value", "prob_1", 4),
        (at(5, "count_0", -1), "votes", "count_0", 5),
        (at(5, "count_0", 0.5), "votes", "count_0", 5),
        ({"count_0": pl.lit(0), "count_1": pl.lit(0)}, "no vote", "count_*", 1),
        (at(7, "feature_3", None), "no value", "feature_3", 7),
        ({"feature_3": pl.lit("x")}, "text instead of numbers", "feature_3", 1),
    ],
)
def test_bad_rows_are_refused(
    invoke: Invoke,
    tmp_path: Path,
    frame: pl.DataFrame,
    changes: dict[str, pl.Expr],
    words: str,
    column: str,
    row: int,
) -> None:
    path, out = tmp_path / "bad.parquet", tmp_path / "alpha.json"
    frame.with_columns(**changes).write_parquet(path)
    said = invoke("alpha-cal", path, "--features", "feature_*", "-o", out, "--json")
    error = json.loads(said.stdout)["error"]
    assert (said.code, error["code"]) == (3, 3), error
    assert words in error["message"]
    assert error["column"] == column
    assert error["first_rows"][0] == row
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--probs", "q_*"], "matches no column"),
        (["--probs", "prob_*,count_*"], "one pattern"),
        (["--probs", "prob_0"], "do not pair"),
        (["--counts", "feature_*"], "do not pair"),
        (["--features", "nothing_*"], "matches no column"),
        (["--features", "probs,feature_1"], "stands alone"),
        (["--regularization", "-1"], "at least 0"),
        (["--map-regularization", "1,2,3"], "INTERCEPT"),
        (["--scale", "raw"], "--scale raw"),
    ],
)
def test_bad_options_are_refused(
    invoke: Invoke, votes: Path, options: list[str], words: str
) -> None:
    invoke("alpha-cal", votes, *options).refused(2, words)


def test_a_model_is_applied_to_other_columns_and_refuses_other_classes(
    invoke: Invoke, votes: Path, frame: pl.DataFrame, tmp_path: Path
) -> None:
    out = tmp_path / "alpha.json"
    assert invoke("alpha-cal", votes, "-q", "-o", out).code == 0
    other = frame.rename({"prob_0": "q_0", "prob_1": "q_1"})
    other.write_parquet(tmp_path / "other.parquet")
    said = invoke("apply", out, tmp_path / "other.parquet", "-o", tmp_path / "x.csv")
    assert said.code == 2
    said = invoke("apply", out, tmp_path / "other.parquet", "--probs q_* -o", tmp_path / "x.csv")
    assert said.code == 0, said
    missing = frame.with_columns(prob_0=pl.when(pl.col("id") == 2).then(None).otherwise("prob_0"))
    missing.write_parquet(tmp_path / "missing.parquet")
    said = invoke("apply", out, tmp_path / "missing.parquet", "-o", tmp_path / "x.csv")
    assert said.code == 3
    more = ["--on-missing", "null", "-o", tmp_path / "x.csv"]
    assert invoke("apply", out, tmp_path / "missing.parquet", *more).code == 0
    assert pl.read_csv(tmp_path / "x.csv")["alpha0"].null_count() == 1
    assert invoke("apply", out, votes, "--selected", "-o", tmp_path / "x.csv").code == 2
    assert invoke("apply", out, votes, "--score", "prob_0", "-o", tmp_path / "x.csv").code == 2


def test_simulated_raters(invoke: Invoke, tmp_path: Path) -> None:
    said = invoke("simulate", "raters", "--rows", "5", "--raters", "2")
    assert said.stdout.decode().splitlines()[0] == "id,prob_0,prob_1,count_0,count_1"
    out = tmp_path / "modes.parquet"
    options = ["--design", "modes", "--keep", "mode,count_*", "--rows", "100", "-o", out]
    said = invoke("simulate", "raters", *options, "--json")
    assert json.loads(said.stdout)["columns_added"] == ["count_0", "count_1", "mode"]
    assert set(pl.read_parquet(out)["mode"]) == {"clear", "epistemic", "aleatoric"}
    assert invoke("simulate", "raters", "--rows", "5", "--keep", "modes").code == 2
    said = invoke("simulate", "raters", "--rows", "5", "--dry-run")
    assert b"Would simulate 5 rows" in said.stdout
