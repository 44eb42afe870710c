"""What ``--help`` tells, and in which order; what shells get that complete a command line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from calibkit.options.option import COLUMNS, ROLES
from calibkit.options.shared import RUN
from calibkit_cli import help_pages, main
from calibkit_cli.main import COMMANDS, COMPLETE, build_app
from tests.conftest import LOADED, Invoke, clean_environment, printed
from tests.test_architecture import HEAVY

TREE: Any = get_command(build_app())
PLAIN = {
    name: command for name, command in TREE.commands.items() if not hasattr(command, "commands")
}
GROUPS = {name: command for name, command in TREE.commands.items() if name not in PLAIN}
EVERY = [*PLAIN.values(), *(one for own in GROUPS.values() for one in own.commands.values())]


def test_every_command_has_its_place_in_the_help() -> None:
    assert set(TREE.commands) == {name.replace("_", "-") for name in COMMANDS}
    assert len(COMMANDS) == sum(map(len, main.PURPOSES.values()))
    assert all(command.rich_help_panel in main.PURPOSES for command in TREE.commands.values())
    for name, does in COMMANDS.items():
        # The list and the help say what a command does in one sentence.
        assert " ".join(TREE.commands[name.replace("_", "-")].help.split()).startswith(does)


def test_output_input_and_run_come_last_in_this_order() -> None:
    for command in EVERY:
        found = [getattr(param, "rich_help_panel", None) for param in command.params]
        panels = [panel for panel in dict.fromkeys(found) if panel is not None]
        shared = [panel for panel in help_pages.LAST if panel in panels]
        assert panels[len(panels) - len(shared) :] == shared


def test_columns_stand_in_one_order() -> None:
    seen = set()
    for command in EVERY:
        columns = [one.name for one in command.params if one.rich_help_panel == COLUMNS]
        known = [name for name in columns if name in ROLES]
        assert known == sorted(known, key=ROLES.index) == columns[: len(known)]
        seen |= set(known)
    assert seen == set(ROLES)


EVERY_RUN = ["--seed", "3", "--threads", "2", "--memory", "1GB", "-q", "-v", "--warnings", "error"]


def test_every_command_takes_the_options_of_every_run() -> None:
    for name, command in PLAIN.items():
        context = command.context_class(command, info_name=name)
        command.make_parser(context).parse_args([*EVERY_RUN])
        shown = [param for param in command.get_params(context) if not param.hidden]
        assert {param.name for param in shown} - {"help", "help_all"} == {
            param.name for param in command.params if not param.hidden
        }


def test_an_option_that_changes_nothing_is_checked_and_not_shown(invoke: Invoke) -> None:
    assert invoke("show", "--schema", "boundary", *EVERY_RUN).code == 0
    assert invoke("show", "--schema", "boundary", "--threads", "0").code == 2
    assert b"--memory" not in invoke("show", "--help").stdout


@pytest.mark.parametrize("name", ["boundary", "evaluate", "simulate", "plot", ""])
def test_help_shows_examples_that_begin_as_they_are_typed(
    name: str, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = invoke(*([name] if name else []), "--help")
    assert done.code == 0
    examples = done.stdout.decode().partition("Examples:")[2].partition("╭")[0].split("\n\n")
    assert f"calibkit {name}".strip() in examples[0] or f"calibkit {name}".strip() in examples[1]


def test_paragraphs_of_the_help_fill_the_terminal(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = invoke("boundary", "--help").stdout.decode()
    assert "are selected; the thresholds together reach the most recall within a bound" in shown
    assert f"─ {RUN} ─" in shown


def test_a_width_of_nothing_is_unknown() -> None:
    script = "import os; from calibkit_cli import main; main.settle(); print(os.getenv('COLUMNS'))"
    assert printed(script, COLUMNS="0") == ["None"]
    assert printed(script, COLUMNS="90") == ["90"]


def test_the_whole_help_says_what_each_method_is(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calibkit.methods.boundary.solvers.methods import METHODS

    monkeypatch.setenv("COLUMNS", "100")
    panel = invoke("boundary", "--help-all").stdout.decode().partition("Methods (--method)")[2]
    named = {line.split()[1] for line in panel.splitlines()[1:] if line.startswith("│")}
    assert named == {*METHODS, "auto"}
    short = invoke("boundary", "--help").stdout.decode()
    assert all(name in short for name in named)


@pytest.mark.parametrize("name", ["boundary", "evaluate", "calibrate", "hetcal", "apply", "vad"])
def test_everyday_options_come_first_and_the_rest_on_request(
    name: str, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    short, whole = (invoke(name, flag).stdout.decode() for flag in ("--help", "--help-all"))
    assert len(short.splitlines()) <= (60 if name == "boundary" else 80)
    shown, known = (
        set(re.findall(r"^│ (?:\* +)?(--[a-z0-9-]+)", text, re.MULTILINE))
        for text in (short, whole)
    )
    assert len(shown) <= 18
    assert {"--output", "--help", "--help-all"} <= shown < known
    assert f"{name} --help-all shows {len(known - shown)} more options" in short
    assert "<bool>" not in whole
    assert invoke(name, "--help").stdout.decode() == short  # a page leaves the options as they were


def test_no_everyday_help_is_longer_than_two_screens(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    kinds = [f"{name} {kind}" for name, own in GROUPS.items() for kind in own.commands]
    for name in (*PLAIN, *kinds):
        assert len(invoke(*name.split(), "--help").stdout.splitlines()) <= 90, name


def test_every_word_of_the_everyday_help_is_an_option() -> None:
    for name, words in help_pages.EVERYDAY.items():
        assert set(words.split()) <= {param.name for param in PLAIN[name].params}


def test_a_command_is_built_without_the_others(invoke: Invoke) -> None:
    def names(*words: str) -> list[str]:
        return [*main.command_of(words).commands]

    everything = [name.replace("_", "-") for name in main.COMMANDS]
    assert names("alpha-cal", "--help") == ["alpha-cal"]
    assert names("plot", "roc") == ["plot"]
    for words in ([], ["--help"], ["alpha_cal"], ["bounary"], ["--version", "boundary"]):
        assert names(*words) == everything
    assert "boundary" in invoke("bounary").stderr


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
