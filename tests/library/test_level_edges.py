"""Edges of uncertainty levels from files."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import calibkit as ck
from calibkit.errors import UsageError
from calibkit.options.bin import edges_of


def test_a_model_fitted_on_tied_uncertainties_gives_its_edges(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {
            "score": [i / 20 for i in range(20)],
            "uncertainty": [1.0] * 15 + [2.0] * 5,
            "label": [0, 1] * 10,
        }
    )
    model = ck.fit_boundary(rows, recall=0.5, method="exact", uncertainty_bins=3, folds=0)
    model.save(tmp_path / "model.json")
    assert edges_of(str(tmp_path / "model.json"), "") == (1.0, 1.0)


@pytest.mark.parametrize("text", ["[2, 1]", "[]", '["a"]', "[1e999]"])
def test_edges_rise(text: str, tmp_path: Path) -> None:
    path = tmp_path / "edges.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        edges_of(str(path), "")
