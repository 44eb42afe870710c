"""``calibkit boundary``: fit a decision boundary over score and uncertainty."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from calibkit.errors import CalibkitError, UsageError
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.shared import of_method, of_output

from . import declare
from .console import Console
from .lines import FitLine, check_beside
from .runs import check_paths, deliver_model, run_states, tell, write_models

if TYPE_CHECKING:
    from calibkit.files.sinks import Transaction
    from calibkit.methods.boundary.result.fit import FittedBoundary


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
            check_beside("--frontier", self.frontier, "model")
            if self.compare:
                raise UsageError("--frontier is that of one method; leave --compare out.")
        if self.compare and self.apply is not None:
            raise UsageError("--compare is a table of many boundaries; leave --apply out.")


@declare.command
def boundary(options: BoundaryOptions, line: BoundaryLine) -> None:
    """Fit, or compare methods; write the model and what goes with it."""
    console = line.part(Console)
    if line.compare:
        options.check_comparison()
    if line.frontier is not None:
        options.check_frontier()
    tables = line.compare or line.frontier is not None
    if console.per_input and tables:
        raise UsageError("-o DIR/ goes with neither --compare nor --frontier.")
    line.refuse_states(tables or options.test, "--test, --compare and --frontier out")
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
    run_states("boundary", options, line, console, write, deliver_model)


def _compare(options: BoundaryOptions, line: BoundaryLine, console: Console) -> None:
    """Print all methods side by side; the model of the chosen one goes to ``-o``."""
    from calibkit.files.sinks import write_bytes
    from calibkit.methods.boundary.compare import HEADER, compare

    check_paths(options, line, console)
    compared = compare(options, line.open(console))
    tell(console, compared.inputs)
    console.summary(*compared.inputs.data.notes)
    fitted: FittedBoundary | None = None
    failure: CalibkitError | None = None
    if console.output is not None or console.as_json:
        try:
            fitted = compared.fit()
        except CalibkitError as error:
            failure = error
        else:
            tell(console, fitted)
    rows = [one.row() for one in compared.methods]
    if console.as_json:
        console.json({**(fitted.model.as_dict() if fitted else {}), "compare": rows})
    else:
        kept = [name for name in HEADER if any(row[name] for row in rows)]
        cells = [[row[name] for name in kept] for row in rows]
        # On standard error where the model is on standard output.
        console.table([HEADER[name] for name in kept], cells, error=console.output == "-")
    if failure is not None and console.output is not None:
        raise failure
    if fitted is not None and console.output is not None:
        write_bytes(fitted.model.to_json(), console.output)
