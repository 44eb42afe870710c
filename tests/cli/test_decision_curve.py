"""``evaluate --threshold`` and ``--decision-curve``, and plots of decisions by threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from tests.budgets import little_memory
from tests.cli.score_files import merge_parts, simulate, write
from tests.conftest import Invoke, make


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows and a boundary."""
    folder = tmp_path_factory.mktemp("curves")
    fit = write(simulate(900, seed=1), folder / "fit.parquet")
    new = simulate(600, seed=2)
    write(new.with_columns(other=pl.col("score") ** 2), folder / "new.parquet")
    make(folder / "b.json", "boundary", fit, "--precision 0.7 --method exact")
    return folder


def test_the_table_is_that_of_the_decisions(made: Path, invoke: Invoke) -> None:
    words = ("--boundary", made / "b.json", "--score score,other -q -o", Path("m.json"))
    for name, more in (("c.csv", ""), ("c.parquet", ""), ("little.csv", "--memory 20MB")):
        curve = ("--decision-curve", Path(name), *more.split())
        assert invoke("evaluate", made / "new.parquet", *words, *curve).code == 0
    table = pl.read_parquet("c.parquet")
    assert pl.read_csv("c.csv").equals(table)
    assert Path("little.csv").read_bytes() == Path("c.csv").read_bytes()
    assert table.columns == ["threshold", "model", "net_benefit", "low", "high"]
    names = table["model"].unique(maintain_order=True).to_list()
    assert names == ["boundary", "score", "other", "all", "none"]
    assert table.height == 5 * 99
    applied = make("a.parquet", "apply", made / "b.json", made / "new.parquet")
    frame = pl.read_parquet(applied)
    taken, label = frame["decision"] == 1, frame["label"] == 1
    hits, alarms = (taken & label).sum(), (taken & ~label).sum()
    for t in (0.05, 0.5, 0.8):
        row = table.filter(model="boundary", threshold=t).row(0, named=True)
        assert row["net_benefit"] == pytest.approx((hits - alarms * t / (1 - t)) / 600, abs=1e-12)
        assert row["low"] < row["net_benefit"] < row["high"]


@pytest.mark.parametrize("kind", ["decision-curve", "cost-curve", "risk-coverage"])
def test_pictures_are_of_probabilities(made: Path, invoke: Invoke, kind: str) -> None:
    words = ("plot", kind, made / "new.parquet", "--scale raw -q -o raw.svg")
    invoke(*words).refused(2)


@pytest.mark.parametrize("kind", [pl.Float32, pl.Float64])
def test_scores_as_sure_of_either_class_are_taken_together(
    kind: type[pl.DataType], invoke: Invoke
) -> None:
    scores = pl.Series("score", [0.1, 0.9, 0.1, 0.9], dtype=kind)
    rows = write(pl.DataFrame([scores, pl.Series("label", [1, 1, 1, 1])]), "r.parquet")
    done = invoke("plot", "risk-coverage", rows, "-o r.csv")
    assert done.result()["risk"].to_list() == [0.5]


def test_infinite_logits_have_no_curve(invoke: Invoke) -> None:
    logits = {"score": [float("inf"), 0.5, -1.0, -2.0], "label": [1, 1, 0, 0]}
    rows = write(pl.DataFrame(logits), "logits.parquet")
    for words in (
        ("evaluate", rows, "--decision-curve c.csv", "-o m.json"),
        ("plot", "cost-curve", rows, "-o c.svg"),
        ("plot", "risk-coverage", rows, "-o c.svg"),
    ):
        invoke(*words, "--scale logit -q").refused(3, "column 'score': infinite logits")


NAMES = {"threshold:0.50": 0.5, "threshold:.25": 0.25}


def rows(size: int = 900) -> pl.DataFrame:
    """Return rows with a score of 32 bits, and with what each threshold decides."""
    frame = simulate(size).with_columns(
        pl.col("score").cast(pl.Float32), shop=pl.Series(["a", "b", "b"] * (size // 3))
    )
    flags = {name: (pl.col("score") >= value).cast(pl.Int8) for name, value in NAMES.items()}
    return frame.with_columns(**flags)


@pytest.mark.parametrize(
    "options",
    [[], ["--weight", "weight"], ["--by", "shop", "--top", "0.2"], ["--prevalence", "0.1"]],
    ids=["plain", "weighted", "slices", "prevalence"],
)
def test_a_threshold_is_a_column_of_decisions(options: list[str], invoke: Invoke) -> None:
    line = ["evaluate", write(rows(), "rows.parquet"), *options]
    line += ["-q -o", Path("m.json")]
    found = invoke(*line, "--threshold 0.50 --threshold .25").result()
    assert set(found["metrics"]) == {"score", *NAMES}
    for name in NAMES:
        column = invoke(*line, "--decision", name).result()
        for part in ("metrics", "intervals"):
            assert found[part][name] == column[part][name]


def test_counts_by_hand_gates_and_the_table(invoke: Invoke) -> None:
    frame, out, page = rows(), Path("m.json"), Path("r.html")
    path = write(frame, "rows.csv")
    line = ["evaluate", path, "--threshold", "0.50,.25", "-o", out]
    found = invoke(*line, "-q --report", page).result()["metrics"]
    label = frame["label"].to_numpy() == 1
    for name, value in NAMES.items():
        taken = frame["score"].to_numpy() >= np.float32(value)
        own = found[name]["all"]
        assert (own["tp"], own["fp"]) == ((taken & label).sum(), (taken & ~label).sum())
        assert own["precision"] == pytest.approx((taken & label).sum() / taken.sum())
    assert "threshold:0.50" in page.read_text()
    bound = found["threshold:0.50"]["all"]["precision"] + 1e-9
    assert invoke(*line, f"--fail-if threshold:0.50/precision<{bound}").code == 1
    assert invoke("gate", out, f"--fail-if threshold:0.50/all/precision<{bound}").code == 1
    assert invoke("gate", out, f"--fail-if threshold:0.50/precision>{bound}").code == 0


def test_the_same_from_states_little_memory_and_python(invoke: Invoke) -> None:
    frame = rows(1200)
    line = ["evaluate", write(frame, "rows.parquet"), "--threshold 0.50,.25 -q"]
    whole = invoke(*line, "-o m.json").result()
    merged = merge_parts("merged.json", frame.iter_slices(500), "evaluate", line[2])
    assert merged.read_bytes() == Path("m.json").read_bytes()
    metrics: Any = ck.evaluate(frame, threshold=["0.50", ".25"])
    assert metrics.as_dict() == whole
    assert "threshold:0.25" in ck.evaluate(frame, threshold=0.25).metrics
    with little_memory(300) as budget:
        small = invoke(*line, *budget, "-o", merged).result()
    assert small["metrics"]["threshold:0.50"] == whole["metrics"]["threshold:0.50"]
