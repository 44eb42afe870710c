"""Exporting a model: its program, the text in a language, and a check of it.

A check runs text and model on the same rows, some made to be difficult: copies of a file's own in which
a number lies on a threshold or knot of the model, or is the float next to it, is 0, 1 or missing, and
in which a text was never seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import asdict

from calibkit.apply.apply import apply_model, plan_application
from calibkit.arrays import distinct_values
from calibkit.errors import CheckError, UsageError, needed
from calibkit.exports.modules import Polars, Python
from calibkit.exports.printer import Printer
from calibkit.exports.sql import DuckDb, Postgres
from calibkit.expressions import nodes
from calibkit.expressions.nodes import Node, Number, Ref, when
from calibkit.expressions.program import Program, Scores
from calibkit.files.sources import Source
from calibkit.maps.application import match_classes
from calibkit.models.kinds import ACTION, KINDS, PASS, Request
from calibkit.models.model import Column, Model
from calibkit.options.apply import ApplyOptions, ExportOptions
from calibkit.version import __version__

if TYPE_CHECKING:
    from calibkit.bundles.model import BundleModel

#: What writes each language; SQL by its dialects.
PRINTERS: Final[Mapping[str, type[Printer]]] = {
    "duckdb": DuckDb,
    "postgres": Postgres,
    "polars": Polars,
    "python": Python,
}


#: How far probabilities and margins may be apart, relatively where they are above 1.
TOLERANCE = 1e-12

#: Difficult rows at most.
MOST_PROBES = 200_000

#: Rows, as dictionaries, that Python works on at a time.
_PYTHON_ROWS = 50_000

#: The number of a row, by which results are put in order again.
_PLACE = "calibkit_place"


def program_of(model: Model, request: Request) -> Program:
    """Return what a model computes; a needless key and columns of unused roles are refused."""
    request.refuse_key_of(model.kind)
    if model.kind != "bundle":  # which refuses all of them
        request.refuse_unused(model.columns)
    program = Program()
    program.finish(KINDS[model.kind].translate()(program, model, request))
    return program


def translate_bundle(program: Program, model: BundleModel, request: Request) -> dict[str, Node]:
    """Return the columns of each part in turn, and `action`: the first name that fires."""
    steps = model.steps()
    model.refuse(request)
    outputs: dict[str, Node] = {}
    for step in steps:
        program.exact, program.rising = False, None
        translate = KINDS[step.model.kind].translate()
        found = translate(program, step.model, step.request(request, outputs))
        for own, name in step.columns.items():  # which the parts after it may read
            outputs[name] = program.available[name] = bound = program.bind("made", found[own])
            if own != "decision" and not program.exact:
                program.loose.add(bound.name)
        if program.rising is not None:
            program.inverses[step.columns["calibrated"]] = program.rising
    action: Node = nodes.Text(PASS)
    for step in reversed(steps):
        if step.decides:
            fires = outputs[step.columns["decision"]].equals(1.0)
            action = when(fires, nodes.Text(str(step.name)), action)
    return outputs | {ACTION: action}


def export_model(
    model: Model, dialect: str, request: Request | None = None, table: str = "scores"
) -> str:
    """Return a model as the text of a file, in a language of `PRINTERS`.

    Of SQL, `table` is the table that is read; a dot parts a schema from it.
    """
    program = program_of(model, request or Request())
    about = f"calibkit {__version__}: a model of kind {model.kind}"
    return PRINTERS[dialect]().file(program, about, table)


class Agreement(Struct, frozen=True):
    """What a check found."""

    rows: int  # those of the file, and those made, compared in all columns
    made_rows: int
    different: int  # how many of them differ
    #: The largest distance of two numbers, relative where they are above 1.
    largest_difference: float
    examples: tuple[str, ...]  # the first differences, in words

    @property
    def holds(self) -> bool:
        """Whether no row differs."""
        return self.different == 0

    def as_dict(self) -> dict[str, object]:
        """Return the figures for ``--json``."""
        found = asdict(self)
        del found["examples"]
        return found

    def __str__(self) -> str:
        counted = f"{self.rows:,} rows and {self.made_rows:,} made on thresholds"
        if self.holds:
            return f"{counted}: no difference (numbers within {self.largest_difference:.1g})"
        return f"{counted}: {self.different:,} differ; " + "; ".join(self.examples)


def check_export(model: Model, dialect: str, request: Request, source: Source) -> Agreement:
    """Run an export and the model on the same rows, and compare what they add.

    Of SQL the rows are the table, whatever its name; PostgreSQL is refused, it needs a server.
    """
    if dialect == "postgres":
        raise UsageError(
            "--check runs no PostgreSQL server; check the same model with --dialect duckdb, and see "
            "docs/export.md for comparing the results of your own server."
        )
    program = program_of(model, request)
    reads = plan_application(model, source, _options(request)).reads
    needed = [*program.columns(), *reads.needed.values(), *reads.optional]
    rows = source.read(list(dict.fromkeys(needed)))
    for name, kind in rows.schema.items():
        if dialect == "duckdb" and isinstance(kind, pl.Duration):
            raise UsageError.of(
                source.file,
                f"column {name!r} holds lengths of time ({kind}), which databases write otherwise than "
                "segments are named; give numbers, such as seconds, to the fit and here",
                column=name,
            )
    frame = pl.concat([rows, probes(program, rows, request.key)], how="vertical_relaxed")
    expected = applied(model, request, frame)
    text = export_model(model, dialect, request)
    found = run(dialect, text, frame).select(expected.columns)
    return compared(found, expected, rows.height)


def with_classes(model: Model, request: Request, source: Source) -> Request:
    """Return a request that names the columns of class probabilities, as the rows have them."""
    classes = getattr(model, "classes", None)
    if not isinstance(classes, list):
        return request
    return replace(request, class_columns=match_classes(model, classes, source, request).columns)


def applied(model: Model, request: Request, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the columns that the model itself adds to rows."""
    made = apply_model(model, Source.from_frame(frame, "the rows of --check"), _options(request))
    return made.frame.select(made.added)


def _options(request: Request) -> ApplyOptions:
    columns: dict[str, Any] = dict(request.columns)
    return ApplyOptions(
        **columns, key=request.key, seed=request.seed, on_missing="null", overwrite_columns=True
    )


def run(dialect: str, text: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the columns that an exported text adds."""
    if dialect == "duckdb":
        return _run_duckdb(text, frame)
    space: dict[str, object] = {}
    exec(compile(text, "<export>", "exec"), space)  # our own text: names are quoted in it
    apply = space["apply"]
    assert callable(apply)
    if dialect == "polars":
        return apply(frame)
    parts = [
        pl.DataFrame([apply(row) for row in part.iter_rows(named=True)], infer_schema_length=None)
        for part in frame.iter_slices(_PYTHON_ROWS)
    ]
    return pl.concat(parts, how="vertical_relaxed")


def _run_duckdb(text: str, frame: pl.DataFrame) -> pl.DataFrame:
    said = "--check of SQL runs it in DuckDB, which is not installed: pip install duckdb"
    duckdb = needed("duckdb", UsageError(said))
    odd: dict[Any, Any]  # what Arrow or DuckDB do not take
    odd = dict.fromkeys((pl.Categorical, pl.Enum, pl.Int128), pl.String) | {pl.Float16: pl.Float32}
    numbered = frame.cast(odd).with_row_index(_PLACE)
    with duckdb.connect() as connection:
        connection.register("scores", numbered.to_arrow())
        found: pl.DataFrame = connection.sql(text).pl()
    return found.sort(_PLACE).drop(_PLACE)


def compared(found: pl.DataFrame, expected: pl.DataFrame, rows: int) -> Agreement:
    """Return how far two tables agree; `rows`: those after it are not the file's."""
    differs = np.zeros(expected.height, np.bool_)
    largest = 0.0
    examples: list[str] = []
    for name in expected.columns:
        one, other = found[name], expected[name]
        if other.dtype.is_float():
            own, distance = _apart(one, other)
            largest = max(largest, distance)
        else:
            own = one.cast(other.dtype).ne_missing(other).to_numpy()
        for place in np.flatnonzero(own & ~differs)[: max(0, 3 - len(examples))].tolist():
            row = f"row {place + 1}" if place < rows else "a made-up row"
            examples.append(f"{row}, {name}: {one[place]!r} instead of {other[place]!r}")
        differs |= own
    count = int(np.count_nonzero(differs))
    return Agreement(rows, expected.height - rows, count, largest, tuple(examples))


def _apart(one: pl.Series, other: pl.Series) -> tuple[np.ndarray, float]:
    """Return which numbers differ, and by how much those do that both have."""
    a, b = one.cast(pl.Float64).to_numpy(), other.cast(pl.Float64).to_numpy()
    with np.errstate(invalid="ignore"):
        gap = np.abs(a - b) / np.maximum(1.0, np.abs(b))
    gap[(a == b) | (one.is_null() & other.is_null()).to_numpy()] = 0.0
    gap[np.isnan(gap)] = np.inf
    return gap > TOLERANCE, float(gap[np.isfinite(gap)].max(initial=0.0))


def probes(program: Program, rows: pl.DataFrame, key: str | None = None) -> pl.DataFrame:
    """Return difficult rows: copies of some rows with columns changed."""
    texts = [name for name in program.columns(nodes.Words) if rows.schema[name] == pl.String]
    changes: list[tuple[str, str | None]] = [(name, None) for name in program.columns()]
    changes += [(name, "\u00e9' \"never seen") for name in texts]
    made = [
        rows.head(1).with_columns(pl.lit(value).cast(rows.schema[name]).alias(name))
        for name, value in changes
        if name != key  # every row has one
    ]
    return pl.concat([_combined(program, rows), *made], how="vertical_relaxed")


def _combined(program: Program, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with every number that a column is compared with and every one of another.

    As many as may be: numbers, their neighbours, 0 and 1.
    """
    found: dict[str, list[float]] = {}
    for node in program.every_node():
        match node:
            case nodes.Steps(Ref(name), knots) if name in program.inputs:
                found.setdefault(name, []).extend(knots)
            case nodes.Compare(_, Ref(name), right) if name in program.inputs:
                found.setdefault(name, []).extend(_constants(program, right))
    if not found:
        return rows.clear()
    inputs = program.inputs
    values = {inputs[name].name: _neighbours(own, inputs[name]) for name, own in found.items()}
    sizes = [len(one) for one in values.values()]
    if math.prod(sizes) <= MOST_PROBES:
        columns = [part.ravel() for part in np.meshgrid(*values.values(), indexing="ij")]
    else:
        size, random = min(MOST_PROBES, 4 * max(sizes)), np.random.default_rng(0)
        columns = [one[random.permutation(size) % len(one)] for one in values.values()]
    changed = [pl.Series(*column) for column in zip(values, columns, strict=True)]
    return rows[np.arange(columns[0].size) % rows.height].with_columns(changed)


def _constants(program: Program, node: Node) -> Iterator[float]:
    for part in nodes.every_node(node):
        if isinstance(part, Number):
            yield part.value
        elif isinstance(part, Ref):
            yield from _constants(program, program.bindings[part.name])


def _neighbours(values: Sequence[float], column: Column) -> np.ndarray:
    """Return numbers in the dtype of a fit with the floats next to them, and 0 and 1."""
    scores = Scores.of(column)
    known = sorted({value for value in values if scores.low <= value <= scores.high})
    known = known[:: max(1, len(known) // (MOST_PROBES // 8))]
    own = scores.keys([*known, 0.0, 1.0])
    keys = distinct_values(np.concatenate([own - 1, own, own + 1]))
    ends = scores.keys([scores.low, scores.high])
    found = scores.floats(keys[(keys >= ends[0]) & (keys <= ends[1])]).astype(np.float64)
    return np.minimum(found * 100.0, 100.0) if column.scale == "percent" else found


def export(options: ExportOptions, source: Source | None) -> tuple[str, Agreement | None]:
    """Return a model as code, and what a check on rows found: the two have to agree there."""
    model, found = options.fitted, None
    if options.key == "row-number":  # which `apply` takes
        raise UsageError(
            "--key row-number: the rows of a table have no numbers; name a column that identifies a "
            "row."
        )
    request = Request(columns=options.elsewhere, key=options.key, seed=options.seed)
    dialect = (options.dialect or "duckdb") if options.to == "sql" else options.to
    if source is not None:
        request = with_classes(model, request, source)
        found = check_export(model, dialect, request, source)
        if not found.holds:
            path = source.file
            raise CheckError(f"{path}: the export is not the model: {found}. Nothing was written.")
    return export_model(model, dialect, request, options.table or "scores"), found
