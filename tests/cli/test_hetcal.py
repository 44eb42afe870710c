"""``calibkit hetcal``: files in, a model out, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cli.score_files import write
from tests.conftest import Invoke, Outcome
from tests.library.test_hetcal import sample

ARGUMENTS = ["--features", "x,noise,kind", "--max-depth", "3", "--min-leaf", "100"]
QUICK = [*ARGUMENTS, "--shrinkage", "50"]


@pytest.fixture
def calib(tmp_path: Path) -> Path:
    return write(sample(1200), tmp_path / "calib.parquet")


def test_fit_apply_and_show(tmp_path: Path, invoke: Invoke, calib: Path) -> None:
    model, output = tmp_path / "hetcal.json", tmp_path / "out.parquet"
    train = write(sample(1200, seed=3), tmp_path / "train.parquet")
    done = invoke("hetcal", calib, "--train", train, *QUICK, "--tag", "run=7", "-o", model)
    assert done.code == 0, done.stderr
    assert "one map for all rows" in done.stderr or "Not cross-validated" in done.stderr
    content = json.loads(model.read_bytes())
    assert content["kind"] == "hetcal"
    assert content["tags"] == {"run": "7"}
    assert len(content["maps"]) == content["fit"]["leaves"]
    assert {"max_gap", "mean_gap", "cells"} <= content["fit"].keys()
    rows = invoke("apply", model, calib, "-o", output).result()
    assert rows.columns == [*sample(1).columns, "calibrated", "leaf"]
    assert rows["leaf"].unique().sort().to_list() == list(range(len(content["maps"])))
    assert rows["calibrated"].is_between(0, 1).all()
    shown = invoke("show", model)
    assert shown.code == 0
    text = shown.stdout.decode()
    for word in ("kind in {", "positive rate", "gain a row", "or missing"):
        assert word in text
    schema = invoke("show", "--schema", "hetcal")
    assert "maps" in json.loads(schema.stdout)["$defs"]["HetcalModel"]["properties"]


def test_what_is_not_given_is_chosen(tmp_path: Path, invoke: Invoke, calib: Path) -> None:
    done = invoke("hetcal", calib, "--features", "x", "--features", "kind", "--json")
    model = done.result()
    checked = model["fit"]["cross_validated"]
    assert checked["calibrated"] < checked["pooled"]
    assert list(checked["by_depth"]) == [str(depth) for depth in range(9)]
    assert "Expect log loss" in done.stderr


@pytest.mark.parametrize("partition", ["forest", "boosted", "sequential"])
def test_several_partitions(tmp_path: Path, invoke: Invoke, calib: Path, partition: str) -> None:
    model, output = tmp_path / "m.json", tmp_path / "o.csv"
    more = ["--trees", "12", "--min-leaf", "50"]
    more += ["--max-depth", "1" if partition == "sequential" else "3"]
    more += ["--shrinkage", "20"] if partition == "forest" else []
    arguments = ["--features", "x,kind", "--partition", partition, *more, "-o", model]
    assert invoke("hetcal", calib, *arguments).code == 0
    count = len(json.loads(model.read_bytes())["partitions"])
    assert 1 < count <= 10 if partition == "sequential" else count == 12
    rows = invoke("apply", model, calib, "--keep", "label", "-o", output).result()
    assert rows["calibrated"].is_between(0, 1).all()
    text = invoke("show", model).stdout.decode()
    assert f"{count} {partition} trees" in text
    assert f"The first of {count} partitions" in text


def test_one_tree_of_several_is_one_tree(tmp_path: Path, invoke: Invoke, calib: Path) -> None:
    model = tmp_path / "m.json"
    arguments = ["--features", "x", "--partition", "boosted", "--trees", "1", "-o", model]
    assert invoke("hetcal", calib, *arguments).code == 0
    assert "1 boosted tree:" in invoke("show", model).stdout.decode()


def test_weights_times_and_beta_maps(tmp_path: Path, invoke: Invoke) -> None:
    frame = sample(900).with_columns(
        weight=1.0 + pl.int_range(pl.len()) % 3, day=pl.int_range(pl.len()) // 50
    )
    path, model = write(frame, tmp_path / "rows.parquet"), tmp_path / "m.json"
    more = ["--weight", "weight", "--weight-kind", "sampling", "--time", "day", "--map", "beta"]
    done = invoke("hetcal", path, *ARGUMENTS, *more, "-o", model)
    content = done.result()
    assert content["columns"]["weight"]["kind"] == "sampling"
    assert content["provenance"]["options"]["time"] == "day"
    assert content["fit"]["cross_validated"]["folds"] == 5
    assert all({"a", "b", "c"} <= leaf.keys() for leaf in content["maps"])
    assert "ln(1 - s)" in invoke("show", model).stdout.decode()
    done = invoke("hetcal", path, *ARGUMENTS, "--time", "day", "--groups", "day", "--json")
    done.refused(2, "--groups or --time")
    done = invoke("hetcal", path, "--features", "day", "--time", "day", "--json")
    done.refused(2, "--time", "--features")
    done = invoke("hetcal", path, *ARGUMENTS, "--weight-kind", "sampling", "--json")
    done.refused(2, "--weight")


def test_boosting_says_that_train_takes_no_part(invoke: Invoke, calib: Path) -> None:
    done = invoke(
        "hetcal", calib, "--train", calib, "--features", "x", "--partition", "boosted",
        "--trees", "3", "--json",
    )  # fmt: skip
    done.succeeded("--train is not used")
    done = invoke("hetcal", calib, "--train", calib, *ARGUMENTS, "--criterion", "auc", "--json")
    assert "looks at scores" in done.stderr


def test_a_missing_feature_column_is_named(tmp_path: Path, invoke: Invoke, calib: Path) -> None:
    model = tmp_path / "m.json"
    assert invoke("hetcal", calib, *QUICK, "-q", "-o", model).code == 0
    short = write(sample(20).drop("kind"), tmp_path / "short.parquet")
    output = tmp_path / "o.parquet"
    invoke("apply", model, short, "--json", "-o", output).refused(2, "'kind'", "feature")
    other = write(sample(20).with_columns(x=pl.lit("high")), tmp_path / "other.parquet")
    invoke("apply", model, other, "--json", "-o", output).refused(3, "'x'", "text instead of")
    numbers = write(sample(20).with_columns(kind=pl.lit(1)), tmp_path / "numbers.parquet")
    invoke("apply", model, numbers, "--json", "-o", output).refused(3, "'kind'", "as text")
    assert not output.exists()


def test_bad_usage(tmp_path: Path, invoke: Invoke, calib: Path) -> None:
    def call(*more: object) -> Outcome:
        return invoke("hetcal", calib, "--json", *more)

    call().refused(2, "'feature_*'", "matches no column")
    call("--features", "knd").refused(2, "'kind'")
    call("--features", "label").refused(2, "--label")
    call("--features", "x", "--trees", "5").refused(2, "--partition forest")
    call("--features", "x", "--max-depth", "99").refused(2, "--max-depth")
    call("--features", "x", "--train", tmp_path / "no.parquet").refused(2, "no.parquet")
    call("--features", "x", "--groups", "user").refused(2, "'user'")
    short = write(sample(50).drop("x"), tmp_path / "short.parquet")
    call("--features", "x", "--train", short).refused(2, "'x'", "--train")


def test_bad_data(tmp_path: Path, invoke: Invoke) -> None:
    def call(frame: pl.DataFrame, suffix: str, *more: object) -> Outcome:
        path = write(frame, tmp_path / f"bad.{suffix}")
        model = tmp_path / "model.json"
        done = invoke("hetcal", path, "--json", "-o", model, "--features", "x,kind", *more)
        assert not model.exists()
        return done

    good = sample(60)
    row = pl.int_range(pl.len()) == 6
    for suffix in ("parquet", "csv"):
        wild = good.with_columns(x=pl.when(row).then(np.inf).otherwise(pl.col("x")))
        error = call(wild, suffix).refused(3, "'x'", "infinite")
        assert error["first_rows"] == [7]
        assert error["column"] == "x"
        high = good.with_columns(score=pl.when(row).then(1.5).otherwise(pl.col("score")))
        call(high, suffix).refused(3, "1.5", "[0, 1]")
        one = good.with_columns(label=pl.lit(1))
        call(one, suffix).refused(3, "every row is positive")
        hole = good.with_columns(score=pl.when(row).then(None).otherwise(pl.col("score")))
        call(hole, suffix).refused(3, "no value")
    dates = good.with_columns(x=pl.date(2020, 1, 1))
    call(dates, "parquet").refused(3, "'x'", "Date")


def test_missing_features_drop_no_row(tmp_path: Path, invoke: Invoke, calib: Path) -> None:
    done = invoke("hetcal", calib, *QUICK, "--on-missing", "drop", "--json")
    assert json.loads(done.stdout)["fit"]["rows"] == 1200


def test_dry_run_writes_nothing(tmp_path: Path, invoke: Invoke, calib: Path) -> None:
    model = tmp_path / "m.json"
    done = invoke("hetcal", calib, "--features", "k*,x", "--dry-run", "-o", model)
    assert done.code == 0
    assert "feature 1: column 'kind'" in done.stdout.decode()
    assert "choose by cross-validation depth" in done.stdout.decode()
    assert not model.exists()


def test_simulated_partitions(tmp_path: Path, invoke: Invoke) -> None:
    output = tmp_path / "rows.parquet"
    frame = invoke("simulate", "partitions", "--rows", "500", "--seed", "1", "-o", output).result()
    assert frame.height == 500
    assert frame.columns[:4] == ["id", "label", "score", "feature_pattern"]
    kept = invoke("simulate", "partitions", "--rows 3 --kind training --keep label,score")
    assert kept.stdout.decode().splitlines()[0] == "label,score"
    assert invoke("hetcal", output, "-q", "--json").code == 0  # features are found by default
    assert invoke("simulate", "partitions", "--rows", "3", "--pattern-weight", "1e9").code == 2


@pytest.mark.parametrize("kind", ["isotonic", "histogram"])
def test_steps_rise_where_the_line_before_them_falls(
    kind: str, tmp_path: Path, invoke: Invoke
) -> None:
    random = np.random.default_rng(5)
    score = random.random(400)
    frame = pl.DataFrame(
        {"score": score, "label": random.random(400) > score, "feature_a": random.normal(size=400)}
    )
    path, model, out = (tmp_path / name for name in ("rows.csv", "model.json", "out.csv"))
    frame.write_csv(path)
    assert invoke("hetcal", path, "--map", kind, "--max-depth", "1", "-q", "-o", model).code == 0
    assert json.loads(model.read_text())["precalibrate"]["a"] < 0
    assert invoke("apply", model, path, "-q", "-o", out).code == 0
    low, high = (
        pl.read_csv(out).filter(part)["calibrated"].mean()
        for part in (
            pl.col("score") < 0.3,
            pl.col("score") > 0.7,
        )
    )
    assert low > 0.6 > 0.4 > high


@pytest.mark.parametrize("count", [12, 40])
def test_a_forest_of_a_few_rows_in_time_can_be_read(
    count: int, tmp_path: Path, invoke: Invoke
) -> None:
    rows, model = tmp_path / "few.parquet", tmp_path / "m.json"
    places = range(count)
    columns = {
        "score": [(place * 7 % count + 0.5) / count for place in places],
        "label": [int(place * 5 % 7 > 2) for place in places],
        "feature_x": [float(place * 11 % count) for place in places],
        "t": list(places),
    }
    pl.DataFrame(columns).write_parquet(rows)
    assert invoke("hetcal", rows, "--partition forest --time t -q -o", model).code == 0
    assert invoke("show", model).code == 0


@pytest.mark.parametrize("partition", ["tree", "forest", "boosted", "auto"])
def test_rows_without_weight_make_no_fold(partition: str, tmp_path: Path, invoke: Invoke) -> None:
    random, time = np.random.default_rng(0), np.arange(600)
    score = random.random(600).round(3)
    label = (random.random(600) < score).astype(int)
    rows, model = tmp_path / "rows.parquet", tmp_path / "m.json"
    columns = {"score": score, "label": label, "feature_x": random.normal(size=600), "t": time}
    pl.DataFrame({**columns, "w": (time >= 100).astype(int)}).write_parquet(rows)
    given = (
        "--weight w --time t -q --trees 3"
        if partition in ("forest", "boosted")
        else "--weight w --time t -q",
    )
    assert invoke("hetcal", rows, "--partition", partition, *given, "-o", model).code == 0
    assert invoke("show", model).code == 0


@pytest.fixture
def weighted(tmp_path: Path) -> Path:
    """Return rows whose weights are 0 to 3, beside more rows of weight 0."""
    counts = pl.Series("w", np.random.default_rng(2).integers(0, 4, 600))
    rows = sample(600).with_columns(counts)
    nothing = rows.filter(pl.col("x") > 0).head(150).with_columns(w=pl.lit(0, pl.Int64))
    write(pl.concat([rows, nothing]), tmp_path / "more.parquet")
    return write(rows, tmp_path / "rows.parquet")


@pytest.mark.parametrize("partition", ["sequential", "boosted"])
def test_a_leaf_alone_counts_weights(invoke: Invoke, weighted: Path, partition: str) -> None:
    options = f"--features x --min-leaf 100000 --weight w --partition {partition} --json"
    tree = invoke("hetcal", weighted, options).result()["partitions"][0]["tree"]
    assert tree == [{"leaf": 0, "rows": pl.read_parquet(weighted)["w"].sum()}]


@pytest.mark.parametrize(
    "options", ["--max-bins 4 --max-depth 1 --shrinkage 0", "--partition boosted --trees 3"]
)
def test_rows_that_weigh_nothing_move_no_cut(invoke: Invoke, weighted: Path, options: str) -> None:
    line = f"{options} --features x --weight w --min-leaf 30 --json"
    found = []
    for path in (weighted, weighted.with_name("more.parquet")):
        model = invoke("hetcal", path, line).result()
        del model["provenance"], model["fit"]["clipped"]
        found.append(model)
    assert found[0] == found[1]


def test_the_score_keeps_its_name_among_features(tmp_path: Path, invoke: Invoke) -> None:
    path = write(sample(600).rename({"x": "(score)"}), tmp_path / "rows.parquet")
    line = ["hetcal", path, "--features", "(score)", "--min-leaf 100 --max-depth 1"]
    assert invoke(*line, "-o", tmp_path / "m.json").code == 0
    invoke(*line, "--partition boosted").refused(2, "'(score)' is both --partition boosted and")
