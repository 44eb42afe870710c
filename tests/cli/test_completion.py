"""Shell completion: what the scripts of ``--show-completion`` get where they ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from calibkit_cli.main import COMMANDS, COMPLETE
from tests.conftest import LOADED, Invoke, clean_environment, printed
from tests.test_architecture import HEAVY

Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """Return what may stand in the place of the last word of a line, as bash is told."""

    def call(line: str) -> list[str]:
        monkeypatch.setenv(COMPLETE, "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        done = invoke()
        assert (done.code, done.stderr) == (0, "")
        return done.stdout.decode().split()

    return call


def test_commands_options_and_choices_are_completed(complete: Complete) -> None:
    assert set(complete("calibkit ")) == {name.replace("_", "-") for name in COMMANDS}
    assert complete("calibkit ev") == ["evaluate"]
    assert complete("calibkit evaluate rows.parquet --bin-") == ["--bin-strategy"]
    assert complete("calibkit evaluate --bin-strategy eq") == ["equal-width", "equal-mass"]
    assert complete("calibkit simulate p") == ["posterior", "partitions"]


def test_files_are_left_to_the_shell(complete: Complete) -> None:
    assert complete("calibkit evaluate rows") == []
    assert complete("calibkit evaluate rows.parquet -o met") == []


def test_a_key_press_loads_nothing_heavy() -> None:
    script = f"from calibkit_cli.main import run; run([]); {LOADED}"
    asked = {COMPLETE: "complete_bash", "COMP_WORDS": "calibkit boundary --", "COMP_CWORD": "2"}
    *options, loaded = printed(script, **asked)
    assert "--precision" in options
    assert not HEAVY & set(loaded.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_a_shell_is_printed_without_asking_which_one_runs(
    shell: str, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMPLETE, f"source_{shell}")
    done = invoke()
    assert done.code == 0
    assert b"_CALIBKIT_COMPLETE=complete_" + shell.encode() in done.stdout


def test_an_unknown_shell_is_a_mistake_not_a_failed_gate(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: None)
    assert invoke("--show-completion").code == 2
    monkeypatch.setenv(COMPLETE, "source_nonsense")
    assert invoke().code == 2


def test_the_script_completes_in_bash(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    tool = tmp_path / "calibkit"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m calibkit_cli.main "$@"\n')
    tool.chmod(0o755)
    lines = (
        'eval "$(_CALIBKIT_COMPLETE=source_bash calibkit)"\n'
        "COMP_WORDS=(calibkit gate metrics.json --fail-); COMP_CWORD=3\n"
        '_calibkit_completion calibkit; echo "${COMPREPLY[*]}"'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "--norc", "-c", lines],
        env={**clean_environment(), "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "--fail-if\n"


def test_names_that_options_take_are_completed(complete: Complete) -> None:
    assert complete("calibkit boundary rows.csv --method ew") == ["ew-dpmt", "ew-dpmt-mono"]
    assert complete("calibkit boundary rows.csv --maximize you") == ["youden"]
    assert complete("calibkit evaluate rows.csv --metrics auc,smooth") == ["auc,smooth_ece"]


def test_completed_names_are_those_of_the_library() -> None:
    from calibkit.methods.boundary.solvers.methods import METHODS
    from calibkit.numerics.confusion import OBJECTIVES
    from calibkit.options import boundary

    assert set(boundary.METHODS) == {*METHODS, boundary.AUTO}
    assert {name.rstrip(":") for name in boundary.MEASURES} == set(OBJECTIVES) - {"cost"}
