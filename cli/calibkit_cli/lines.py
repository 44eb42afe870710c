"""The options that only a command line has: files, formats, how much is said and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from msgspec.structs import replace

from calibkit.errors import UsageError
from calibkit.files.formats import SEPARATORS, Opening, suffix_format
from calibkit.options.option import Options, option
from calibkit.options.shared import TextOptions, arguments, of_input, of_output, of_run
from calibkit.runtime.memory import memory_budget, reuse_memory

from .console import Console

if TYPE_CHECKING:
    from calibkit.errors import DataError
    from calibkit.files.sources import Source
    from calibkit.runtime.memory import Memory

O = TypeVar("O", bound=Opening)  # noqa: E741 (of an opening)

#: How states are named.
STATE = ".state"

Format = Literal["parquet", "csv", "tsv", "ndjson", "arrow", "xlsx"]

Model = Annotated[str, option("A model file (JSON).", "MODEL", argument=True)]

OutputFormat = Annotated[
    Format | None,
    of_output(
        "Format of the output, whatever its suffix.",
        shown="by suffix; on standard output that of the input",
    ),
]

Annotate = Annotated[
    Literal["github"] | None,
    of_output("Also say what is wrong as annotations of GitHub Actions, on standard error."),
]


def check_beside(flag: str, path: str, mixes: str, *, table: bool = True) -> None:
    """Refuse a file beside a result that would mix with it on standard output, or cannot be written."""
    from calibkit.files.paths import STDOUT_NAMES, check_output

    if path in STDOUT_NAMES:
        raise UsageError(f"{flag} {path} would mix with the {mixes}; give it a file.")
    check_output(path, table=table)


def _refuse_plan(value: Any, flag: str) -> Any:
    raise UsageError("--plan is not needed: merge finishes in one step; leave it out.")


#: What 0.1 needed for fits in several rounds.
Plan = Annotated[str | None, option("Not needed.", "FILE", hidden=True, read=_refuse_plan)]


class Voice(Options):
    """How much a command says."""

    quiet: bool = of_run(
        "No progress or summary; warnings are still shown.",
        flags=("--quiet", "-q"),
        env="CALIBKIT_QUIET",
        default=False,
    )
    warnings: Literal["show", "error"] = of_run(
        "error: a warning ends the run, before it writes.", default="show"
    )


class Talk(Voice):
    """The same of a command that has more to say."""

    verbose: bool = of_run("Say more on standard error.", default=False, flags=("--verbose", "-v"))


class Results(Voice):
    """Where the result of a command goes."""

    output: str | None = of_output(
        "Where the result goes: a file, - for standard output.",
        "OUTPUT",
        flags=("-o", "--output"),
        shown="a table on a terminal, the content on a pipe",
    )
    as_json: bool = of_output(
        "Print the summary of the run, or its error, as one JSON object on standard output.",
        flags=("--json",),
        default=False,
    )


class Budget(Options):
    """How much memory there is."""

    memory: str | None = of_run(
        "Memory to stay within, such as 500MB or 2GB; rows that do not fit are read in batches.",
        "SIZE",
        env="CALIBKIT_MEMORY",
        shown="half of the machine's, or of the container's",
    )


class Reads(TextOptions):
    """How rows are read."""

    input_format: Format | None = of_input(
        "Format of the input, whatever its suffix.",
        shown="by suffix; on standard input by its first bytes, else csv",
    )
    dtype: Literal["float64", "float32"] = of_input(
        "Type of the numbers in a text file (CSV, NDJSON).", default="float64"
    )

    @property
    def budget(self) -> Memory:
        """How much memory there is, where the line has an option of it as it says."""
        return memory_budget(getattr(self, "memory", None))

    def opening(self, kind: type[O], typed: tuple[str, ...] | None = None) -> O:
        """Return how the files are opened, here or by a worker elsewhere; `typed`: see `Dialect`."""
        return kind(self.budget, self.input_format, replace(self.dialect, typed=typed))

    def source(self, paths: Sequence[str], typed: tuple[str, ...] | None = None) -> Source:
        """Return the rows of some files; `typed`: see `calibkit.files.formats.Dialect`."""
        from calibkit.files.sources import open_source

        reuse_memory()
        return open_source(paths, self.opening(Opening, typed))


class Inputs(Reads):
    """Rows, and how they are read."""

    inputs: Annotated[
        list[str],
        arguments(
            "Files, globs, directories (key=value folders below become columns) or - for "
            "standard input, all of one schema.",
            "INPUT",
        ),
    ]

    def keeps_text(self, output: str | None) -> bool:
        """Tell whether text becomes text again, so that columns not read can stay as they are."""
        from calibkit.files.paths import find_files

        written = getattr(self, "output_format", None) or suffix_format(output or "")
        read = [self.input_format or suffix_format(path) for path in find_files(self.inputs)]
        alike = len(read) == 1 or all(one in SEPARATORS for one in read)
        return alike and (written is None or written in SEPARATORS)

    def open(self, console: Console, typed: tuple[str, ...] | None = None) -> Source:
        """Return the rows; from now on the console shows how far the run comes."""
        console.show_progress()
        source = self.source(self.inputs, typed)
        console.aside(source.remarks)
        return source

    def open_readable(self, console: Console) -> tuple[Source | None, list[DataError]]:
        """Return the rows of the files that can be read, as `open` does, and the others' errors."""
        from calibkit.files.sources import open_readable

        console.show_progress()
        reuse_memory()
        source, errors = open_readable(self.inputs, self.opening(Opening))
        if source is not None:
            console.aside(source.remarks)
        return source, errors


class Reading(Budget, Inputs, Talk):
    """Rows that need not fit into memory."""


class DryRun(Options):
    """A run that is only planned."""

    dry_run: bool = of_run(
        "Show the columns found, the plan and the first rows; write nothing.", default=False
    )


class Spread(Options):
    """Work on a cluster."""

    dask: str | None = of_run(
        "Work on a Dask cluster: the address of its scheduler, or local for as many processes "
        "of this machine as --threads says (needs the extra dask).",
        "ADDRESS|local",
        shown="this process",
    )


class StateLine(Reading, Results, Spread, DryRun):
    """The line of a command that has states."""

    plan: Plan = None
    partial: bool = of_output(
        "Write a summary of these rows, a .state file, for `calibkit merge`.", default=False
    )

    @property
    def steps(self) -> list[str]:
        """What a run does besides, in words."""
        return []

    def refuse_states(self, asked: object, what: str) -> None:
        """Refuse what is `asked` for where the rows are not here."""
        if asked and (self.partial or self.dask is not None):
            raise UsageError(
                f"--partial and --dask go through states, which are not the rows; leave {what}."
            )

    def check(self) -> None:
        """Refuse a state under another name, and another result under that of a state."""
        output = self.output or ""
        named = output.endswith(STATE)
        if self.partial and not (named or output == "-" or output.endswith("/")):
            raise UsageError(f"--partial writes a state; give it a name: -o NAME{STATE}.")
        if named and not self.partial:
            raise UsageError(
                f"{output}: is a state by its name; add --partial, or name it otherwise."
            )
        if self.partial and self.dask is not None:
            raise UsageError("--dask makes and merges all states itself; leave --partial out.")


class FitLine(StateLine):
    """The line of a fit, whose model may be applied at once."""

    apply: str | None = of_output(
        "Also write the rows of the fit to this file, with the columns that `calibkit apply` adds.",
        "FILE",
    )

    @property
    def steps(self) -> list[str]:
        """What a run does besides, in words."""
        said = f"apply the model, and write the rows to {self.apply}"
        return [] if self.apply is None else [said]

    def check(self) -> None:
        """Refuse rows that have no place to go, or are not read here."""
        super().check()
        if self.apply is None:
            return
        from calibkit.files import paths as outputs

        if self.partial or self.dask is not None:
            raise UsageError(
                "--apply is for rows that are read here; leave --partial and --dask out."
            )
        if self.output is not None and outputs.is_directory_output(self.output):
            raise UsageError("-o DIR/ gives several models; leave --apply out.")
        model_there = self.as_json or self.output is None or self.output in outputs.STDOUT_NAMES
        if self.apply in outputs.STDOUT_NAMES and model_there:
            raise UsageError(f"--apply {self.apply} would mix with the model; give it a file.")
        if outputs.is_directory_output(self.apply):
            outputs.check_folder(self.apply)
        else:
            outputs.check_output(self.apply, table=True)
