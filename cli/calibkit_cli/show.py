"""``calibkit show``: what a model does and what to expect of it."""

from __future__ import annotations

from typing import Annotated

import typer

from calibkit.errors import UsageError, nearest

from . import options
from .console import Console
from .options import option

HELP = """Show what a model does and what to expect of it on new data.

On a terminal one screen, of which --all shows the rest; on a pipe all there is.

Examples:

  calibkit show boundary.json

  calibkit show hetcal.json --all

  calibkit show boundary.json --json | jq .score_thresholds

  calibkit show --schema boundary
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("show", help=HELP)(show)


def show(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="A model file; - for standard input."),
    ] = None,
    schema: Annotated[
        str | None,
        option("--schema", metavar="KIND", help="The JSON schema of a kind of model instead."),
    ] = None,
    bounds: Annotated[
        bool,
        option(
            "--bounds",
            help="Also what holds for every threshold at once, on any data: uniform bounds, loose.",
        ),
    ] = False,
    everything: Annotated[
        bool,
        option(
            "--all",
            help="On a terminal too all there is: every level, step, leaf, split and candidate.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Parse, load, print."""
    console = Console(as_json=as_json, everything=everything)
    if bounds and (schema is not None or as_json):
        raise UsageError("--bounds goes with MODEL alone: it is printed, not part of a model.")
    if (model is None) == (schema is None):
        raise UsageError("give a MODEL file or --schema KIND, one of the two.")
    from calibkit.models import KINDS, kind_class, load

    if schema is not None:
        if schema not in KINDS:
            raise UsageError(
                f"there is no kind {schema!r}{nearest(schema, KINDS)}; "
                f"kinds: {', '.join(sorted(KINDS))}."
            )
        console.json(kind_class(schema).schema())
        return
    assert model is not None
    loaded = load(model)
    if as_json:
        console.content(loaded.to_json())
        return
    from calibkit.boundary.model import BoundaryModel

    from .views import view_of

    if bounds and not isinstance(loaded, BoundaryModel):
        raise UsageError(f"--bounds is for boundaries; {model} is a model of kind {loaded.kind!r}.")
    view_of(loaded.kind)(loaded, console)
    if bounds and isinstance(loaded, BoundaryModel):
        from .views.boundary import bounds_view

        bounds_view(loaded, console)
