"""Class probabilities and votes in one column of lists: what no row of them may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calibkit as ck
from tests.cli.score_files import write
from tests.conftest import Invoke, Outcome

PROBS: list[Any] = [[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]]
VOTES: list[Any] = [[1, 2], [2, 1], [3, 0]]
ROWS = (("p", PROBS), ("n", VOTES))
FIT = ("alpha-cal", "--probs", "p", "--counts", "n")


def fit(invoke: Invoke, folder: Path, **columns: list[Any]) -> Outcome:
    frame = pl.DataFrame({"p": PROBS * 10, "n": VOTES * 10, **columns}, strict=False)
    return invoke(FIT[0], write(frame, folder / "a.parquet"), *FIT[1:], "-o", folder / "m.json")


def test_lists_are_what_columns_are(tmp_path: Path, invoke: Invoke) -> None:
    columns = [(f"{n}_{k}", [row[k] for row in rows] * 10) for n, rows in ROWS for k in (0, 1)]
    path, out = write(pl.DataFrame(dict(columns)), tmp_path / "wide.parquet"), tmp_path / "w.json"
    wide = invoke("alpha-cal", path, "--probs p_* --counts n_* -o", out).result()
    assert fit(invoke, tmp_path).result()["log_alpha0"] == wide["log_alpha0"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"p": [None, *PROBS[1:]] * 10}, "no value (null)"),
        ({"p": [[0.2, 0.3, 0.5], *PROBS[1:]] * 10}, "'p'"),
        ({"p": [["a", "b"]] * 30}, "instead of numbers"),
        ({"p": [[0.2, None], *PROBS[1:]] * 10}, "no value (null)"),
        ({"p": [[float("inf"), 0.0], *PROBS[1:]] * 10}, "missing or infinite"),
        ({"n": [[-1, 3], *VOTES[1:]] * 10}, "not a number of votes"),
        ({"n": [[0.5, 3.0]] * 30}, "not a number of votes"),
    ],
    ids=["null", "lengths", "text", "null inside", "infinite", "negative", "fraction"],
)
def test_lists_that_hold_no_such_numbers_are_refused(
    columns: dict[str, list[Any]], said: str, tmp_path: Path, invoke: Invoke
) -> None:
    fit(invoke, tmp_path, **columns).refused(3, said)


def test_a_list_that_lacks_a_number_is_dropped_or_null(invoke: Invoke) -> None:
    frame = pl.DataFrame({"p": [[0.2, None], [None], *PROBS] * 9, "y": [0, 1, 0, 0, 1] * 9})
    path, model, out = (Path(name) for name in ("a.parquet", "m.json", "o.parquet"))
    write(frame, path)
    line = ("calibrate", path, "--probs", "p", "--label", "y", "-o", model)
    assert "18 rows without a value dropped" in invoke(*line, "--on-missing", "drop").stderr
    assert invoke("apply", model, path, "--on-missing", "null", "-o", out).code == 0
    assert pl.read_parquet(out)["calibrated_0"].is_null().sum() == 18


def test_a_pattern_of_several_lists_is_refused(invoke: Invoke) -> None:
    frame = pl.DataFrame({"p_1": PROBS, "p_2": PROBS, "n": VOTES})
    path = write(frame, "a.parquet")
    line = ("alpha-cal", path, "--probs", "p_*", "--counts", "n", "-o m.json")
    invoke(*line).refused(2, "p_1")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return more rows than a small memory holds, with lists and with bytes that are no text."""
    place = [row % 37 for row in range(70_000)]
    frame = ck.simulate_posterior(70_000, seed=1).select(
        "score",
        "label",
        "uncertainty",
        pl.Series("lists", [[one] for one in place]),
        pl.Series("bytes", [bytes([128 + one]) for one in place]),
    )
    return write(frame, tmp_path_factory.mktemp("many") / "many.parquet")


SMALL = ("--memory", "300MB")
BOUNDARY = ("boundary", "--precision", "0.6", "--method", "st", "-q")


@pytest.mark.parametrize("memory", [(), SMALL], ids=["held", "stored"])
@pytest.mark.parametrize(
    "line",
    [
        (*BOUNDARY, "--time"),
        (*BOUNDARY, "--groups"),
        ("calibrate", "--method", "auto", "--time"),
        ("hetcal", "--features", "uncertainty", "--groups"),
    ],
    ids=["boundary time", "boundary groups", "calibrate", "hetcal"],
)
def test_lists_are_no_groups_and_no_times(
    line: tuple[str, ...], memory: tuple[str, ...], many: Path, invoke: Invoke
) -> None:
    done = invoke(*line, "lists", many, *memory)
    done.refused(3, "column 'lists': List(Int64) holds several values in 70000 rows")


@pytest.mark.parametrize("option", ["--time", "--groups", "--by"])
def test_bytes_that_are_no_text_deal_rows_that_do_not_fit(
    option: str, many: Path, invoke: Invoke
) -> None:
    line = (*BOUNDARY, option, "bytes", many)
    held, stored = invoke(*line), invoke(*line, *SMALL)
    assert (held.code, stored.code) == (0, 0), stored.stderr
    assert stored.stdout == held.stdout
