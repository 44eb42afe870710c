"""Write the command reference, docs/commands.md, from the application itself.

    python docs/write_commands.py [--check]

It reads names, defaults and help texts of the parameters, not the rendered ``--help``, whose look
depends on the terminal and on the version of typer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "commands.md"

HEADER = """# Commands

<!-- Written by `make docs` from the application; edit the help texts there. -->

Exit codes: 0 done; 1 a gate failed, or `export --check` found a difference; 2 usage; 3 bad data; 4
infeasible; 5 environment (worth another try); 70 internal error; 130 interrupted; 143 terminated;
141 broken pipe.
"""


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, with its full name."""
    if hasattr(command, "commands"):
        for name, child in command.commands.items():
            yield from walk(child, (*path, name))
    elif path:
        yield " ".join(path), command


def every_command() -> dict[str, Any]:
    """Return the application's commands by full name (``simulate posterior``)."""
    from typer.main import get_command

    from calibkit_cli.main import build_app

    return dict(walk(get_command(build_app())))


def default_of(param: Any) -> str:
    """Return what stands in for the option where it is not given, as text; '' for nothing."""
    if isinstance(getattr(param, "show_default", None), str):
        return str(param.show_default)
    default = param.default
    if default is None or default is False or default == () or param.show_default is False:
        return ""
    return f"`{default}`"


def section(name: str, command: Any) -> str:
    """Return a command's section: what it does, its parameters by panel, its examples."""
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [
        param
        for param in command.params
        if param.param_type_name == "option" and not getattr(param, "hidden", False)
    ]
    line = "".join(f" {param.metavar}{'...' if param.nargs == -1 else ''}" for param in arguments)
    parts = [f"## `{name}`", f"    calibkit {name}{line} [OPTIONS]", _paragraphs(command.help)]
    if arguments:
        rows = [f"| `{param.metavar}` | {_cell(param.help)} |" for param in arguments]
        parts.append("\n".join(["| argument | meaning |", "| --- | --- |", *rows]))
    panels: dict[str, list[str]] = {}
    for param in options:
        panel = getattr(param, "rich_help_panel", None) or "Options"
        panels.setdefault(panel, []).append(option_row(param))
    for panel, lines in panels.items():
        head = f"| {panel.lower()} | meaning | default |"
        parts.append("\n".join([head, "| --- | --- | --- |", *lines]))
    parts.append("```sh\n" + "\n".join(examples_of(command)) + "\n```")
    return "\n\n".join(parts)


def option_row(param: Any) -> str:
    """Return an option's line of the table: names and value, meaning, default."""
    names = ", ".join(sorted(param.opts, key=len, reverse=True))
    value = "" if param.is_flag else f" {value_of(param)}"
    variable = f" (Environment: `{param.envvar}`.)" if param.envvar else ""
    cells = (f"`{names}{value}`", f"{param.help}{variable}", default_of(param))
    return f"| {' | '.join(map(_cell, cells))} |"


def value_of(param: Any) -> str:
    """Return what an option's value is called: its metavar, or its choices."""
    if param.metavar:
        return str(param.metavar)
    descriptor = getattr(param, "type_descriptor", None)
    choices = getattr(descriptor, "choices", None) or getattr(param.type, "choices", None)
    return "|".join(map(str, choices)) if choices else "VALUE"


def examples_of(command: Any) -> list[str]:
    """Return the example lines of a command: under "Examples:" in its help or epilog."""
    text = f"{command.help or ''}\n{command.epilog or ''}"
    lines = (line.strip() for line in text.partition("Examples:")[2].splitlines())
    return [line for line in lines if line]


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _paragraphs(text: str | None) -> str:
    told = (text or "").partition("Examples:")[0].strip()
    return "\n\n".join(" ".join(part.split()) for part in told.split("\n\n"))


def reference() -> str:
    """Return the whole page."""
    sections = [section(name, command) for name, command in every_command().items()]
    return "\n\n".join([HEADER.strip(), *sections]) + "\n"


def main() -> int:
    """Write the page, or with ``--check`` say whether it is current."""
    page = reference()
    if "--check" in sys.argv[1:]:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page
        print("current" if current else "docs/commands.md is not current: run make docs")
        return 0 if current else 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
