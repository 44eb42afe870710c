"""Models of 0.1 give what they gave, and the same rows and options give the same models again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.compat.fits import ELSEWHERE, FITS
from tests.compat.frozen import FOLDER, OUTPUTS, applied, fitted, models, path_of

#: Fits whose models are others than those of 0.1, and the line of CHANGELOG.md that says so.
DIFFERENT: dict[str, str] = {
    **dict.fromkeys(
        ["alpha of features", "alpha, vector", "alpha, cv"],
        "* `alpha-cal` with `--map` or `--features probs` sums its rows in one order",
    ),
}


def without_version(path: Path) -> Any:
    """Return a model or metrics without the version that wrote them."""
    content = json.loads(re.sub(r"\|v:[^\"|]+", "", path.read_text(encoding="utf-8")))
    content.get("provenance", {}).pop("calibkit", None)
    return content


@pytest.mark.parametrize("name", models())
def test_models_of_0_1_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    expected = json.loads((FOLDER / OUTPUTS).read_bytes())
    assert applied(name, tmp_path / "out.csv") == expected[name]


@pytest.mark.parametrize("name", [*FITS, *ELSEWHERE])
def test_the_fits_of_0_1_are_made_again(name: str, tmp_path: Path) -> None:
    found, known = without_version(fitted(name, tmp_path)), without_version(path_of(name))
    assert (found == known) is (name not in DIFFERENT)


def test_differences_are_in_the_changelog() -> None:
    said = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    assert {line for line in DIFFERENT.values() if line not in said} == set()
