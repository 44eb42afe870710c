"""The page of ``evaluate --report`` in a real browser: nothing spills over, is faint or is loaded."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.browser import chromium
from tests.conftest import ROOT, make

pytestmark = pytest.mark.skipif(
    chromium.BROWSER is None, reason="chromium is not installed (apt-get install chromium)"
)

HOSTILE = '<script>document.body.innerHTML="taken"</script>'
IMAGE = '"><img src=https://example.invalid/x.png onerror=alert(1)>'


def hostile_scores(path: Path) -> Path:
    """Write scores whose columns and values have names that a careless page would run or load."""
    random = np.random.default_rng(0)
    truth = random.random(800)
    frame = pl.DataFrame(
        {
            HOSTILE: truth,
            IMAGE: np.clip(truth + random.normal(0, 0.1, 800), 0, 1),
            "score": truth,
            "uncertainty": random.random(800),
            "label": (random.random(800) < truth).astype(int),
            "country": random.choice(
                ["<b>bold</b>", "a" * 150, "wide name " * 15, "日本" * 20], 800
            ),
        }
    )
    frame.write_parquet(path)
    return path


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a page of each mode."""
    folder = tmp_path_factory.mktemp("pages")
    rows, model = hostile_scores(folder / "rows.parquet"), folder / "boundary.json"
    metrics = folder / "metrics.json"
    made = {name: folder / f"{name}.html" for name in ("hostile", "sample", "votes")}
    hostile = (rows, "--score", HOSTILE, "--score", IMAGE, "--by country")
    make(metrics, "evaluate", *hostile, "--report", made["hostile"])
    calib, test = (ROOT / "sample_data" / f"{name}.parquet" for name in ("calib", "test"))
    make(model, "boundary", calib, "--precision 0.7 --method exact")
    make(metrics, "evaluate", test, "--boundary", model, "--top 0.02,0.1 --report", made["sample"])
    votes = make(folder / "votes.parquet", "simulate", "raters", "--rows 500")
    make(metrics, "evaluate", votes, "--counts count_* --report", made["votes"])
    return made


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    [
        ("hostile", "light", 390),
        ("hostile", "dark", 1200),
        ("sample", "light", 1200),
        ("sample", "dark", 390),
        ("votes", "light", 390),
        ("votes", "dark", 800),
    ],
)
def test_nothing_spills_over_or_is_faint(
    pages: dict[str, Path], tmp_path: Path, name: str, scheme: str, width: int
) -> None:
    found = chromium.measured(pages[name], tmp_path, width=width, scheme=scheme)
    for trouble in ("wide", "outside", "faint", "loaded"):
        assert found[trouble] == [], trouble
    assert (found["scroll"], found["scripts"], found["broken"]) == (0, 0, 0)
    assert found["ground"] == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)")
    assert found["headings"][0].startswith("Evaluation of")


def test_the_measure_sees_trouble(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        '<!doctype html><body><p style="color:#ccc">faint</p><div style="width:900px">wide</div>'
        '<svg width="20" height="20"><text x="10" y="10">outside</text></svg><script>1</script>'
    )
    found = chromium.measured(page, tmp_path, width=390, scheme="light")
    assert len(found["faint"]) == len(found["wide"]) == len(found["outside"]) == 1
    assert found["scroll"] > 0
    assert found["scripts"] == 1


def test_no_request_leaves_the_machine(pages: dict[str, Path], tmp_path: Path) -> None:
    host = "example.invalid"
    assert host in pages["hostile"].read_text(encoding="utf-8")
    assert host not in chromium.requests(pages["hostile"], tmp_path)
    careless = tmp_path / "careless.html"
    careless.write_text(f'<!doctype html><img src="https://{host}/x.png">')
    assert host in chromium.requests(careless, tmp_path)


def test_a_dark_page_is_dark_and_not_empty(pages: dict[str, Path], tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image")
    picture = image.imread(chromium.shot(pages["sample"], tmp_path, width=500, scheme="dark"))
    assert picture.shape[:2] == (2400, 500)
    assert picture[..., :3].mean() < 0.3
    assert np.unique(picture[..., 2]).size > 50


def test_paper_has_room_for_it(pages: dict[str, Path], tmp_path: Path) -> None:
    paper = tmp_path / "page.pdf"
    chromium.run(tmp_path, f"--print-to-pdf={paper}", pages["sample"].as_uri())
    content = paper.read_bytes()
    assert content.startswith(b"%PDF-")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 10
