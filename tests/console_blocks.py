"""Run the console blocks of Markdown pages and compare or rewrite their output.

    python -m tests.console_blocks [--write] [--installed FOLDER] README.md docs/*.md

In a fenced block marked ``console`` each line ``$ command`` is run by bash, and the lines under it
are what the command prints, standard output and standard error together as on a screen.  A command
may go on with a trailing backslash.  All blocks of one page share one shell in a temporary folder
that holds a copy of ``sample_data``, so files and variables persist from block to block.  A command
that fails must be followed by ``$ echo $?``.

The command is that of the checkout, or, with ``--installed``, the one in the folder of an environment
where calibkit was installed: ``.venv/bin``, say.

A page with the line ``<!-- needs ../shared/data -->`` sees that folder as ``data`` and is passed
over where it does not exist.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests import warm

ROOT = warm.ROOT
_FENCE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NEEDS = re.compile(r"^<!-- needs (\S+) -->$", re.MULTILINE)
_MARK = "\x1e"  # record separator: no command prints it
_DROPPED = ("CALIBKIT_", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "PYTHON", "PYTEST")
_SECONDS = 600


@dataclass(frozen=True)
class Step:
    """A command, as typed (with its continuation lines), and what it prints."""

    command: str
    output: str


def steps_of(block: str) -> list[Step]:
    """Return the commands of a block with their output."""
    steps: list[Step] = []
    lines = block.splitlines(keepends=True)
    while lines:
        line = lines.pop(0)
        if not line.startswith("$ "):
            raise ValueError(f"a console block must begin with '$ command', not {line!r}")
        command = line[2:]
        while command.endswith("\\\n") and lines:
            command += lines.pop(0)
        output = ""
        while lines and not lines[0].startswith("$ "):
            output += lines.pop(0)
        steps.append(Step(command, output))
    return steps


def render(steps: list[Step]) -> str:
    """Return a block's text; the inverse of `steps_of`."""
    return "".join(f"$ {step.command}{step.output}" for step in steps)


def missing_need(text: str) -> str | None:
    """Return the folder that a page needs and that is not there."""
    need = _NEEDS.search(text)
    return need[1] if need and not (ROOT / need[1]).is_dir() else None


def rerun(text: str, installed: Path | None = None) -> str:
    """Return a page with the true output in all its console blocks."""
    blocks = [steps_of(match[1]) for match in _FENCE.finditer(text)]
    commands = [step.command for block in blocks for step in block]
    if not commands:
        return text
    with tempfile.TemporaryDirectory(prefix="calibkit-console-") as folder:
        need = _NEEDS.search(text)
        data = ROOT / need[1] if need else None
        results = iter(_run(commands, Path(folder), data, installed))
    fresh = iter([[Step(step.command, next(results)) for step in block] for block in blocks])
    return _FENCE.sub(lambda _: f"```console\n{render(next(fresh))}```", text)


def _run(commands: list[str], folder: Path, data: Path | None, installed: Path | None) -> list[str]:
    """Run the commands in one shell and return what each prints."""
    work = folder / "work"
    work.mkdir()
    shutil.copytree(ROOT / "sample_data", work / "sample_data")
    if data is not None:
        (work / "data").symlink_to(data.resolve())
    script = "exec 2>&1\n" + "".join(
        f"{command}\n_status=$?; printf '{_MARK}%s{_MARK}' $_status; (exit $_status)\n"
        for command in commands
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=work,
        env=_environment(_of_checkout() if installed is None else _of_folder(installed)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=_SECONDS,
        check=False,
    )
    parts = done.stdout.decode().split(_MARK)
    outputs, codes = parts[:-1:2], parts[1::2]
    if len(codes) != len(commands):
        raise RuntimeError(f"the shell stopped at: {commands[len(codes)]}\n{parts[-1]}")
    for place, code in enumerate(codes):
        told = commands[place + 1 : place + 2] == ["echo $?\n"]
        if code != "0" and not told:
            raise RuntimeError(f"exit code {code} from: {commands[place]}\n{outputs[place]}")
    return [f"{text}\n" if text and not text.endswith("\n") else text for text in outputs]


def _of_checkout() -> dict[str, str]:
    """Return the variables with which ``calibkit`` is the working copy."""
    return {
        "PATH": os.pathsep.join([str(warm.program().parent), str(Path(sys.executable).parent)]),
        "PYTHONPATH": warm.FLOORS,
    }


def _of_folder(installed: Path) -> dict[str, str]:
    return {"PATH": str(installed.absolute())}


def _environment(own: dict[str, str]) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_DROPPED)}
    return {
        **kept,
        **own,
        "PATH": os.pathsep.join([own["PATH"], os.environ["PATH"]]),
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


def difference(path: Path, text: str, fresh: str) -> str:
    """Return how the true output differs from a page's, as a unified diff."""
    lines = difflib.unified_diff(
        text.splitlines(), fresh.splitlines(), f"{path.name} as written", "true output", lineterm=""
    )
    return "\n".join(lines)


def main() -> int:
    """Compare or rewrite the pages named on the command line."""
    parser = argparse.ArgumentParser(description="Run the console blocks of Markdown pages.")
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="rewrite the pages")
    parser.add_argument("--installed", type=Path, help="the folder of another calibkit")
    options = parser.parse_args()
    stale = 0
    for page in options.pages:
        text = page.read_text(encoding="utf-8")
        need = missing_need(text)
        if need:
            print(f"{page}: passed over, {need} is not there")
            continue
        fresh = rerun(text, options.installed)
        if fresh != text:
            stale += 1
            if options.write:
                page.write_text(fresh, encoding="utf-8")
            print(f"{page}: rewritten" if options.write else difference(page, text, fresh))
    return 1 if stale and not options.write else 0


if __name__ == "__main__":
    sys.exit(main())
