"""Segments of any type: the same names and the same rows from CSV, Parquet and exported code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit.exports.export import check_export
from calibkit.files.sources import Source
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.models.kinds import Request
from tests.budgets import little_memory
from tests.conftest import Invoke

Command = Callable[..., subprocess.CompletedProcess[bytes]]

DAYS = [datetime(2024, 1, 1), datetime(2024, 2, 3, 4, 5, 6), datetime(2024, 2, 3, 4, 5, 6, 500000)]
PRICES = pl.Series([Decimal("1.50"), Decimal("2.00"), Decimal("0.01")], dtype=pl.Decimal(10, 2))

#: Values, and their names from any file; None: text has its own.
CASES: dict[str, tuple[pl.Series, Sequence[str] | None]] = {
    "float32": (pl.Series([0.1, 2.5, 3.0], dtype=pl.Float32), ["0.1", "2.5", "3"]),
    "tiny": (pl.Series([1e-5, 1e-7, -0.0]), ["0", "1e-05", "1e-07"]),
    "huge": (pl.Series([1e16, 1e22, 1e300]), ["1" + 16 * "0", "1" + 22 * "0", str(int(1e300))]),
    "decimal": (PRICES, ["0.01", "1.5", "2"]),
    "zeros": (pl.Series(["x01", "x1", "x001"]), ["x001", "x01", "x1"]),
    "numerals": (pl.Series(["007", "1.0", "1e5"]), None),
    "beyond": (pl.Series([2**70, 2**64 - 1, 1], dtype=pl.Int128), None),
    "date": (pl.Series([date(2024, 1, 1), date(2024, 2, 3), date(1969, 1, 1)]), None),
    "moment": (pl.Series(DAYS), None),
    "zoned": (pl.Series(DAYS).dt.replace_time_zone("Europe/Berlin"), None),
}


def rows(values: pl.Series, count: int = 600) -> pl.DataFrame:
    """Return rows whose segments need thresholds of their own."""
    random = np.random.default_rng(1)
    place, score = np.arange(count) % values.len(), random.random(count)
    label = (random.random(count) < score ** (1 + 2 * place)).astype(np.int64)
    return pl.DataFrame({"score": score, "label": label, "g": values.gather(place)})


def fit(data: Any) -> BoundaryModel:
    return ck.fit_boundary(data, precision=0.5, method="st", by="g", folds=0)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::calibkit.CalibkitWarning")
def test_a_segment_is_found_whatever_wrote_it(case: str) -> None:
    values, names = CASES[case]
    frame, text = rows(values), Path("rows.csv")
    frame.write_csv(text)
    models = fit(frame), fit(text)
    assert len(set(models[0].apply(frame.head(3).with_columns(score=0.5))["margin"])) == 3
    for model in models:
        assert names is None or list(model.groups or ()) == names
        decided = model.apply(frame)["margin"].to_list()
        assert decided == models[0].apply(text)["margin"].to_list()
        for language in ("duckdb", "polars", "python"):
            found = check_export(model, language, Request(), Source.from_frame(frame))
            assert found.holds, f"{language}: {found}"


def test_a_name_among_numbers_leaves_their_segments() -> None:
    frame = rows(pl.Series([1.5, 2.0, 3.0]))
    model, path = fit(frame), Path("named.csv")
    named = pl.Series(["NA", *map(str, frame["g"].to_list()[1:])])
    frame.with_columns(g=named).write_csv(path)
    decided = [model.apply(one)["decision"].to_list()[1:] for one in (frame, path)]
    assert decided[0] == decided[1]


@pytest.mark.few(2)
@pytest.mark.parametrize("case", CASES)
def test_names_are_those_of_any_memory(case: str, invoke: Invoke) -> None:
    path, plain, squeezed = (Path(name) for name in ("r.parquet", "p.json", "s.json"))
    rows(CASES[case][0]).write_parquet(path)
    line = ("boundary", path, "--precision 0.5 --method exact --by g")
    invoke(*line, "-o", plain).succeeded()
    with little_memory(50) as budget:
        invoke(*line, *budget, "-o", squeezed).succeeded()
    assert squeezed.read_bytes() == plain.read_bytes()


def test_names_that_differ_in_zeros_have_one_order(command: Command) -> None:
    rows(CASES["zeros"][0]).write_parquet("rows.parquet")
    line = ("boundary", "rows.parquet", "--precision 0.5 --by g --method st --folds 0 -q --json")
    done = [command(*line, env={"PYTHONHASHSEED": seed}) for seed in "12345"]
    assert len({json.loads(one.stdout)["provenance"]["data_hash"] for one in done}) == 1


@pytest.mark.parametrize("option", ["by", "groups", "time"])
def test_integers_beyond_64_bits(option: str, invoke: Invoke) -> None:
    wide = pl.Series([2**70 + place for place in range(5)], dtype=pl.Int128)
    path, state, whole, merged = (Path(name) for name in ("r.csv", "r.state", "w.json", "m.json"))
    rows(wide).write_csv(path)
    line = ("calibrate", path, f"--{option}", "g")
    invoke("validate", *line[1:]).succeeded()
    invoke(*line, "-o", whole).succeeded()
    invoke(*line, "--partial -o", state).succeeded()
    invoke("merge", state, "-o", merged).succeeded()
    assert merged.read_bytes() == whole.read_bytes()
