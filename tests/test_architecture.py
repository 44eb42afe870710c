"""The house stands as drawn: three floors, imports downward, one place for each duty."""

from __future__ import annotations

import ast
import graphlib
import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, reduce
from pathlib import Path
from types import ModuleType

import pytest

import calibkit
from tests.conftest import LOADED, ROOT, clean_environment, printed
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
    "calibkit_kernels": {"numpy", "numba", "llvmlite"},
}
HEAVY = {"numpy", "polars", "numba", "llvmlite", "pyarrow", "matplotlib", "calibkit_kernels"}
#: Files are mostly short: a cap alone cuts files, not concepts.
LONG, MOST_LONG_FILES, MOST_LINES = 400, 0.125, 650
#: The whole product and all its tests; to be lowered: what adds lines takes some away elsewhere.
MOST_OF_ALL = {"product": 58_250, "tests": 44_050}
MOST_FUNCTION_LINES = 80

#: The rooms of the library by floor, bottom to top.  A room imports rooms of lower floors only.
ROOMS = (
    ("errors", "version", "arrays"),
    ("words", "runtime", "numerics"),
    ("files",),
    ("models",),
    ("options", "columns"),
    ("bundles", "expressions", "simulate", "summaries"),
    ("bins", "maps", "measures"),
    ("methods", "apply", "evaluation", "gates", "validation"),
    ("drift", "engines", "exports", "reports"),
    ("registry",),
    ("api",),
    ("calibkit", "sklearn"),
)
#: What there is one of: names of functions and classes that do it, and where they stand.
ONE_OF_EACH = {
    "Newton's method": (
        r"_?(newton|damped_newton|irls|newton_(step|solve|fit|line))",
        """numerics.solve.newton _kernels.newton.newton
        _kernels.newton.newton_step _kernels.leaves.newton_line""",
    ),
    "a minimum in many parameters": (
        r"_?(quasi_newton|l?bfgs|minimi[sz]e|gradient_descent|line_search)",
        "numerics.solve.quasi_newton numerics.solve._line_search",
    ),
    "the root of one function": (
        r"_?(\w+_root|find_root|bisect\w*|secant|brent\w*|regula_falsi)",
        "numerics.solve.rising_root measures.classes.put_root",
    ),
    "isotonic regression": (
        r"_?(pav|pava|pool_adjacent\w*|isotonic|isotonic_regression|isotonic_blocks|pool)",
        """numerics.isotonic.pool
        methods.boundary.solvers.prefixes.isotonic
        methods.boundary.solvers.prefixes.isotonic_blocks""",
    ),
    "quantiles": (
        r"_?(quantiles?|percentiles?|\w+_quantiles?|quantile_edges|quantiles_in_units)",
        """summaries.edges.quantile_edges summaries.edges.quantiles_in_units
        maps.method.quantiles summaries.edges.falling_quantiles
        methods.boundary.problem.columns.Quantiles numerics.distributions.normal_quantile""",
    ),
    "hashes of rows": (
        r"_?(hash_rows|rows?_hash(es)?|hashes|data_hash(es)?)",
        """numerics.hashes.row_hashes numerics.hashes.data_hash
        numerics.hashes.hash_rows
        methods.boundary.solvers.summary._rows_hash
        methods.hetcal.rows.hashes""",
    ),
    "exact sums": (
        r"_?(exact_sum\w*|exactsum|accumulator|kahan\w*|neumaier\w*|two_sum|fsum)",
        "numerics.sums.exact_sum numerics.sums.ExactSum",
    ),
    "streams of random numbers": (
        r"_?(streams?|random_stream|splitmix\w*|philox\w*|xorshift\w*|draw_numbers|rng)",
        "numerics.hashes.stream _kernels.bootstrap.draw_numbers",
    ),
}

SOURCES = [path for folder in FLOORS.values() for path in sorted(folder.rglob("*.py"))]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


@cache
def floor_of(path: Path) -> str:
    return next(name for name, folder in FLOORS.items() if path.is_relative_to(folder))


def module_of(path: Path) -> str:
    floor = floor_of(path)
    parts = path.relative_to(FLOORS[floor]).with_suffix("").parts
    return ".".join([floor, *(part for part in parts if part != "__init__")])


@cache
def imports_of(path: Path, *, everywhere: bool = True) -> frozenset[str]:
    """Return the modules a file imports; `everywhere`: in function bodies and for types too."""
    return frozenset(_imports(path, nodes_of(path) if everywhere else tree_of(path).body))


def _imports(path: Path, nodes: Iterable[ast.AST]) -> Iterator[str]:
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


def in_files(check: Callable[[Path], Iterable[str]]) -> dict[str, list[str]]:
    """Return by file of the product what a check finds there."""
    found = {path.relative_to(ROOT).as_posix(): sorted(check(path)) for path in SOURCES}
    return {name: wrong for name, wrong in found.items() if wrong}


def test_imports_go_down_one_floor() -> None:
    def strangers(path: Path) -> Iterator[str]:
        known = {*sys.stdlib_module_names, *ALLOWED[floor_of(path)], floor_of(path)}
        return (name for name in imports_of(path) if name.split(".")[0] not in known)

    assert in_files(strangers) == {}


def test_heavy_modules_stand_inside_function_bodies_of_the_command_line() -> None:
    def at_start(path: Path) -> Iterator[str]:
        cli = floor_of(path) == "calibkit_cli"
        imported = imports_of(path, everywhere=False) if cli else ()
        return (name for name in imported if name.split(".")[0] in HEAVY)

    assert in_files(at_start) == {}


MODULES = {module_of(path): path for path in SOURCES}

#: Packages say what they hold, and hold nothing themselves; `calibkit` holds the public names.
PACKAGES = {module_of(path) for path in SOURCES if path.name == "__init__.py"} - {"calibkit"}
LIBRARY = [name for name in MODULES if name.split(".")[0] == "calibkit"]


def strings_of(path: Path) -> Iterator[str]:
    """Yield the strings of a file: `import_module` takes modules by them."""
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield node.value


@cache
def needed_by(module: str) -> frozenset[str]:
    """Return all modules of the house that one imports, anywhere and in any way, but itself."""
    path = MODULES[module]
    found = {name for name in (*imports_of(path), *strings_of(path)) if name in MODULES}
    # The head of a name is loaded first, but holds nothing: `from a.b import c` needs a.b.c.
    return frozenset(found - {module, *PACKAGES})


def test_no_module_imports_itself_round_a_corner() -> None:
    graph = {module: needed_by(module) for module in MODULES if module not in PACKAGES}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_packages_hold_nothing() -> None:
    for module in PACKAGES & {*LIBRARY}:
        (only,) = tree_of(MODULES[module]).body
        assert isinstance(only, ast.Expr), module


def room_of(module: str) -> str:
    """Return the room of a module of the library; `calibkit` itself is one."""
    return module.split(".")[1] if "." in module else module


def goes_up(module: str, other: str) -> bool:
    """Tell whether an import leads to another room that is not lower, or to another method."""
    floors = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
    room, below = room_of(module), room_of(other)
    if room == below == "methods":
        return module.split(".")[2] != other.split(".")[2]
    return room != below and floors[below] >= floors[room]


def test_every_room_has_its_floor() -> None:
    assert {room_of(name) for name in LIBRARY} == {room for floor in ROOMS for room in floor}


def test_no_import_goes_up() -> None:
    """Imports in function bodies, for types and by strings count as those at the head of a file."""
    found = {
        (name, other)
        for name in LIBRARY
        for other in needed_by(name)
        if other in LIBRARY and goes_up(name, other)
    }
    assert sorted(found) == []


def definitions() -> Iterator[tuple[str, str]]:
    """Yield every function and class of library and kernels: its name, and where it stands."""
    for module, path in MODULES.items():
        place = module.removeprefix("calibkit").removeprefix(".")
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name, f"{place}.{node.name}"


def test_there_is_one_of_each() -> None:
    """Who needs one of these takes the one there is: a second has other tolerances, ties, seeds."""
    defined = [*definitions()]
    for concept, (names, places) in ONE_OF_EACH.items():
        found = {place for name, place in defined if re.fullmatch(names, name.lower())}
        assert sorted(found - {*places.split()}) == [], concept


def test_numbers_are_drawn_from_one_stream() -> None:
    """Only probes of an export, on which no result depends, are drawn otherwise."""
    other = re.compile(
        r"np\.random\.\w+\(|default_rng\(|random\.Random\(|np\.(quantile|percentile)\("
    )
    found = {name for name, path in MODULES.items() if other.search(path.read_text("utf-8"))}
    assert found <= {"calibkit.numerics.hashes", "calibkit.exports.export"}


#: Python that stands beside the product: it names the product's modules too.
BESIDE = [path for name in ("tests", "docs", "benchmarks") for path in (ROOT / name).rglob("*.py")]


def missing_in(path: Path) -> Iterator[str]:
    """Yield what a file names of the product, in an import or after a module, that is not there."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    modules: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] in FLOORS]
            yield from (name for name in names if name not in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FLOORS:
            module = str(node.module)
            if module not in MODULES:
                yield f"line {node.lineno}: {module}"
                continue
            for alias in node.names:
                if (whole := f"{module}.{alias.name}") in MODULES:
                    modules[alias.asname or alias.name] = whole
                elif alias.name not in names_in(module):
                    yield f"line {node.lineno}: {alias.name} in {module}"
    names_only = (node for node in nodes if isinstance(node, ast.Name))
    bound = {node.id for node in names_only if isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id, "")
            if module and node.value.id not in bound and not has_name(module, node.attr):
                yield f"line {node.lineno}: {node.attr} in {module}"


def has_name(module: str, name: str) -> bool:
    return name in names_in(module) or f"{module}.{name}" in MODULES or name.startswith("__")


def test_what_stands_beside_the_product_imports_what_is_there() -> None:
    assert [(str(path), wrong) for path in BESIDE for wrong in missing_in(path)] == []


def test_the_profile_of_a_boundary_names_functions_that_are_there() -> None:
    for step, module, name in load(ROOT / "benchmarks" / "profile_boundary.py").STEPS:
        owner = importlib.import_module(module)
        assert callable(reduce(getattr, name.split("."), owner)), step


@cache
def names_in(module: str) -> set[str]:
    """Return what can be imported from a module: what its statements bind, those in blocks too."""
    if module == "calibkit":
        return {*dir(calibkit)}
    found: set[str] = set()
    for node in nodes_of(MODULES[module]):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def test_files_are_mostly_short() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    long = sorted(path.name for path, count in lines.items() if count > LONG)
    assert len(long) <= MOST_LONG_FILES * len(SOURCES), f"more than {LONG} lines: {long}"
    assert max(lines.values()) <= MOST_LINES


def test_the_house_does_not_grow() -> None:
    parts = {"product": SOURCES, "tests": (ROOT / "tests").rglob("*.py")}
    lines = {
        part: sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
        for part, paths in parts.items()
    }
    assert {part: count for part, count in lines.items() if count > MOST_OF_ALL[part]} == {}


def too_long(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            # The signature of a command, in Python too, is its list of options: one line each, no
            # logic; and its docstring is their reference.
            public = path.parent.name == "api" or module_of(path) == "calibkit.models.model"
            body = length - (node.body[0].lineno - node.lineno)
            if public and ast.get_docstring(node) and len(node.body) > 1:
                body = (node.end_lineno or 0) - node.body[1].lineno + 1
            counted = body if public or floor_of(path) == "calibkit_cli" else length
            if counted > MOST_FUNCTION_LINES:
                yield f"{node.name} has {counted} lines"


def test_functions_stay_short() -> None:
    assert in_files(too_long) == {}


@cache
def calls_of(path: Path) -> list[tuple[str, ast.Call]]:
    found = []
    for node in nodes_of(path):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            found.append((node.func.id if isinstance(node.func, ast.Name) else name, node))
    return found


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


def writers_in(path: Path) -> Iterator[str]:
    # Compiled kernels are no outputs; their folder is tried with a temporary file that has no name.
    # A scratch file is no output: no one but the run itself reads it.
    own = {"calibkit.files.sinks", "calibkit.files.streams", "calibkit_kernels._jit"}
    for name, call in () if module_of(path) in own else calls_of(path):
        if opens_for_writing(name, call) and not goes_to_sinks(path, name):
            yield f"line {call.lineno}: {name}"


def test_sinks_alone_writes_files() -> None:
    assert in_files(writers_in) == {}


def goes_to_sinks(path: Path, name: str) -> bool:
    """Whether a function of this name is the one imported from sinks, or its Transaction's."""
    from_sinks = {f"calibkit.files.sinks.{name}"}
    if name == "write_bytes":
        from_sinks.add("calibkit.files.sinks.Transaction")
    return not from_sinks.isdisjoint(imports_of(path))


def test_models_alone_reads_and_writes_json() -> None:
    def imported(path: Path) -> Iterable[str]:
        # NDJSON is a format of rows; the summary and the error of a run are no model.
        own = module_of(path) in {"calibkit.models.model", "calibkit.files.text"} or (
            floor_of(path) == "calibkit_cli" and path.name in {"console.py", "failures.py"}
        )
        return () if own else imports_of(path) & {"json", "msgspec.json"}

    assert in_files(imported) == {}


def test_the_command_line_alone_ends_the_process_and_prints() -> None:
    def calls(path: Path) -> Iterator[str]:
        for name, call in calls_of(path):
            ends = name in {"exit", "_exit", "abort"} and path.name != "main.py"
            if ends or (name == "print" and floor_of(path) != "calibkit_cli"):
                yield f"line {call.lineno}: {name}"

    assert in_files(calls) == {}


def test_no_pickle() -> None:
    def imported(path: Path) -> frozenset[str]:
        # Compiled kernels lie in a folder that only this user, or an installation, writes to.
        found = {name.split(".")[0] for name in imports_of(path)}
        own = module_of(path) in {"calibkit_kernels._jit", "calibkit_kernels._machine"}
        return frozenset() if own else found & frozenset({"pickle", "shelve", "marshal"})

    assert in_files(imported) == {}


def loaded_by(*words: str) -> set[str]:
    """Return the packages that a command line loads."""
    script = f"from calibkit_cli.main import run; assert run({[*words]}) == 0; print()\n"
    return set(printed(script + LOADED)[-1].split())


def test_help_loads_nothing_heavy() -> None:
    assert not (HEAVY | {"markdown_it", "pygments"}) & loaded_by("--help")
    assert "markdown_it" not in loaded_by("boundary", "--help-all")


def test_what_help_does_without_is_there_for_others() -> None:
    script = (
        "from calibkit_cli.main import run; run(['plot', '--help'])\n"
        "from rich.markdown import Markdown; from rich.traceback import Traceback\n"
        "from rich.console import Console; Console().print(Markdown('*so*'), Traceback.__name__)\n"
    )
    assert " ".join(printed(script)).split()[-2:] == ["so", "Traceback"]


STORED = ROOT / "tests" / "compat" / "0.1.0"
#: Stored models of which a structure computes with arrays.
OF_ARRAYS = ("alpha", "calibrator_beta")


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["boundary_certified", "vad", "hetcal_tree", *OF_ARRAYS])
def test_what_reads_results_loads_neither_tables_nor_kernels(name: str) -> None:
    model = str(STORED / f"{name}.json")
    heavy = {"polars", "pyarrow", "llvmlite", *(() if name in OF_ARRAYS else ("numpy",))}
    assert not heavy & loaded_by("show", model)
    assert not heavy & loaded_by("diff", model, model)


def test_a_gate_loads_neither_tables_nor_kernels(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.json"
    metrics.write_text('{"rows": 9, "metrics": {"score": {"all": {"auc": 0.9}}}, "intervals": {}}')
    loaded = loaded_by("gate", str(metrics), "--fail-if", "auc<0.5")
    assert not {"polars", "pyarrow", "llvmlite", "numpy"} & loaded


def test_the_version_is_printed_before_the_commands_are_known() -> None:
    script = (
        "import sys; sys.argv[1:] = ['--version']\n"
        "from calibkit_cli.__main__ import main; main(); print('typer' in sys.modules)"
    )
    assert printed(script) == [f"calibkit {calibkit.__version__}", "False"]
    full = [sys.executable, "-m", "calibkit_cli", "--version"]
    if Path("/dev/full").exists():
        with Path("/dev/full").open("w") as output:
            assert subprocess.run(full, env=clean_environment(), stdout=output).returncode == 5


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
    return [node.name for node in kernel_nodes() if not node.name.startswith("_")]


def kernel_nodes() -> Iterator[ast.FunctionDef]:
    for path in sorted(FLOORS["calibkit_kernels"].glob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, ast.FunctionDef) and any(
                ast.unparse(mark) == "kernel" or ast.unparse(mark).startswith("brief(")
                for mark in node.decorator_list
            ):
                yield node


def test_kernels_take_few_arguments() -> None:
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
