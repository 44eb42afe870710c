"""Models of 0.1 give what they gave, and the same rows and options give the same models again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.compat.fits import ELSEWHERE, FITS_OF_0_1
from tests.compat.frozen import FOLDER, OUTPUTS, applied, close, fitted, models, path_of

#: Fits whose models are others than those of 0.1, or others in the last digits: by the words of
#: CHANGELOG.md that say so.
DIFFERENT = {
    "folds, bootstrap rows and subsamples follow from the rows and the seed": (
        *("tree", "tree chosen", "tree, entropy", "tree, auc", "tree of isotonic", "tree of beta"),
        *("tree of histogram", "tree of weights", "tree of sampling", "forest", "forest of groups"),
        *("boosted", "boosted of weights"),
    ),
    "compare themselves with one map that was fitted without the held-out rows": (
        *("boosted in time", "boosted of groups"),
    ),
    "takes none that falls short of the best there by more than a standard error": (
        "sample, auto",
    ),
    "rows that cannot be selected teach the path too": ("confidence",),
    "rows are dealt to folds in the same way whatever the unit of the weights": ("sampling",),
    "the same for groups that are numbers and for the same ones as text": ("intervals of groups",),
}
#: Keys that models have since, by the words that say so.
ADDED = {"models of `mist` have them as `isotonic`": ("mist", "golden, mist")}
#: Keys that the candidates of `auto` have since, by the words that say so.
ADDED_TO_CANDIDATES = {
    "`auto` judges every candidate at the bound too": (
        *("recall_at_bound", "precision_at_bound", "at_bound_standard_error"),
    ),
}
LAST_DIGITS = {
    "its last digits are lower, by rounding": ("logistic", "sample, logistic"),
    "Sums of a logistic fit take exponentials and logarithms as polynomials": ("sample, beta",),
    "one search fits all of them": ("beta", "map by"),
    "`vad` takes the logits of its members as polynomials": (
        "vad",
        "vad of bootstrap",
        "vad by",
        "tandem",
    ),
    "The log loss that `evaluate` and `calibrate` tell is a sum of such logarithms too": (
        *("platt", "isotonic", "histogram", "scaling-binning", "venn-abers", "temperature"),
        *("prior-shift", "map of weights", "evaluate", "evaluate by", "evaluate boundary"),
        *("evaluate classes", "intervals", "sample, isotonic", "large sample, platt"),
        "large sample, evaluate",
    ),
    "Sums of floats are the same whatever the version of Python": ("stochastic",),
    "sums go over rows in one order": ("alpha of features", "alpha, vector", "alpha, cv"),
    "looks for the best constant strength around that of a sample": ("alpha", "alpha, isotonic"),
    "`evaluate --prevalence` compares bounds exactly": ("evaluate weights",),
    "Normal quantiles come from Python": ("drift", "sample, evaluate"),
    "With `--groups` or `--time` trees differ in the last digits only": (
        *("tree of groups", "tree in time"),
    ),
    "the squared loss of the summary are means over votes": (
        *("classes, temperature", "classes, matrix", "votes, vector", "votes, vector, cv"),
    ),
}


def without_version(path: Path) -> Any:
    """Return a model or metrics without the version that wrote them, and that of its kind."""
    content = json.loads(re.sub(r"\|v:[^\"|]+", "", path.read_text(encoding="utf-8")))
    content.get("provenance", {}).pop("calibkit", None)
    content.pop("version", None)
    return content


@pytest.mark.parametrize("name", models())
def test_models_of_0_1_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    expected = json.loads((FOLDER / OUTPUTS).read_bytes())
    assert applied(name, tmp_path / "out.csv") == expected[name]


@pytest.mark.parametrize("name", [*FITS_OF_0_1, *ELSEWHERE])
def test_the_fits_of_0_1_are_made_again(name: str, tmp_path: Path) -> None:
    found, known = without_version(fitted(name, tmp_path)), without_version(path_of(name))
    for one in found.get("fit", {}).get("candidates", []):
        for key in _names(ADDED_TO_CANDIDATES):
            one.pop(key, None)
    assert (found.pop("isotonic", None) is not None) is (name in _names(ADDED))
    if found.get("kind") == "hetcal":
        found["fit"].pop("gap_beyond_chance", None)  # which models of 0.1 do not have
    assert (found == known) is (name not in _names(DIFFERENT) | _names(LAST_DIGITS))
    assert close(found, known, 1e-6, 1e-7) is (name not in _names(DIFFERENT))


def _names(table: dict[str, tuple[str, ...]]) -> set[str]:
    return {name for names in table.values() for name in names}


def test_differences_are_in_the_changelog() -> None:
    said = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    said = " ".join(said.split())
    assert {
        words
        for words in (*DIFFERENT, *ADDED, *ADDED_TO_CANDIDATES, *LAST_DIGITS)
        if words not in said
    } == set()
