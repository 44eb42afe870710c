"""``--partial`` and ``calibkit merge``: any split, any order, any grouping gives what all rows give."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from pyarrow import feather

from calibkit.registry.states import read_state
from tests.cli.score_files import simulate, write
from tests.conftest import ROOT, Invoke, clean_environment, make

TREE = "--features uncertainty,x --max-depth 2 --min-leaf 30 --shrinkage 10"
#: Command lines without inputs; test_one_program.py merges every kind of fit.
COMMANDS = {
    "boundary": "boundary --recall 0.4 --groups user --tag team=fraud",
    "boundary, edges": "boundary --fpr 0.1 --method exact --uncertainty-edges edges.json",
    "evaluate": "evaluate --score score --score other --by weight --top 0.1",
    "evaluate, decisions": "evaluate --boundary model.json --grid grid.parquet --metrics auc,precision",
    "bin": "bin --score-bins 4 --uncertainty-bins 2",
    "hetcal, train": f"hetcal {TREE} --train train.parquet",
    "alpha-cal, lists": "alpha-cal --probs probs --counts counts",
}
STRICT = "--precision 0.9 --method exact"
EXACT = "--precision 0.7 --method exact"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all rows, three shards of them in other formats and orders, and states."""
    found = tmp_path_factory.mktemp("merge")
    frame = simulate(900, seed=3).with_columns(pl.col("score").round(2))
    frame = frame.with_columns(
        other=1 - pl.col("score"),
        user=pl.col("id") % 60,
        x=pl.Series(np.random.default_rng(1).choice(["a", "b", "c"], 900)),
        probs=pl.concat_list(1 - pl.col("score"), "score"),
        counts=pl.concat_list("weight", "label").list.to_array(2),
    )
    write(frame, found / "all.parquet")
    write(simulate(500, seed=7).with_columns(x=pl.lit("a")), found / "train.parquet")
    mixed = frame.sample(fraction=1, shuffle=True, seed=1)
    write(mixed[:300], found / "a.parquet")
    write(mixed[300:350], found / "b.parquet")
    write(mixed[300:350].drop("probs", "counts"), found / "b.csv")
    write(mixed[350:], found / "c.arrow")
    (found / "edges.json").write_text("[0.9, 2.5]")
    make(found / "model.json", "boundary", found / "all.parquet", EXACT)
    make(found / "grid.parquet", "bin", found / "all.parquet", "--score-bins 3")
    return found


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.mark.few(5)
@pytest.mark.parametrize("name", COMMANDS)
def test_any_grouping_of_shards_gives_what_all_rows_give(
    name: str, tmp_path: Path, invoke: Invoke
) -> None:
    command, options = COMMANDS[name].split(" ", 1)
    suffix = ".parquet" if command == "bin" else ".json"
    whole, merged = tmp_path / f"whole{suffix}", tmp_path / f"merged{suffix}"
    fitted = invoke(command, "all.parquet", options, "-q", "-o", whole)
    assert fitted.code == 0
    second = "b.parquet" if "lists" in name else "b.csv"
    a, b, c = (
        make(tmp_path / f"{shard}.state", command, shard, options, "--partial")
        for shard in ("a.parquet", second, "c.arrow")
    )
    half, other = tmp_path / "half.state", tmp_path / "other.state"
    assert make(half, "merge", c, a).read_bytes() == make(other, "merge", a, c).read_bytes()
    once = make(tmp_path / "once.state", "merge", a, b, c).read_bytes()
    assert make(other, "merge", b, half).read_bytes() == once
    done = invoke("merge", b, half, "--expect", "3", "-q", "-o", merged)
    assert (done.code, done.stderr) == (0, fitted.stderr)
    assert merged.read_bytes() == whole.read_bytes()


def test_a_merged_model_names_the_files_of_all_parts_and_of_training(tmp_path: Path) -> None:
    fit = (f"{TREE} --train train.parquet --provenance names",)
    states = [
        make(tmp_path / f"{shard}.state", "hetcal", shard, *fit, "--partial")
        for shard in ("c.arrow", "b.csv", "a.parquet")
    ]
    merged = json.loads(make(tmp_path / "merged.json", "merge", *states).read_bytes())
    files = ["a.parquet", "b.csv", "c.arrow", "train.parquet"]
    assert merged["provenance"]["files"] == files


@pytest.mark.parametrize(
    "line", ["boundary --recall 0.5 --method exact --folds 0", "calibrate --method beta"]
)
def test_a_merged_fit_names_the_makers_that_a_fit_names(line: str, tmp_path: Path) -> None:
    frame = simulate(200, seed=1).with_columns(site=pl.Series(["x", "y"] * 100))
    note = {"score": "00000000000000aa", "weight": "00000000000000bb", "site": "00000000000000cc"}
    command, *options = [*line.split(), "--weight", "weight", "--by", "site"]
    for name, part in {"rows": frame, "0": frame[::2], "1": frame[1::2]}.items():
        part.write_parquet(
            tmp_path / f"{name}.parquet", metadata={"calibkit.made_by": json.dumps(note)}
        )
    states = [
        make(tmp_path / f"{k}.state", command, tmp_path / f"{k}.parquet", *options, "--partial")
        for k in range(2)
    ]
    whole = make(tmp_path / "whole.json", command, tmp_path / "rows.parquet", *options)
    assert make(tmp_path / "merged.json", "merge", *states).read_bytes() == whole.read_bytes()
    columns = json.loads(whole.read_bytes())["columns"]
    found = [columns[role]["made_by"] for role in ("score", "weight", "by")]
    assert found == list(note.values())


@pytest.mark.parametrize(
    ("line", "alone"),
    [
        ("boundary --precision 0.5 --folds 0 --positive yes", "positive class"),
        ("boundary --precision 0.5 --folds 0 --positive yes --weight weight", "weight 0"),
        ("calibrate --positive yes", "positive class"),
        ("bin --positive yes --weight weight", "weight 0"),
        ("vad --members score,id --link identity --scale raw --weight weight",
         "column 'weight': weight 0 in all 20 rows"),
        ("hetcal --features id --max-depth 1 --min-leaf 5 --positive yes", "positive class"),
    ],
)  # fmt: skip
def test_a_shard_may_lack_what_all_rows_have(
    line: str, alone: str, tmp_path: Path, invoke: Invoke
) -> None:
    frame = simulate(60, seed=1).with_columns(
        label=pl.Series(["no"] * 20 + ["no", "yes"] * 20), weight=pl.Series([0] * 20 + [2] * 40)
    )
    command, *rest = line.split()
    suffix = ".parquet" if command == "bin" else ".json"
    states = []
    for name, rows in {"none": frame[:20], "some": frame[20:], "all": frame}.items():
        path = write(rows, tmp_path / f"{name}.parquet")
        states.append(make(tmp_path / f"{name}.state", command, path, *rest, "--partial"))
    whole = make(tmp_path / f"whole{suffix}", command, tmp_path / "all.parquet", *rest)
    merged = make(tmp_path / f"merged{suffix}", "merge", *states[:2])
    assert merged.read_bytes() == whole.read_bytes()
    invoke("merge", states[0], "-q", "-o", tmp_path / f"alone{suffix}").refused(3, alone)


def test_a_folder_of_inputs_becomes_a_folder_of_states(tmp_path: Path, invoke: Invoke) -> None:
    line, out = ["calibrate", "a.parquet", "c.arrow", "--json"], tmp_path / "states"
    invoke(*line, "-o", f"{out}/").refused(2, "leave --json out")
    assert invoke(*line[:-1], "-o", f"{tmp_path}/models/").code == 0
    assert {path.name for path in (tmp_path / "models").iterdir()} == {"a.json", "c.json"}
    said = invoke(*line, "--partial", "-o", f"{out}/")
    assert (said.code, json.loads(said.stdout)["rows"]) == (0, 850)
    assert sorted(json.loads(said.stdout)["states"]) == [f"{out}/a.state", f"{out}/c.state"]
    done = invoke("merge", out, "--json", "-o", tmp_path / "both.state")
    assert json.loads(done.stdout)["shards"] == 2
    done = invoke("merge", out, "-o", tmp_path / "both.state")
    assert (done.code, done.stdout) == (0, b"")
    piped = invoke("calibrate", "a.parquet", "--partial", "-q", "-o", "-")
    assert piped.stdout == (out / "a.state").read_bytes()
    assert invoke("merge", out, "-q").result()["kind"] == "calibrator"


@pytest.mark.parametrize("line", [f"hetcal a.parquet {TREE}", "calibrate a.parquet"])
def test_a_state_from_standard_input(
    line: str, tmp_path: Path, command: Callable[..., CompletedProcess[bytes]]
) -> None:
    made = command(*line.split(), "--partial", "-q", "-o", "-")
    assert (made.returncode, made.stderr) == (0, b"")
    there = command("merge", "-", "-q", "-o", tmp_path / "there.json", input=made.stdout)
    assert there.returncode == 0, there.stderr
    here = make(tmp_path / "here.json", *line.split())
    assert here.read_bytes() == (tmp_path / "there.json").read_bytes()


def test_a_state_by_a_pipe_is_refused_as_one(tmp_path: Path, invoke: Invoke) -> None:
    end, start = os.pipe()
    os.close(start)
    invoke("merge", f"/dev/fd/{end}", "-q", "-o", tmp_path / "a.json").refused(2, "by -")
    os.close(end)


@pytest.fixture(scope="module")
def odd_states(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of states of which some do not go together, and some are none."""
    found = tmp_path_factory.mktemp("states")
    frame = simulate(50).with_columns(pl.col("score").cast(pl.Float32))
    for name, command in {
        "a": ["boundary", folder / "a.parquet", EXACT],
        "b": ["boundary", folder / "b.csv", EXACT],
        "stricter": ["boundary", folder / "b.csv", STRICT],
        "calibrated": ["calibrate", folder / "b.csv"],
        "narrow": ["boundary", write(frame, found / "f.parquet"), EXACT],
    }.items():
        make(found / f"{name}.state", *command, "--partial")
    make(found / "half.state", "merge", found / "a.state", found / "b.state")
    (found / "torn.state").write_bytes((found / "a.state").read_bytes()[:-200])
    (found / "model.json").write_bytes((folder / "model.json").read_bytes())
    feather.write_feather(pl.DataFrame({"score": [1.0]}).to_arrow(), str(found / "plain.state"))
    state = read_state(str(found / "a.state"))
    damages: dict[str, dict[str, Any]] = {
        "newer": {"version": 3},
        "old": {"version": 1},
        "odd": {"kind": "boundry"},
        "flipped": {},
        "cooked": {"payload": {**state.header.payload, "rows_read": 299}},
    }
    for name, changed in damages.items():
        header, table = msgspec.structs.replace(state.header, **changed), state.table
        if name == "flipped":
            table = table.with_columns(pl.col("uncertainty") * (1 + 2**-52))
        (found / f"{name}.state").write_bytes(type(state)(header, table).to_bytes())
    return found


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("a.state a.state", 3, "the same shard of 300 rows is in"),
        ("half.state a.state", 3, "the same shard of 300 rows"),
        ("a.state b.state --expect 3", 3, "2 states with 2 shards in all, but --expect 3: a part"),
        ("a.state b.state --expect 1", 3, "too many parts"),
        ("a.state stricter.state", 3, "precision is '0.9' here, but '0.7' in"),
        ("a.state calibrated.state", 3, "is one of `calibkit boundary`"),
        ("a.state narrow.state", 3, "dtypes.score is 'Float32' here, but 'Float64'"),
        ("model.json", 3, "not a calibkit state"),
        ("model.json", 3, "truncated one (Not an Arrow file); make it again"),
        ("plain.state", 3, "an Arrow file, but not a calibkit state"),
        ("torn.state", 3, "truncated"),
        ("old.state", 3, "was written by calibkit 0.1: make it again"),
        ("newer.state", 3, "version 3 of 'boundary' states is unknown here"),
        ("odd.state", 3, "unknown kind of state 'boundry' (did you mean 'boundary'?)"),
        ("flipped.state", 3, "its rows are not those that were written"),
        ("cooked.state", 3, "it has not as many rows as it says"),
        ("nowhere.state", 2, "no such file"),
    ],
)
def test_states_that_do_not_go_together_are_refused_by_name(
    arguments: str,
    code: int,
    said: str,
    odd_states: Path,
    tmp_path: Path,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(odd_states)
    invoke("merge", *arguments.split(), "-o", tmp_path / "out.json").refused(code, said)


def test_a_small_budget_is_said_in_model_and_metrics(tmp_path: Path, invoke: Invoke) -> None:
    rows = write(simulate(80_000), tmp_path / "rows.parquet")
    done = invoke("calibrate", rows, "--memory 1MB --method isotonic -o", tmp_path / "c.json")
    done.succeeded("80,000 rows do not fit in memory: rounded down scores to")
    assert done.result()["fit"]["resolution"]["score_bits"] > 8
    metrics = make(tmp_path / "m.json", "evaluate", rows, "--memory 1MB --no-intervals")
    found = json.loads(metrics.read_text())
    auc = found["metrics"]["score"]["all"]["auc"]
    sure = found["resolution"]["ranges"]["score"]["all"]["auc"]
    assert sure["low"] <= auc <= sure["high"] < sure["low"] + 1e-3


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("line", "alike"),
    [
        ("calibrate --method isotonic --weight weight", True),
        ("evaluate --no-intervals --metrics auc,brier", True),
        ("boundary --precision 0.7 --method exact --folds 0", False),
        ("boundary --recall 0.7 --uncertainty-edges edges.json --folds 2", True),
    ],
)
def test_coarse_states_merge_into_what_one_run_with_the_same_budget_gives(
    line: str, alike: bool, tmp_path: Path
) -> None:
    command, *options = [*line.split(), "--memory", "1MB"]
    frame = simulate(150_000, seed=11)
    files: list[Path] = []
    states: list[Path] = []
    for part in (frame[:70_000], frame[70_000:110_000], frame[110_000:]):
        # The first has no room alone, the others have.
        files.append(write(part, tmp_path / f"{len(files)}.parquet"))
        state = files[-1].with_suffix(".state")
        states.append(make(state, command, files[-1], *options, "--partial"))
    a, b, c = states
    half = make(tmp_path / "half.state", "merge", c, b, "--memory 1MB")
    found = {
        make(tmp_path / "merged.json", "merge", *order, "--memory 1MB").read_bytes()
        for order in ((a, b, c), (half, a))
    }
    assert len(found) == 1
    if alike:
        assert found == {make(tmp_path / "whole.json", command, *files, *options).read_bytes()}
    assert b'"score_bits"' in found.pop()


def test_states_of_weights_that_cannot_be_summed_as_they_are(
    tmp_path: Path, invoke: Invoke
) -> None:
    frame = simulate(70_000).with_columns(pl.col("weight") / 10 + 0.1)
    rows = write(frame, tmp_path / "rows.parquet")
    fit = ["evaluate", rows, "--weight weight --no-intervals -q"]
    small = [*fit, "--memory", "1MB"]
    refused = invoke(*small, "--partial", "-o", tmp_path / "rows.state")
    refused.refused(5, "no multiples of 1/1,048,576")
    coarse, exact = (  # one run finds a unit for all of them
        json.loads(make(tmp_path / "m.json", *command).read_text())["metrics"]["score"]["all"]
        for command in (small, fit)
    )
    assert coarse["auc"] == pytest.approx(exact["auc"], rel=1e-5)
    assert coarse["brier"] == pytest.approx(exact["brier"], rel=1e-3)


def test_the_recipe_for_spark_makes_states_of_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    recipe: dict[str, Any] = {}
    exec("\n".join(code), recipe)
    command = [sys.executable, "-m", "calibkit_cli.main", *recipe["FIT"][1:]]
    recipe["FIT"] = [*command, "--uncertainty", "uncertainty"]
    monkeypatch.setenv("PYTHONPATH", clean_environment()["PYTHONPATH"])
    rows = pl.read_parquet("all.parquet").select("score", "uncertainty", "label")
    found = [
        batch["state"][0].as_py()
        for part in (rows[:500], rows[500:500], rows[500:])
        for batch in recipe["to_states"](iter(part.to_arrow().to_batches(max_chunksize=200)))
    ]
    recipe["write_states"](found, tmp_path / "states")
    merged = make(tmp_path / "merged.json", "merge", tmp_path / "states", "--expect 2")
    whole = make(tmp_path / "whole.json", "boundary", "all.parquet", STRICT)
    assert merged.read_bytes() == whole.read_bytes()


def test_states_of_votes_name_what_is_wrong(tmp_path: Path, invoke: Invoke) -> None:
    part, state = tmp_path / "part.csv", tmp_path / "part.state"
    columns = "prob_a,prob_b,count_a,count_b,own_a,own_b"
    judged = ("--counts count_* --class-disagreement own_* --partial -q -o", state)
    part.write_text(f"{columns}\n0.25,0.75,0,0,0.5,0.5\n0.5,0.5,2,1,1.5,0.5\n")
    invoke("evaluate", part, *judged).refused(3, "own_a", "1.5")
    part.write_text(f"{columns}\n0.25,0.75,0,0,0.5,0.5\n0.5,0.5,0,0,1.5,0.5\n")
    assert invoke("evaluate", part, *judged).code == 0  # other shards may have votes
    invoke("merge", state).refused(3, "part.state", "no vote in 2 rows")


def test_a_state_knows_makers_of_columns_that_its_model_does_not_read(tmp_path: Path) -> None:
    rows = write(simulate(200, seed=3), tmp_path / "rows.parquet")
    maker = make(tmp_path / "platt.json", "calibrate", rows, "--method platt")
    made = make(tmp_path / "made.parquet", "apply", maker, rows)
    fit = ("--precision 0.5 --method st --uncertainty calibrated",)
    state = make(tmp_path / "part.state", "boundary", made, *fit, "--partial")
    assert read_state(str(state)).header.shards[0].files == ()  # unless --provenance names
    merged = make(tmp_path / "merged.json", "merge", state)
    assert merged.read_bytes() == make(tmp_path / "whole.json", "boundary", made, *fit).read_bytes()
    part = make(tmp_path / "own.state", "calibrate", rows, "--method platt --partial")
    assert read_state(str(part)).header.shards[0].files == ()


def test_text_that_is_whole_in_one_part_and_not_in_another(tmp_path: Path, invoke: Invoke) -> None:
    states = []
    for name, values in (("a", "1,2,1,3"), ("b", "1.5,2.5,1.5,2.5")):
        rows = tmp_path / f"{name}.csv"
        lines = [f"0.{place},{place % 2},{own}" for place, own in enumerate(values.split(","), 1)]
        rows.write_text("\n".join(["score,label,v", *lines, ""]))
        fit = ("boundary", rows, "--precision 0.5 --method st --value v --folds 0 --partial")
        states.append(make(rows.with_suffix(".state"), *fit))
    done = invoke("merge", *states, "-o", tmp_path / "m.json")
    done.refused(3, "column 'v' holds Float64 here, but Int64 in", "alike in all parts")


def test_rows_that_cannot_be_used_are_refused_where_they_are(
    tmp_path: Path, invoke: Invoke
) -> None:
    bad = pl.read_parquet("a.parquet").with_columns(
        score=pl.when(pl.int_range(300) == 250).then(2.0).otherwise("score")
    )
    path, made = write(bad, tmp_path / "bad.parquet"), tmp_path / "bad.state"
    invoke("hetcal", path, TREE, "--partial -o", made).refused(3, "bad.parquet", "row 251")
    # A shard may be of one class, all of them may not.
    write(pl.read_parquet("a.parquet").filter(label=0), path)
    state = make(made, "hetcal", path, TREE, "--partial")
    invoke("merge", state, "-o", tmp_path / "one.json").refused(3, "no row is positive")
