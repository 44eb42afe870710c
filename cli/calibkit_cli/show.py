"""``calibkit show``: what a model does and what to expect of it."""

from __future__ import annotations

from dataclasses import dataclass

from calibkit.errors import UsageError, nearest
from calibkit.options.option import Options, option

from . import declare
from .console import Console
from .lines import Json

HELP = """\
A terminal shows one screen, and with --all everything; a pipe gets everything.

Examples:
  calibkit show boundary.json
  calibkit show hetcal.json --all
  calibkit show boundary.json --json | jq .score_thresholds
  calibkit show --schema boundary
"""


@dataclass(frozen=True, kw_only=True)
class ShowLine(Options):
    """What is shown, and how much of it."""

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
    as_json: Json = False

    def check(self) -> None:
        """Refuse a model and a schema, or neither."""
        if self.bounds and (self.schema is not None or self.as_json):
            raise UsageError("--bounds goes with MODEL alone: it is printed, not part of a model.")
        if (self.model is None) == (self.schema is None):
            raise UsageError("give a MODEL file or --schema KIND, one of the two.")


def show(line: ShowLine) -> None:
    """Load, print."""
    from calibkit.models.model import load

    console = Console(as_json=line.as_json, everything=line.everything)
    if line.schema is not None:
        from calibkit.registry.methods import schemas

        known = schemas()
        if line.schema not in known:
            raise UsageError(
                f"there is no kind {line.schema!r}{nearest(line.schema, known)}; "
                f"kinds: {', '.join(sorted(known))}."
            )
        console.json(known[line.schema]())
        return
    model = load(str(line.model))
    if line.as_json:
        console.content(model.to_json())
        return
    from calibkit.methods.boundary.result.model import BoundaryModel

    if line.bounds and not isinstance(model, BoundaryModel):
        raise UsageError(
            f"--bounds is for boundaries; {line.model} is a model of kind {model.kind!r}."
        )
    console.show(model)
    if line.bounds:
        from calibkit.views.boundary import bounds_view

        console.show(model, view=bounds_view)


register = declare.command(HELP, show, ShowLine)
