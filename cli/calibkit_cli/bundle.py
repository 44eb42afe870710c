"""``calibkit bundle``: several models as one deployable file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from calibkit.errors import UsageError

from . import options, typed
from .console import Console

HELP = """Make one deployable file of several models, applied in the order given.

Calibrators (and vad, hetcal, alpha-cal) add their columns, each boundary NAME a `decision_NAME` and a
`margin_NAME`; `action` is the name of the first boundary that selects the row, else `pass`. A part
reads the columns of those before it, and refuses a calibrator other than the one it was fitted on.

Examples:

  calibkit bundle cal.json block=block.json review=review.json -o service.json

  calibkit bundle first=cal.json second=vad.json -o scores.json

  calibkit bundle cal.json block=block.json | calibkit show -
"""

#: A name before the sign; a path that has one is written with its folder: ./k=3.json.
_NAMED = re.compile(r"(?P<name>[^/=.]*)=(?P<path>.*)", re.DOTALL)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("bundle", help=HELP)(bundle)


def bundle(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]MODEL",
            help="Model files in the order in which they are applied; a boundary needs a name. A name "
            "takes the place of `calibrated`, and stands at the end of other columns.",
            show_default=False,
        ),
    ],
    output: options.Output = None,
    tag: options.Tags = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    warnings: options.Warnings = "show",
) -> None:
    """Parse, load, bundle, write."""
    console = Console(output, as_json, quiet, warnings=warnings)
    from calibkit.bundles.make import bundle as make
    from calibkit.bundles.make import misread
    from calibkit.models import load

    from .views.bundle import bundle_lines, view

    if console.per_input:
        raise UsageError(f"{output}: is a folder; a bundle is one file, name it.", file=output)
    named = [_split(text) for text in models]
    paths = [path for _, path in named]
    if paths.count("-") > 1:
        raise UsageError("standard input (-) can be read once only; name it once.")
    if output not in (None, "-") and Path(str(output)).resolve() in {
        Path(path).resolve() for path in paths
    }:
        raise UsageError(f"{output}: this model would be written over; name another output.")
    made = make([(name, load(path)) for name, path in named], tags=typed.tags(tag))
    for remark in misread(made):
        console.warn(remark)
    if console.output is not None or not console.on_terminal:
        console.summary(*bundle_lines(made))
    console.model(made.to_json(), lambda: view(made, console))
    console.wrote("Bundle")


def _split(text: str) -> tuple[str | None, str]:
    """Return name and file of a part as typed."""
    found = _NAMED.fullmatch(text)
    if found is None:
        return None, text
    if not found["name"] or not found["path"]:
        raise UsageError(f"{text!r} is not of the form NAME=MODEL.")
    return found["name"], found["path"]
