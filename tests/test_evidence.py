"""The index of evidence: every page is in it, and every command it names writes that page."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "evidence"
INDEX = (FOLDER / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

#: Page and target of each line.
LINES = re.findall(r"^\|.*\| \[\w+\]\((\w+\.md)\) \| `make ([a-z-]+)` \| [^|]+ \|$", INDEX, re.M)


def targets() -> dict[str, str]:
    """Return what each target needs first."""
    return dict(re.findall(r"^([a-z-]+):(?!=)([^#\n]*)", MAKEFILE, re.M))


def test_every_page_is_listed_once_and_is_there() -> None:
    pages = sorted(path.name for path in FOLDER.glob("*.md") if path.name != "README.md")
    assert sorted(page for page, _ in LINES) == pages
    linked = re.findall(r"\]\(([^)#]+)\)", INDEX)
    assert sorted(linked) == pages


def test_every_target_is_one_of_the_makefile_and_the_page_names_it() -> None:
    known = targets()
    for page, target in LINES:
        assert target in known, f"{page}: make {target}"
        head = (FOLDER / page).read_text(encoding="utf-8")[:1000]
        assert re.search(rf"`make {target}\b(?!-)", head), f"{page} does not name make {target}"


def test_the_umbrella_runs_what_is_listed_under_the_papers() -> None:
    papers = INDEX.split("## The papers")[1].split("\n## ")[0]
    named = re.findall(r"\| `make ([a-z-]+)` \|", papers)
    assert sorted(targets()["reproduce"].split()) == sorted(set(named))


def test_every_script_of_a_page_is_run_by_a_target() -> None:
    for script in FOLDER.glob("write_*.py"):
        assert f"docs/evidence/{script.name}" in MAKEFILE, script.name
