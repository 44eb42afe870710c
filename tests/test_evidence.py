"""The index of evidence: every page is in it, and every command it names writes that page."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

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


def test_the_scoreboard_says_what_its_pages_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import write_papers

    page = (FOLDER / "papers.md").read_text(encoding="utf-8")
    assert write_papers.scoreboard() in page
    for module in ("pages", "write_papers"):
        monkeypatch.delitem(sys.modules, module)


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The writer of pages, with a page of two parts to write."""
    monkeypatch.syspath_prepend(FOLDER)
    import pages

    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.delitem(sys.modules, "pages")
    (tmp_path / "one.md").write_text(
        "# One\n\n<!-- part: first -->\n\nold\n\n<!-- end -->\n\nProse.\n\n"
        "<!-- part: second -->\n\n<!-- end -->\n"
    )
    return pages


def test_parts_are_filled_in_and_prose_stays(pages: ModuleType, tmp_path: Path) -> None:
    shown = pages.table("a|b|c", [["x", 1, 2]], "lr")
    for _ in range(2):  # what is there already is replaced
        pages.fill("one", first="new\\1", second=shown)
    assert (tmp_path / "one.md").read_text() == (
        "# One\n\n<!-- part: first -->\n\nnew\\1\n\n<!-- end -->\n\nProse.\n\n"
        "<!-- part: second -->\n\n| a | b | c |\n| --- | ---: | ---: |\n| x | 1 | 2 |\n\n"
        "<!-- end -->\n"
    )


def test_a_part_too_few_or_too_many_is_refused(pages: ModuleType) -> None:
    with pytest.raises(ValueError, match="has the parts"):
        pages.fill("one", first="")


def test_every_part_of_a_page_is_written_by_some_script() -> None:
    scripts = [*FOLDER.glob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in scripts)
    for page in FOLDER.glob("*.md"):
        content = page.read_text(encoding="utf-8")
        parts = re.findall(r"^<!-- part: (\w+) -->$", content, re.M)
        assert len(parts) == len(set(parts)) == content.count("<!-- end -->"), page.name
        assert not parts or f'"{page.stem}",' in text, page.name
        for part in parts:
            assert re.search(rf"\b{part}(=|\": )|\"{part}\"", text), f"{page.name}: {part}"
