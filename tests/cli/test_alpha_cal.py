"""``calibkit alpha-cal``, its model applied, rows that do not fit, and ``calibkit simulate raters``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit import simulate_raters
from tests.cli.score_files import changed, write
from tests.conftest import Invoke, make


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return simulate_raters(400, seed=2, raters=4, design="modes")


@pytest.fixture
def votes(frame: pl.DataFrame) -> Path:
    return write(frame, "votes.parquet")


def test_one_strength_for_all_rows(invoke: Invoke, votes: Path) -> None:
    out = Path("alpha.json")
    said = invoke("alpha-cal", votes, "-o", out)
    said.succeeded(f"Model written to {out}.")
    assert said.stdout == b"" and said.stderr.startswith("alpha0 = ")
    model = said.result()
    assert (model["kind"], model["classes"], model["features"]) == ("alpha", ["0", "1"], None)
    assert "weights" not in model
    assert model["fit"]["votes"] == 1600
    assert b"log_alpha0" in invoke("show", "--schema", "alpha").stdout


def test_features_tell_epistemic_from_aleatoric_rows(
    invoke: Invoke, votes: Path, frame: pl.DataFrame
) -> None:
    out = Path("alpha.json")
    model = invoke("alpha-cal", votes, "--features", "feature_*", "-q", "-o", out).result()
    assert model["features"] == [f"feature_{kind}" for kind in range(10)]
    weights = np.array(model["weights"])
    assert weights[2:6].max() < weights[6:].min()
    found = invoke("apply", out, votes, "-o out.parquet").result()
    added = ["alpha0", "disagreement", "disagreement_0", "disagreement_1"]
    assert found.columns == [*frame.columns, *added]
    features = frame.select("^feature_.*$").to_numpy()
    alpha0 = np.exp(features @ weights + model["intercept"])
    assert found["alpha0"].to_numpy() == pytest.approx(alpha0)
    p = frame["prob_1"].to_numpy()
    expected = alpha0 / (alpha0 + 1) * 2 * p * (1 - p)
    for name in ("disagreement", "disagreement_0"):
        assert found[name].to_numpy() == pytest.approx(expected)
    assert "intercept" in invoke("show", out).stdout.decode()


@pytest.mark.parametrize(("features", "logit_map"), [("probs", "none"), ("sorted-probs", "matrix")])
def test_own_features_after_a_map(
    invoke: Invoke, votes: Path, features: str, logit_map: str
) -> None:
    options = ["--features", features, "--map", logit_map, "--disagreement-map", "isotonic"]
    fit = make("alpha.json", "alpha-cal", votes, *options)
    model = json.loads(fit.read_bytes())
    assert model["features"] == features
    assert (model["logit_map"] is None) == (logit_map == "none")
    found = pl.read_csv(make("rows.csv", "apply", fit, votes, "--keep id"))
    assert ("calibrated_0" in found.columns) == (logit_map != "none")
    assert set(found["disagreement"]) <= set(model["disagreement_map"]["values"])
    assert model["fit"]["disagreement_loss"] <= model["fit"]["disagreement_loss_before"]


DIFFER = ["alpha0", "disagreement", "disagreement_b", "disagreement_a"]
MAPS = ["calibrated_b", "calibrated_a"]


@pytest.mark.parametrize(
    ("line", "added"),
    [
        ("alpha-cal", DIFFER),
        ("alpha-cal --map vector", [*MAPS, *DIFFER]),
        ("calibrate --counts count_* --probs prob_* --method vector", MAPS),
    ],
)
def test_columns_of_classes_stand_as_in_the_input(
    line: str, added: list[str], invoke: Invoke, frame: pl.DataFrame
) -> None:
    names = {"prob_1": "prob_a", "prob_0": "prob_b", "count_1": "count_a", "count_0": "count_b"}
    unsorted = frame.rename(names).select("id", "prob_b", "prob_a", "count_a", "count_b")
    rows = write(unsorted, "rows.csv")
    ordered = write(unsorted.select("id", "prob_a", "prob_b"), "sorted.csv")
    command, *options = line.split()
    model = make("m.json", command, rows, *options)
    content = json.loads(model.read_bytes())
    assert (content["version"], content["classes"]) == (2, ["a", "b"])

    def applied(by: Path, to: Path, *more: object) -> pl.DataFrame:
        return pl.read_csv(make("out.csv", "apply", by, to, "--keep id", *more))

    said = invoke("apply", model, rows, "--json -o out.csv")
    assert json.loads(said.stdout)["columns_added"] == added
    found = applied(model, rows)
    assert found.columns == ["id", *added]
    mirrored = applied(model, ordered)
    assert mirrored.select(found.columns).equals(found)
    assert mirrored.columns != found.columns
    bundle = make("bundle.json", "bundle", model)
    assert applied(bundle, rows).columns == ["id", *added, "action"]
    assert applied(model, rows, "--column x").columns == ["id", "x", *added[1:]]
    # What 0.1 wrote: sorted, and the class probabilities in any case.
    model.write_text(json.dumps({**content, "version": 1}))
    old = applied(model, rows)
    assert old.columns[:3] == ["id", "calibrated_a", "calibrated_b"]
    assert old.select(added).equals(found.select(added))


def every(value: object) -> dict[int, object]:
    return dict.fromkeys(range(1, 401), value)


@pytest.mark.parametrize(
    ("changes", "words", "column", "row"),
    [
        ({"prob_1": {3: 1.5}}, "not in [0, 1]", "prob_1", 3),
        ({"prob_1": {3: 0.0}}, "sum to 1", "prob_*", 3),
        ({"prob_1": {4: None}}, "no value", "prob_1", 4),
        ({"count_0": {5: -1}}, "votes", "count_0", 5),
        ({"count_0": {5: 0.5}}, "votes", "count_0", 5),
        ({"count_0": every(0), "count_1": every(0)}, "no vote", "count_*", 1),
        ({"feature_3": {7: None}}, "no value", "feature_3", 7),
        ({"feature_3": every("x")}, "text instead of numbers", "feature_3", 1),
    ],
)
def test_bad_rows_are_refused(
    changes: dict[str, Any], words: str, column: str, row: int, invoke: Invoke, frame: pl.DataFrame
) -> None:
    path = write(changed(frame, **changes), "bad.parquet")
    error = invoke("alpha-cal", path, "--features feature_* -o m.json --json").refused(3, words)
    assert (error["column"], error["first_rows"][0]) == (column, row)


def test_a_model_is_applied_to_other_columns_and_refuses_other_classes(
    invoke: Invoke, votes: Path, frame: pl.DataFrame
) -> None:
    model, out = make("alpha.json", "alpha-cal", votes), Path("x.csv")
    other = write(frame.rename({"prob_0": "q_0", "prob_1": "q_1"}), "other.parquet")
    missing = write(changed(frame, prob_0={2: None}), "missing.parquet")
    for rows, options, code in (
        (other, "", 2),
        (other, "--probs q_*", 0),
        (missing, "", 3),
        (missing, "--on-missing null", 0),
        (votes, "--selected", 2),
        (votes, "--score prob_0", 2),
    ):
        assert invoke("apply", model, rows, *options.split(), "-o", out).code == code, options
    assert pl.read_csv(out)["alpha0"].null_count() == 1


def test_simulated_raters(invoke: Invoke) -> None:
    said = invoke("simulate", "raters", "--rows", "5", "--raters", "2")
    assert said.stdout.decode().splitlines()[0] == "id,prob_0,prob_1,count_0,count_1"
    out = Path("modes.parquet")
    options = ["--design", "modes", "--keep", "mode,count_*", "--rows", "100", "-o", out]
    said = invoke("simulate", "raters", *options, "--json")
    assert json.loads(said.stdout)["columns_added"] == ["count_0", "count_1", "mode"]
    assert set(pl.read_parquet(out)["mode"]) == {"clear", "epistemic", "aleatoric"}
    assert invoke("simulate", "raters", "--rows", "5", "--keep", "modes").code == 2
    said = invoke("simulate", "raters", "--rows", "5", "--dry-run")
    assert b"Would simulate 5 rows" in said.stdout


# ---------------------------------------------------------------- rows that do not fit

VOTES = "--probs prob_* --counts count_* --on-missing drop"
LABEL = "--probs prob_* --label label --on-missing drop"
OF_FEATURES = f"{VOTES} --features x_* --disagreement-map isotonic"


def repeated(rows: int = 300) -> pl.DataFrame:
    """Return rows with few distinct probabilities: many are the same, some have no vote."""
    random = np.random.default_rng(2)
    probs = random.dirichlet(np.ones(3), rows).round(1)
    probs[:, 2] = np.abs(1.0 - probs[:, 0] - probs[:, 1])
    x = random.normal(size=(rows, 2)).round(1) * [1.0, 30.0] + [0.0, 7.0]
    shares = random.standard_gamma(np.maximum(np.exp(1.0 + 0.7 * x[:, :1]) * probs, 1e-3))
    shares /= shares.sum(axis=1, keepdims=True)
    counts = random.multinomial(random.integers(0, 5, rows), shares)
    wide = {f"prob_{k}": probs[:, k] for k in range(3)}
    votes = {f"count_{k}": counts[:, k] for k in range(3)}
    label = shares.argmax(axis=1)
    made = pl.DataFrame({**wide, **votes, "x_a": x[:, 0], "x_b": x[:, 1], "label": label})
    return changed(made, prob_0=dict.fromkeys(range(6, rows, 97), None), count_2={71: None})


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 40 rows fit into ``--memory 1MB``, in a folder with many more."""
    monkeypatch.setattr("calibkit.runtime.memory._FEWEST_ROWS", 40)
    monkeypatch.setattr("calibkit.runtime.memory.FEWEST_ENTRIES", 40)
    write(repeated(), "all.parquet")


def test_folds_are_those_of_a_seed_and_equal_rows_are_dealt_apart() -> None:
    same = pl.concat([repeated()[:1]] * 90).with_columns(count_0=2, count_1=1, count_2=0)
    rows = write(same, "same.parquet")
    for seed in (0, 1):
        fit = make("m.json", "calibrate", rows, VOTES, "--method vector --seed", seed)
        # (1, 1) of one fold
        assert json.loads(fit.read_bytes())["regularization"] == [0.01, 0.0]


@pytest.mark.usefixtures("little_room")
def test_values_that_offend_are_counted_over_all_rows(invoke: Invoke) -> None:
    odd = pl.DataFrame({"lists": [[0.4, 0.6]], "votes": [[1, 1]]})
    usual = pl.DataFrame({"lists": [[0.2, 0.3, 0.5]], "votes": [[1, 0, 1]]})
    write(pl.concat([*[usual] * 70, *[odd] * 90]), "odd.parquet")
    write(repeated().with_columns(x_a=pl.lit(float("inf"))), "infinite.parquet")
    for file, options, told in (
        ("odd.parquet", "--probs lists --counts votes", "'lists': a list that is not of length 3"),
        ("infinite.parquet", OF_FEATURES, "column 'x_a': infinite"),
    ):
        small, large = (
            invoke("alpha-cal", file, options, "--memory", size, "-o", "m.json")
            for size in ("1MB", "1GB")
        )
        small.refused(3, told, "first: rows")
        assert small.stderr == large.stderr


@pytest.mark.usefixtures("little_room")
def test_what_a_label_means_does_not_depend_on_the_rows_beside_it(invoke: Invoke) -> None:
    names = {"prob_0": "prob_1", "prob_1": "prob_2", "prob_2": "prob_3"}
    write(repeated().drop_nulls().rename(names).sort("label"), "sorted.parquet")
    done = invoke("calibrate", "sorted.parquet", LABEL, "--memory 1MB -o m.json")
    # 0 to 2, but classes 1 to 3: indices are taken where no name is one
    done.refused(3, "a label that is no class", "the classes are '1', '2', '3'")


@pytest.mark.usefixtures("little_room")
def test_rows_without_votes_are_left_out_and_counted(invoke: Invoke) -> None:
    none, tight = repeated().with_columns(pl.col("^count_.$") * 0), "--memory 1MB -q -o m.json"
    done = invoke("alpha-cal", write(none, "none.parquet"), VOTES, tight)
    said = "without a vote left out; name the columns of votes by --counts"
    done.refused(3, "no row is left to fit on", said)
    null = write(none.with_columns(prob_1=None), "null.parquet")
    invoke("alpha-cal", null, VOTES, tight).refused(3, "all 300 rows lack a value")
    some = write(pl.concat([repeated(), none]), "some.parquet")
    whole = repeated().drop_nulls()
    empty = whole.filter(pl.sum_horizontal("^count_.$") == 0).height
    known = invoke("alpha-cal", "all.parquet", VOTES, "-o", "known.json")
    known.succeeded(f"{empty} rows without a vote left out")
    found, wanted = invoke("alpha-cal", some, VOTES, tight).result(), known.result()
    assert found["log_alpha0"] == wanted["log_alpha0"]
    assert found["fit"]["rows"] == wanted["fit"]["rows"] == whole.height - empty


@pytest.mark.usefixtures("little_room")
def test_rows_of_one_vote_have_no_map_of_disagreements(invoke: Invoke) -> None:
    write(repeated().with_columns(count_0=1, count_1=0, count_2=0), "single.parquet")
    done = invoke("alpha-cal", "single.parquet", OF_FEATURES, "--memory 1MB -o m.json")
    done.succeeded("no row has two votes")
    assert done.result()["disagreement_map"] is None
