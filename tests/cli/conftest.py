"""A fitted model, and commands that must fail."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, make

ERROR_KEYS = ["code", "message", "file", "column", "rows", "first_rows"]
COMMANDS = {
    "bin": ["bin", "--score-bins", "5"],
    "boundary": ["boundary", "--precision", "0.5"],
    "apply": ["apply"],
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each test in a folder of its own, where names of files are short."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def _fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    good = write(simulate(200), folder / "good.parquet")
    return make(folder / "boundary.json", "boundary", good, "--precision 0.6 --method exact")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return where the scheduler of a cluster of two workers is, threads of this process."""
    import distributed

    with distributed.LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def model(tmp_path: Path, _fitted: Path) -> Path:
    """Return a fitted boundary, a copy that a test may damage."""
    (tmp_path / "models").mkdir()
    return Path(shutil.copy(_fitted, tmp_path / "models"))


@pytest.fixture
def applied(tmp_path: Path, invoke: Invoke) -> Callable[..., pl.DataFrame]:
    """Apply a model to rows, and return what comes out."""

    def call(model: Path, frame: pl.DataFrame, *options: object) -> pl.DataFrame:
        path = write(frame, tmp_path / "rows.parquet")
        done = invoke("apply", model, path, *options, "-q", "-o", tmp_path / "applied.parquet")
        assert done.stdout == b""
        found: pl.DataFrame = done.result()
        return found

    return call


@pytest.fixture
def refuse(tmp_path: Path, invoke: Invoke, model: Path) -> Callable[..., dict[str, Any]]:
    """Run a command that must fail, as text and with --json; return the error object."""

    def call(name: str, path: Path | str, *more: object, code: int = 3) -> dict[str, Any]:
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        command, *given = COMMANDS[name]
        start = [command, *([model] if name == "apply" else []), path, *given, *more]
        output = out / ("b.json" if name == "boundary" else "rows.parquet")
        said = invoke(*start, "-o", output)
        assert (said.code, said.stdout) == (code, b""), said
        assert said.stderr.splitlines()[-1].startswith("Error: ")
        assert "Traceback" not in said.stderr
        assert "panicked" not in said.stderr
        as_json = invoke(*start, "-o", output, "--json")
        assert as_json.code == code
        assert "Error:" not in as_json.stderr
        error: dict[str, Any] = json.loads(as_json.stdout)["error"]
        assert list(error) == ERROR_KEYS
        assert error["code"] == code
        assert error["message"] in said.stderr
        assert list(out.iterdir()) == []
        return error

    return call


#: Files of the folder `service`, and the commands that make them.
MADE = {
    "grid.parquet": "bin rows.parquet --score-bins 5",
    "fine.parquet": "bin rows.parquet --score-bins 290 --strategy equal-width --uncertainty-bins 290",
    "first.parquet": "bin rows.parquet --score-bins 4 --uncertainty-bins 3 --order score-uncertainty",
    "boundary.json": "boundary rows.parquet --precision 0.6 --method exact",
    "stochastic.json": "boundary rows.parquet --fpr 0.2 --method stochastic",
    "several.json": "boundary rows.parquet --precision 0.6 --uncertainty uncertainty,x "
    "--method exact --uncertainty-bins 4",
    "all.json": "boundary rows.parquet --recall 1 --method st",
    "auto.json": "boundary rows.parquet --precision 0.7 --test new.parquet --tag team=fraud",
    "three.json": "boundary rows.parquet --precision 0.6 --recall 0.8 --review-capacity 0.5 "
    "--method st",
    "costs.json": "boundary rows.parquet --minimize cost:x_squared,2.5 --method exact --folds 0",
    "value.json": "boundary rows.parquet --recall 0.6 --value x_squared --method exact --folds 0",
    "weighted.json": "boundary rows.parquet --precision 0.7 --weight weight --prevalence 0.2",
    "kappa.json": "boundary rows.parquet --maximize kappa --method st",
    "segments.json": "boundary rows.parquet --precision 0.6 --by site --bound each --method exact",
    "certified.json": "boundary rows.parquet --precision 0.6 --confidence 0.8",
    "certified-logits.json": "boundary rows.parquet --score logit --scale logit --precision 0.6 "
    "--confidence 0.8",
    "auto-recall.json": "boundary rows.parquet --recall 0.8",
    "auto-fpr.json": "boundary rows.parquet --fpr 0.2 --prevalence 0.3",
    "auto-capacity.json": "boundary rows.parquet --capacity 0.3 --groups site",
    "of-first.json": "boundary first.parquet --recall 0.7 --method ew-dpmt --folds 0",
    "mist.json": "boundary rows.parquet --precision 0.6 --method mist",
    "logistic.json": "boundary rows.parquet --precision 0.7 --method logistic",
    "of-grid.json": "boundary grid.parquet --precision 0.6 --method exact",
    "line.json": "calibrate rows.parquet --method platt",
    "steps.json": "calibrate rows.parquet --method isotonic --score score_b",
    "chosen.json": "calibrate rows.parquet",
    "sites.json": "calibrate rows.parquet --method beta --by site --min-rows 50",
    "spline.json": "calibrate rows.parquet --method spline",
    "prior.json": "calibrate unlabelled.parquet --method prior-shift --negatives-kept 0.5",
    "classes.json": "calibrate rows.parquet --probs prob_* --counts count_* --method temperature",
    "alpha.json": "alpha-cal rows.parquet",
    "alpha-of.json": "alpha-cal rows.parquet --features x --disagreement-map isotonic",
    "vad.json": "vad rows.parquet --members score,score_b --by site --min-rows 20",
    "tree.json": "hetcal rows.parquet --features x,site --max-depth 2 --min-leaf 30",
    "precalibrated.json": "hetcal rows.parquet --features x --max-depth 1 --precalibrate auto",
    "kinds.json": "hetcal rows.parquet --features site --max-depth 1 --min-leaf 30 --map isotonic",
    "sequential.json": "hetcal rows.parquet --features x --partition sequential --trees 2",
    "boosted.json": "hetcal rows.parquet --score uncertainty --features logit,site "
    "--partition boosted --trees 3",
    "brier.json": "calibrate rows.parquet --optimize brier --score score_b --seed 3",
    "forest.json": "bundle tree.json",
    "bundle.json": "bundle line.json team=boundary.json",
    "metrics.json": "evaluate new.parquet --boundary boundary.json",
    "watch.json": "watch boundary.json rows.parquet --state watch.state --period day --precision 0.1",
}


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows, a grid, and a model of each kind."""
    folder = tmp_path_factory.mktemp("service")
    random = np.random.default_rng(5)
    score = random.uniform(0.05, 0.95, 300)
    votes = random.binomial(4, score)
    x = random.normal(size=300)
    frame = pl.DataFrame(
        {
            "score": score,
            "logit": np.log(score / (1 - score)),
            "score_b": np.clip(score + random.normal(0, 0.03, 300), 0.01, 0.99),
            "uncertainty": random.random(300),
            "label": (random.random(300) < score).astype(np.int64),
            "x": x,
            "x_squared": x * x,
            "zero": np.zeros(300),
            "huge": np.append(1e300, np.ones(299)),
            "one": np.ones(300, np.int64),
            "place": np.arange(300),
            "day": np.full(300, "2026-01-02"),
            "weight": random.integers(1, 4, 300) / 2,
            "site": random.choice(["north", "south", "west"], 300),
            "top": random.choice(["0.1", "b"], 300),
            "list": [[a, 1 - a] for a in score.tolist()],
            "long": [[a, 0.0, 1 - a] for a in score.tolist()],
            "prob_0": 1 - score,
            "prob_1": score,
            "odd_0": 1 - score,
            "odd_2": score,
            "count_0": 4 - votes,
            "count_1": votes,
        }
    )
    frame.write_parquet(folder / "rows.parquet")
    frame.drop("label").write_parquet(folder / "unlabelled.parquet")
    moved = frame.sample(250, seed=2).with_columns(
        pl.col("score").pow(1.2), day=pl.lit("2026-01-03")
    )
    moved.write_parquet(folder / "new.parquet")
    frame.select("score", "label").write_csv(folder / "tabs.csv", separator="\t")
    frame.select("score", "label").write_csv(folder / "bars.csv", separator="|")
    frame.cast({"score": pl.String}).write_parquet(folder / "texts.parquet")
    (folder / "unnamed.csv").write_text("score,label,,\n0.5,1,2,3\n")
    (folder / "other.csv").write_text("a,b\n1,2\n")
    (folder / "edges.json").write_text("[0.9, 2.5]")
    (folder / "falling.json").write_text("[2, 1]")
    with contextlib.chdir(folder):
        for output, line in MADE.items():
            make(Path(output), *line.split())
    return folder
