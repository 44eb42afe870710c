"""The index of evidence: every page is in it, and every command it names writes that page."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from tests.conftest import Invoke

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


@pytest.fixture
def papers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The writer of the scoreboard."""
    monkeypatch.syspath_prepend(FOLDER)
    import write_papers

    for module in ("pages", "write_papers"):
        monkeypatch.delitem(sys.modules, module)
    return write_papers


def test_the_scoreboard_says_what_its_pages_say(papers: ModuleType) -> None:
    assert papers.scoreboard() in (FOLDER / "papers.md").read_text(encoding="utf-8")


def figures(papers: ModuleType, page: str, part: str) -> Iterator[tuple[str, list[list[float]]]]:
    """Yield the name of each row of a table, and the numbers of each of its cells."""
    for row in papers.part_of(page, part)[1:]:
        texts = [re.findall(r"-?\b\d*\.?\d+(?:e-?\d+)?", one.replace("−", "-")) for one in row]
        yield row[0], [[float(number) for number in one] for one in texts]


def test_verdicts_of_the_scoreboard_follow_from_its_pages(papers: ModuleType) -> None:
    for part in ("calibration_bias", "ece", "mce"):  # the same sign for every calibrator
        for _, (*_, one, two, three) in figures(papers, "vad_networks", part):
            assert all(moved < 0 and theirs < 0 for moved, _, theirs in (one, two, three))
    for _, (_, *moved) in figures(papers, "vad_networks", "log_loss"):
        assert max(percent for percent, _ in moved) < 0
    for _, (_, exact, formula) in figures(papers, "vad_networks", "theorem"):
        assert abs(exact[0] - formula[0]) < 2 * max(exact[1], formula[1])
    normal = [row for _, row in figures(papers, "vad_networks", "normality")]
    assert sum(row[3][0] < 0.05 for row in normal) == 2  # rejected for two of three, yet near
    assert max(row[2][0] for row in normal) == normal[0][2][0] < 0.03
    # Under dropout levels recall more, bought with precision on the test rows, and no more than that.
    table = dict(figures(papers, "dropout", "criteo_tau3"))
    assert table["EW-DPMT"][2][0] > table["ST"][2][0]
    assert table["EW-DPMT"][1][1] < table["ST"][1][1]
    assert table["EW-DPMT"][3][0] < 0
    for name, (*_, here, other, _, _, _) in figures(papers, "dropout", "bins"):
        assert name[0] in "AB" and (here < other) == (name[0] == "A")  # the other way round
    for mode, (_, _, true, *found) in figures(papers, "modes", "strengths"):
        assert mode == "clear" or all((one < 1) == (true[0] < 1) for (one,) in found)


@pytest.mark.parametrize(
    ("here", "verdict"),
    [
        ("24 of 24", "so"),
        ("132 of 180 runs; and more", "mostly so"),
        ("7 of 12", "in part"),
        ("1 of 8", "not so"),
    ],
)
def test_verdicts_on_networks_say_how_often_claims_hold(
    here: str, verdict: str, papers: ModuleType
) -> None:
    assert papers.how_often(here) == verdict
    assert "networks: ?" not in papers.scoreboard()


def test_the_gains_by_the_bound_are_those_that_the_scoreboard_says(
    papers: ModuleType, tmp_path: Path, invoke: Invoke, real_data: Callable[[str], Path]
) -> None:
    folder, points = real_data("bank_tau5"), tmp_path / "points.csv"
    line = ["plot", "recall-gain", folder / "calib.parquet", "--test", folder / "test.parquet"]
    assert invoke(*line, "--data", points, "-o", tmp_path / "picture.svg").code == 0
    table = pl.read_csv(points).filter(pl.col("method") == "exact")
    gains = {row["bound"]: row for row in table.iter_rows(named=True)}
    said = ", ".join(f"{100 * gains[bound]['gain']:+.0f} % at {bound:.1f}" for bound in (0.7, 0.8))
    assert said.replace("0.", ".") in papers.scoreboard()
    assert min(gains[bound]["gain_low"] for bound in (0.7, 0.8)) > 0  # beyond the noise


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
