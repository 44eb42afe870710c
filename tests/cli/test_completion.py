"""Shell completion: what the scripts of ``--show-completion`` get where they ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from calibkit_cli.main import COMPLETE, build_app
from tests.conftest import LOADED, Invoke, clean_environment, printed
from tests.test_architecture import HEAVY

TREE: Any = get_command(build_app())


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("calibkit ", [*TREE.commands]),
        ("calibkit ev", ["evaluate"]),
        ("calibkit evaluate rows.parquet --bin-", ["--bin-strategy"]),
        ("calibkit evaluate --bin-strategy eq", ["equal-width", "equal-mass"]),
        ("calibkit simulate p", ["posterior", "partitions"]),
        ("calibkit boundary rows.csv --method ew", ["ew-dpmt", "ew-dpmt-mono"]),
        ("calibkit boundary rows.csv --maximize you", ["youden"]),
        ("calibkit evaluate rows.csv --metrics auc,smooth", ["auc,smooth_ece"]),
        # Files are left to the shell.
        ("calibkit evaluate rows", []),
        ("calibkit evaluate rows.parquet -o met", []),
    ],
)
def test_what_is_typed_is_completed(
    line: str, names: list[str], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMPLETE, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    done = invoke()
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.decode().split() == names


def test_a_key_press_loads_nothing_heavy() -> None:
    script = f"from calibkit_cli.main import run; run([]); {LOADED}"
    asked = {COMPLETE: "complete_bash", "COMP_WORDS": "calibkit boundary --", "COMP_CWORD": "2"}
    *options, loaded = printed(script, **asked)
    assert "--precision" in options
    assert not HEAVY & set(loaded.split())


def test_a_script_for_a_shell_is_printed_without_asking_which_one_runs(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shell in ("bash", "zsh", "fish"):
        monkeypatch.setenv(COMPLETE, f"source_{shell}")
        done = invoke()
        assert done.code == 0
        assert f"_CALIBKIT_COMPLETE=complete_{shell}" in done.stdout.decode()
    # An unknown shell is a mistake, not a failed gate.
    monkeypatch.setenv(COMPLETE, "source_nonsense")
    assert invoke().code == 2
    monkeypatch.delenv(COMPLETE)
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: None)
    assert invoke("--show-completion").code == 2


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


def test_completed_names_are_those_of_the_library() -> None:
    from calibkit.methods.boundary.solvers.methods import METHODS
    from calibkit.numerics.confusion import OBJECTIVES
    from calibkit.options import boundary

    assert set(boundary.METHODS) == {*METHODS, boundary.AUTO}
    assert {name.rstrip(":") for name in boundary.MEASURES} == set(OBJECTIVES) - {"cost"}
