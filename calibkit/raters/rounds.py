"""Alpha-calibration and maps of class probabilities in rounds: the functions of `Rounds`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl

from calibkit.calibrators.classes import (
    class_model,
    class_origin,
    class_warnings,
    map_figures,
    squared_loss,
)
from calibkit.errors import DataError, ModelError
from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.maths.questions import in_step
from calibkit.memory import Memory
from calibkit.raters.alpha import SAMPLE, SampleSlopes, StrengthAt, strength_search
from calibkit.raters.alpha_cal import alpha_figures, alpha_model, alpha_origin, alpha_warnings
from calibkit.raters.asking import (
    Asked,
    Figures,
    Known,
    Overview,
    RaterAsk,
    StepCells,
    Steps,
    slopes_of_sample,
    taken,
    units_of,
)
from calibkit.raters.logit_maps import LogitMap
from calibkit.raters.map_search import MapAt, map_search
from calibkit.raters.rows import described, read_rater_rows
from calibkit.raters.states import ALPHA, AlphaProblem, ClassProblem, record_makers, used_columns
from calibkit.raters.step_cells import SCHEMA, open_cells, steps_from
from calibkit.raters.summing import Batch, merged_tables, sums_of, table_of
from calibkit.rounds.exact import Whole, added, as_text, from_text
from calibkit.rounds.kept import Kept
from calibkit.rounds.passes import Pass
from calibkit.rounds.plans import Plan
from calibkit.rounds.protocol import Ask, Counted, Sums
from calibkit.rounds.replay import Open, replayed
from calibkit.rows.patterns import class_keys, match_columns, natural_key
from calibkit.rows.provenance import hash_text
from calibkit.rows.rows import NothingLeft, Remark, added_up
from calibkit.summaries.held_states import empty_source, problem_in, problem_of
from calibkit.summaries.plain import as_plain, from_plain
from calibkit.summaries.states import State
from calibkit.threads import in_order

#: Rows that are summed at a time, at most.
_MOST_BATCH: Final = 1 << 16
#: What a row takes in a pass: so many times what it takes in a fit that holds it.
_COPIES: Final = 2
#: A slope that is no other than zero, to save the rounds that would tell its last digits.
_FLAT: Final = 1e-15

_Problem = AlphaProblem | ClassProblem
_Steps = Generator[list[Asked], list[Any], Fitted[Any]]


class _Payload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The sums of a state: those of each question in order, and what was seen of the rows."""

    width: int
    sums: list[dict[str, list[str]]]
    remarks: list[tuple[str, str, str, int]]


def first_ask(state: State) -> Ask:
    """Return the first question: how many rows and votes there are."""
    problem = _problem(state.header.kind, problem_of(state), state.path)
    source, pattern = empty_source(state), problem.columns.probs[0]
    matched = match_columns(source, pattern, "--probs")
    ask = RaterAsk(
        column=described(source, pattern, matched, problem.columns.scale),
        classes=[] if matched.nested else list(class_keys(matched, len(matched.columns))),
        known=[],
        questions=[Asked(Overview())],
    )
    return _plain(ask)


def sums(
    plan: Plan, source: Source, memory: Memory, *, threads: int, kept: Kept | None = None
) -> Counted:
    """Return what a shard answers; nothing is kept."""
    ask, problem = _read(plan)
    names = used_columns(source, problem.columns)
    batch = memory.rows_of(len(names)) // (_COPIES * (threads + 2))
    through = Pass(source, names, max(1024, min(_MOST_BATCH, batch)))
    remarks: list[Remark] = []
    width: set[int] = set()

    def batches() -> Iterator[Batch]:
        for rows in through.through(lambda window: read_rater_rows(window, problem.columns)):
            remarks.extend(rows.remarks)
            if not isinstance(rows, NothingLeft) and rows.counts.shape[0]:
                width.add(rows.counts.shape[1])
                _check_width(rows.counts.shape[1], ask)
                yield Batch(rows, problem.spec)

    def work(one: Batch) -> tuple[list[Whole], pl.DataFrame]:
        tables = [table_of(one, asked) for asked in ask.questions]
        return [sums_of(one, asked) for asked in ask.questions], merged_tables(tables)

    whole: list[Whole] = [{} for _ in ask.questions]
    table = pl.DataFrame()
    for found, rows in in_order(threads, work, batches()):
        whole = [_added(own, more) for own, more in zip(whole, found, strict=True)]
        table = merged_tables([table, rows])
    payload = _Payload(
        width=_one_width(width),
        sums=[as_text(one) for one in whole],
        remarks=_as_plain(added_up(remarks)),
    )
    return Counted(Sums(as_plain(payload), table), through.hash, through.read)


def check_sums(sums: Sums) -> None:
    """Raise `ModelError` for sums that no shard can have."""
    payload = _payload(sums)
    for one in payload.sums:
        from_text(one)
    if not 0 <= payload.width <= 2**20 or any(count < 1 for *_, count in payload.remarks):
        raise ModelError("a damaged state: its numbers cannot be")
    table = sums.table
    if not table.width:
        return
    expected = pl.Schema(SCHEMA if "cell" in table.columns else _of_sample(payload.width))
    if table.schema != expected or any(table.null_count().row(0)):
        raise ModelError(f"a damaged state: its columns are {', '.join(table.columns[:10])}")
    lowest = table.select(pl.exclude("phi", "hash", "cell").min()).row(0) if table.height else ()
    highest = table.select(pl.col(pl.Float64).max()).row(0) if table.height else ()
    if any(not value >= 0 for value in lowest) or any(not value <= 1 for value in highest):
        raise ModelError("a damaged state: its numbers cannot be")
    if "hash" in table.columns and table.height > SAMPLE:
        raise ModelError("a damaged state: a sample of too many rows")


def merge_sums(parts: Sequence[Sums]) -> Sums:
    """Return the sums of all parts."""
    payloads = [_payload(part) for part in parts]
    if len({len(one.sums) for one in payloads}) > 1:
        raise ModelError("damaged: sums that do not answer the same questions")
    whole: list[Whole] = [{} for _ in payloads[0].sums]
    for one in payloads:
        whole = [_added(own, from_text(more)) for own, more in zip(whole, one.sums, strict=True)]
    remarks = [Remark(*parts) for one in payloads for parts in one.remarks]
    payload = _Payload(
        width=_one_width({one.width for one in payloads if one.width}),
        sums=[as_text(one) for one in whole],
        remarks=_as_plain(added_up(remarks)),
    )
    return Sums(as_plain(payload), merged_tables([part.table for part in parts]))


def advance(plan: Plan, sums: Sums) -> Ask | Fitted[Any]:
    """Return the next question, or the model."""
    ask, problem = _read(plan)
    payload = _payload(sums)
    if len(payload.sums) != len(ask.questions):
        raise ModelError("damaged: sums that do not answer the questions of the plan")
    if not ask.width:
        _check_rows(payload, problem)
    found = []
    for asked, one in zip(ask.questions, payload.sums, strict=True):
        answer = _settled(asked, from_text(one), sums.table, problem)
        taken(asked, answer)  # what does not answer the question is refused now
        found.append(Known(asked, as_text(answer)))
    ask = msgspec.structs.replace(ask, known=[*ask.known, *found], questions=[])
    if not ask.width:
        ask = msgspec.structs.replace(ask, width=payload.width, remarks=payload.remarks)
    _check_width(payload.width, ask)
    steps = _alpha_steps if isinstance(problem, AlphaProblem) else _class_steps
    known = {one.asked: from_text(one.sums) for one in ask.known}
    following = replayed(steps(ask, problem, plan), known, taken)  # type: ignore[arg-type]
    if isinstance(following, Open):
        return _plain(msgspec.structs.replace(ask, questions=following.questions))
    return following


def _class_steps(ask: RaterAsk, problem: ClassProblem, plan: Plan) -> _Steps:
    (seen,) = yield [Asked(Overview())]
    spec = problem.spec
    search = map_search(ask.width, spec.method, spec.regularization, _FLAT)
    mapped = yield from _before(None, in_step(search))
    ((after, before),) = yield [_after(mapped, Figures())]
    figures = map_figures(
        mapped,
        rows=seen["rows"],
        votes=seen["votes"],
        brier=squared_loss(after),
        brier_before=squared_loss(before),
        clipped=seen["clipped"],
    )
    tags = dict(problem.tags)
    model = class_model(ask.column, _classes(ask), spec, mapped, figures, tags)
    if problem.provenance != "none":
        data, files = hash_text(seen["hash"]), _files(plan, problem)
        model.provenance = class_origin(spec, seen["rows"], data, files)
    record_makers(model.columns, problem.makers)
    return Fitted(model, (*_remarks(ask), *class_warnings(mapped)))


def _alpha_steps(ask: RaterAsk, problem: AlphaProblem, plan: Plan) -> _Steps:
    (seen,) = yield [Asked(Overview())]
    spec = problem.spec
    mapped: LogitMap | None = None
    if spec.logit_map != "none":
        search = map_search(ask.width, spec.logit_map, spec.map_regularization, _FLAT)
        mapped = yield from _before(None, in_step(search))
    named = spec.features
    width = ask.width if isinstance(named, str) else len(named or ())
    strength = yield from _before(mapped, in_step(strength_search(width, _FLAT)))
    point = [*strength.weights.tolist(), strength.intercept]
    steps = None
    if spec.disagreement_map == "isotonic" and seen["several"]:
        (cells,) = yield [_after(mapped, StepCells(point))]
        (steps,) = yield [_after(mapped, Steps(point, cells))]
    figures = Figures(point, *((steps.knots, steps.values) if steps else ()))
    ((after, before),) = yield [_after(mapped, figures)]
    fit = alpha_figures(
        strength,
        rows=seen["rows"],
        votes=seen["votes"],
        several=seen["several"],
        after=after,
        before=before,
    )
    fitted = (mapped, strength, steps)
    model = alpha_model(ask.column, _classes(ask), spec, fitted, fit, dict(problem.tags))
    if problem.provenance != "none":
        data, files = hash_text(seen["hash"]), _files(plan, problem)
        model.provenance = alpha_origin(spec, seen["rows"], data, files)
    record_makers(model.columns, problem.makers)
    return Fitted(model, (*_remarks(ask), *alpha_warnings(model)))


def _before(
    mapped: LogitMap | None, search: Generator[list[Any], list[Any], Any]
) -> Generator[list[Asked], list[Any], Any]:
    """Ask the questions of a search about rows that a map has gone over before."""
    try:
        questions = next(search)
        while True:
            answers = yield [_after(mapped, question) for question in questions]
            questions = search.send(answers)
    except StopIteration as end:
        return end.value


def _after(mapped: LogitMap | None, question: Any) -> Asked:
    """Return a question about rows that a map has gone over."""
    if mapped is None:
        return Asked(question)
    return Asked(question, mapped.weights.ravel().tolist(), mapped.intercept.tolist())


def _settled(asked: Asked, sums: Whole, table: pl.DataFrame, problem: _Problem) -> Whole:
    """Return the answer that the plan keeps: of a table, what follows from it."""
    question = asked.question
    if not isinstance(question, SampleSlopes | StepCells | Steps):
        return sums
    wanted = "hash" if isinstance(question, SampleSlopes) else "cell"
    if wanted not in table.columns or not table.height:
        raise ModelError("damaged: a table that does not answer the question of the plan")
    if isinstance(question, SampleSlopes):
        assert isinstance(problem, AlphaProblem)  # who asks fits a strength
        return slopes_of_sample(table, question, problem.spec.regularization)
    if isinstance(question, StepCells):
        return {"cells": open_cells(table)}
    steps = steps_from(table)
    return {"knots": units_of(steps.knots), "values": units_of(steps.values)}


def _check_width(width: int, ask: RaterAsk) -> None:
    if ask.width and width != ask.width:
        raise DataError(f"rows of {width} classes, but of {ask.width} in the first round")


def _check_rows(payload: _Payload, problem: _Problem) -> None:
    if payload.width > 1:
        return
    said = "; ".join(Remark(*parts).text for parts in payload.remarks)
    by = "name the columns of votes by --counts" if problem.columns.counts else "name --label"
    raise DataError(f"no row is left to fit on{': ' if said else ''}{said}; {by}")


def _classes(ask: RaterAsk) -> list[str]:
    return ask.classes or [str(place) for place in range(ask.width)]


def _remarks(ask: RaterAsk) -> list[str]:
    return [Remark(*parts).text for parts in ask.remarks]


def _files(plan: Plan, problem: _Problem) -> list[str] | None:
    if problem.provenance != "names":
        return None
    named = [list(shard.files) for shard in plan.shards]
    return named[0] if len(named) == 1 else sorted({name for one in named for name in one})


def _added(one: Whole, other: Whole) -> Whole:
    """Return the sums of both; a part without rows has none."""
    return added(one, other) if one and other else one or other


def _as_plain(remarks: Sequence[Remark]) -> list[tuple[str, str, str, int]]:
    """Return remarks in one order: those about columns first, as where all rows are read at once."""
    ordered = sorted(remarks, key=lambda one: (not one.before, natural_key(one.before), one.after))
    return [(one.before, one.noun, one.after, one.count) for one in ordered]


def _one_width(found: set[int]) -> int:
    if len(found) > 1:
        raise DataError(
            f"rows of {' and of '.join(map(str, sorted(found)))} classes; give every row one number a "
            "class"
        )
    return max(found, default=0)


def _of_sample(width: int) -> dict[str, Any]:
    numbers: dict[str, Any] = {"hash": pl.UInt64}
    numbers |= {f"p{k}": pl.Float64 for k in range(width)}
    return numbers | {f"c{k}": pl.Int64 for k in range(width)}


def _plain(ask: RaterAsk) -> Ask:
    plain: Ask = as_plain(ask)
    return plain


def _read(plan: Plan) -> tuple[RaterAsk, _Problem]:
    try:
        ask = msgspec.convert(plan.ask, RaterAsk)
    except msgspec.ValidationError as error:
        raise ModelError(f"a damaged plan: {error}") from None
    problem = _problem(plan.of, problem_in(plan.options, "plan.json"), "plan.json")
    for asked in ask.questions:
        _check_asked(asked, ask.width, _features(problem, ask.width))
    return ask, problem


def _features(problem: _Problem, classes: int) -> int:
    """Return how many features the strength of an alpha-calibration has."""
    named = problem.spec.features if isinstance(problem, AlphaProblem) else None
    return classes if isinstance(named, str) else len(named or ())


def _check_asked(asked: Asked, classes: int, features: int) -> None:
    """Refuse a question whose numbers are none, or too many or too few: kernels rely on them."""
    weights = (1, classes, classes * classes)
    sizes: list[tuple[list[float], tuple[int, ...]]] = [
        (asked.intercept, (0, classes)),
        (asked.weights, weights if asked.intercept else (0,)),
    ]
    question = asked.question
    if isinstance(question, MapAt):
        sizes += [(question.intercept, (classes,)), (question.weights, weights)]
    elif isinstance(question, StrengthAt):
        size = len(question.mean)
        sizes += [(question.mean, (0, features)), (question.factor, (size,))]
        sizes.append((question.point, (1 + size,)))
    elif isinstance(question, StepCells | Steps):
        sizes.append((question.strength, (1 + features,)))
    elif isinstance(question, Figures):
        strength = question.strength
        sizes += [] if strength is None else [(strength, (1 + features,))]
        sizes.append((question.values, (len(question.knots),)))
    for numbers, expected in sizes:
        if len(numbers) not in expected or not np.isfinite(numbers).all():
            raise ModelError(
                f"a damaged plan: a question has {len(numbers)} numbers, or one that is none, where "
                f"{' or '.join(map(str, dict.fromkeys(expected)))} belong"
            )


def _problem(kind: str, options: dict[str, Any], path: str) -> _Problem:
    if kind == ALPHA:
        return from_plain(options, AlphaProblem, path)
    return from_plain(options, ClassProblem, path)


def _payload(sums: Sums) -> _Payload:
    return from_plain(sums.payload, _Payload, "a state")
