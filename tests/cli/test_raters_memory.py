"""Class maps and alpha-calibrations of rows that do not fit: what is counted over all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.conftest import Invoke

ROWS = 300
#: How many rows fit into ``--memory 1MB`` here.
FEWEST = 40

VOTES = ["--probs", "prob_*", "--counts", "count_*", "--on-missing", "drop"]
LABEL = ["--probs", "prob_*", "--label", "label", "--on-missing", "drop"]
LISTS = ["--probs", "lists", "--counts", "votes"]
CONSTANT = ["alpha-cal", *VOTES]
OF_FEATURES = [*CONSTANT, "--features", "x_*", "--disagreement-map", "isotonic"]


def frame() -> pl.DataFrame:
    """Return rows with few distinct probabilities: many are the same, some have no vote."""
    random = np.random.default_rng(2)
    probs = random.dirichlet(np.ones(3), ROWS).round(1)
    probs[:, 2] = np.abs(1.0 - probs[:, 0] - probs[:, 1])
    x = random.normal(size=(ROWS, 2)).round(1) * [1.0, 30.0] + [0.0, 7.0]
    strength = np.exp(1.0 + 0.7 * x[:, 0])
    shares = random.standard_gamma(np.maximum(strength[:, None] * probs, 1e-3))
    shares /= shares.sum(axis=1, keepdims=True)
    counts = random.multinomial(random.integers(0, 5, ROWS), shares)
    wide = {f"prob_{k}": probs[:, k] for k in range(3)}
    votes = {f"count_{k}": counts[:, k] for k in range(3)}
    made = pl.DataFrame({**wide, **votes, "x_a": x[:, 0], "x_b": x[:, 1]})
    return made.with_columns(
        label=pl.Series(shares.argmax(axis=1)),
        prob_0=pl.when(pl.int_range(ROWS) % 97 == 5).then(None).otherwise("prob_0"),
        count_2=pl.when(pl.int_range(ROWS) == 70).then(None).otherwise("count_2"),
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the floor of rows that fit, and write the rows."""
    monkeypatch.setattr("calibkit.runtime.memory._FEWEST_ROWS", FEWEST)
    monkeypatch.setattr("calibkit.runtime.memory.FEWEST_ENTRIES", FEWEST)
    monkeypatch.chdir(tmp_path)
    frame().write_parquet("all.parquet")


def fitted(invoke: Invoke, line: list[Any], inputs: list[str], *more: Any) -> tuple[bytes, str]:
    """Return the model, and what was said."""
    path = Path("model.json")
    done = invoke(line[0], *inputs, *line[1:], *more, "-o", path)
    assert done.code == 0, done.stderr
    return path.read_bytes(), done.stderr


def test_folds_are_those_of_a_seed_and_equal_rows_are_dealt_apart(invoke: Invoke) -> None:
    same = pl.concat([frame()[:1]] * 90).with_columns(count_0=2, count_1=1, count_2=0)
    same.write_parquet("same.parquet")
    line = ["calibrate", *VOTES, "--method", "vector", "--seed"]
    found = {
        seed: json.loads(fitted(invoke, [*line, seed], ["same.parquet"])[0]) for seed in (0, 1)
    }
    assert all(one["regularization"] == [0.01, 0.0] for one in found.values())  # (1, 1) of one fold


def test_values_that_offend_are_counted_over_all_rows(invoke: Invoke) -> None:
    odd = pl.DataFrame({"lists": [[0.4, 0.6]], "votes": [[1, 1]]})
    usual = pl.DataFrame({"lists": [[0.2, 0.3, 0.5]], "votes": [[1, 0, 1]]})
    pl.concat([*[usual] * 70, *[odd] * 90]).write_parquet("odd.parquet")
    frame().with_columns(x_a=pl.lit(float("inf"))).write_parquet("infinite.parquet")
    for line, file, told in (
        (["alpha-cal", *LISTS], "odd.parquet", "'lists': a list that is not of length 3"),
        (OF_FEATURES, "infinite.parquet", "column 'x_a': infinite"),
    ):
        said = {
            invoke(line[0], file, *line[1:], "--memory", size, "-o", "m.json").stderr
            for size in ("1MB", "1GB")
        }
        (one,) = said
        assert told in one and "first: rows" in one


def test_what_a_label_means_does_not_depend_on_the_rows_beside_it(invoke: Invoke) -> None:
    names = {"prob_0": "prob_1", "prob_1": "prob_2", "prob_2": "prob_3"}
    frame().drop_nulls().rename(names).sort("label").write_parquet("sorted.parquet")
    done = invoke("calibrate", "sorted.parquet", *LABEL, "--memory", "1MB", "-o", "m.json")
    assert done.code == 3  # 0 to 2, but classes 1 to 3: indices are taken where no name is one
    assert "a label that is no class" in done.stderr
    assert "the classes are '1', '2', '3'" in done.stderr


def test_rows_of_which_none_is_left(invoke: Invoke) -> None:
    none = frame().with_columns(pl.col("^count_.$") * 0)
    none.write_parquet("none.parquet")
    tight = ["--memory", "1MB", "-o", "m.json"]
    done = invoke("alpha-cal", "none.parquet", *VOTES, *tight)
    assert (done.code, "no row is left to fit on" in done.stderr) == (3, True)
    assert "without a vote left out; name the columns of votes by --counts" in done.stderr
    none.with_columns(prob_1=None).write_parquet("null.parquet")
    done = invoke("alpha-cal", "null.parquet", *VOTES, *tight)
    assert (done.code, f"all {ROWS} rows lack a value" in done.stderr) == (3, True)
    pl.concat([frame()[:100], none, frame()[100:]]).write_parquet("some.parquet")
    known = json.loads(fitted(invoke, CONSTANT, ["all.parquet"])[0])
    found = json.loads(fitted(invoke, CONSTANT, ["some.parquet"], *tight[:2])[0])
    assert found["log_alpha0"] == known["log_alpha0"]


def test_rows_of_one_vote_have_no_map_of_disagreements(invoke: Invoke) -> None:
    single = frame().with_columns(count_0=1, count_1=0, count_2=0)
    single.write_parquet("single.parquet")
    made, said = fitted(invoke, OF_FEATURES, ["single.parquet"], "--memory", "1MB")
    assert json.loads(made)["disagreement_map"] is None
    assert "no row has two votes" in said
