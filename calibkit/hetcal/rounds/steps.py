"""Calibration by parts in rounds, where rows do not fit: each round is one pass that sums integers.

Rounds find the bins of the features, then grow the trees of all folds and leaf sizes together while
Platt's maps of the nodes that are known take Newton steps, then judge all candidates on the rows left
out, fit the correction of held-out scores, and last sum the figures of the fit.  All of it is what
`calibkit.hetcal.fit` does in memory, from sums.  See `calibkit.rounds.protocol.Rounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl

from calibkit.errors import ModelError
from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.hetcal.boosted import trees_at_most
from calibkit.hetcal.features import feature_column
from calibkit.hetcal.model import HetcalModel
from calibkit.hetcal.rounds import after, leaves, look, trained
from calibkit.hetcal.rounds.boosted import after as after_boosting
from calibkit.hetcal.rounds.boosted.counts import answered
from calibkit.hetcal.rounds.boosted.end import checked_by
from calibkit.hetcal.rounds.boosted.known import BOOST, SUM_UP
from calibkit.hetcal.rounds.boosted.known import STEPS as BOOSTED
from calibkit.hetcal.rounds.counts import counter_of
from calibkit.hetcal.rounds.end import model_of
from calibkit.hetcal.rounds.ends import end_of
from calibkit.hetcal.rounds.forest import after as after_forest
from calibkit.hetcal.rounds.grow import Shared
from calibkit.hetcal.rounds.known import (
    BEND,
    CORRECT,
    COUNT,
    FINISH,
    GROW,
    JUDGE,
    LOOK,
    POOL,
    RATE,
    REFINE,
    SEEK,
    Known,
    Trees,
    grid_of,
)
from calibkit.hetcal.rounds.reading import known_of
from calibkit.hetcal.rounds.rows import read_block, rows_at_a_time, used_columns
from calibkit.hetcal.rounds.sought import Times
from calibkit.hetcal.rounds.tables import (
    Numbers,
    What,
    array_of,
    check_table,
    together,
)
from calibkit.hetcal.rounds.times import TIMES, drawn_in, kind_of, merged_draws
from calibkit.hetcal.spec import HetcalSpec
from calibkit.hetcal.states import HetcalProblem, hetcal_problem
from calibkit.memory import Memory
from calibkit.rounds.kept import Kept
from calibkit.rounds.passes import Pass
from calibkit.rounds.plans import Plan
from calibkit.rounds.protocol import Counted, Sums
from calibkit.rows.provenance import added_hashes
from calibkit.rows.rows import NothingLeft, Remark
from calibkit.summaries.held_states import empty_source, learnt_of, train_files, train_of
from calibkit.summaries.plain import from_plain
from calibkit.summaries.states import State


def first_ask(state: State) -> dict[str, Any]:
    """Return the first question: a look at all rows.

    Raises
    ------
    DataError
        Training rows of one class.
    """
    problem, schema = hetcal_problem(state.header.options, state.path), empty_source(state).schema
    small = schema[problem.columns.score] in (pl.Float32, pl.Float16)
    dtype, train = "float32" if small else "float64", train_of(state, None)
    learnt = learnt_of(state)
    if learnt is not None:
        known = from_plain(learnt, Trees, state.path).begin(dtype)
    elif train is not None and problem.spec.partition != "boosted":
        known = trained.trees_in_memory(train, problem, train_files(state)).begin(dtype)
    else:
        columns = [feature_column(name, schema[name]) for name in problem.features]
        known = Known(LOOK, columns, dtype)
    time = problem.spec.time
    known.times = None if time is None else Times(kind_of(time, schema[time]))
    return known.ask()


def about(plan: Plan) -> str:
    """Return what a round does: of a boosted fit, which many rounds take, the trees so far."""
    problem, known = _parts(plan)
    if known.step != BOOST:
        return ""
    most, made = trees_at_most(problem.spec), max(len(run.trees) for run in known.runs)
    return f"tree {min(made + 1, most)} of at most {most:,}"


def sums(
    plan: Plan, source: Source, memory: Memory, *, threads: int, kept: Kept | None = None
) -> Counted:
    """Return what a shard answers, in one pass; see `calibkit.rounds.protocol.Rounds.sums`.

    Raises
    ------
    UsageError, DataError
        As `calibkit.hetcal.rows.read_hetcal_rows`.
    ResourceError
        Where there are too many texts.
    """
    problem, known = _parts(plan)
    numbers = Numbers()
    passing = Pass(source, used_columns(problem), rows_at_a_time(memory))
    with ThreadPoolExecutor(threads) as pool:
        if known.step in BOOSTED:
            return answered(known, problem, passing, Shared(pool, threads), kept)
        counter = counter_of(known, problem, pool, threads)
        remarks: list[Remark] = []
        for block in passing.through(lambda window: read_block(window, problem, known)):
            if isinstance(block, NothingLeft):
                remarks += block.remarks
            else:
                counter.add(block)
        payload = counter.tell(numbers)
    if known.step == LOOK:
        payload["remarks"] = look.plain_remarks([*look.remarks_of(payload["remarks"]), *remarks])
        payload["read"] = passing.read
    return Counted(Sums(payload, numbers.table()), passing.hash, passing.read)


def _parts(plan: Plan) -> tuple[HetcalProblem, Known]:
    """Return the problem of a plan, and what it knows."""
    problem, known = hetcal_problem(plan.options, "the plan"), known_of(plan.ask)
    if [column.name for column in known.columns] != list(problem.features):
        raise ModelError("a damaged plan: its features are not those of its options")
    if known.folds and (known.times is None) != (problem.spec.time is None):
        raise ModelError("a damaged plan: its parts are not those of its options")
    grid, chosen = grid_of(problem.spec), known.chosen
    if chosen is not None and not (
        0 <= chosen.depth < len(grid.depths)
        and 0 <= chosen.size < len(grid.leaf_sizes)
        and 0 <= chosen.shrinkage < len(grid.shrinkages)
    ):
        raise ModelError("a damaged plan: its choice is none of those that there were")
    last = SUM_UP if problem.spec.partition == "boosted" else FINISH
    if known.step not in (*_following(problem.spec), last):
        raise ModelError("a damaged plan: its step is none of such a fit")
    return problem, known


def check_sums(sums: Sums) -> None:
    """Raise `ModelError` for an answer of another kind."""
    check_table(sums.table)
    try:
        look.remarks_of(sums.payload.get("remarks", []))
        int(sums.payload.get("hash", "0"), 16)
        look.texts_of([sums])
        drawn_in(sums.payload)
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"a damaged state: {error}") from None


def merge_sums(parts: Sequence[Sums]) -> Sums:
    """Return the sums of all parts."""
    payload: dict[str, Any] = {}
    first = parts[0].payload
    if "hash" in first:
        payload["hash"] = "0"
        for part in parts:
            payload["hash"] = added_hashes(payload["hash"], part.payload["hash"])
    if "read" in first:
        payload |= look.merged(parts)
    elif TIMES in first:
        payload[TIMES] = merged_draws([part.payload for part in parts])
    return Sums(payload, together([part.table for part in parts]))


def advance(plan: Plan, sums: Sums) -> dict[str, Any] | Fitted[HetcalModel]:
    """Return the next question, or the model.

    Raises
    ------
    DataError
        Rows of one class, or that all have weight 0.
    """
    problem, known = _parts(plan)
    if known.step in (FINISH, SUM_UP):
        return _finished(plan, problem, known, sums)
    _following(problem.spec)[known.step](known, problem, sums)
    return known.ask()


def _following(spec: HetcalSpec) -> Mapping[str, Callable[[Known, HetcalProblem, Sums], None]]:
    """Return what follows each round."""
    if spec.partition == "boosted":
        return after_boosting.FOLLOWING
    return after_forest.FOLLOWING if spec.partition == "forest" else _FOLLOWING


#: What follows each round of a tree.
_FOLLOWING = {
    LOOK: after.after_look,
    REFINE: after.after_refinement,
    GROW: after.after_growth,
    COUNT: after.after_count,
    JUDGE: after.after_judgement,
    CORRECT: after.after_correction,
    BEND: leaves.after_bending,
    SEEK: leaves.after_seeking,
    RATE: leaves.after_rating,
    POOL: leaves.after_pooling,
}


def _finished(plan: Plan, problem: HetcalProblem, known: Known, sums: Sums) -> Fitted[HetcalModel]:
    end = end_of(known, problem)
    losses = array_of(sums.table, What.TOTAL, 3)
    cells = array_of(sums.table, What.CELL, end.cells * 3)
    files = sorted({name for shard in plan.shards for name in shard.files})
    model = model_of(known, problem, end, losses, cells, files)
    if known.step == SUM_UP:
        model.fit.cross_validated = checked_by(known, problem, sums)
    said = known.grown.warnings if known.grown is not None else []
    return Fitted(model, (*said, *known.rows.warnings))
