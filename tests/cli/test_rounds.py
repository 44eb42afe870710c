"""Fits in rounds from the command line: loops over shards, one process, a cluster; what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import Outcome
from tests.library.test_rounds import FRAME, check_near

Invoke = Callable[..., Outcome]

ALPHA: list[Any] = ["alpha-cal", "--features", "x_*", "--on-missing", "drop"]
CLASSES: list[Any] = ["calibrate", "--probs", "prob_*", "--label", "label", "--method", "vector",
                      "--regularization", "1",
                      "--on-missing", "drop"]  # fmt: skip
SHARDS = ("a.parquet", "b.csv", "c.parquet")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with rows and three shards of them, of which two hundred rows fit."""
    monkeypatch.setattr("calibkit.memory._FEWEST_ROWS", 200)
    monkeypatch.chdir(tmp_path)
    frame = FRAME.drop("probs", "counts")
    frame.write_parquet("all.parquet")
    frame[:100].write_parquet(SHARDS[0])
    frame[100:250].write_csv(SHARDS[1])
    frame[250:].write_parquet(SHARDS[2])
    return tmp_path


def partial(invoke: Invoke, shard: str, *line: Any) -> Path:
    made = Path(shard).with_suffix(".state")
    done = invoke(line[0], shard, *line[1:], "--partial", "--memory", "1MB", "-q", "-o", made)
    assert done.code == 0, done.stderr
    return made


def loop(invoke: Invoke, *line: Any) -> int:
    """Do as a Makefile would; return how many rounds it took."""
    model, plan = Path("model.json"), list[Any]()
    for count in range(1, 200):
        states = [partial(invoke, shard, *line, *plan) for shard in SHARDS]
        done = invoke("merge", *states, "--memory", "1MB", "-q", "-o", model)
        assert done.code == 0, done.stderr
        if model.exists():
            return count
        plan = ["--plan", "plan.json"]
    raise AssertionError("no end")


@pytest.mark.parametrize("line", [ALPHA, CLASSES], ids=lambda line: str(line[0]))
def test_a_loop_one_process_and_memory_enough(line: list[Any], invoke: Invoke) -> None:
    assert loop(invoke, *line) > 4
    tight, loose = Path("tight.json"), Path("loose.json")
    done = invoke(line[0], "all.parquet", *line[1:], "--memory", "1MB", "-v", "-o", tight)
    assert done.code == 0 and "in rounds" in done.stderr and "round 3 over 700" in done.stderr
    assert tight.read_bytes() == Path("model.json").read_bytes()
    enough = invoke(line[0], "all.parquet", *line[1:], "--memory", "1GB", "-o", loose)
    said = [text for text in done.stderr.splitlines() if "Warning" in text]
    assert said == [text for text in enough.stderr.splitlines() if "Warning" in text] != []
    check_near(*(json.loads(one.read_bytes()) for one in (tight, loose)))
    states = [partial(invoke, shard, *line) for shard in SHARDS]  # first states of 1 MB and 1 GB
    done = invoke("merge", *states, "--memory", "1GB", "--json", "-o", "model.json")
    assert done.code == 0
    assert json.loads(done.stdout)["plan"] == "plan.json"  # one shard's rows did not fit


def test_on_a_cluster(invoke: Invoke, address: str) -> None:
    line = ["alpha-cal", *SHARDS, "--on-missing", "drop", "--memory", "1MB", "-q"]
    done = invoke(*line, "--dask", address, "-o", "there.json")
    assert done.code == 0, done.stderr
    assert invoke(*line, "-o", "here.json").code == 0
    assert Path("there.json").read_bytes() == Path("here.json").read_bytes()


def test_what_is_refused(invoke: Invoke, folder: Path) -> None:
    states = [partial(invoke, shard, *ALPHA) for shard in SHARDS]
    (folder / "out").mkdir()
    merging = ["merge", *states, "--memory", "1MB"]
    done = invoke(*merging, "-o", "out/model.json")
    assert done.code == 0 and not Path("out/model.json").exists()
    assert "Round 2 is needed: out/plan.json written" in done.stderr
    assert "calibkit alpha-cal SHARD --partial --plan out/plan.json" in done.stderr
    done = invoke(*merging, "--json", "-o", "out/model.json")
    assert json.loads(done.stdout) == {"plan": "out/plan.json", "round": 2}

    def refused(code: int, said: str, *line: Any) -> None:
        done = invoke(*line)
        assert (done.code, said in done.stderr) == (code, True), done.stderr

    plan = ["--plan", "out/plan.json"]
    made = ["--partial", "-q", "-o", "s.state"]
    refused(2, "add --partial", *ALPHA, SHARDS[0], *plan, "-o", "m.json")
    refused(2, "--regularization is 0.1, but 0.005 in out/plan.json",
            *ALPHA, SHARDS[0], *plan, "--regularization", "0.1", *made)  # fmt: skip
    refused(
        2, "--features is ['x_a'], but", "alpha-cal", SHARDS[0], "--features", "x_a", *plan, *made
    )
    refused(3, "a plan of `calibkit alpha-cal`, not of `calibkit calibrate --probs`",
            "calibrate", SHARDS[0], *plan, *made)  # fmt: skip
    refused(3, "no shard of the plan, which has 3", "alpha-cal", "all.parquet", *plan, *made)
    Path("odd.json").write_bytes(Path("out/plan.json").read_bytes()[:-40])
    refused(3, "not a calibkit plan", "alpha-cal", SHARDS[0], "--plan", "odd.json", *made)
    known = json.loads(Path("out/plan.json").read_bytes())
    known["options"]["problem"]["columns"]["probs"] = []
    Path("odd.json").write_text(json.dumps(known))
    refused(3, "odd.json: this plan, or a state that answers it, is damaged (IndexError: ",
            "alpha-cal", SHARDS[0], "--plan", "odd.json", *made)  # fmt: skip
    refused(2, "none.json", "alpha-cal", SHARDS[0], "--plan", "none.json", *made)
    second = [partial(invoke, shard, "alpha-cal", *plan) for shard in SHARDS]
    refused(2, "plan.json", "merge", *second, "-o", "model.json")
    refused(3, "1 of 3 shards of the plan missing", "merge", *second[1:], *plan, "-o", "model.json")
    first = partial(invoke, SHARDS[0], *ALPHA)
    refused(3, "round", "merge", first, *second[1:], *plan, "-o", "model.json")
    again = partial(invoke, SHARDS[0], "alpha-cal", *plan)
    dry = [*made, "--dry-run"]
    done = invoke("alpha-cal", SHARDS[0], *plan, *dry)
    assert done.code == 0, done.stderr
    assert b"Would answer round 2 of out/plan.json, a plan over 700 rows in 3 sh" in done.stdout
    done = invoke("alpha-cal", SHARDS[0], *plan, *dry, "--json")
    assert "write a state" in json.loads(done.stdout)["plan"]
    refused(3, "a plan of `calibkit alpha-cal`", "calibrate", SHARDS[0], *plan, *dry)
    refused(2, "--regularization is 0.1", *ALPHA, SHARDS[0], *plan, "--regularization", "0.1", *dry)
    FRAME.select("label").write_parquet("narrow.parquet")
    refused(2, "narrow.parquet: no column", "alpha-cal", "narrow.parquet", *plan, *made)
    half = ["merge", again, second[1], "-q", "-o", "half.state"]
    assert invoke(*half).code == 0  # states of a round merge in any grouping
    assert invoke("merge", "half.state", second[2], "-q", "-o", "out/model.json").code == 0
    refused(3, "but the plan asks for round 3", "merge", *second, "-o", "out/model.json")
    assert pl.read_parquet(SHARDS[0]).height == 100


def test_plans_that_are_none_of_the_user_s_fit(invoke: Invoke, folder: Path) -> None:
    states = [partial(invoke, shard, *ALPHA) for shard in SHARDS]
    own = folder / "plan.json"
    own.write_text('{"of": "the user"}')
    done = invoke("merge", *states, "--memory", "1MB", "-o", "model.json")
    assert done.code == 2 and "plan.json: is there, and is no plan" in done.stderr
    assert own.read_text() == '{"of": "the user"}'
    raw = [
        "--score",
        "x_a",
        "--label",
        "label",
        "--scale",
        "raw",
        "--method",
        "platt",
        "--positive",
        "2",
    ]
    one = partial(invoke, SHARDS[0], "calibrate", *raw)
    done = invoke("merge", one, "--plan", "plan.json", "-o", "model.json")
    assert done.code == 2 and "--plan is for fits in rounds" in done.stderr
