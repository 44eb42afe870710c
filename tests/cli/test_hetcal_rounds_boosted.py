"""``calibkit hetcal --partition boosted`` where rows do not fit: in one process, and by plans."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.test_hetcal_rounds import TIGHT, by_plans
from tests.library.test_hetcal_rounds import assert_like, rows_of

OPTIONS = [
    *("--features", "x,kind", "--groups", "g", "--partition", "boosted", "--trees", "2"),
    *("--max-depth", "1", "--max-bins", "9", "-q"),
]


def test_both_ways_through_the_rounds_give_one_model(
    tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    frame, rows = rows_of(8300, 7), tmp_path / "rows.parquet"
    frame.write_parquet(rows, row_group_size=1000)
    parts = [tmp_path / f"{place}.csv" for place in range(2)]
    for place, part in enumerate(parts):
        frame[place::2].write_csv(part)
    made = {name: tmp_path / f"{name}.json" for name in ("memory", "rounds", "merged")}
    line = ["hetcal", rows, *OPTIONS]
    assert invoke(*line, "-o", made["memory"]).code == 0
    done = invoke(*line[:-1], *TIGHT, "-v", "-o", made["rounds"])
    assert done.code == 0 and ": tree 2 of at most 2" in done.stderr, done.stderr
    by_plans(invoke, parts, OPTIONS, made["merged"])
    memory, found, merged = (json.loads(path.read_text()) for path in made.values())
    assert_like(found, memory)
    assert merged["partitions"] == found["partitions"] and merged["fit"] == found["fit"]
