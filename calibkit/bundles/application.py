"""Applying a bundle: one part after the other, each on what the input and those before it have."""

from __future__ import annotations

from copy import copy

import polars as pl

from calibkit.bundles.model import BundleModel
from calibkit.columns.rows import RowFinder
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.models.kinds import ACTION, KINDS, PASS, Applier, Reads, Request


class BundleApplier:
    """Adds the columns of each part in turn, then `action`: the first name that fires."""

    def __init__(self, model: BundleModel) -> None:
        self.model = model
        self.steps = model.steps()
        self.appliers: list[Applier] = [
            KINDS[step.model.kind].applier(step.model) for step in self.steps
        ]
        self.own_reads: list[Reads] = []
        self.added = (*(name for step in self.steps for name in step.columns.values()), ACTION)

    def reads(self, source: Source, request: Request) -> Reads:
        """Return the columns that the parts need of the input; refuse options that none has use of."""
        self.model.refuse(request)
        needed: dict[str, str] = {}
        optional: dict[str, None] = {}
        made: dict[str, pl.DataType] = {}
        self.own_reads = []
        written: list[str] = []
        for step, applier in zip(self.steps, self.appliers, strict=True):
            seen = copy(source)  # it is looked at, not read
            seen.schema = {**source.schema, **made}
            try:
                own = applier.reads(seen, step.request(request, made))
            except UsageError as error:
                message = f"{step.label}: {error}"
                raise UsageError(message, file=error.file, column=error.column) from None
            self.own_reads.append(own)
            written += [step.columns[name] for name in own.written or step.columns]
            taken = set(needed.values())
            for role, name in own.needed.items():
                if name not in made and name not in taken:
                    needed[role if role not in needed else name] = name
            optional.update(dict.fromkeys(name for name in own.optional if name not in made))
            made.update((name, pl.Float64()) for name in step.columns.values())
        others = tuple(name for name in optional if name not in needed.values())
        return Reads(needed, others, (*written, ACTION))

    def values(
        self, frame: pl.DataFrame, where: RowFinder, reads: Reads, request: Request
    ) -> list[pl.Series]:
        """Return the columns of all parts, and the action."""
        made = self.made(frame, where, request)
        action = pl.repeat(PASS, frame.height, dtype=pl.String, eager=True)
        for step in reversed(self.steps):
            if step.decides:
                action = action.set(made[step.columns["decision"]] == 1, str(step.name))
        return [*made.values(), action.alias(ACTION)]

    def made(self, frame: pl.DataFrame, where: RowFinder, request: Request) -> dict[str, pl.Series]:
        """Return the columns of all parts."""
        made: dict[str, pl.Series] = {}
        for step, applier, own in zip(self.steps, self.appliers, self.own_reads, strict=True):
            seen = frame.with_columns(**made)
            columns = applier.values(seen, where, own, step.request(request, made))
            made |= {
                name: values.alias(name)
                for name, values in zip(step.columns.values(), columns, strict=True)
            }
        return made
