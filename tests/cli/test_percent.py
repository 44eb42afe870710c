"""``--scale percent``: scores from 0 to 100 give what their hundredths give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from tests.cli.score_files import merge_parts
from tests.conftest import Invoke, Outcome

FITS = {
    "exact": "boundary --precision 0.7 --method exact --uncertainty-bins 2",
    "logistic": "boundary --precision 0.7 --method logistic",
    "beta": "calibrate --method beta",
    "auto": "calibrate --method auto",
    "isotonic": "calibrate --method isotonic",
    "vad": "vad --members score,score_b",
    "hetcal": "hetcal --features size --max-depth 1",
}
#: Tables, and how their scores are read.
KINDS = {"share": "probability", "percent": "percent"}


@pytest.fixture(scope="module", params=["Float64", "Float32", "Int64"])
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with percentages, and with the same scores as probabilities."""
    random = np.random.default_rng(11)
    score = random.random(700)
    frame = pl.DataFrame(
        {
            "score": (100 * score).round(1),
            "score_b": (100 * np.clip(score + random.normal(0, 0.05, 700), 0, 1)).round(1),
            "label": (random.random(700) < score).astype(np.int64),
            "uncertainty": random.random(700),
            "size": random.random(700),
        }
    )
    kind = getattr(pl, request.param)
    frame = frame.with_columns(pl.col("score", "score_b").cast(kind))
    folder = tmp_path_factory.mktemp("percent")
    frame.write_parquet(folder / "percent.parquet")
    # By numpy: polars multiplies by 0.01.
    parts = [pl.Series(one.name, one.to_numpy() / one.to_numpy().dtype.type(100))
             for one in frame.select("score", "score_b")]  # fmt: skip
    frame.with_columns(parts).write_parquet(folder / "share.parquet")
    return folder


def given(rows: Path, kind: str) -> tuple[Path, str, str]:
    return rows / f"{kind}.parquet", "--scale", KINDS[kind]


def model(invoke: Invoke, name: str, kind: str, rows: Path, *more: str) -> Outcome:
    command, _, options = FITS[name].partition(" ")
    return invoke(command, *given(rows, kind), options, *more, "-o", rows / f"{name}-{kind}.json")


@pytest.mark.few(7)
@pytest.mark.parametrize("name", FITS)
def test_models_and_exports_are_those_of_the_hundredths(
    name: str, rows: Path, invoke: Invoke
) -> None:
    models, applied = [], []
    for kind in KINDS:
        fitted = model(invoke, name, kind, rows).result()
        assert fitted["columns"]["score"].pop("scale") == KINDS[kind]
        models.append((fitted.pop("provenance")["data_hash"], fitted))
        judged = (rows / f"{name}-{kind}.json", rows / f"{kind}.parquet")
        applied.append(invoke("apply", *judged, "-o", rows / "out.parquet").result())
    assert models[0] == models[1]
    assert applied[1].drop("score", "score_b").equals(applied[0].drop("score", "score_b"))
    assert applied[1]["score"].equals(pl.read_parquet(rows / "percent.parquet")["score"])
    for to in ("sql", "polars", "python"):
        invoke("export", judged[0], "--to", to, "--check", judged[1], "-o", rows / "x").succeeded()


@pytest.mark.few(1)
def test_metrics_grids_and_states(rows: Path, invoke: Invoke) -> None:
    tables = [given(rows, kind) for kind in KINDS]
    options = "--score score --score score_b --top 0.1 --json"
    first, second = (invoke("evaluate", *table, options).result()["metrics"] for table in tables)
    assert first == second
    output = ("--score-bins 20 -o", Path("grid.csv"))
    grid, other = (invoke("bin", *table, *output).result() for table in tables)
    assert grid.equals(other)
    frame = pl.read_parquet(rows / "percent.parquet")
    line = (*FITS["exact"].split(" ", 1), "--scale percent")
    merged = merge_parts("merged.json", (frame[:300], frame[300:]), *line)
    whole = model(invoke, "exact", "percent", rows).output
    assert whole and merged.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_cells_of_a_grid_are_those_of_the_hundredths(
    suffix: str, rows: Path, invoke: Invoke
) -> None:
    found = []
    for table in (given(rows, kind) for kind in KINDS):
        invoke("bin", *table, "--score-bins 4 -o", f"grid.{suffix}").succeeded()
        done = invoke("evaluate", *table, "--grid", f"grid.{suffix}", "--no-intervals --json")
        found.append(done.result()["metrics"]["score"]["all"])
    assert found[0] == found[1]


def test_probabilities_are_watched_as_their_hundredths_are(rows: Path, invoke: Invoke) -> None:
    found = []
    for kind in KINDS:
        judged = (model(invoke, "exact", kind, rows).output, rows / f"{kind}.parquet")
        words = ("--state", Path(kind), "--precision 0.5 --calibration --json")
        estimated = invoke("drift", *judged, "--estimate --json").result()["estimated"]
        found.append((invoke("watch", *judged, *words).result(), estimated))
    assert found[0] == found[1]


def test_percentages_are_offered_by_name_and_shown(rows: Path, invoke: Invoke) -> None:
    table = rows / "percent.parquet"
    for line in (*FITS.values(), "evaluate", "bin"):
        command, _, options = line.partition(" ")
        invoke(command, table, *([options] if options else [])).refused(3, "--scale percent")
    assert "--scale percent" in invoke("validate", table).stdout.decode()
    invoke("validate", table, "--scale percent").succeeded()
    beyond = pl.read_parquet(table).with_columns(pl.col("score") * 2)
    with pytest.raises(ck.DataError, match=r"not in \[0, 100\]"):
        ck.fit_calibrator(beyond, scale="percent")
    fitted = model(invoke, "exact", "percent", rows)
    assert b"score / 100 >= 0." in invoke("show", fitted.output).stdout
    model(invoke, "beta", "percent", rows, "--out-of-range clip").refused(2)
    classes = invoke("evaluate", table, "--probs score* --scale percent")
    classes.refused(2, "--scale percent is not for class probabilities")
