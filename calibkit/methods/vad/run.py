"""A fit of ``vad`` from its rows to its model: see `calibkit.summaries.runs.Fit`."""

from __future__ import annotations

from calibkit.files.sources import Source
from calibkit.methods.vad.fit import fit_vad
from calibkit.methods.vad.model import VadModel
from calibkit.methods.vad.rows import member_names
from calibkit.methods.vad.states import fit_state
from calibkit.methods.vad.states import vad_state as state
from calibkit.methods.vad.summary import read_vad_rows
from calibkit.models.lineage import record_makers
from calibkit.options.vad import VadOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.runs import Fitted, Plan
from calibkit.summaries.states import State

__all__ = ["finish", "fit", "plan", "state"]


def fit(options: VadOptions, source: Source) -> Fitted[VadModel]:
    """Return the model of all rows."""
    rows = read_vad_rows(source, options)
    fitted = fit_vad(rows, options)
    record_makers(fitted.model, source)
    return fitted


def plan(options: VadOptions, source: Source) -> Plan:
    """Return what a fit would do."""
    names = member_names(source, options)
    roles = {f"member {place}": name for place, name in enumerate(names, start=1)}
    beside = {"calibrated": options.calibrated, "by": options.by, "weight": options.weight}
    roles |= {role: name for role, name in beside.items() if name is not None}
    return Plan(roles, options.steps(len(names)))


def finish(state: State, memory: Memory, threads: int) -> Fitted[VadModel]:
    """Return the model of the rows of a merged state."""
    return fit_state(state)
