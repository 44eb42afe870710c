"""``calibkit hetcal``: files in, a model out, what is refused; the same bytes in any memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.summaries.row_store import Arrays
from tests.budgets import little_memory
from tests.cli.score_files import changed, write
from tests.compat.fits import FEATURES, FITS, rows, words
from tests.conftest import Invoke
from tests.library.test_hetcal import sample

ARGUMENTS = "--features x,noise,kind --max-depth 3 --min-leaf 100"
QUICK = f"{ARGUMENTS} --shrinkage 50"


@pytest.fixture
def calib() -> Path:
    return write(sample(1200), "calib.parquet")


def test_fit_apply_and_show(invoke: Invoke, calib: Path) -> None:
    model = Path("hetcal.json")
    train = write(sample(1200, seed=3), "train.parquet")
    done = invoke("hetcal", calib, "--train", train, QUICK, "--tag run=7 -o", model)
    content = done.result()
    assert "one map for all rows" in done.stderr or "Not cross-validated" in done.stderr
    assert content["kind"] == "hetcal"
    assert content["tags"] == {"run": "7"}
    assert len(content["maps"]) == content["fit"]["leaves"]
    assert {"max_gap", "mean_gap", "cells"} <= content["fit"].keys()
    rows = invoke("apply", model, calib, "-o out.parquet").result()
    assert rows.columns == [*sample(1).columns, "calibrated", "leaf"]
    assert rows["leaf"].unique().sort().to_list() == list(range(len(content["maps"])))
    assert rows["calibrated"].is_between(0, 1).all()
    text = invoke("show", model).stdout.decode()
    for word in ("kind in {", "positive rate", "gain a row", "or missing"):
        assert word in text
    schema = invoke("show", "--schema", "hetcal").result()
    assert "maps" in schema["$defs"]["HetcalModel"]["properties"]


def test_what_is_not_given_is_chosen(invoke: Invoke, calib: Path) -> None:
    done = invoke("hetcal", calib, "--features x --features kind --json")
    checked = done.result()["fit"]["cross_validated"]
    assert checked["calibrated"] < checked["pooled"]
    assert list(checked["by_depth"]) == [str(depth) for depth in range(9)]
    assert "Expect log loss" in done.stderr


@pytest.mark.parametrize(("partition", "count"), [("boosted", 1), ("forest", 2)])
def test_the_first_of_several_partitions_is_shown(
    partition: str, count: int, invoke: Invoke, calib: Path
) -> None:
    line = f"--features x,kind --partition {partition} --trees {count} -q -o"
    assert len(invoke("hetcal", calib, line, "m.json").result()["partitions"]) == count
    text = invoke("show", "m.json").stdout.decode()
    assert f"{count} {partition} tree{'s' if count > 1 else ''}:" in text
    assert (f"The first of {count} partitions" in text) is (count > 1)


def test_beta_maps_have_three_numbers(invoke: Invoke, calib: Path) -> None:
    content = invoke("hetcal", calib, QUICK, "--map beta -o m.json").result()
    assert all({"a", "b", "c"} <= leaf.keys() for leaf in content["maps"])
    assert "ln(1 - s)" in invoke("show", "m.json").stdout.decode()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--features x --partition boosted --trees 3", "--train is not used"),
        (f"{ARGUMENTS} --criterion auc", "looks at scores"),
    ],
)
def test_what_train_cannot_help(options: str, said: str, invoke: Invoke, calib: Path) -> None:
    invoke("hetcal", calib, "--train", calib, options, "--json").succeeded(said)


def test_a_missing_feature_column_is_named(invoke: Invoke, calib: Path) -> None:
    assert invoke("hetcal", calib, QUICK, "-q -o m.json").code == 0
    for frame, code, said in (
        (sample(20).drop("kind"), 2, ("'kind'", "feature")),
        (sample(20).with_columns(x=pl.lit("high")), 3, ("'x'", "text instead of")),
        (sample(20).with_columns(kind=pl.lit(1)), 3, ("'kind'", "as text")),
    ):
        other = write(frame, "other.parquet")
        invoke("apply", "m.json", other, "--json -o o.parquet").refused(code, *said)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"x": {7: np.inf}}, ["'x'", "infinite"]),
        ({"score": {7: 1.5}}, ["1.5", "[0, 1]"]),
        ({"score": {7: None}}, ["no value"]),
        ({"label": dict.fromkeys(range(1, 61), 1)}, ["every row is positive"]),
    ],
)
def test_bad_data(values: dict[str, Any], said: list[str], suffix: str, invoke: Invoke) -> None:
    path = write(changed(sample(60), **values), f"bad.{suffix}")
    error = invoke("hetcal", path, "--features x,kind --json -o m").refused(3, *said)
    if "x" in values:
        assert (error["column"], error["first_rows"]) == ("x", [7])


def test_dates_are_no_feature(invoke: Invoke) -> None:
    path = write(sample(60).with_columns(x=pl.date(2020, 1, 1)), "dates.parquet")
    invoke("hetcal", path, "--features x,kind --json").refused(3, "'x'", "Date")


def test_missing_features_drop_no_row(invoke: Invoke, calib: Path) -> None:
    done = invoke("hetcal", calib, QUICK, "--on-missing drop --json")
    assert done.result()["fit"]["rows"] == 1200


def test_dry_run_writes_nothing(invoke: Invoke, calib: Path) -> None:
    model = Path("m.json")
    done = invoke("hetcal", calib, "--features k*,x --dry-run -o", model)
    assert done.code == 0
    assert "feature 1: column 'kind'" in done.stdout.decode()
    assert "choose by cross-validation depth" in done.stdout.decode()
    assert not model.exists()


def test_simulated_partitions(invoke: Invoke) -> None:
    frame = invoke("simulate", "partitions", "--rows 500 --seed 1 -o rows.parquet").result()
    assert frame.height == 500
    assert frame.columns[:4] == ["id", "label", "score", "feature_pattern"]
    kept = invoke("simulate", "partitions", "--rows 3 --kind training --keep label,score")
    assert kept.stdout.decode().splitlines()[0] == "label,score"
    assert invoke("hetcal", "rows.parquet", "-q --json").code == 0  # features are found by default
    assert invoke("simulate", "partitions", "--rows 3 --pattern-weight 1e9").code == 2


@pytest.mark.parametrize("kind", ["isotonic", "histogram"])
def test_steps_rise_where_the_line_before_them_falls(kind: str, invoke: Invoke) -> None:
    random = np.random.default_rng(5)
    score, x = random.random(400), random.normal(size=400)
    frame = pl.DataFrame({"score": score, "label": random.random(400) > score, "feature_a": x})
    path = write(frame, "rows.csv")
    found = invoke("hetcal", path, f"--map {kind} --max-depth 1 -q -o", "m.json").result()
    assert found["precalibrate"]["a"] < 0
    rows = invoke("apply", "m.json", path, "-q -o o.csv").result()
    low, high = rows.filter(pl.col("score") < 0.3), rows.filter(pl.col("score") > 0.7)
    assert low["calibrated"].mean() > 0.6 > 0.4 > high["calibrated"].mean()


def in_time(rows: pl.DataFrame, options: str, invoke: Invoke) -> None:
    """Fit on rows that follow one another, and read the model."""
    path = write(rows.with_columns(t=pl.int_range(pl.len())), "rows.parquet")
    assert invoke("hetcal", path, f"{options} --time t -q -o", "m.json").code == 0
    assert invoke("show", "m.json").code == 0


@pytest.mark.parametrize("count", [12, 40])
def test_a_forest_of_a_few_rows_in_time_can_be_read(count: int, invoke: Invoke) -> None:
    places = range(count)
    columns = {
        "score": [(place * 7 % count + 0.5) / count for place in places],
        "label": [int(place * 5 % 7 > 2) for place in places],
        "feature_x": [float(place * 11 % count) for place in places],
    }
    in_time(pl.DataFrame(columns), "--partition forest", invoke)


@pytest.mark.parametrize("partition", ["tree", "forest --trees 3", "boosted --trees 3", "auto"])
def test_rows_without_weight_make_no_fold(partition: str, invoke: Invoke) -> None:
    random, weight = np.random.default_rng(0), (np.arange(600) >= 100).astype(int)
    score = random.random(600).round(3)
    label = (random.random(600) < score).astype(int)
    columns = {"score": score, "label": label, "feature_x": random.normal(size=600), "w": weight}
    in_time(pl.DataFrame(columns), f"--weight w --partition {partition}", invoke)


@pytest.fixture
def weighted() -> Path:
    """Return rows whose weights are 0 to 3, beside more rows of weight 0."""
    counts = pl.Series("w", np.random.default_rng(2).integers(0, 4, 600))
    rows = sample(600).with_columns(counts)
    nothing = rows.filter(pl.col("x") > 0).head(150).with_columns(w=pl.lit(0, pl.Int64))
    write(pl.concat([rows, nothing]), "more.parquet")
    return write(rows, "rows.parquet")


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


def test_the_score_keeps_its_name_among_features(invoke: Invoke) -> None:
    path = write(sample(600).rename({"x": "(score)"}), "rows.parquet")
    line = ["hetcal", path, "--features (score) --min-leaf 100 --max-depth 1"]
    assert invoke(*line, "-o m.json").code == 0
    invoke(*line, "--partition boosted").refused(2, "'(score)' is both --partition boosted and")


#: Rows that fit where memory is short.
FEW = 64


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(rows(), tmp_path_factory.mktemp("memory") / "rows.parquet")


@pytest.mark.parametrize(
    "case", ["tree chosen", "forest", "tree of isotonic", "tree in time", "boosted in time"]
)
def test_what_was_in_memory_before_does_not_show(
    case: str, file: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(self: Arrays, shape: Any, dtype: Any) -> Any:
        array = np.empty(shape, dtype)
        array.fill(np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).max)
        return array

    made = tmp_path / "plain.json", tmp_path / "filled.json"
    for path in made:
        assert invoke(*words(FITS[case], tmp_path, file), "-q -o", path).code == 0
        monkeypatch.setattr(Arrays, "empty", filled)
    assert made[1].read_bytes() == made[0].read_bytes()


@pytest.mark.parametrize("partition", ["tree", "forest --trees 3"])
def test_training_rows_that_do_not_fit_grow_the_same_trees(
    partition: str, file: Path, invoke: Invoke
) -> None:
    train = write(rows(350)[50:], "train.parquet")
    line = ("hetcal", file, FEATURES, "--train", train, f"--partition {partition} -q -o")
    made = Path("plain.json"), Path("little.json")
    assert invoke(*line, made[0]).code == 0
    with little_memory(FEW) as budget:
        assert invoke(*line, made[1], *budget).code == 0
    assert made[1].read_bytes() == made[0].read_bytes()


def test_what_all_rows_show_is_said_as_in_memory(invoke: Invoke) -> None:
    label = pl.when(pl.col("amount") > 40).then(None).otherwise("label")
    path = write(rows().with_columns(score=1.0 - pl.col("score"), label=label), "r.csv")
    line = ("hetcal", path, FEATURES, "--max-depth 2 --unlabelled drop -o m.json")
    plain = invoke(*line)
    with little_memory(FEW) as budget:
        little = invoke(*line, *budget)
    told, same = (
        [said for said in done.stderr.splitlines() if said.startswith("Warning")]
        for done in (plain, little)
    )
    assert len(told) == 2 and "higher scores go with fewer positives" in plain.stderr
    assert "rows without a value dropped (--unlabelled drop)" in plain.stderr
    assert told == same


def test_values_that_cannot_be_used_are_counted_over_all_rows(invoke: Invoke) -> None:
    high = pl.col("amount") > 40
    for frame, said in (
        (rows().with_columns(x=pl.when(high).then(np.inf).otherwise("x")), "in {} rows"),
        (rows().filter(pl.col("label") == 0), "no row is positive"),
    ):
        path = write(frame, "rows.parquet")
        with little_memory(FEW) as budget:
            done = invoke("hetcal", path, FEATURES, *budget, "-q")
        done.refused(3, said.format(rows().filter(high).height))
