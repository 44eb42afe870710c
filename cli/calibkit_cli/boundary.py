"""``calibkit boundary``: fit a decision boundary over score and uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from calibkit.errors import CalibkitError, UsageError
from calibkit.options.boundary import BoundaryOptions, of_method
from calibkit.options.shared import of_output
from calibkit.registry.methods import boundary

from . import declare
from .console import Console
from .fitting import check_paths, deliver, run_states, tell, write_models
from .lines import FitLine

if TYPE_CHECKING:
    from calibkit.files.sinks import Transaction
    from calibkit.methods.boundary.compare import Compared
    from calibkit.methods.boundary.result.fit import FittedBoundary

HELP = """\
In each uncertainty level the rows from one score threshold up are selected; the thresholds together
reach the most recall within a bound, the most precision at a recall bound, or the best value of a
measure or a cost. Recall may count value instead of rows, rates may be those of another base rate,
and each value of a column may have thresholds of its own.

Examples:
  calibkit boundary calib.parquet --precision 0.9 -o boundary.json
  calibkit boundary calib.parquet --precision 0.9 --test test.parquet --compare
  calibkit boundary calib.parquet --precision 0.9 --confidence 0.95 -o boundary.json
  calibkit boundary calib.csv --recall 0.5 --method st --test test.csv -o boundary.json
  calibkit boundary calib.parquet --precision 0.9 --value amount --by country -o boundary.json
  zcat scores.csv.gz | calibkit boundary - --precision 0.8 --score p --label y > boundary.json
"""


@dataclass(frozen=True, kw_only=True)
class BoundaryLine(FitLine):
    """The rest of the line, with what it may write beside a model."""

    compare: bool = of_method("A table of all methods that take the objective.", default=False)
    frontier: str | None = of_output(
        "Every boundary that no other beats in precision and recall, as rows.", "FILE"
    )

    def check(self) -> None:
        """Refuse tables that have no place to go, or that would say something else."""
        super().check()
        if self.frontier is not None:
            from calibkit.files.paths import check_output

            check_output(self.frontier, table=True)
            if self.frontier == "-":
                raise UsageError("--frontier - would mix with the model; give it a file.")
            if self.compare:
                raise UsageError("--frontier is that of one method; leave --compare out.")
        if self.compare and self.apply is not None:
            raise UsageError("--compare is a table of many boundaries; leave --apply out.")


def _run(options: BoundaryOptions, line: BoundaryLine) -> None:
    console = line.console()
    if line.compare:
        options.check_comparison()
    if line.frontier is not None:
        options.check_frontier()
    tables = line.compare or line.frontier is not None
    if console.per_input and (tables or line.as_json):
        raise UsageError("-o DIR/ goes with neither --compare nor --frontier nor --json.")
    states = (line.partial or line.dask is not None) and not line.dry_run
    if states and (tables or options.test is not None):
        raise UsageError(
            "--partial and --dask go through states, which are not the rows; leave --test, "
            "--compare and --frontier out."
        )
    if line.compare and not line.dry_run:
        _compare(options, line, console)
        return
    if line.apply is not None and options.method == "stochastic":
        raise UsageError(
            "--apply: a stochastic boundary decides rows by a key; write the model by -o, and name "
            "the key to `calibkit apply --key`."
        )

    def frontier(fitted: FittedBoundary, outputs: Transaction) -> None:
        outputs.write_frames([fitted.frontier], str(line.frontier))

    further = None if line.frontier is None else frontier
    write = partial(write_models, options, line, further=further)
    run_states(boundary, options, line, console, write, deliver)


def _compare(options: BoundaryOptions, line: BoundaryLine, console: Console) -> None:
    """Print all methods side by side; the model of the chosen one goes to ``-o``."""
    from calibkit.files.sinks import write_bytes
    from calibkit.methods.boundary.compare import compare

    check_paths(options, line, console)
    compared = compare(options, line.open(console))
    tell(console, compared.inputs)
    console.summary(*compared.inputs.notes)
    fitted: FittedBoundary | None = None
    failure: CalibkitError | None = None
    if console.output is not None or console.as_json:
        try:
            fitted = compared.fit()
        except CalibkitError as error:
            failure = error
        else:
            tell(console, fitted)
    if console.as_json:
        content = fitted.model.as_dict() if fitted else {}
        console.json({**content, "compare": [one.row() for one in compared.methods]})
    else:
        _print(console, compared.methods)
    if failure is not None and console.output is not None:
        raise failure
    if fitted is not None and console.output == "-":
        console.content(fitted.model.to_json())
    elif fitted is not None and console.output is not None:
        write_bytes(fitted.model.to_json(), console.output)


def _print(console: Console, methods: Sequence[Compared]) -> None:
    """Print what is known of any method; on standard error where the model is on standard output."""
    from calibkit.methods.boundary.compare import HEADER

    rows = [one.row() for one in methods]
    kept = [name for name in HEADER if any(row[name] for row in rows)]
    console.table(
        [HEADER[name] for name in kept],
        [[row[name] for name in kept] for row in rows],
        error=console.output == "-",
    )


register = declare.command(HELP, _run, BoundaryOptions, BoundaryLine)
