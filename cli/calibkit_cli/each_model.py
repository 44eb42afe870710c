"""Models of a fit command: one for all inputs, or (``-o DIR/``) one for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibkit.errors import UsageError

from .console import Console

if TYPE_CHECKING:
    from calibkit.files.sources import Source
    from calibkit.models import Model


@dataclass(frozen=True)
class Fit:
    """What a fit gives: the model, what the user should be told, and its summary."""

    model: Model
    warnings: Sequence[str]
    summary: Sequence[str]


def write_models(console: Console, source: Source, fit: Callable[[Source], Fit], name: str) -> None:
    """Fit and deliver where the command line says; several models appear together or not at all."""
    from calibkit.files.outputs import directory_outputs, spare_inputs
    from calibkit.files.sinks import Transaction, make_folders
    from calibkit.makers import record_makers

    from .views import view_of

    source.progress = console.progress()
    if not console.per_input:
        if console.output not in (None, "-"):
            spare_inputs(str(console.output), source.parts)
        made = fit(source)
        record_makers(made.model, source)
        for remark in made.warnings:
            console.warn(remark)
        if console.output is not None or not console.on_terminal:
            console.summary(*made.summary)
        console.model(made.model.to_json(), lambda: view_of(made.model.kind)(made.model, console))
        console.wrote(name)
        return
    if console.as_json:
        raise UsageError("-o DIR/ gives several models; leave --json out.")
    outputs = directory_outputs(str(console.output), source.parts, suffix=".json")
    with Transaction() as transaction:
        for alone, output in zip(source.split(), outputs, strict=True):
            made = fit(alone)
            record_makers(made.model, alone)
            for remark in made.warnings:
                console.warn(f"{alone.parts[0].path}: {remark}")
            console.summary(f"{alone.parts[0].path}:", *made.summary)
            make_folders([output])
            transaction.write_bytes(made.model.to_json(), output)
