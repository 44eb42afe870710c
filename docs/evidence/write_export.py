"""Fill in export.md: exported models against `apply` on a million rows.

Models of every kind are fitted on 20,000 simulated rows, exported, and run on other rows: in DuckDB,
on a PostgreSQL server that is started for it (where one is installed), by polars, and by plain
Python on every tenth row.  Rows made on the models' thresholds and knots, and next to them, are
added.  Needs duckdb, as the tests do.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import duckdb
import polars as pl
from pages import ROOT, arguments, fill, paragraph, table

sys.path.insert(0, str(ROOT))

from calibkit.exports.export import (
    TOLERANCE,
    applied,
    compared,
    export_model,
    probes,
    program_of,
    run,
    with_classes,
)
from calibkit.files.sources import Source
from calibkit.models.kinds import Request
from calibkit.models.model import Model, load
from tests import export_models
from tests.postgres.server import Server, find_programs, running

FITTED_ON = 20_000
#: Python, which is meant for one row at a time, gets one row of so many.
PYTHON_SHARE = 10
MODELS = (
    *("st", "exact", "levels", "float32", "logistic", "block", "tie", "score-first", "by", "raw"),
    *("beta", "platt-logit", "temperature", "prior-shift", "histogram", "isotonic"),
    *("scaling-binning", "scaling-binning-falling", "venn-abers", "venn-abers-by", "beta-by"),
    *("classes-temperature", "classes-vector", "classes-matrix", "vad", "vad-by", "tandem"),
    *("tree", "tree-steps", "tree-beta", "tree-deep", "forest", "boosted"),
    *("alpha", "alpha-probs", "alpha-sorted", "alpha-features"),
    *("bundle", "bundle-by", "bundle-steps", "bundle-trees"),
)


def main() -> None:
    """Fit, export, compare, and fill the page in."""
    count = arguments(__doc__, rows=1_000_000).rows
    rows = export_models.rows(count, seed=2)
    programs = find_programs()
    lines: list[list[str]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(running(programs)) if programs else None
        models = {name: load(str(export_models.fit(name, folder, FITTED_ON))) for name in MODELS}
        for name, model in models.items():
            request = Request(key="id") if name in export_models.RANDOM else Request()
            lines.append(line(name, model, request, rows, server))
            print(*lines[-1], sep=" | ", flush=True)
    postgres = "PostgreSQL" if programs else "PostgreSQL (not installed)"
    header = f"model|kind|rows made|apply|DuckDB|polars|{postgres}|Python"
    machine = (
        f"Python {platform.python_version()}, polars {pl.__version__}, DuckDB {duckdb.__version__}, "
        f"{os.cpu_count()} processors."
    )
    fill("export", setting=paragraph(setting(count)), models=table(header, lines), machine=machine)


def line(
    name: str, model: Model, request: Request, rows: pl.DataFrame, server: Server | None
) -> list[str]:
    """Return the row of a model in the table."""
    request = with_classes(model, request, Source.from_frame(rows.head(1)))
    program = program_of(model, request)
    rows = rows.select(program.columns())
    made = probes(program, rows, request.key)
    frame = pl.concat([rows, made], how="vertical_relaxed")
    start = time.perf_counter()
    expected = applied(model, request, frame)
    seconds = time.perf_counter() - start
    cells = [name, model.kind, f"{made.height:,}", f"{seconds:.2f} s"]
    for language in ("duckdb", "polars"):
        text = export_model(model, language, request)
        cells.append(
            timed(lambda text=text, language=language: run(language, text, frame), expected)
        )
    if server is not None:
        text = export_model(model, "postgres", request)
        server.load('"scores"', frame.with_row_index("place"))
        cells.append(timed(lambda: server.query(text).sort("place"), expected))
    else:
        cells.append("")
    text = export_model(model, "python", request)
    some, judged = (table.gather_every(PYTHON_SHARE) for table in (frame, expected))
    cells.append(timed(lambda: run("python", text, some), judged))
    return cells


def timed(call: Callable[[], pl.DataFrame], expected: pl.DataFrame) -> str:
    """Return the cell of one language: how far it agrees, and how long all rows took."""
    start = time.perf_counter()
    found = call()
    seconds = time.perf_counter() - start
    agreement = compared(found.select(expected.columns), expected, expected.height)
    return f"{agreement.different}; {agreement.largest_difference:.0e}; {seconds:.2f} s"


def setting(count: int) -> str:
    """Return what was compared on so many rows."""
    return (
        f"Models of every kind, fitted on {FITTED_ON:,} simulated rows, exported and run on {count:,} "
        "others and on rows made to be difficult: with every threshold, edge and knot, the floats next "
        "to them, missing values, and segments never seen. Each cell has the rows that differ from "
        "`calibkit apply` in any added column (a decision, leaf or action that is another one, a "
        f"number more than {TOLERANCE:g} away), the largest distance of two numbers, and the time, "
        f"reading and writing rows included. Python works on one row in {PYTHON_SHARE}."
    )


if __name__ == "__main__":
    main()
