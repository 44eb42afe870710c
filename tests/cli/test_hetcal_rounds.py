"""``calibkit hetcal`` where rows do not fit: in one process, by plans, on a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.library.test_hetcal_rounds import assert_like, rows_of

OPTIONS = ["--features", "x,kind", "--groups", "g", "--max-depth", "1", "--min-leaf", "900", "-q"]
TIGHT = ["--memory", "1MB"]

Invoke = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("rounds")
    frame = rows_of(8300, 7).with_columns(day=pl.lit(date(2026, 1, 1)) + pl.duration(days="g"))
    frame.write_parquet(made / "rows.parquet", row_group_size=1000)
    (made / "parts").mkdir()
    for place in range(2):
        frame[place::2].write_csv(made / "parts" / f"{place}.csv")
    return made


def test_all_ways_through_the_rounds_give_one_model(
    folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    made = {name: tmp_path / f"{name}.json" for name in ("memory", "rounds", "merged")}
    rows, parts = folder / "rows.parquet", sorted((folder / "parts").iterdir())
    assert invoke("hetcal", rows, *OPTIONS, "-o", made["memory"]).code == 0
    done = invoke("hetcal", rows, *OPTIONS, *TIGHT, "-v", "-o", made["rounds"])
    assert done.code == 0 and "round 5 over 8,300 rows" in done.stderr, done.stderr
    found, expected = (json.loads(made[name].read_text()) for name in ("rounds", "memory"))
    assert_like(found, expected)
    by_plans(invoke, parts, OPTIONS, made["merged"])
    merged, plan, state = json.loads(made["merged"].read_text()), tmp_path / "plan.json", "0.state"
    assert merged["maps"] == found["maps"] and merged["fit"] == found["fit"]
    again = ["--plan", plan, "--partial", "-q", "-o", tmp_path / state]
    done = invoke("hetcal", parts[0], *again, "--max-depth", "3")
    assert done.code == 2 and "--max-depth is 3, but 1" in done.stderr
    done = invoke("hetcal", parts[0], *again, "--train", rows)
    assert done.code == 2 and "the plan has the trees of --train" in done.stderr
    done = invoke("hetcal", rows, *again)
    assert done.code == 3 and "no shard of the plan" in done.stderr


def test_forests_go_through_the_rounds_too(folder: Path, tmp_path: Path, invoke: Invoke) -> None:
    made = {name: tmp_path / f"{name}.json" for name in ("rounds", "merged")}
    rows, parts = folder / "rows.parquet", sorted((folder / "parts").iterdir())
    forest = ["--partition", "forest", "--trees", "2", "--shrinkage", "100"]
    done = invoke("hetcal", rows, *OPTIONS, *forest, *TIGHT, "-o", made["rounds"])
    assert done.code == 0, done.stderr
    by_plans(invoke, parts, [*OPTIONS, *forest], made["merged"])
    found, merged = (json.loads(made[name].read_text()) for name in ("rounds", "merged"))
    assert merged["partitions"] == found["partitions"] and merged["fit"] == found["fit"]
    assert invoke("show", made["rounds"]).code == 0
    applied = tmp_path / "applied.parquet"
    assert invoke("apply", made["rounds"], rows, "-o", applied, "-q").code == 0
    assert pl.read_parquet(applied)["calibrated"].is_between(0.0, 1.0).all()


def by_plans(invoke: Invoke, parts: list[Path], options: list[Any], output: Path) -> None:
    """Fit shards by plans, until the output is there."""
    more: list[Any] = options
    for _ in range(40):
        states = [output.parent / f"{part.stem}.state" for part in parts]
        for part, state in zip(parts, states, strict=True):
            done = invoke("hetcal", part, *more, *TIGHT, "--partial", "-o", state)
            assert done.code == 0, done.stderr
        done = invoke("merge", *states, *TIGHT, "-q", "-o", output)
        assert done.code == 0, done.stderr
        if output.exists():
            return
        more = ["--plan", output.parent / "plan.json", "-q"]


def test_isotonic_maps_and_folds_in_time_by_plans(
    folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    made = {name: tmp_path / f"{name}.json" for name in ("memory", "rounds", "merged")}
    rows, parts = folder / "rows.parquet", sorted((folder / "parts").iterdir())
    size = ["--max-depth", "1", "--min-leaf", "900", "--shrinkage", "30", "-q"]
    options = ["--features", "x,kind", "--time", "day", "--map", "isotonic", *size]
    for name, more in (("memory", []), ("rounds", TIGHT)):
        assert invoke("hetcal", rows, *options, *more, "-o", made[name]).code == 0
    by_plans(invoke, parts, options, made["merged"])
    expected, found, merged = (json.loads(path.read_text()) for path in made.values())
    assert_like(found, expected)
    assert merged["maps"] == found["maps"] and merged["fit"] == found["fit"]


def test_training_rows_that_do_not_fit_grow_the_tree(
    folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    made = {name: tmp_path / f"{name}.json" for name in ("memory", "rounds", "merged")}
    rows, parts = folder / "rows.parquet", sorted((folder / "parts").iterdir())
    train = tmp_path / "train.parquet"
    rows_of(8400, 9).drop("g").write_parquet(train)
    options = [*OPTIONS, "--train", train]
    assert invoke("hetcal", rows, *options, "-o", made["memory"]).code == 0
    done = invoke("hetcal", rows, *options, *TIGHT, "-v", "-o", made["rounds"])
    assert done.code == 0 and "over 8,400 rows" in done.stderr, done.stderr
    found, expected = (json.loads(made[name].read_text()) for name in ("rounds", "memory"))
    assert_like(found, expected)
    by_plans(invoke, parts, options, made["merged"])
    merged = json.loads(made["merged"].read_text())
    assert merged["maps"] == found["maps"] and merged["fit"] == found["fit"]
    assert merged["tree"] == found["tree"]


def test_trees_by_the_auc_go_through_the_rounds(
    folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    made = {name: tmp_path / f"{name}.json" for name in ("memory", "rounds", "merged")}
    rows, parts = folder / "rows.parquet", sorted((folder / "parts").iterdir())
    options = [*OPTIONS, "--criterion", "auc"]
    assert invoke("hetcal", rows, *options, "-o", made["memory"]).code == 0
    assert invoke("hetcal", rows, *options, *TIGHT, "-o", made["rounds"]).code == 0
    by_plans(invoke, parts, options, made["merged"])
    models = {name: json.loads(path.read_text()) for name, path in made.items()}
    assert_like(models["rounds"], models["memory"])
    assert models["rounds"]["tree"] == models["memory"]["tree"] == models["merged"]["tree"]
    assert models["rounds"]["maps"] == models["merged"]["maps"]


def test_what_all_rows_show_is_said_as_in_memory(tmp_path: Path, invoke: Invoke) -> None:
    frame = rows_of(8300, 7)
    label = frame["label"]
    line = ["hetcal", tmp_path / "rows.parquet", *OPTIONS, "--unlabelled", "drop"]
    for values in (label * 0, label * 0 + 1, label.cast(pl.Float64) * float("nan")):
        frame.with_columns(values.alias("label")).write_parquet(tmp_path / "rows.parquet")
        said = invoke(*line, "-o", tmp_path / "m.json")
        found = invoke(*line, *TIGHT, "-o", tmp_path / "m.json")
        assert (said.code, said.stderr) == (found.code, found.stderr)
        assert said.code == 3 and "rows.parquet: " in said.stderr
