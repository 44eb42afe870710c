"""``--partial`` and ``calibkit merge``: any split, any order, any grouping gives what all rows give."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, ipc

from calibkit.errors import ModelError
from calibkit.files.sinks import arrow_file
from calibkit.files.sources import Source
from calibkit.files.streams import scratched
from calibkit.methods.calibrators import run
from calibkit.models.model import canonical_text
from calibkit.options.calibrate import CalibrateOptions
from calibkit.registry.states import read_state, state_of
from calibkit.summaries.states import KEY
from tests.cli.score_files import simulate, write
from tests.conftest import ROOT, Invoke, clean_environment, make

COMMANDS = {
    "boundary": ["--precision", "0.7", "--method", "exact"],
    "boundary, auto, groups": ["--recall", "0.4", "--groups", "user", "--tag", "team=fraud"],
    "boundary, edges": ["--fpr", "0.1", "--method", "exact", "--uncertainty-edges", "EDGES"],
    "calibrate": ["--method", "isotonic", "--weight", "weight"],
    "evaluate": ["--score", "score", "--score", "other", "--by", "weight", "--top", "0.1"],
    "evaluate, decisions": ["--boundary", "MODEL", "--grid", "GRID", "--metrics", "auc,precision"],
    "bin": ["--score-bins", "4", "--uncertainty-bins", "2"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all rows, and with three shards of them in other formats and orders."""
    found = tmp_path_factory.mktemp("merge")
    frame = simulate(900, seed=3).with_columns(pl.col("score").round(2))
    frame = frame.with_columns(other=1 - pl.col("score"), user=pl.col("id") % 60)
    write(frame, found / "all.parquet")
    mixed = frame.sample(fraction=1, shuffle=True, seed=1)
    write(mixed[:300], found / "a.parquet")
    write(mixed[300:350], found / "b.csv")
    write(mixed[350:], found / "c.arrow")
    (found / "edges.json").write_text("[0.9, 2.5]")
    rows = found / "all.parquet"
    make(found / "model.json", "boundary", rows, "--precision 0.7 --method exact")
    make(found / "grid.parquet", "bin", rows, "--score-bins 3")
    return found


def options_of(name: str, folder: Path) -> list[str]:
    files = {"EDGES": "edges.json", "MODEL": "model.json", "GRID": "grid.parquet"}
    return [str(folder / files[text]) if text in files else text for text in COMMANDS[name]]


def make_states(
    name: str, folder: Path, out: Path, invoke: Invoke, *more: object
) -> dict[str, Path]:
    """Return the states of the shards, by name."""
    states = {}
    for shard in ("a.parquet", "b.csv", "c.arrow"):
        states[shard[0]] = out / f"{shard[0]}.state"
        command = [name.partition(",")[0], folder / shard, *options_of(name, folder), *more]
        done = invoke(*command, "--partial", "-q", "-o", states[shard[0]])
        assert (done.code, done.stderr) == (0, "")
    return states


@pytest.mark.few(3)
@pytest.mark.parametrize("name", COMMANDS)
def test_any_grouping_of_shards_gives_what_all_rows_give(
    name: str, folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    command = name.partition(",")[0]
    suffix = ".parquet" if command == "bin" else ".json"
    whole, merged = tmp_path / f"whole{suffix}", tmp_path / f"merged{suffix}"
    fitted = invoke(command, folder / "all.parquet", *options_of(name, folder), "-q", "-o", whole)
    assert fitted.code == 0
    states = make_states(name, folder, tmp_path, invoke)
    half, other = tmp_path / "half.state", tmp_path / "other.state"
    assert invoke("merge", states["c"], states["a"], "-q", "-o", half).code == 0
    assert invoke("merge", states["a"], states["c"], "-q", "-o", other).code == 0
    assert half.read_bytes() == other.read_bytes()
    again, once = tmp_path / "again.state", tmp_path / "once.state"
    assert invoke("merge", states["b"], half, "-q", "-o", again).code == 0
    assert invoke("merge", states["a"], states["b"], states["c"], "-q", "-o", once).code == 0
    assert again.read_bytes() == once.read_bytes()
    done = invoke("merge", states["b"], half, "--expect", "3", "-q", "-o", merged)
    assert (done.code, done.stderr) == (0, fitted.stderr)
    assert merged.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    "line", ["boundary --recall 0.5 --method exact --folds 0", "calibrate --method beta"]
)
def test_a_merged_fit_names_the_makers_that_a_fit_names(
    line: str, tmp_path: Path, invoke: Invoke
) -> None:
    frame = simulate(200, seed=1).with_columns(site=pl.Series(["x", "y"] * 100))
    note = {"score": "00000000000000aa", "weight": "00000000000000bb", "site": "00000000000000cc"}
    rows, states = tmp_path / "rows.parquet", [tmp_path / "0.state", tmp_path / "1.state"]
    command, *options = [*line.split(), *["--weight", "weight", "--by", "site", "-q", "-o"]]
    metadata = {"calibkit.made_by": json.dumps(note)}
    frame.write_parquet(rows, metadata=metadata)
    for place, state in enumerate(states):
        part = tmp_path / f"{place}.parquet"
        frame[place::2].write_parquet(part, metadata=metadata)
        assert invoke(command, part, "--partial", *options, state).code == 0
    whole, merged = tmp_path / "whole.json", tmp_path / "merged.json"
    assert invoke(command, rows, *options, whole).code == 0
    assert invoke("merge", *states, "-q", "-o", merged).code == 0
    assert merged.read_bytes() == whole.read_bytes()
    columns = json.loads(whole.read_bytes())["columns"]
    assert {role: columns[role]["made_by"] for role in ("score", "weight", "by")} == {
        "score": note["score"],
        "weight": note["weight"],
        "by": note["site"],
    }


@pytest.mark.few(4)
@pytest.mark.parametrize("line", ["boundary --precision 0.5 --folds 0", "calibrate", "bin"])
@pytest.mark.parametrize("more", ["--positive yes", "--weight weight"])
def test_a_shard_may_lack_what_all_rows_have(
    line: str, more: str, tmp_path: Path, invoke: Invoke
) -> None:
    frame = simulate(60, seed=1).with_columns(
        label=pl.Series(["no"] * 20 + ["no", "yes"] * 20), weight=pl.Series([0] * 20 + [2] * 40)
    )
    command, *rest = [*line.split(), *more.split(), "-q"]
    rest += [] if "--positive" in rest else ["--positive", "yes"]
    suffix = ".parquet" if command == "bin" else ".json"
    whole, merged = tmp_path / f"whole{suffix}", tmp_path / f"merged{suffix}"
    states = []
    for name, rows in {"none": frame[:20], "some": frame[20:], "all": frame}.items():
        path, state = tmp_path / f"{name}.parquet", tmp_path / f"{name}.state"
        rows.write_parquet(path)
        states.append(state)
        assert invoke(command, path, *rest, "--partial", "-o", state).code == 0
    assert invoke(command, tmp_path / "all.parquet", *rest, "-o", whole).code == 0
    assert invoke("merge", *states[:2], "-q", "-o", merged).code == 0
    assert merged.read_bytes() == whole.read_bytes()
    done = invoke("merge", states[0], "-q", "-o", tmp_path / f"alone{suffix}")
    assert done.code == 3 and ("positive class" in done.stderr or "weight 0" in done.stderr)


def test_a_folder_of_inputs_becomes_a_folder_of_states(
    folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    inputs, out = [folder / "a.parquet", folder / "c.arrow"], tmp_path / "states"
    done = invoke("calibrate", *inputs, "--partial", "--json", "-o", f"{out}/")
    said = json.loads(done.stdout)
    assert (done.code, said["rows"]) == (0, 850)
    assert sorted(said["states"]) == [f"{out}/a.state", f"{out}/c.state"]
    done = invoke("merge", out, "--json", "-o", tmp_path / "both.state")
    assert json.loads(done.stdout)["shards"] == 2
    done = invoke("merge", out, "-o", tmp_path / "both.state")
    assert (done.code, done.stdout) == (0, b"")
    piped = invoke("calibrate", folder / "a.parquet", "--partial", "-q", "-o", "-")
    assert piped.stdout == (out / "a.state").read_bytes()
    done = invoke("merge", out, "-q")
    assert json.loads(done.stdout)["kind"] == "calibrator"


@pytest.mark.parametrize("command", ["boundary", "calibrate", "evaluate"])
def test_a_folder_of_states_is_told_as_json_and_one_of_results_is_not(
    command: str, folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    line = [command, folder / "a.parquet", folder / "c.arrow", *COMMANDS[command]]
    line += ["--json", "-o", f"{tmp_path}/out/"]
    assert len(json.loads(invoke(*line, "--partial").stdout)["states"]) == 2
    refused = invoke(*line)
    assert refused.code == 2 and b"leave --json out" in refused.stdout


@pytest.fixture(scope="module")
def odd_states(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of states of which some do not go together, and some are none."""
    found, options = tmp_path_factory.mktemp("states"), COMMANDS["boundary"]
    frame = simulate(50).with_columns(pl.col("score").cast(pl.Float32))
    strict = ["--precision", "0.9", "--method", "exact"]
    for name, command in {
        "a": ["boundary", folder / "a.parquet", *options],
        "b": ["boundary", folder / "b.csv", *options],
        "stricter": ["boundary", folder / "b.csv", *strict],
        "calibrated": ["calibrate", folder / "b.csv"],
        "narrow": ["boundary", write(frame, found / "f.parquet"), *options],
    }.items():
        make(found / f"{name}.state", *command, "--partial")
    a, b, half = (str(found / f"{name}.state") for name in ("a", "b", "half"))
    make(Path(half), "merge", a, b)
    (found / "torn.state").write_bytes(Path(a).read_bytes()[:-200])
    feather.write_feather(pl.DataFrame({"score": [1.0]}).to_arrow(), str(found / "plain.state"))
    state = read_state(a)
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
        (["a", "a"], 3, "the same shard of 300 rows is in"),
        (["half", "a"], 3, "the same shard of 300 rows"),
        (["a", "b", "--expect", "3"], 3, "2 states with 2 shards in all, but --expect 3: a part"),
        (["a", "b", "--expect", "1"], 3, "too many parts"),
        (["a", "stricter"], 3, "precision is '0.9' here, but '0.7' in"),
        (["a", "calibrated"], 3, "is one of `calibkit boundary`"),
        (["a", "narrow"], 3, "dtypes.score is 'Float32' here, but 'Float64'"),
        (["model.json"], 3, "not a calibkit state"),
        (["model.json"], 3, "truncated one (Not an Arrow file); make it again"),
        (["plain"], 3, "an Arrow file, but not a calibkit state"),
        (["torn"], 3, "truncated"),
        (["old"], 3, "was written by calibkit 0.1: make it again"),
        (["newer"], 3, "version 3 of 'boundary' states is unknown here"),
        (["odd"], 3, "unknown kind of state 'boundry' (did you mean 'boundary'?)"),
        (["flipped"], 3, "its rows are not those that were written"),
        (["cooked"], 3, "it has not as many rows as it says"),
        (["nowhere"], 2, "no such file"),
    ],
)
def test_states_that_do_not_go_together_are_refused_by_name(
    arguments: list[str],
    code: int,
    said: str,
    folder: Path,
    odd_states: Path,
    tmp_path: Path,
    invoke: Invoke,
) -> None:
    typed = [
        text
        if text.isdecimal() or text.startswith("--")
        else folder / text
        if text.endswith(".json")
        else odd_states / f"{text}.state"
        for text in arguments
    ]
    done = invoke("merge", *typed, "-o", tmp_path / "out.json")
    assert done.code == code
    assert said in done.stderr
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["calibrate", "ROWS", "--partial"], "-o NAME.state"),
        (["calibrate", "ROWS", "--partial", "-o", "x.json"], "-o NAME.state"),
        (["calibrate", "ROWS", "-o", "x.state"], "add --partial"),
        (["boundary", "ROWS", "--recall", "0.5", "--partial", "--compare", "-o", "x.state"],
         "--compare"),
        (["boundary", "GRID", "--recall", "0.5", "--partial", "-o", "x.state"], "--partial takes rows"),
        (["boundary", "ROWS", "--recall", "0.5", "--uncertainty-edges", "GRID"], "no edges"),
        (["boundary", "ROWS", "--recall", "0.5", "--uncertainty-edges", "FALLING"], "that rise"),
        (["boundary", "ROWS", "--recall", "0.5", "--uncertainty-bins", "2", "--uncertainty-edges",
          "EDGES"], "makes 3 levels"),
        (["bin", "ROWS", "--order", "score-uncertainty", "--uncertainty-edges", "EDGES"], "anew"),
        (["evaluate", "ROWS", "--partial", "--fail-if", "auc<0.5", "-o", "x.state"], "--fail-if"),
        (["evaluate", "ROWS", "--memory", "some"], "a size such as 500MB"),
        (["merge", "ROWS", "-o", "out/"], "give -o a file"),
    ],
)  # fmt: skip
def test_impossible_command_lines(
    command: list[str],
    said: str,
    folder: Path,
    tmp_path: Path,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "falling.json").write_text("[2, 1]")
    files = {
        "ROWS": folder / "all.parquet",
        "GRID": folder / "grid.parquet",
        "EDGES": folder / "edges.json",
        "FALLING": tmp_path / "falling.json",
    }
    invoke(*(files.get(text, text) for text in command)).refused(2, said)


def test_a_small_budget_is_said_in_model_and_metrics(tmp_path: Path, invoke: Invoke) -> None:
    rows = write(simulate(80_000), tmp_path / "rows.parquet")
    done = invoke("calibrate", rows, "--memory 1MB --method isotonic -o", tmp_path / "c.json")
    done.succeeded("80,000 rows do not fit in memory: rounded down scores to")
    assert json.loads((tmp_path / "c.json").read_text())["fit"]["resolution"]["score_bits"] > 8
    done = invoke("evaluate", rows, "--memory 1MB -q -o", tmp_path / "m.json", "--no-intervals")
    assert done.code == 0
    found = json.loads((tmp_path / "m.json").read_text())
    auc = found["metrics"]["score"]["all"]["auc"]
    sure = found["resolution"]["ranges"]["score"]["all"]["auc"]
    assert sure["low"] <= auc <= sure["high"] < sure["low"] + 1e-3


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("command", "alike"),
    [
        (["calibrate", "--method", "isotonic", "--weight", "weight"], True),
        (["evaluate", "--no-intervals", "--metrics", "auc,brier"], True),
        (["boundary", "--precision", "0.7", "--method", "exact", "--folds", "0"], False),
        (["boundary", "--recall", "0.7", "--uncertainty-edges", "EDGES", "--folds", "2"], True),
    ],
)
def test_coarse_states_merge_into_what_one_run_with_the_same_budget_gives(
    command: list[str], alike: bool, folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    command = [str(folder / "edges.json") if text == "EDGES" else text for text in command]
    frame = simulate(150_000, seed=11)
    cuts = {"a": frame[:70_000], "b": frame[70_000:110_000], "c": frame[110_000:]}
    small = ["--memory", "1MB", "-q", "-o"]
    for name, part in cuts.items():  # the first has no room alone, the others have
        write(part, tmp_path / f"{name}.parquet")
        rows = [command[0], tmp_path / f"{name}.parquet", *command[1:], "--partial"]
        assert invoke(*rows, *small, tmp_path / f"{name}.state").code == 0
    a, b, c = (tmp_path / f"{name}.state" for name in cuts)
    half = tmp_path / "half.state"
    assert invoke("merge", c, b, *small, half).code == 0
    found = set()
    for order in ((a, b, c), (half, a)):
        merged = tmp_path / "merged.json"
        assert invoke("merge", *order, *small, merged).code == 0
        found.add(merged.read_bytes())
    assert len(found) == 1
    if alike:
        whole = tmp_path / "whole.json"
        rows = [tmp_path / f"{name}.parquet" for name in cuts]
        assert invoke(command[0], *rows, *command[1:], *small, whole).code == 0
        assert found == {whole.read_bytes()}
    assert b'"score_bits"' in found.pop()


def test_states_of_weights_that_cannot_be_summed_as_they_are(
    tmp_path: Path, invoke: Invoke
) -> None:
    frame = simulate(70_000).with_columns(pl.col("weight") / 10 + 0.1)
    rows = write(frame, tmp_path / "rows.parquet")
    fit = ["evaluate", rows, "--weight", "weight", "--no-intervals", "-q"]
    small = [*fit, "--memory", "1MB"]
    done = invoke(*small, "--partial", "-o", tmp_path / "rows.state")
    assert (done.code, "no multiples of 1/1,048,576" in done.stderr) == (5, True)
    found = []
    for command in (small, fit):  # one run finds a unit for all of them
        assert invoke(*command, "-o", tmp_path / "m.json").code == 0
        result = json.loads((tmp_path / "m.json").read_text())
        found.append(result["metrics"]["score"]["all"])
    assert found[0]["auc"] == pytest.approx(found[1]["auc"], rel=1e-5)
    assert found[0]["brier"] == pytest.approx(found[1]["brier"], rel=1e-3)


def test_the_recipe_for_spark_makes_states_of_partitions(
    folder: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    recipe: dict[str, Any] = {}
    exec("\n".join(code), recipe)
    command = [sys.executable, "-m", "calibkit_cli.main", *recipe["FIT"][1:]]
    recipe["FIT"] = [*command, "--uncertainty", "uncertainty"]
    monkeypatch.setenv("PYTHONPATH", clean_environment()["PYTHONPATH"])
    rows = pl.read_parquet(folder / "all.parquet").select("score", "uncertainty", "label")
    partitions = [rows[:500], rows[500:500], rows[500:]]
    found = [
        batch["state"][0].as_py()
        for part in partitions
        for batch in recipe["to_states"](iter(part.to_arrow().to_batches(max_chunksize=200)))
    ]
    recipe["write_states"](found, tmp_path / "states")
    merged, whole = tmp_path / "merged.json", tmp_path / "whole.json"
    assert invoke("merge", tmp_path / "states", "--expect", "2", "-q", "-o", merged).code == 0
    fit = ["boundary", folder / "all.parquet", "--precision", "0.9", "--method", "exact"]
    assert invoke(*fit, "-q", "-o", whole).code == 0
    assert merged.read_bytes() == whole.read_bytes()


def test_damaged_states_of_scores_are_refused() -> None:
    draw = np.random.default_rng(1)
    frame = pl.DataFrame({"score": draw.random(50).round(1), "label": draw.integers(0, 2, 50)})
    made = run.state(CalibrateOptions(), Source.from_frame(frame)).to_bytes()
    header = json.loads(ipc.open_file(pa.BufferReader(made)).schema.metadata[KEY.encode()])
    rows = pl.read_ipc(made)

    def damaged(table: pl.DataFrame, said: str, **parts: dict[str, Any]) -> None:
        changed = {**header, **{name: {**header[name], **own} for name, own in parts.items()}}
        with pytest.raises(ModelError, match=said):
            state_of(scratched([arrow_file(table, {KEY: canonical_text(changed)})]), "odd.state")

    state_of(scratched([arrow_file(rows, {KEY: canonical_text(header)})]), "good.state")
    damaged(rows.drop("count"), "its columns are")
    damaged(rows.cast({"count": pl.Int32}), "its columns are")
    damaged(rows[:0], "its columns are")
    damaged(rows.cast({"score": pl.Float32}), "other types than it says")
    room = header["payload"]["room"]
    damaged(rows, "impossible resolution", payload={"room": {**room, "most": 0}})
    damaged(rows.with_columns(pl.col("count") - 1), "occur less than once")
    damaged(rows.with_columns(pl.col("count") + 1), "not as many rows as it says")
    damaged(rows.with_columns(score=float("nan")), "something else than numbers")
    damaged(rows.with_columns(label=pl.lit(2, rows["label"].dtype)), "labels other than 0 and 1")
    damaged(rows.with_columns(pl.col("score") / 2), "its rows are not those that were written")
    damaged(rows, "its hashes are not those", payload={"hashes": {"score": "0" * 16}})


def test_states_of_votes_name_what_is_wrong(tmp_path: Path, invoke: Invoke) -> None:
    part, state = tmp_path / "part.csv", tmp_path / "part.state"
    rows = pl.DataFrame(
        {
            "prob_a": [0.25, 0.5],
            "prob_b": [0.75, 0.5],
            "count_a": [0, 2],
            "count_b": [0, 1],
            "own_a": [0.5, 1.5],
            "own_b": [0.5, 0.5],
        }
    )
    judged = [
        "--counts",
        "count_*",
        "--class-disagreement",
        "own_*",
        "--partial",
        "-q",
        "-o",
        state,
    ]
    rows.write_csv(part)
    invoke("evaluate", part, *judged).refused(3, "own_a", "1.5")
    rows.with_columns(count_a=0, count_b=0).write_csv(part)
    assert invoke("evaluate", part, *judged).code == 0  # other shards may have votes
    invoke("merge", state).refused(3, "part.state", "no vote in 2 rows")


def test_a_state_knows_makers_of_columns_that_its_model_does_not_read(
    tmp_path: Path, invoke: Invoke
) -> None:
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
        rows, state = tmp_path / f"{name}.csv", tmp_path / f"{name}.state"
        lines = [f"0.{place},{place % 2},{own}" for place, own in enumerate(values.split(","), 1)]
        rows.write_text("\n".join(["score,label,v", *lines, ""]))
        fit = (
            "boundary",
            rows,
            "--precision 0.5 --method st --value v --folds 0 --partial -o",
            state,
        )
        assert invoke(*fit).code == 0
        states.append(state)
    done = invoke("merge", *states, "-o", tmp_path / "m.json")
    done.refused(3, "column 'v' holds Float64 here, but Int64 in", "alike in all parts")
