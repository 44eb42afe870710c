"""Fill in papers.md: every table and figure of the five papers in a line, ours from its page."""

from __future__ import annotations

import json
import re

from pages import FOLDER, fill, table

HEADER = ("", "claim", "paper", "here", "verdict", "page")
#: From which share of the cells on a claim is said to hold so often.
HOW_OFTEN = {"so": 1.0, "mostly so": 2 / 3, "in part": 1 / 3, "not so": 0.0}
COMMANDS = dict(
    re.findall(
        r"\| \[\w+\]\((\w+)\.md\) \| `make ([a-z-]+)` \|",
        (FOLDER / "README.md").read_text(encoding="utf-8"),
    )
)


def part_of(page: str, part: str) -> list[list[str]]:
    """Return the cells of the table in a part of a page, its header first."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^<!-- part: {part} -->\n(.*?)^<!-- end -->$", text, re.DOTALL | re.MULTILINE
    )
    if found is None:
        raise ValueError(f"{page}.md has no part {part}")
    return [
        [own.strip() for own in line.strip("|").split(" | ")]
        for line in found[1].splitlines()
        if line.startswith("|") and not line.startswith("| -")
    ]


def cell(place: str) -> str:
    """Return a cell of a page, by its name, part, row (first cells, ; between) and column."""
    page, part, start, column = place.split("/")
    rows = part_of(page, part)
    row = next(row for row in rows if begins(row, start.split(";")))
    return row[int(column) if column.isdigit() else rows[0].index(column)]


def begins(row: list[str], wanted: list[str]) -> bool:
    """Return whether the first cells of a row begin with some texts."""
    return all(mine.startswith(text) for mine, text in zip(row, wanted, strict=False))


def how_often(here: str) -> str:
    """Return in words how often a claim holds that holds in so many "of" so many cells."""
    found = re.match(r"(\d+) of (\d+)", here)
    if found is None:
        return "?"
    share = int(found[1]) / int(found[2])
    return next(word for word, least in HOW_OFTEN.items() if share >= least)


def line(one: list[str]) -> list[str]:
    """Return the row of a table or figure; a ``?`` in its verdict is how often the claim holds."""
    *texts, page, picture = one
    filled = [re.sub(r"\{(.+?)\}", lambda found: cell(found[1]), text) for text in texts]
    filled[-1] = filled[-1].replace("?", how_often(filled[-2]))
    where = f"[{page}]({page}.md), `make {COMMANDS[page]}`" if page else ""
    return [*filled, f"{where}, [picture]({picture})" if picture else where]


def scoreboard() -> str:
    """Return the tables of all papers, from papers.json and the pages that it names."""
    papers = json.loads((FOLDER / "papers.json").read_text(encoding="utf-8"))
    parts = [f"## {name}\n\n{table(HEADER, map(line, rows))}" for name, rows in papers.items()]
    return "\n\n".join(parts)


def main() -> None:
    """Draw what pages hold the numbers of, and fill the page in."""
    from paper_figures import FIGURES  # the scoreboard itself takes no matplotlib

    for file, draw, title, name, page, part in FIGURES:
        draw(file, title, name, part_of(page, part))
    fill("papers", papers=scoreboard())


if __name__ == "__main__":
    main()
