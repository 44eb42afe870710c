"""Fits in rounds: ``--plan``, the plans that ``merge`` writes, and the same rounds in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from calibkit.errors import DataError, ModelError, UsageError

from .console import Console
from .dry_run import show_plan
from .finishers import FINISHERS
from .options import INPUT, option
from .progress import begin_pass

if TYPE_CHECKING:
    from calibkit.files.sources import Source
    from calibkit.fitted import Fitted
    from calibkit.memory import Memory
    from calibkit.rounds.plans import Plan
    from calibkit.summaries.states import State

PlanFile = Annotated[
    str | None,
    option(
        "--plan",
        metavar="FILE",
        panel=INPUT,
        help="With --partial: make the state of the next round, as a plan by `calibkit merge` asks; "
        "the plan has all options.",
        show_default="the first round",
    ),
]


class RoundsRun(Protocol):
    """One run of a command that fits in rounds."""

    @property
    def console(self) -> Console:
        """Where everything is said."""

    @property
    def memory(self) -> Memory:
        """How much of it there is."""

    @property
    def threads(self) -> int:
        """How many threads to use."""

    @property
    def kind(self) -> str:
        """The kind of its states."""

    @property
    def fields(self) -> Mapping[str, str]:
        """Which field of a state's problem each option is, by the name of its parameter."""

    @property
    def given(self) -> Mapping[str, str]:
        """The options that the command line names; see `given`."""

    def problem(self, source: Source) -> object:
        """Return what the options say, with names in the place of patterns of features."""


def start(run: RoundsRun, source: Source, file: str, *, dry_run: bool) -> None:
    """Write what the inputs answer to a plan: the state of a shard, or (``-o DIR/``) of each.

    With `dry_run` print what would be done.

    Raises
    ------
    UsageError
        An option that was given, and that the plan says otherwise; a column that is not there.
    ModelError
        The plan of another command; see `calibkit.rounds.plans.read_plan`.
    """
    from calibkit.summaries.held_states import columns_in

    plan = read_plan_of(file, run.kind)
    check_given(run, source, plan, file)
    columns = columns_in(plan.options, file)
    source.require(columns)
    if not dry_run:
        _write_answers(run, source, plan, file)
        return
    roles = {f"column {place}": name for place, name in enumerate(columns, start=1)}
    count = len(plan.shards)
    step = (
        f"answer round {plan.round} of {file}, a plan over {plan.rows:,} rows in {count:,} shards"
    )
    show_plan(run.console, source, roles, [step, "write a state"])


def _write_answers(run: RoundsRun, source: Source, plan: Plan, file: str) -> None:
    from calibkit.rounds.answers import answer_shard
    from calibkit.rounds.plans import damaged_else

    from .states import write_states

    def make(part: Source) -> State:
        with damaged_else(file):
            return answer_shard(plan, part, run.memory, threads=run.threads)

    write_states(run.console, source, make)


def read_plan_of(file: str, kind: str) -> Plan:
    """Return the plan in a file, which is one of a kind of states."""
    from calibkit.rounds.plans import read_plan

    plan = read_plan(file)
    if plan.of != kind:
        raise ModelError(
            f"a plan of `calibkit {plan.of}`, not of `calibkit {kind}`; give it to that command",
            file=file,
        )
    return plan


def check_given(run: RoundsRun, source: Source, plan: Plan, file: str) -> None:
    """Refuse an option that was given, and that the plan says otherwise."""
    from calibkit.models import canonical_text
    from calibkit.summaries.held_states import problem_in
    from calibkit.summaries.plain import as_plain

    planned = problem_in(plan.options, file)
    named = {name: place for name, place in run.fields.items() if name in run.given}
    problem: Any = as_plain(run.problem(source)) if named else {}
    for name, place in named.items():
        mine, theirs = _at(problem, place), _at(planned, place)
        if canonical_text(mine) != canonical_text(theirs):  # tuples are lists there
            raise UsageError(
                f"{run.given[name]} is {mine!r}, but {theirs!r} in {file}: a plan has all options of "
                "its fit; leave this one out."
            )


def given(context: typer.Context) -> dict[str, str]:
    """Return the options that the command line names, by the names of their parameters."""
    found = {}
    for param in context.command.params:
        source = context.get_parameter_source(str(param.name))
        if source is not None and source.name == "COMMANDLINE":
            found[str(param.name)] = param.opts[0]
    return found


def _at(problem: Any, place: str) -> Any:
    for name in place.split("."):
        problem = problem[name]
    return problem


def plan_path(output: str | None) -> str:
    """Return where the plan of a result is: in its folder, always by the same name."""
    from calibkit.rounds.plans import NAME

    return NAME if output in (None, "-") else str(Path(str(output)).parent / NAME)


def write_plan(console: Console, plan: Plan, path: str) -> None:
    """Write a plan, and say what to do with it."""
    from calibkit.files.sinks import write_bytes

    _spare_others(path)
    write_bytes(plan.to_json(), path)
    if console.as_json:
        console.json({"plan": path, "round": plan.round})
    count = len(plan.shards)
    console.summary(
        f"Round {plan.round} is needed: {path} written. For each of {count:,} "
        f"shard{'s' if count > 1 else ''}: calibkit {plan.of.partition(' ')[0]} SHARD --partial "
        f"--plan {path} -o SHARD.state; then merge again."
    )


def _spare_others(path: str) -> None:
    """Refuse to write a plan over a file that is none: its name is not one the user gave."""
    from calibkit.rounds.plans import read_plan

    if not Path(path).is_file():
        return
    try:
        read_plan(path)
    except ModelError as error:
        raise UsageError(
            f"{path}: is there, and is no plan that could be replaced ({error.message}); the plan of "
            "the next round is written here: move the file, or give -o another folder."
        ) from None


def go_on(console: Console, state: State, path: str) -> None:
    """Do what follows from the merged answers to a plan: the next plan, or the model."""
    from calibkit.fitted import Fitted
    from calibkit.rounds.loop import advanced
    from calibkit.rounds.plans import damaged_else

    plan = read_plan_of(path, state.header.kind)
    with damaged_else(path):
        following = advanced(plan, state)
    if isinstance(following, Fitted):
        finish(console, state, following)
    else:
        write_plan(console, following, path)


def finish(console: Console, state: State, fitted: Fitted[Any]) -> None:
    """Deliver the model that the last round gave."""
    module = import_module(f"calibkit_cli.{FINISHERS[state.header.kind]}")
    module.finish_rounds(console, state, fitted)


def fit_here(
    console: Console, state: State, source: Source, memory: Memory, threads: int
) -> Fitted[Any]:
    """Return what the rounds give that this process does by itself; `state` is of the first one."""
    from calibkit.rounds.answers import answer
    from calibkit.rounds.kept import Kept

    try:
        with Kept() as kept:
            return fit(
                console,
                state,
                lambda plan: answer(plan, source, memory, threads=threads, kept=kept),
            )
    except DataError as error:
        if error.file is None:  # it is about all rows: found in sums, which know no file
            error.file = source.paths[0]
            error.message = f"{error.file}: {error.message}"
        raise


def fit(console: Console, state: State, answer: Callable[[Plan], State]) -> Fitted[Any]:
    """Return what the rounds give, each of which a function answers."""
    from calibkit.rounds.loop import fit_in_rounds

    console.detail("the rows do not fit into --memory: the fit goes in rounds")
    return fit_in_rounds(state, answer, round_teller(console))


def round_teller(console: Console) -> Callable[[Plan], None]:
    """Return what says of a plan which round over how many rows comes now."""
    from calibkit.rounds.protocol import about

    def tell(plan: Plan) -> None:
        said = about(plan)
        console.detail(f"round {plan.round} over {plan.rows:,} rows{said and f': {said}'}")
        begin_pass(f"round {plan.round}{said and f', {said}'}")

    return tell
