"""The projects in examples/ run as their pages say, on copies."""

from __future__ import annotations

import graphlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests import warm
from tests.conftest import ROOT, clean_environment

Shell = Callable[..., subprocess.CompletedProcess[str]]

FOLDERS = sorted(path.name for path in (ROOT / "examples").iterdir() if path.is_dir())


@pytest.fixture
def example(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a copy of an example beside the sample data."""
    folder = tmp_path / "examples" / request.param
    shutil.copytree(ROOT / "examples" / request.param, folder)
    shutil.copytree(ROOT / "sample_data", tmp_path / "sample_data")
    return folder


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Run a command of a shell with ``calibkit`` on its path."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "calibkit").symlink_to(warm.program())
    (tools / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "python3").chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"

    def run(command: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**clean_environment(), "PATH": path, "MAKEFLAGS": "", **more}
        return subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def runs_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the calibkit commands that make printed."""
    return re.findall(r"^calibkit (\w+)", done.stdout, re.MULTILINE)


@pytest.mark.more
@pytest.mark.parametrize("example", ["experiment"], indirect=True)
def test_the_experiment_reruns_only_what_changed(example: Path, shell: Shell) -> None:
    done = shell("make -j2 BOUNDS=0.6", example)
    assert done.returncode == 0, done.stderr
    assert runs_of(done) == ["boundary", "evaluate", "gate"]
    assert (example / "report-0.6.html").is_file()
    assert runs_of(shell("make BOUNDS=0.6", example)) == []
    planned = shell("make --dry-run BOUNDS='0.6 0.8'", example)
    assert sorted(runs_of(planned)) == ["boundary", "diff", "evaluate", "gate"]
    assert "metrics-0.6.json metrics-0.8.json" in planned.stdout
    (example / "good-0.6.stamp").unlink()
    failed = shell("make good-0.6.stamp SLACK=-0.3", example)
    assert failed.returncode == 2
    assert "1 check failed" in failed.stderr
    (example / "metrics-0.6.json").unlink()
    assert runs_of(shell("make --dry-run BOUNDS=0.6", example)) == ["evaluate", "gate"]


def ordered(stages: dict[str, Any]) -> list[str]:
    """Return the stages of a pipeline, each after those whose outputs it reads."""
    made = {out: name for name, stage in stages.items() for out in outputs(stage)}
    graph = {
        name: {made[dep] for dep in stage["deps"] if dep in made} for name, stage in stages.items()
    }
    return list(graphlib.TopologicalSorter(graph).static_order())


def outputs(stage: dict[str, Any]) -> list[str]:
    found = [*stage.get("outs", []), *stage.get("metrics", []), *stage.get("plots", [])]
    return [next(iter(one)) if isinstance(one, dict) else one for one in found]


@pytest.mark.more
@pytest.mark.parametrize("example", ["dvc"], indirect=True)
def test_every_stage_of_the_pipeline_writes_what_it_names(example: Path, shell: Shell) -> None:
    yaml = pytest.importorskip("yaml")
    pipeline = yaml.safe_load((example / "dvc.yaml").read_text())
    values = yaml.safe_load((example / "params.yaml").read_text())
    for more in pipeline["vars"]:
        values |= more

    def filled(text: str) -> str:
        return re.sub(r"\$\{(\w+)\}", lambda found: str(values[found[1]]), text)

    stages = pipeline["stages"]
    order = ordered(stages)
    assert order[-1] == "gate"
    for name in order:
        stage = stages[name]
        assert set(stage.get("params", [])) == set(re.findall(r"\$\{(\w+)\}", stage["cmd"])) - {
            "data"
        }
        assert all((example / filled(dep)).is_file() for dep in stage["deps"]), name
        done = shell(filled(stage["cmd"]), example)
        assert done.returncode == 0, done.stderr
        assert all((example / out).is_file() for out in outputs(stage)), name
    plot = next(iter(stages["evaluate"]["plots"][0].values()))
    assert {plot["x"], plot["y"]} <= set(pl.read_csv(example / "reliability.csv").columns)
    assert json.loads((example / "metrics.json").read_text())["rows"] == 15_000


@pytest.mark.more
@pytest.mark.parametrize("example", ["duckdb"], indirect=True)
def test_queries_stand_on_either_side_of_a_pipe(example: Path, shell: Shell) -> None:
    pytest.importorskip("duckdb")
    done = shell("sh one-liners.sh", example)
    assert done.returncode == 0, done.stderr
    counts = pl.read_csv(example / "out" / "counts.csv")
    assert counts["row_count"].sum() == 15_000
    assert pl.read_csv(example / "out" / "alarms.csv", has_header=False).height == 10
    assert pl.read_csv(example / "out" / "query.csv")["metric"].to_list() == ["precision", "recall"]


@pytest.mark.more
@pytest.mark.parametrize("example", ["nightly"], indirect=True)
def test_the_nightly_job_does_what_each_exit_code_is_for(example: Path, shell: Shell) -> None:
    rows = example.parent.parent / "sample_data" / "test.parquet"
    fit = "calibkit boundary ../../sample_data/calib.parquet --precision 0.7 --method exact -q"
    assert shell(f"{fit} -o boundary.json", example).returncode == 0

    def night(day: str, labelled: object = "none", **more: str) -> int:
        done = shell(f"./nightly.sh {day}.parquet {labelled} {day}", example, PAUSE="0", **more)
        return done.returncode

    frame = pl.read_parquet(rows)
    frame.write_parquet(example / "good.parquet")
    frame.with_columns(pl.col("score").sqrt()).write_parquet(example / "drifted.parquet")
    frame.with_columns(pl.col("score") * 2).write_parquet(example / "bad.parquet")
    assert night("good", rows, LEAST="0.6") == 0
    written = {path.name for path in (example / "good").iterdir()}
    assert written == {"alarms.csv", "drift.json", "metrics.json", "refused", "watch.json"}
    frame.with_columns(label=pl.lit(0)).write_parquet(example / "false.parquet")
    assert night("good", "false.parquet", LEAST="0.6") == 1
    assert "watch: a gate failed" in (example / "good" / "nightly.log").read_text()
    watched = json.loads((example / "good" / "watch.json").read_bytes())
    assert (watched["alarm"], watched["nights"], watched["tests"][0]["refuted"]) == (True, 2, 2)
    assert night("drifted") == 1
    assert "drift: a gate failed" in (example / "drifted" / "nightly.log").read_text()
    assert night("bad") == 3
    assert [path.name for path in (example / "bad" / "refused").iterdir()] == ["bad.parquet"]
    assert not (example / "bad" / "alarms.csv").exists()
    tool = example.parent.parent / "tools" / "calibkit"
    tool.unlink()  # a link to the program of all tests
    tool.write_text("#!/bin/sh\necho try >> tries; exit 5\n")
    tool.chmod(0o755)
    assert night("good") == 5
    assert (example / "tries").read_text().split() == ["try"] * 3


@pytest.mark.parametrize("example", ["shards"], indirect=True)
def test_merged_shards_give_the_model_of_all_rows(example: Path, shell: Shell) -> None:
    done = shell("make split PARTS='0 3' && make -j2", example)
    assert done.returncode == 0, done.stderr
    assert sorted(runs_of(done)) == ["apply", "boundary", "boundary", "merge"]
    whole = shell("calibkit boundary shards/ --precision 0.7 --method exact -q", example)
    assert whole.stdout == (example / "boundary.json").read_text()
    assert len(list((example / "decided").iterdir())) == 2
    (example / "states" / "part-3.state").unlink()
    assert runs_of(shell("make --dry-run", example)) == ["boundary", "merge", "apply"]


@pytest.mark.more
@pytest.mark.parametrize("example", ["shards"], indirect=True)
def test_shards_of_votes_give_the_model_of_all_rows(example: Path, shell: Shell) -> None:
    done = shell("make raters PARTS='0 1' && make -j2 classes.json", example)
    assert done.returncode == 0, done.stderr
    assert runs_of(done) == ["calibrate", "calibrate", "merge"]
    fit = "calibkit calibrate votes/ --probs 'prob_*' --counts 'count_*' --method temperature -q"
    assert shell(fit, example).stdout == (example / "classes.json").read_text()


def test_each_example_has_a_page_of_its_own() -> None:
    page = (ROOT / "examples" / "README.md").read_text()
    for name in FOLDERS:
        assert (ROOT / "examples" / name / "README.md").is_file()
        assert f"]({name}/README.md)" in page
