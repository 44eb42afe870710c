"""The house stands as drawn: three floors, imports downward, one place for each duty."""

from __future__ import annotations

import ast
import graphlib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT, clean_environment
from tests.naive import every_twin

FLOORS = {
    "calibkit_cli": ROOT / "cli" / "calibkit_cli",
    "calibkit": ROOT / "calibkit",
    "calibkit_kernels": ROOT / "kernels" / "calibkit_kernels",
}
#: What a floor may import besides the standard library and itself.
ALLOWED = {
    "calibkit_cli": {"calibkit", "typer", "rich", "polars", "numpy", "pyarrow", "msgspec"},
    "calibkit": {
        "calibkit_kernels",
        "polars",
        "numpy",
        "pyarrow",
        "msgspec",
        "matplotlib",
        "sklearn",
    },
    "calibkit_kernels": {"numpy", "numba"},
}
HEAVY = {"numpy", "polars", "numba", "pyarrow", "msgspec", "matplotlib", "calibkit_kernels"}
MOST_LINES, MOST_FUNCTION_LINES = 400, 80

SOURCES = [path for folder in FLOORS.values() for path in sorted(folder.rglob("*.py"))]
by_file = pytest.mark.parametrize(
    "path", SOURCES, ids=[path.relative_to(ROOT).as_posix() for path in SOURCES]
)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def floor_of(path: Path) -> str:
    return next(name for name, folder in FLOORS.items() if path.is_relative_to(folder))


def module_of(path: Path) -> str:
    floor = floor_of(path)
    parts = path.relative_to(FLOORS[floor]).with_suffix("").parts
    return ".".join([floor, *(part for part in parts if part != "__init__")])


def imports_of(path: Path, *, everywhere: bool = True) -> Iterator[str]:
    """Yield the modules a file imports; `everywhere`: in function bodies and for types too."""
    tree = tree_of(path)
    nodes = ast.walk(tree) if everywhere else iter(tree.body)
    package = module_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@by_file
def test_imports_go_down_one_floor(path: Path) -> None:
    floor = floor_of(path)
    known = {*sys.stdlib_module_names, *ALLOWED[floor], floor}
    strangers = {name for name in imports_of(path) if name.split(".")[0] not in known}
    assert not strangers, f"{path.name} must not import {sorted(strangers)}"


@by_file
def test_heavy_modules_stand_inside_function_bodies_of_the_command_line(path: Path) -> None:
    if floor_of(path) == "calibkit_cli":
        heavy = {name for name in imports_of(path, everywhere=False) if name.split(".")[0] in HEAVY}
        assert not heavy, f"{path.name} imports {sorted(heavy)} at start-up"


def test_no_module_imports_itself_round_a_corner() -> None:
    modules = {module_of(path) for path in SOURCES}
    graph = {
        name: {one for one in imports_of(path) if one in modules} - {name}
        for path in SOURCES
        if path.name != "__init__.py"  # a package gathers what its modules define
        for name in (module_of(path),)
    }
    packages = {module_of(path) for path in SOURCES if path.name == "__init__.py"}
    graph = {name: found - packages for name, found in graph.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


@by_file
def test_files_and_functions_stay_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES, f"{path.name} has {lines} lines"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            # The signature of a command, in Python too, is its list of options: one line each, no
            # logic; and its docstring is their reference.
            public = path.parent.name == "api" or module_of(path) == "calibkit.models.model"
            body = length - (node.body[0].lineno - node.lineno)
            if public and ast.get_docstring(node) and len(node.body) > 1:
                body = (node.end_lineno or 0) - node.body[1].lineno + 1
            counted = body if public or floor_of(path) == "calibkit_cli" else length
            assert counted <= MOST_FUNCTION_LINES, f"{node.name} has {counted} lines"


def calls_of(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            yield (node.func.id if isinstance(node.func, ast.Name) else name), node


_WRITERS = re.compile(
    r"write_(text|bytes|csv|parquet|ipc|ndjson|json|table|database)|sink_\w+|to_(csv|parquet)|"
    r"(NamedTemporary|Temporary)File|mkstemp|TemporaryDirectory"
)


def opens_for_writing(name: str, call: ast.Call) -> bool:
    if name == "open":
        modes = [*call.args, *(word.value for word in call.keywords if word.arg == "mode")]
        texts = [mode.value for mode in modes if isinstance(mode, ast.Constant)]
        return any(
            isinstance(text, str) and re.fullmatch(r"[rtb]*[wax+][wax+tb]*", text) for text in texts
        )
    return bool(_WRITERS.fullmatch(name))


@by_file
def test_sinks_alone_writes_files(path: Path) -> None:
    # The kernels' cache folder is numba's; it is tried with a temporary file that has no name.
    # A scratch file is no output: no one but the run itself reads it.
    if module_of(path) in {
        "calibkit.files.sinks",
        "calibkit.files.scratch",
        "calibkit_kernels._jit",
    }:
        return
    writers = {
        f"line {call.lineno}: {name}"
        for name, call in calls_of(path)
        if opens_for_writing(name, call) and not goes_to_sinks(path, name)
    }
    assert not writers, f"{path.name} writes by itself: {sorted(writers)}"


def goes_to_sinks(path: Path, name: str) -> bool:
    """Whether a function of this name is the one imported from sinks, or its Transaction's."""
    from_sinks = {f"calibkit.files.sinks.{name}"}
    if name == "write_bytes":
        from_sinks.add("calibkit.files.sinks.Transaction")
    return not from_sinks.isdisjoint(imports_of(path))


@by_file
def test_models_alone_reads_and_writes_json(path: Path) -> None:
    if module_of(path) in {
        "calibkit.models.model",
        "calibkit.files.text",
    }:  # NDJSON is a format of rows
        return
    found = {name for name in imports_of(path) if name in {"json", "msgspec.json"}}
    if floor_of(path) == "calibkit_cli":  # the summary and the error of a run are no model
        assert path.name in {"console.py", "failures.py"} or not found
    else:
        assert not found


@by_file
def test_the_command_line_alone_ends_the_process(path: Path) -> None:
    ends = [name for name, _ in calls_of(path) if name in {"exit", "_exit", "abort"}]
    assert not ends or path.name == "main.py"
    if floor_of(path) != "calibkit_cli":
        prints = [call.lineno for name, call in calls_of(path) if name == "print"]
        assert not prints, f"{path.name} prints in lines {prints}"


@by_file
def test_no_pickle_and_no_assert_on_what_a_user_gives(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports_of(path)} & {"pickle", "shelve", "marshal"}


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys, json\n"
        "from calibkit_cli.main import run\n"
        "code = run(['--help'])\n"
        "print(json.dumps([code, sorted({name.split('.')[0] for name in sys.modules})]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=clean_environment(), capture_output=True, check=True
    )
    code, loaded = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    assert not HEAVY & set(loaded)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_has_help_an_example_and_its_place_in_the_reference() -> None:
    writer = load(ROOT / "docs" / "write_commands.py")
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    commands = writer.every_command()
    assert commands
    for name, command in commands.items():
        assert command.help, f"{name} has no help"
        examples = writer.examples_of(command)
        assert examples, f"{name} has no example"
        assert all(f"calibkit {name} " in line for line in examples)
        assert f"## `{name}`" in page
        for param in command.params:
            assert param.help, f"{name}: {param.name} has no help"
    assert page == writer.reference(), "docs/commands.md is not current: run make docs"


def test_options_of_one_name_mean_the_same_everywhere() -> None:
    """An option's short and long names go together in all commands."""
    pairs: dict[str, set[tuple[str, ...]]] = {}
    for command in load(ROOT / "docs" / "write_commands.py").every_command().values():
        for param in command.params:
            for name in param.opts:
                pairs.setdefault(name, set()).add(tuple(sorted(param.opts)))
    assert {name: found for name, found in pairs.items() if len(found) > 1} == {}


def kernels() -> list[str]:
    names = []
    for path in sorted(FLOORS["calibkit_kernels"].glob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                marks = {mark.id for mark in node.decorator_list if isinstance(mark, ast.Name)}
                if "kernel" in marks:
                    names.append(node.name)
    return names


def kernel_nodes() -> Iterator[ast.FunctionDef]:
    for path in sorted(FLOORS["calibkit_kernels"].glob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(mark, ast.Name) and mark.id == "kernel" for mark in node.decorator_list
            ):
                yield node


def test_kernels_take_few_arguments_and_use_the_bare_decorator() -> None:
    for node in kernel_nodes():
        count = len(node.args.args) + len(node.args.kwonlyargs)
        assert count <= 8, f"kernel {node.name} takes {count} arguments"


def test_every_public_kernel_has_a_naive_twin() -> None:
    """A twin in tests/naive/ is named as the kernel, or a table TWINS there names it.

    Several small kernels may share the twin of what they do together (the passes of a sort).
    """
    known = every_twin()
    missing = [name for name in kernels() if name not in known]
    assert not missing, f"kernels without a naive twin in tests/naive/: {missing}"
