"""Calibration by parts in rounds, where rows do not fit: each round is one pass that sums integers.

Rounds find the bins of the features, then grow the trees of all folds and leaf sizes together while
Platt's maps of the nodes that are known take Newton steps, then judge all candidates on the rows left
out, fit the correction of held-out scores, and last sum the figures of the fit.  All of it is what
`calibkit.hetcal.fit` does in memory, from sums.  See `calibkit.rounds.protocol.Rounds`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl

from calibkit.errors import ModelError
from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.hetcal.cells import BINS
from calibkit.hetcal.features import feature_column
from calibkit.hetcal.model import HetcalModel
from calibkit.hetcal.rounds import leaves, look, trained
from calibkit.hetcal.rounds.choose import candidates, chosen_by, first_correction
from calibkit.hetcal.rounds.counts import SCORES, counter_of
from calibkit.hetcal.rounds.edges import refined
from calibkit.hetcal.rounds.end import ending, model_of
from calibkit.hetcal.rounds.grow import Bins, bins_of, first_nodes, open_nodes, split_node
from calibkit.hetcal.rounds.known import (
    BEND,
    CORRECT,
    COUNT,
    FINISH,
    GROW,
    GROWN,
    JUDGE,
    LOOK,
    RATE,
    REFINE,
    SEEK,
    Known,
    Line,
    Spot,
    Trees,
    grid_of,
)
from calibkit.hetcal.rounds.lines import Counts, line_array, line_from, moved
from calibkit.hetcal.rounds.reading import known_of
from calibkit.hetcal.rounds.rows import read_block, rows_at_a_time, used_columns
from calibkit.hetcal.rounds.tables import (
    Numbers,
    What,
    array_of,
    check_table,
    together,
    values_of,
)
from calibkit.hetcal.states import HetcalProblem, hetcal_problem, no_room, no_rounds
from calibkit.memory import Memory
from calibkit.rounds.passes import Pass
from calibkit.rounds.plans import Plan
from calibkit.rounds.protocol import Counted, Sums
from calibkit.rows.provenance import added_hashes
from calibkit.rows.remarks import FEWEST, constant_score, of_tally
from calibkit.rows.rows import NothingLeft, Remark
from calibkit.summaries.held_states import empty_source, learnt_of, train_files, train_of
from calibkit.summaries.plain import from_plain
from calibkit.summaries.states import State
from calibkit_kernels import rounds as kernels


def first_ask(state: State) -> dict[str, Any]:
    """Return the first question: a look at all rows.

    Raises
    ------
    ResourceError
        A fit that cannot be done in rounds.
    DataError
        Training rows of one class.
    """
    problem, schema = hetcal_problem(state.header.options, state.path), empty_source(state).schema
    refusal = no_rounds(problem.spec)
    if refusal:
        rows = sum(shard.rows for shard in state.header.shards)
        raise no_room(rows, len(schema), refusal)
    small = schema[problem.columns.score] in (pl.Float32, pl.Float16)
    dtype, train = "float32" if small else "float64", train_of(state, None)
    learnt = learnt_of(state)
    if learnt is not None:
        return from_plain(learnt, Trees, state.path).begin(dtype).ask()
    if train is not None:
        return trained.trees_in_memory(train, problem, train_files(state)).begin(dtype).ask()
    columns = [feature_column(name, schema[name]) for name in problem.features]
    return Known(LOOK, columns, dtype).ask()


def sums(
    plan: Plan, source: Source, memory: Memory, *, threads: int, train: Source | None
) -> Counted:
    """Return what a shard answers, in one pass.

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
    grid, chosen = grid_of(problem.spec), known.chosen
    if chosen is not None and not (
        0 <= chosen.depth < len(grid.depths)
        and 0 <= chosen.size < len(grid.leaf_sizes)
        and 0 <= chosen.shrinkage < len(grid.shrinkages)
    ):
        raise ModelError("a damaged plan: its choice is none of those that there were")
    return problem, known


def check_sums(sums: Sums) -> None:
    """Raise `ModelError` for an answer of another kind."""
    check_table(sums.table)
    try:
        look.remarks_of(sums.payload.get("remarks", []))
        int(sums.payload.get("hash", "0"), 16)
        look.texts_of([sums])
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
    return Sums(payload, together([part.table for part in parts]))


def advance(plan: Plan, sums: Sums) -> dict[str, Any] | Fitted[HetcalModel]:
    """Return the next question, or the model.

    Raises
    ------
    DataError
        Rows of one class, or that all have weight 0.
    """
    problem, known = _parts(plan)
    if known.step == FINISH:
        return _finished(plan, problem, known, sums)
    following = {
        LOOK: _after_look,
        REFINE: _after_refinement,
        GROW: _after_growth,
        COUNT: _after_count,
        JUDGE: _after_judgement,
        CORRECT: _after_correction,
        BEND: leaves.after_bending,
        SEEK: leaves.after_seeking,
        RATE: leaves.after_rating,
    }[known.step]
    following(known, problem, sums)
    return known.ask()


def _after_look(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    look.learn(known, problem, sums)
    if known.grown is None:
        _begin_trees(known, problem)
        return
    known.step, known.nodes = COUNT, trained.nodes_of(known.grown, known.folds)
    known.grown.nodes = []


def _begin_trees(known: Known, problem: HetcalProblem) -> None:
    """Go on to the growth of trees, once all bins are known."""
    if any(edges.lows is None for edges in known.edges):
        known.step = REFINE
        return
    known.step = GROW
    known.nodes = first_nodes(known.folds, len(grid_of(problem.spec).leaf_sizes))


def _after_refinement(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    for place, edges in enumerate(known.edges):
        if edges.lows is None:
            known.edges[place] = refined(
                edges, sums.table, place, len(known.columns), problem.spec.max_bins
            )
    _begin_trees(known, problem)


def _after_growth(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    table, spec, bins = sums.table, problem.spec, bins_of(known)
    asked = open_nodes(known, bins.cells)
    cells = len(asked) * bins.cells
    hist = np.stack([array_of(table, what, cells) for what in (What.ROWS, What.HITS)], axis=1)
    hist = hist.reshape(len(asked), bins.cells, 2)
    _move_lines(known, table)
    if not known.fingerprint:
        _know_bins(known, table, bins)
        _know_rows(known, problem, sums)
        known.rows.weight, known.rows.hits = bins.take(0, hist[0]).sum(axis=0).tolist()
        bins = bins_of(known)
        if not known.folds:
            del known.nodes[1:]
    sizes = [max(1, math.ceil(size / known.rows.size)) for size in grid_of(spec).leaf_sizes]
    for place, own in zip(asked, hist, strict=True):
        if place >= len(known.nodes):
            continue  # a part that turned out to be empty
        node = known.nodes[place]
        if node.depth == 0:
            node.rows, node.hits = bins.take(0, own).sum(axis=0).tolist()
        known.nodes += split_node(known, node, own, bins, spec, sizes)
    if not known.apart:
        _begin_lines(known, spec.max_depth)
    if any(node.open or (node.line and not node.line.done) for node in known.nodes):
        return
    if known.apart:
        known.step = GROWN
    elif known.folds:
        known.step = JUDGE
    else:
        leaves.begin(known, problem)


def _after_count(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Go on to the maps of trees that were grown on other rows."""
    rows, hits = (
        array_of(sums.table, what, len(known.nodes)).tolist() for what in (What.ROWS, What.HITS)
    )
    for node, own, positives in zip(known.nodes, rows, hits, strict=True):
        node.rows, node.hits = own, positives
    _know_rows(known, problem, sums)
    known.rows.weight, known.rows.hits = known.nodes[0].rows, known.nodes[0].hits
    if not grid_of(problem.spec).open:
        known.folds = 0  # there is nothing to choose, and no boldness to correct
    if not known.folds:
        known.nodes = trained.of_everyone(known.nodes)
    _begin_lines(known, problem.spec.max_depth)
    known.step = GROW


def _know_bins(known: Known, table: pl.DataFrame, bins: Bins) -> None:
    """Learn the greatest value in each bin."""
    for place, edges in enumerate(known.edges):
        if known.categories[place] is None and edges.highs is None:
            keys = array_of(table, What.HIGHEST, bins.lows[place].size, place)
            edges.highs = values_of(keys).tolist()


def _know_rows(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn what the first round over the trees tells of all rows: hash, scores, parts."""
    known.fingerprint = sums.payload["hash"]
    if known.apart:
        return
    seen = known.rows
    said = seen.warnings.pop() if not known.folds else None
    seen.warnings += _of_scores(known, problem, sums.table)
    if said is not None:
        seen.warnings.append(said)
    parts = array_of(sums.table, What.PART, max(known.folds, 1))
    if known.folds and not parts.all():
        groups = problem.spec.groups
        why = "different rows are" if groups is None else f"the values of column {groups!r} are"
        seen.warnings.append(look.too_few(why, problem.spec.folds))
        known.folds = 0


def _of_scores(known: Known, problem: HetcalProblem, table: pl.DataFrame) -> list[str]:
    """Return what is odd about the scores."""
    seen, columns = known.rows, problem.columns
    if seen.low == seen.high:
        return [constant_score(columns.score)] if seen.rows >= FEWEST else []
    scores = np.linspace(seen.low, seen.high, SCORES)
    rows, hits = (array_of(table, what, SCORES) for what in (What.SCORES, What.POSITIVES))
    used = np.flatnonzero(rows)[::-1]
    return of_tally(columns.score, columns.scale, scores[used], rows[used], hits[used], seen.rows)


def _begin_lines(known: Known, depth: int | None) -> None:
    """Begin the search for the maps of nodes, each where that of the node above is now."""
    seen, above = known.rows, dict[int, Line]()
    for place, node in enumerate(known.nodes):
        if node.line is None and node.rows and _may_be_leaf(node, depth):
            start = above.get(place)
            if start is None:
                own, hits = known.counts(node)
                rate = (hits + 1.0) / (own + 2.0)
                node.line = line_from(0.0, math.log(rate / (1.0 - rate)), seen.low, seen.high)
            else:
                node.line = line_from(start.slope, start.intercept, start.low, start.high)
        nearest = node.line or above.get(place)
        for fork in node.forks:
            if nearest is not None:
                above[fork.left] = above[fork.right] = nearest


def _may_be_leaf(node: Spot, depth: int | None) -> bool:
    """Tell whether a node is a leaf of some tree that may be chosen, or a root."""
    if depth is None or node.depth in (0, depth):
        return True
    follow = {size for fork in node.forks for size in fork.sizes}
    return not node.open and not follow.issuperset(node.sizes)


def _move_lines(known: Known, table: pl.DataFrame) -> None:
    """Take a Newton step in all searches."""
    moving = [node for node in known.nodes if node.line and not node.line.done]
    lines = [node.line for node in moving if node.line]
    counts = [known.counts(node) for node in moving]
    found = _moved(lines, counts, table)
    for node, line in zip(moving, found, strict=True):
        node.line = line


def _moved(lines: Sequence[Line], counts: Sequence[Counts], table: pl.DataFrame) -> list[Line]:
    size = len(lines)
    sums = array_of(table, What.LINE, size * kernels.SUMS).reshape(size, kernels.SUMS)
    lows, highs = (array_of(table, what, size).tolist() for what in (What.LOW, What.HIGH))
    asked = line_array(lines, counts)
    return [
        moved(line, count, row, own, low, high)
        for line, count, row, own, low, high in zip(
            lines, counts, asked, sums, lows, highs, strict=True
        )
    ]


def _after_judgement(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    shape = candidates(known, problem.spec).lines.shape
    found = array_of(sums.table, What.GAIN, math.prod(shape)).reshape(shape)
    known.chosen = chosen_by(known, problem.spec, found)
    if known.grown is not None or problem.spec.map == "histogram":
        # Rows that grew no tree are not judged too boldly, and steps are not corrected.
        leaves.begin(known, problem)
        return
    known.correction = first_correction(known, problem.spec)
    known.step = CORRECT


def _after_correction(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    assert known.correction is not None
    known.correction = _moved([known.correction], [known.rows.counts], sums.table)[0]
    if known.correction.done:
        leaves.begin(known, problem)


def _finished(plan: Plan, problem: HetcalProblem, known: Known, sums: Sums) -> Fitted[HetcalModel]:
    count = ending(known, problem.spec).leaves
    losses = array_of(sums.table, What.TOTAL, 3)
    cells = array_of(sums.table, What.CELL, count * BINS * 3)
    files = sorted({name for shard in plan.shards for name in shard.files})
    model = model_of(known, problem, losses, cells, files)
    said = known.grown.warnings if known.grown is not None else []
    return Fitted(model, (*said, *known.rows.warnings))
