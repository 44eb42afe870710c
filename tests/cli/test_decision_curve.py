"""``evaluate --decision-curve`` and ``plot decision-curve``, ``cost-curve``, ``risk-coverage``."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.cli.score_files import simulate, write
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


def test_the_table_is_that_of_the_decisions(made: Path, invoke: Invoke, tmp_path: Path) -> None:
    words = ("--boundary", made / "b.json", "--score score,other -q -o", tmp_path / "m.json")
    for name in ("c.csv", "c.parquet"):
        done = invoke("evaluate", made / "new.parquet", *words, "--decision-curve", tmp_path / name)
        assert done.code == 0, done.stderr
    table = pl.read_parquet(tmp_path / "c.parquet")
    assert pl.read_csv(tmp_path / "c.csv").equals(table)
    assert table.columns == ["threshold", "model", "net_benefit", "low", "high"]
    names = table["model"].unique(maintain_order=True).to_list()
    assert names == ["boundary", "score", "other", "all", "none"]
    assert table.height == 5 * 99
    applied = tmp_path / "applied.parquet"
    frame = invoke("apply", made / "b.json", made / "new.parquet", "-q", "-o", applied).result()
    taken, label = frame["decision"] == 1, frame["label"] == 1
    hits, alarms = (taken & label).sum(), (taken & ~label).sum()
    for t in (0.05, 0.5, 0.8):
        row = table.filter(model="boundary", threshold=t).row(0, named=True)
        assert row["net_benefit"] == pytest.approx((hits - alarms * t / (1 - t)) / 600, abs=1e-12)
        assert row["low"] < row["net_benefit"] < row["high"]
    little = tmp_path / "little.csv"
    memory = ("--decision-curve", little, "--memory", "20MB")
    assert invoke("evaluate", made / "new.parquet", *words, *memory).code == 0
    assert little.read_bytes() == (tmp_path / "c.csv").read_bytes()


@pytest.mark.parametrize("kind", ["decision-curve", "cost-curve", "risk-coverage"])
def test_pictures_and_their_points(made: Path, invoke: Invoke, tmp_path: Path, kind: str) -> None:
    boundary = () if kind == "risk-coverage" else ("--boundary", made / "b.json")
    words = ("plot", kind, made / "new.parquet", "--score", "score,other", *boundary, "-q")
    assert invoke(*words, "-o", tmp_path / "p.svg", "--data", tmp_path / "p.csv").code == 0
    assert b"<svg" in (tmp_path / "p.svg").read_bytes()
    table = pl.read_csv(tmp_path / "p.csv")
    assert table.height > 99
    assert invoke(*words, "--scale", "raw", "-o", tmp_path / "raw.svg").code == 2
    assert not (tmp_path / "raw.svg").exists()


def test_what_has_no_decision_curve_is_refused(made: Path, invoke: Invoke, tmp_path: Path) -> None:
    rows, output = made / "new.parquet", tmp_path / "c.csv"
    for more, said in (
        (("--scale", "raw"), "--scale is raw"),
        (("--groups", "id"), "--groups"),
        (("--weight", "weight", "--weight-kind", "sampling"), "--weight-kind"),
        (("--prevalence", "0.1"), "--prevalence"),
        (("--probs", "p_*"), "--probs"),
        (("--partial", "-o", tmp_path / "x.state"), "--decision-curve"),
        (("-o", f"{tmp_path}/d/"), "--decision-curve"),
    ):
        done = invoke("evaluate", rows, "--decision-curve", output, *more)
        assert (done.code, said in done.stderr) == (2, True), (more, done)
        assert not output.exists()
    assert invoke("evaluate", rows, "--decision-curve", "-").code == 2
    assert invoke("evaluate", rows, "--decision-curve", rows, "-o", tmp_path / "m.json").code == 2


@pytest.mark.parametrize("kind", [pl.Float32, pl.Float64])
def test_scores_as_sure_of_either_class_are_taken_together(
    kind: type[pl.DataType], invoke: Invoke, tmp_path: Path
) -> None:
    scores = pl.Series("score", [0.1, 0.9, 0.1, 0.9], dtype=kind)
    rows = write(pl.DataFrame([scores, pl.Series("label", [1, 1, 1, 1])]), tmp_path / "r.parquet")
    done = invoke(
        "plot", "risk-coverage", rows, "-o", tmp_path / "r.svg", "--data", tmp_path / "r.csv"
    )
    assert done.code == 0, done
    assert pl.read_csv(tmp_path / "r.csv")["risk"].to_list() == [0.5]


def test_infinite_logits_have_no_curve(invoke: Invoke, tmp_path: Path) -> None:
    logits = {"score": [float("inf"), 0.5, -1.0, -2.0], "label": [1, 1, 0, 0]}
    rows, curve = write(pl.DataFrame(logits), tmp_path / "logits.parquet"), tmp_path / "c.csv"
    for words in (
        ("evaluate", rows, "--decision-curve", curve, "-o", tmp_path / "m.json"),
        ("plot", "cost-curve", rows, "-o", tmp_path / "c.svg"),
        ("plot", "risk-coverage", rows, "-o", tmp_path / "c.svg"),
    ):
        done = invoke(*words, "--scale", "logit", "-q")
        assert done.code == 3, done
        assert "column 'score': infinite logits" in done.stderr
    assert not curve.exists()
