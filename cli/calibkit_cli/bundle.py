"""``calibkit bundle``: several models as one deployable file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from calibkit.errors import UsageError
from calibkit.options.option import Options
from calibkit.options.shared import Tags, arguments

from . import declare
from .console import Console
from .deliver import deliver
from .lines import Json, Output, Quiet, Warnings

HELP = """\
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


def _split(texts: Any, flag: str) -> list[tuple[str | None, str]]:
    """Return name and file of each part as typed."""
    found = []
    for text in texts:
        named = _NAMED.fullmatch(text)
        if named is not None and not (named["name"] and named["path"]):
            raise UsageError(f"{text!r} is not of the form NAME=MODEL.")
        found.append((None, text) if named is None else (named["name"], named["path"]))
    return found


@dataclass(frozen=True, kw_only=True)
class BundleLine(Options):
    """What is bundled, and where it goes."""

    models: Annotated[
        Any,
        arguments(
            "Model files in the order in which they are applied; a boundary needs a name. A name "
            "takes the place of `calibrated`, and stands at the end of other columns.",
            "[NAME=]MODEL",
            read=_split,
        ),
    ]
    output: Output = None
    tags: Tags = None
    as_json: Json = False
    quiet: Quiet = False
    warnings: Warnings = "show"

    def check(self) -> None:
        """Refuse standard input twice."""
        paths = [path for _, path in self.models]
        if paths.count("-") > 1:
            raise UsageError("standard input (-) can be read once only; name it once.")


def bundle(line: BundleLine) -> None:
    """Bundle, print."""
    from calibkit.bundles.model import bundle as make
    from calibkit.bundles.model import misread
    from calibkit.models.model import load

    console = line.part(Console)
    if console.per_input:
        said = f"{line.output}: is a folder; a bundle is one file, name it."
        raise UsageError(said, file=line.output)
    made = make([(name, load(path)) for name, path in line.models], tags=line.tags)
    console.warn(*misread(made))
    console.outline(made)
    deliver(console, made, "Bundle")


register = declare.command(HELP, bundle, BundleLine)
