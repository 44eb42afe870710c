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


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--scale raw", "--scale is raw"),
        ("--groups id", "--groups"),
        ("--weight weight --weight-kind sampling", "--weight-kind"),
        ("--prevalence 0.1", "--prevalence"),
        ("--probs p_*", "--probs"),
        ("--partial -o x.state", "--decision-curve"),
        ("-o d/", "--decision-curve"),
        ("--decision-curve -", "--decision-curve"),
        ("--decision-curve ROWS -o m.json", "new.parquet"),
    ],
)
def test_what_has_no_decision_curve_is_refused(
    more: str, said: str, made: Path, invoke: Invoke
) -> None:
    rows, curve = made / "new.parquet", "" if "curve" in more else "--decision-curve c.csv"
    given = f"{more} {curve}".replace("ROWS", str(rows))
    done = invoke("evaluate", rows, given)
    assert (done.code, said in done.stderr) == (2, True), done
    assert list(Path().iterdir()) == []


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
