"""``boundary --confidence``: what is promised, exit codes, models, formats, order and threads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.score_files import Model, decisions, recount, simulate, write
from tests.conftest import Outcome

Invoke = Callable[..., Outcome]
GIVEN = ("--precision", "0.7", "--confidence", "0.9")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(simulate(4000, seed=2), tmp_path / "rows.parquet")


def read(path: Path) -> Model:
    model: Model = json.loads(path.read_bytes())
    return model


@pytest.mark.parametrize("method", ["auto", "st", "logistic", "exact"])
def test_a_certified_model_counts_right_and_applies(
    method: str, rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    output = tmp_path / "b.json"
    done = invoke("boundary", rows, *GIVEN, "--method", method, "-o", output)
    assert done.code == 0, done.stderr
    assert "guaranteed: precision >= 0.7 with confidence 0.9" in done.stderr.splitlines()[0]
    model = read(output)
    certificate = model["fit"]["certificate"]
    assert certificate.pop("rows") in range(2000, 3500)
    assert certificate == {
        "confidence": 0.9,
        "quantity": "precision",
        "bound": 0.7,
        "side": "lower",
    }
    assert model["method"] == ("curved" if method == "auto" else method)
    assert model["fit"]["cross_validated"] is None
    frame = pl.read_parquet(rows)
    seen = model["fit"]["in_sample"]
    counted = recount(model, frame)
    assert all(seen[name] == counted[name] for name in ("selected", "true_positives"))
    applied = tmp_path / "out.parquet"
    assert invoke("apply", output, rows, "-o", applied, "-q").code == 0
    assert pl.read_parquet(applied)["decision"].to_list() == list(decisions(model, frame))
    shown = invoke("show", output)
    assert shown.code == 0
    assert b"guaranteed: precision >= 0.7 with confidence 0.9" in shown.stdout


@pytest.mark.parametrize(
    ("given", "side"),
    [(("--recall", "0.3"), "lower"), (("--fpr", "0.1"), "upper"), (("--capacity", ".1"), "upper")],
)
def test_other_bounds(given: tuple[str, str], side: str, rows: Path, invoke: Invoke) -> None:
    done = invoke("boundary", rows, *given, "--confidence", "0.95", "--json")
    assert done.code == 0, done.stderr
    certificate = json.loads(done.stdout)["fit"]["certificate"]
    assert certificate["side"] == side
    assert certificate["quantity"] == given[0].removeprefix("--")


def test_without_confidence_there_is_no_certificate(rows: Path, invoke: Invoke) -> None:
    done = invoke("boundary", rows, "--precision", "0.7", "--method", "st", "--json")
    assert json.loads(done.stdout)["fit"]["certificate"] is None


def test_nothing_certified_is_exit_4_and_leaves_no_file(
    rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    output = tmp_path / "b.json"
    done = invoke(
        "boundary", rows, "--precision", "0.8", "--confidence", "0.99999999", "-o", output
    )
    assert done.code == 4
    assert "nothing can be certified" in done.stderr
    assert "rows like these would be needed" in done.stderr
    assert not output.exists()
    done = invoke("boundary", rows, "--precision", "1", "--confidence", "0.9", "--json")
    assert done.code == 4
    assert json.loads(done.stdout)["error"]["code"] == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--maximize", "f1"), "certifies a bound"),
        (("--minimize", "cost:1,2"), "certifies a bound"),
        (("--capacity", "50"), "below 1"),
        (("--precision", ".7", "--method", "mist"), "auto, st, logistic, exact"),
        (("--precision", ".7", "--method", "stochastic"), "auto, st, logistic, exact"),
        (("--precision", ".7", "--groups", "id"), "not independent"),
        (("--precision", ".7", "--time", "id"), "change with time"),
        (("--precision", ".7", "--value", "weight"), "unlimited size"),
        (("--precision", ".7", "--prevalence", ".1"), "base rate"),
        (("--precision", ".7", "--score-bins", "20"), "the scores themselves"),
        (("--precision", ".7", "--strategy", "equal-width"), "equal mass"),
        (("--precision", ".7", "--compare"), "--compare"),
        (("--precision", ".7", "--randomise", "tie"), "takes no chances"),
        (("--precision", ".7", "--uncertainty-bins", "99999"), "too many"),
        (("--precision", ".7", "--method", "exact", "--uncertainty-bins", "auto"), "cross-valid"),
        (("--precision", ".7", "--weight", "weight", "--weight-kind", "sampling"), "for many"),
        (("--precision", ".7", "--by", "weight"), "one segment at a time"),
    ],
)
def test_what_cannot_be_certified_is_refused(
    given: tuple[str, ...], said: str, rows: Path, invoke: Invoke
) -> None:
    done = invoke("boundary", rows, *given, "--confidence", "0.9")
    assert done.code == 2, done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("confidence", ["0", "1", "2", "high"])
def test_an_impossible_confidence(confidence: str, rows: Path, invoke: Invoke) -> None:
    done = invoke("boundary", rows, "--precision", "0.7", "--confidence", confidence)
    assert done.code == 2
    assert "--confidence" in done.stderr


def test_a_grid_has_lost_its_rows(rows: Path, tmp_path: Path, invoke: Invoke) -> None:
    grid = tmp_path / "grid.parquet"
    assert invoke("bin", rows, "--score-bins", 20, "-o", grid, "-q").code == 0
    done = invoke("boundary", grid, *GIVEN)
    assert done.code == 2
    assert "give the rows" in done.stderr


def test_the_same_bytes_for_any_order_format_and_number_of_threads(
    rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    frame = pl.read_parquet(rows)
    files = [
        rows,
        write(frame.sample(fraction=1.0, shuffle=True, seed=3), tmp_path / "mixed.parquet"),
        write(frame, tmp_path / "rows.csv"),
    ]
    found = set()
    for path, threads in zip(files, (1, 4, 2), strict=True):
        done = invoke("boundary", path, *GIVEN, "--threads", threads, "--json")
        assert done.code == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


def test_the_seed_deals_the_rows(rows: Path, invoke: Invoke) -> None:
    models: list[Any] = [
        json.loads(invoke("boundary", rows, *GIVEN, "--seed", seed, "--json").stdout)
        for seed in (1, 10**6)
    ]
    assert models[0]["score_thresholds"] != models[1]["score_thresholds"]


def test_weights_are_rows(rows: Path, tmp_path: Path, invoke: Invoke) -> None:
    done = invoke("boundary", rows, *GIVEN, "--weight", "weight", "--json")
    assert done.code == 0, done.stderr
    weighted = json.loads(done.stdout)
    frame = pl.read_parquet(rows)
    written = write(
        frame.select(pl.all().repeat_by("weight")).explode(pl.all()).drop_nulls(),
        tmp_path / "written.parquet",
    )
    plain = json.loads(invoke("boundary", written, *GIVEN, "--json").stdout)
    for name in ("score_thresholds", "uncertainty_edges"):
        assert weighted[name] == plain[name]
    assert weighted["fit"]["certificate"] == plain["fit"]["certificate"]
    halves = write(frame.with_columns(weight=pl.lit(0.5)), tmp_path / "halves.parquet")
    done = invoke("boundary", halves, *GIVEN, "--weight", "weight")
    assert done.code == 3
    assert "not whole numbers" in done.stderr


def test_test_rows_and_the_plan(rows: Path, tmp_path: Path, invoke: Invoke) -> None:
    fresh = write(simulate(3000, seed=9), tmp_path / "test.parquet")
    done = invoke("boundary", rows, *GIVEN, "--test", fresh, "--json")
    model = json.loads(done.stdout)
    assert model["fit"]["test"]["rows"] == 3000
    assert model["provenance"]["options"]["confidence"] == "0.9"
    planned = invoke("boundary", rows, *GIVEN, "--dry-run")
    assert planned.code == 0
    assert b"certify precision >= 0.7 with confidence 0.9" in planned.stdout


def test_scores_without_uncertainty(tmp_path: Path, invoke: Invoke) -> None:
    path = write(simulate(4000, seed=2).drop("uncertainty"), tmp_path / "plain.csv")
    done = invoke("boundary", path, *GIVEN, "--json", "-q")
    assert done.code == 0, done.stderr
    assert len(json.loads(done.stdout)["score_thresholds"]) == 1


def test_no_positive_row_is_bad_data(tmp_path: Path, invoke: Invoke) -> None:
    frame = simulate(500).with_columns(label=pl.lit(0))
    done = invoke("boundary", write(frame, tmp_path / "none.parquet"), *GIVEN)
    assert done.code == 3
    assert "no positive row" in done.stderr
