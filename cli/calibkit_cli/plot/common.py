"""What all kinds of pictures share: the options of inputs and look, and how a kind is added."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from calibkit_cli import options, typed
from calibkit_cli.options import option

from .delivery import Delivery

if TYPE_CHECKING:
    from calibkit.files.sources import Source
    from calibkit.options.evaluate import EvaluateOptions
    from calibkit.report.ece_at import EceSpec
    from calibkit.report.grid_points import GridSpec
    from calibkit.report.look import Look
    from calibkit.report.points import Points
    from calibkit.rows.columns import ColumnOptions

PICTURE = "Picture"

BINS = "Bins and boundaries"

BOUNDARY_HELP = "Mark where a boundary stands; may be repeated."

#: Shares of the rows in a plot of the bias.
TOPS = ("0.02", "0.04", "0.06", "0.08", "0.1")

OutputFormat = Annotated[
    Literal["svg", "png", "parquet", "csv", "tsv", "ndjson", "arrow"] | None,
    option(
        "--output-format",
        panel=options.OUTPUT,
        help="Format of the output, whatever its suffix says: a picture, or its points as a table.",
        show_default="by suffix; on standard output svg",
    ),
]

Data = Annotated[
    str | None,
    option(
        "--data",
        metavar="FILE",
        panel=options.OUTPUT,
        help="Also write the points drawn, as a table.",
        show_default=False,
    ),
]

Size = Annotated[
    str | None,
    option(
        "--size",
        metavar="WxH",
        panel=PICTURE,
        help="Width and height in inches, such as 6x4; a PNG has 200 dots an inch.",
        show_default="what suits the kind",
    ),
]

Width = Annotated[
    float | None,
    option("--width", metavar="INCHES", panel=PICTURE, help="Width alone.", show_default=False),
]

Height = Annotated[
    float | None,
    option("--height", metavar="INCHES", panel=PICTURE, help="Height alone.", show_default=False),
]

Title = Annotated[
    str | None,
    option(
        "--title",
        metavar="TEXT",
        panel=PICTURE,
        help="The title; '' for none.",
        show_default="that of the kind",
    ),
]

Axis = Annotated[
    Literal["value", "logit"],
    option(
        "--axis",
        panel=PICTURE,
        help="Where scores stand: at their value, or at their log-odds, for probabilities that are "
        "mostly near 0 or near 1.",
    ),
]

Dark = Annotated[
    bool, option("--dark", panel=PICTURE, help="Light lines on dark ground, for screens.")
]


@dataclass(frozen=True)
class Drawing:
    """What a command line says of any picture: the options that all kinds share.

    Attributes
    ----------
    kind
        The name of the kind, as typed.
    delivery
        Where the picture goes and how it looks.
    inputs, input_format, dtype
        What is drawn, and how it is read.
    on_missing, threads
        As the options say.
    dry_run
        Whether only to tell what would be done.
    """

    kind: str
    delivery: Delivery
    inputs: list[str]
    input_format: str | None
    dtype: str
    on_missing: Literal["error", "drop"]
    threads: int
    dry_run: bool

    def source(self) -> Source:
        """Open the inputs."""
        from calibkit.files.sources import open_source

        return open_source(self.inputs, input_format=self.input_format, dtype=self.dtype)

    def draw(
        self, source: Source, columns: Mapping[str, str], make: Callable[[Source], Points]
    ) -> None:
        """Draw what a function makes of the rows, which have a column for each role."""
        self.delivery.plot(source, make, columns, dry_run=self.dry_run)

    def evaluated(self, spec: EvaluateOptions, shown: object = None) -> None:
        """Draw metrics of the inputs; `shown` says what, where the metrics alone do not."""
        from calibkit.metrics.rows import columns_used
        from calibkit.report import plots

        source = self.source()
        self.draw(
            source,
            columns_used(spec, source),
            lambda rows: plots.points(self.kind, rows, shown or spec),
        )

    def grid(self, spec: EceSpec | GridSpec) -> None:
        """Draw rows in the cells of a grid, or a table of `calibkit bin`."""
        from calibkit.report import plots

        source = self.source()
        self.draw(
            source,
            grid_columns(source, spec.columns),
            lambda rows: plots.points(self.kind, rows, spec),
        )


def _shared(
    context: typer.Context,
    inputs: options.Inputs,
    on_missing: options.OnMissing = "error",
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    output_format: OutputFormat = None,
    data: Data = None,
    size: Size = None,
    width: Width = None,
    height: Height = None,
    title: Title = None,
    dark: Dark = False,
    as_json: options.Json = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> Drawing:
    """Return what the options say that all kinds share, checked before any work."""
    delivery = Delivery.of(
        output,
        output_format,
        data,
        look_of(size, width, height, title, dark),
        as_json=as_json,
        quiet=quiet,
        verbose=verbose,
        warnings=warnings,
    )
    from calibkit.threads import thread_count

    return Drawing(
        str(context.info_name),
        delivery,
        inputs,
        input_format,
        dtype,
        on_missing,
        thread_count(threads),
        dry_run,
    )


def add_kind(
    kinds: typer.Typer, name: str, text: str, draw: Callable[..., None], *, threads: bool = True
) -> None:
    """Add a kind of picture: a command with its own options, and with those of all kinds.

    Parameters
    ----------
    kinds
        Where it is added.
    name, text
        The name of the command, and its help.
    draw
        Takes a `Drawing` first, then the options of the kind.
    threads
        Whether it can use several.
    """
    _, *own = inspect.signature(draw, eval_str=True).parameters.values()
    shared = inspect.signature(_shared, eval_str=True).parameters
    first = [shared["context"], shared["inputs"]]
    last = [
        one for one in shared.values() if one not in first and (threads or one.name != "threads")
    ]

    def command(**given: Any) -> None:
        beside = {one.name: given.pop(one.name) for one in own}
        draw(_shared(**given), **beside)

    command.__signature__ = inspect.Signature([*first, *own, *last])  # type: ignore[attr-defined]
    kinds.command(name, help=text)(command)


def grid_columns(source: Source, columns: ColumnOptions) -> dict[str, str]:
    """Return the column of each role that is read: of rows, or of a table of `calibkit bin`."""
    from calibkit.bins.grid_table import is_grid_table
    from calibkit.rows.columns import resolve
    from calibkit_cli.dry_run import used_columns

    if is_grid_table(source):
        return {name: name for name in ("count", "positives", "mean_score")}
    return used_columns(resolve(source, columns, label=True, uncertainty=True), label=True)


def names(values: Iterable[str] | None) -> list[str]:
    """Return the items of a list option, each once."""
    return list(dict.fromkeys(typed.listed(values)))


def look_of(
    size: str | None, width: float | None, height: float | None, title: str | None, dark: bool
) -> Look:
    """Return how a picture looks, as typed."""
    from calibkit.report.look import Look, read_size

    wide, high = read_size(size, width, height)
    return Look(width=wide, height=high, title=title, dark=dark)
