"""Commands made of classes of options: what they take is what the classes say."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_origin

import typer

from calibkit.options.option import Option, Options, options_of
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
    """Return what adds a command with a help; `run` gets one object of each class of options."""

    def register(app: typer.Typer, name: str) -> None:
        known = [option for kind in kinds for option in options_of(kind) if option.typed]

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

        params = [_parameter(option) for option in known]
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
    for option in options_of(kind):
        value: Any = typed.get(option.name)
        if value is None or (isinstance(value, list) and not value and not option.required):
            continue
        if option.default is True:  # what is on by default has a flag that turns it off
            value = not value
        own[option.name] = ",".join(value) if option.many == "commas" else value
    return kind(**own)


def _parameter(option: Option) -> inspect.Parameter:
    """Return the parameter that typer reads: text, unless its type says how to read it."""
    plain = option.kind in (int, float, bool, str) or get_origin(option.kind) is Literal
    kind = option.kind if plain and option.read is None else str
    kind = option.text or (list[str] if option.many is not None else kind)
    said = option.shown is None and option.many is None and option.text is None
    default = option.default if said and kind is option.kind else None
    if default is True:  # see `_made`
        default = False
    if option.required:
        default = inspect.Parameter.empty
    elif default is None and kind is not bool:
        kind = kind | None
    about: dict[str, Any] = {
        "metavar": option.metavar,
        "help": option.help,
        "show_default": True if option.shown is None else option.shown,
        "hidden": option.hidden,
        "autocompletion": option.completes,
        "envvar": option.env,
    }
    info: Any
    if option.argument:
        info = typer.Argument(**(about | {"show_default": option.shown or False}))
    else:
        flags = option.flags or (option.flag,)
        about |= {"min": option.least, "max": option.most} if kind in (int, int | None) else {}
        info = typer.Option(*flags, rich_help_panel=option.group, **about)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(
        option.name, keyword, default=default, annotation=Annotated[kind, info]
    )
