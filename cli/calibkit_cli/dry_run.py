"""``--dry-run``: the resolved columns, the plan and the first rows; nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .console import Console

if TYPE_CHECKING:
    from calibkit.files.sources import Source

#: How many rows of the input are shown.
HEAD = 5


def show_plan(
    console: Console, source: Source, columns: Mapping[str, str], plan: Sequence[str]
) -> None:
    """Print what a run would do: on standard output, or as one object under ``--json``."""
    if console.as_json:
        console.json(
            {
                "dry_run": True,
                "files": source.paths,
                "rows": source.rows,
                "columns": dict(columns),
                "plan": list(plan),
            }
        )
        return
    shown = ", ".join(source.paths[:HEAD])
    more = f" and {len(source.parts) - HEAD} more" if len(source.parts) > HEAD else ""
    console.say(f"Input: {source.rows:,} rows of {shown}{more}")
    for role, name in columns.items():
        console.say(f"  {role}: column {name!r} ({source.schema[name]})")
    for step in plan:
        console.say(f"Would {step}.")
    head = source.read(list(dict.fromkeys(columns.values()))).head(HEAD)
    console.table(head.columns, head.rows())
