"""Pages of evidence: their prose stands in the page itself, scripts fill in what they computed.

A part of a page that a script writes stands between ``<!-- part: NAME -->`` and ``<!-- end -->``; all
else is edited in the page.  Tables are data here and Markdown there.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "evidence"

#: Where score files are looked for if no folder is named: beside the project.
DATA = ROOT.parent / "shared" / "data"

_PART = re.compile(r"(?<=^<!-- part: )(\w+) -->\n.*?(?=^<!-- end -->$)", re.DOTALL | re.MULTILINE)


def arguments(
    description: str | None, *, needs: Sequence[str] = (), **options: int | str
) -> argparse.Namespace:
    """Read the options of a script, by name, and their folder where it `needs` data sets.

    Where a set is missing the script ends: its page is left as it is.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    if needs:
        parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    for name, default in options.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help="%(default)s")
    given = parser.parse_args()
    missing = [name for name in needs if not (given.folder / name).is_dir()]
    if missing:
        print(f"{given.folder}: no {' and no '.join(missing)} there; nothing is written.")
        sys.exit(0)
    return given


def score_files(
    folder: Path, parts: Sequence[str] = ("calib", "test"), columns: Sequence[str] | None = None
) -> list[pl.DataFrame]:
    """Return the rows of files of a data set, all of their columns or some."""
    return [pl.read_parquet(folder / f"{part}.parquet", columns=columns) for part in parts]


def prototype(name: str) -> Any:
    """Return figures of the earlier prototype, a library without commands, from prototype.json."""
    return json.loads((FOLDER / "prototype.json").read_bytes())[name]


def printed(name: str) -> Any:
    """Return the figures of a paper's tables as they are printed, from printed.json."""
    return json.loads((FOLDER / "printed.json").read_bytes())[name]


def fill(name: str, *, some: bool = False, **parts: str) -> None:
    """Write the parts of a page; each that it has, unless `some` do, and no other, must be given."""
    page = FOLDER / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    known = _PART.findall(text)
    if not set(parts) <= set(known) or (not some and len(known) != len(parts)):
        raise ValueError(f"{page.name} has the parts {sorted(known)}, not {sorted(parts)}")
    page.write_text(
        _PART.sub(
            lambda part: (
                f"{part[1]} -->\n\n{parts[part[1]].strip()}\n\n" if part[1] in parts else part[0]
            ),
            text,
        ),
        encoding="utf-8",
    )
    print(f"{page.relative_to(ROOT)} written.")


def table(header: str | Sequence[str], rows: Iterable[Sequence[object]], align: str = "") -> str:
    """Return a table; the columns of a header in one text are parted by ``|``.

    `align` has a letter for each column, ``r`` for right; the last one serves those that follow.
    """
    names = header.split("|") if isinstance(header, str) else header
    letters = align.ljust(len(names), align[-1:] or "l")
    rules = ["---:" if letter == "r" else "---" for letter in letters[: len(names)]]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in [names, rules, *rows])


def paragraph(text: str) -> str:
    """Return text in lines of at most a hundred characters."""
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False)


def bullets(*points: str) -> str:
    """Return a list, its points in lines of at most a hundred characters."""
    return "\n".join(
        textwrap.fill(
            point, 100, initial_indent="* ", subsequent_indent="  ", break_on_hyphens=False
        )
        for point in points
    )


def sections(*parts: str) -> str:
    """Return parts with an empty line between them."""
    return "\n\n".join(parts)


def signed(number: float, digits: int = 2) -> str:
    """Return a number with its sign, minus as a sign and not as a hyphen."""
    return f"{number:+.{digits}f}".replace("-", "−")
