"""What is done with model files: ``calibkit show``, ``bundle`` and ``export``."""

from __future__ import annotations

from typing import Annotated, Any, cast

from calibkit.errors import UsageError
from calibkit.options.apply import ExportOptions
from calibkit.options.option import Options, one_of, option
from calibkit.options.shared import FitOptions, arguments

from . import declare
from .console import Console
from .lines import Reads, Results
from .runs import deliver


class ShowLine(Options):
    """Show what a model does and what to expect of it on new data.

    A terminal shows one screen, and with --all everything; a pipe gets everything.

    Examples:
      calibkit show boundary.json
      calibkit show hetcal.json --all
      calibkit show boundary.json --json | jq .score_thresholds
      calibkit show --schema boundary
    """

    model: str | None = option("A model file; - for standard input.", "MODEL", argument=True)
    schema: str | None = option(
        "The JSON schema of a kind of model, or of metrics, drift, watch, "
        "watch-state or the header of a state, instead.",
        "KIND",
    )
    bounds: bool = option(
        "Also print uniform bounds: they hold for every threshold at once, on any data, but are loose.",
        default=False,
    )
    everything: bool = option(
        "On a terminal too, show everything: every level, step, leaf, split and candidate.",
        default=False,
        flags=("--all",),
    )
    as_json: Annotated[bool, Results] = False

    def check(self) -> None:
        """Refuse a model and a schema, or neither."""
        if self.bounds and (self.schema is not None or self.as_json):
            raise UsageError("--bounds goes with MODEL alone: it is printed, not part of a model.")
        if (self.model is None) == (self.schema is None):
            raise UsageError("give a MODEL file or --schema KIND, one of the two.")


@declare.command
def show(line: ShowLine) -> None:
    """Load, print."""
    from calibkit.models.model import load

    console = line.part(Console)
    if line.schema is not None:
        from calibkit.registry.methods import schemas

        known = schemas()
        console.json(known[one_of(sorted(known), line.schema, "--schema")]())
        return
    model = load(str(line.model))
    if line.as_json:
        console.content(model.to_json())
        return
    if not line.bounds:
        console.show(model)
        return
    if model.kind != "boundary":
        raise UsageError(
            f"--bounds is for boundaries; {line.model} is a model of kind {model.kind!r}."
        )
    from calibkit.methods.boundary.view import view_with_bounds

    console.show(model, view=view_with_bounds)


def _split(texts: Any, flag: str) -> list[tuple[str | None, str]]:
    """Return name and file of each part as typed."""
    found = []
    for text in texts:
        name, path = declare.split_name(text)
        if name is not None and not (name and path):
            raise UsageError(f"{text!r} is not of the form NAME=MODEL.")
        found.append((name, path))
    return found


class BundleLine(Results):
    """Make one deployable file of several models, applied in the order given.

    Calibrators (and vad, hetcal, alpha-cal) add their columns, each boundary NAME a
    `decision_NAME` and a `margin_NAME`; `action` is the name of the first boundary that selects
    the row, else `pass`. A part reads the columns of those before it, and refuses a calibrator
    other than the one it was fitted on.

    Examples:
      calibkit bundle cal.json block=block.json review=review.json -o service.json
      calibkit bundle first=cal.json second=vad.json -o scores.json
      calibkit bundle cal.json block=block.json | calibkit show -
    """

    models: Annotated[
        Any,
        arguments(
            "Model files in the order in which they are applied; a boundary needs a name. A name "
            "takes the place of `calibrated`, and stands at the end of other columns.",
            "[NAME=]MODEL",
            read=_split,
        ),
    ]
    tags: Annotated[dict[str, str] | None, FitOptions] = None


@declare.command
def bundle(line: BundleLine) -> None:
    """Bundle, print."""
    from calibkit.bundles.model import bundle as make
    from calibkit.bundles.model import misread
    from calibkit.models.model import load

    console = line.part(Console, one="is a folder; a bundle is one file, name it")
    made = make([(name, load(path)) for name, path in line.models], tags=line.tags)
    console.warn(*misread(made))
    console.outline(made)
    deliver(console, made, "Bundle")


_LANGUAGES = {"sql": "SQL", "polars": "polars code", "python": "Python code"}


class ExportLine(Reads, Results):
    """What the command line of an export has besides its options."""


@declare.command
def export(options: ExportOptions, line: ExportLine) -> None:
    """Export, write the text where the line says, then say what was done."""
    from calibkit.exports.export import export
    from calibkit.files.sinks import write_bytes

    suffix = "sql" if options.to == "sql" else "py"
    said = f"one model is one file; name it FILE.{suffix}"
    console = line.part(Console, texts=(suffix,), one=said)
    output, kind = line.output, options.fitted.kind
    rows = cast("str | None", options.check_on)
    text, agreement = export(options, None if rows is None else line.source([rows]))
    if output is not None or not line.as_json:
        write_bytes(text.encode(), output or "-")
    if line.as_json:
        checked = None if agreement is None else agreement.as_dict()
        shown = text if output is None else None
        told = {"kind": kind, "to": options.to, "output": output, "text": shown, "checked": checked}
        console.json(told)
    if agreement is not None:
        console.summary(f"Checked on {agreement}.")
    console.wrote(f"{kind.capitalize()} as {_LANGUAGES[options.to]}")
