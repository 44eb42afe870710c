"""Commands made of classes of options: what they take is what the classes say."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_origin

import typer

from calibkit.options.option import Entry, Options, entries
from calibkit.runtime.threads import thread_count

from .clashes import refuse_clashes
from .console import Console

#: Adds a command to an application under a name.
Register = Callable[[typer.Typer, str], None]

#: An example among those of a help, which is a paragraph of its own where it is printed.
_EXAMPLE = re.compile(r"\n(?=  \S)")

#: The option that decides how many threads polars, which is loaded later, starts.
_THREADS = "threads"


def command(text: str, run: Callable[..., None], *kinds: type[Options]) -> Register:
    """Return what adds a command.

    Parameters
    ----------
    text
        Its help.
    run
        Is called with one object of each class.
    kinds
        The classes of its options, those that matter most first.
    """

    def register(app: typer.Typer, name: str) -> None:
        known = [entry for kind in kinds for entry in entries(kind) if entry.option.typed]

        def typer_command(**typed: Any) -> None:
            threads = typed.get(_THREADS)
            if threads is not None:
                most = thread_count(threads)
                os.environ["POLARS_MAX_THREADS"] = str(most)
                if most < threads:
                    Console(warnings=typed.get("warnings", "show")).warn(
                        f"--threads {threads} is more than this machine's processors: {most} are used"
                    )
            refuse_clashes(known, typed)
            run(*(_made(kind, typed) for kind in kinds))

        params = [_parameter(entry) for entry in known]
        signature: Any = typer_command
        signature.__signature__ = inspect.Signature(params)
        signature.__annotations__ = {param.name: param.annotation for param in params}
        app.command(name, help=_EXAMPLE.sub("\n\n", text))(typer_command)

    return register


def several(
    text: str, run: Callable[..., None], kinds: Mapping[str, type[Options]], line: type[Options]
) -> Register:
    """Return what adds a command with a sub-command a kind, whose options and line `run` gets."""

    def register(app: typer.Typer, name: str) -> None:
        own = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

        @own.callback()
        def _kinds() -> None:
            """Keep the name of the kind on the command line, however many kinds there are."""

        for called, kind in kinds.items():
            examples = [f"  calibkit {name} {called} {example}" for example in kind.EXAMPLES]
            about = "\n".join([f"{inspect.getdoc(kind)}\n", "Examples:", *examples])
            command(about, run, kind, line)(own, called)
        app.add_typer(own, name=name, help=_EXAMPLE.sub("\n\n", text))

    return register


def _made(kind: type[Options], typed: dict[str, Any]) -> Options:
    """Return the options of a class among all that were typed: the rest has its defaults."""
    own = {}
    for entry in entries(kind):
        value: Any = typed.get(entry.name)
        if value is None or (isinstance(value, list) and not value and not entry.required):
            continue
        if entry.default is True:  # what is on by default has a flag that turns it off
            value = not value
        own[entry.name] = ",".join(value) if entry.option.many == "commas" else value
    return kind(**own)


def _parameter(entry: Entry) -> inspect.Parameter:
    """Return the parameter that typer reads."""
    said = entry.option
    kind = said.text or _typed(entry)
    plain = said.shown is None and said.many is None and said.text is None
    default = entry.default if plain and kind is entry.kind else None
    if default is True:  # see `_made`
        default = False
    if entry.required:
        default = inspect.Parameter.empty
    elif default is None and kind is not bool:
        kind = kind | None
    about: dict[str, Any] = {
        "metavar": said.metavar,
        "help": said.help,
        "show_default": True if said.shown is None else said.shown,
        "hidden": said.hidden,
        "autocompletion": said.completes,
        "envvar": said.env,
    }
    info: Any
    if said.argument:
        info = typer.Argument(**(about | {"show_default": said.shown or False}))
    else:
        flags = said.flags or (entry.flag,)
        about |= {"min": said.least, "max": said.most} if kind in (int, int | None) else {}
        info = typer.Option(*flags, rich_help_panel=said.group, **about)
    return inspect.Parameter(
        entry.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, info],
    )


def _typed(entry: Entry) -> Any:
    """Return what is typed for an option: text, unless its type says how to read it."""
    if entry.option.many is not None:
        return list[str]
    plain = entry.kind in (int, float, bool, str) or get_origin(entry.kind) is Literal
    return entry.kind if plain and entry.option.read is None else str
