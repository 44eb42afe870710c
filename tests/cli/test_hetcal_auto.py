"""``calibkit hetcal --precalibrate auto``: the map that all scores go through first is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.conftest import Invoke

QUICK = ["--features", "x,kind", "--max-depth", 1, "--min-leaf", 100, "--shrinkage", 50]
AUTO = ["--precalibrate", "auto"]


def logistic(z: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-z))


def bent(size: int, seed: int = 0) -> pl.DataFrame:
    """Rows whose log-odds bend where those of their scores do not."""
    random = np.random.default_rng(seed)
    z, x = random.normal(0.0, 1.5, size), random.normal(size=size)
    label = random.random(size) < logistic(np.where(z > 0.0, 2.2 * z, 0.3 * z) + (x > 0.5))
    return pl.DataFrame(
        {
            "score": logistic(z),
            "logit": z,
            "label": label.astype(np.int64),
            "x": x,
            "kind": random.choice(["a", "b", "c"], size),
            "half": random.integers(1, 6, size) / 2,
            "site": random.integers(0, 40, size),
            "day": random.integers(0, 300, size),
        }
    )


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bent") / "rows.parquet"
    bent(4000).write_parquet(path)
    return path


def model(invoke: Invoke, path: Path, *more: object) -> dict[str, Any]:
    return invoke(*more, "-o", path).result()


def test_the_choice_is_that_of_calibrate(rows: Path, tmp_path: Path, invoke: Invoke) -> None:
    """On the same logits the same figures: but maps with steps take no part."""
    logits = ["--score", "logit", "--scale", "logit"]
    found = model(invoke, tmp_path / "m.json", "hetcal", rows, *logits, *QUICK, *AUTO)
    alone = model(invoke, tmp_path / "c.json", "calibrate", rows, *logits)
    first = found["precalibrate"]
    assert first["method"] == alone["method"] == "spline"
    table = {one["method"]: one for one in first["candidates"]}
    for one in alone["candidates"]:
        if one["method"] in ("venn-abers", "isotonic"):
            assert "steps" in table[one["method"]]["reason"]
        elif one["method"] != "none":  # whose clip makes a difference
            assert table[one["method"]]["log_loss"] == pytest.approx(one["log_loss"], rel=1e-12)
    for name in ("logit_knots", "logits", "slopes"):
        assert first["map"][name] == pytest.approx(alone[name], rel=1e-12)
    platt = model(invoke, tmp_path / "p.json", "hetcal", rows, *logits, *QUICK)
    assert found["fit"]["in_sample"]["pooled"] < platt["fit"]["in_sample"]["pooled"] - 0.005
    assert platt["precalibrate"].keys() == {"a", "b"}


@pytest.mark.parametrize("partition", ["tree", "boosted"])
def test_what_is_chosen_is_applied_shown_and_exported(
    partition: str, rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    path, out = tmp_path / "m.json", tmp_path / "out.parquet"
    trees = ["--trees", 5] if partition == "boosted" else ["--shrinkage", 50]
    options = [*QUICK[:6], *AUTO, "--partition", partition, *trees]
    found = model(invoke, path, "hetcal", rows, *options)
    shown = invoke("show", path).stdout.decode()
    assert "All scores go through spline first: 12 knots of the logit" in shown
    assert "spline was chosen from 6 methods on held-out rows" in shown
    assert "candidate" in shown and "venn-abers" in shown
    fresh = tmp_path / "fresh.parquet"
    bent(500, seed=1).write_parquet(fresh)
    assert invoke("apply", path, fresh, "-q", "-o", out).code == 0
    for kind in ("sql", "python", "polars"):
        done = invoke(
            "export", path, "--to", kind, "--check", fresh, "-o", tmp_path / f"code.{kind}"
        )
        assert done.code == 0, done.stderr
    if partition == "boosted":
        return
    # By its definition: the spline between its knots, then the line of the leaf.
    one, applied = found["precalibrate"]["map"], pl.read_parquet(out)
    knots, logits, slopes = (np.array(one[name]) for name in ("logit_knots", "logits", "slopes"))
    z = applied["logit"].to_numpy()
    piece = np.searchsorted(knots, z, side="right")
    below = np.maximum(piece - 1, 0)
    bend = np.append(np.diff(slopes) / np.diff(knots), 0.0)[below] * (piece > 0)
    away = z - knots[below]
    z = logits[below] + away * (slopes[below] + 0.5 * bend * away)
    leaf = applied["leaf"].to_numpy()
    a, b = (np.array([one[name] for one in found["maps"]])[leaf] for name in "ab")
    assert applied["calibrated"].to_numpy() == pytest.approx(logistic(a * z + b), abs=1e-9)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "more",
    [
        ["--weight", "half"],
        ["--weight", "half", "--weight-kind", "sampling"],
        ["--groups", "site"],
        ["--time", "day"],
    ],
    ids=str,
)
def test_weights_groups_and_times(
    more: list[str], rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """The choice does not depend on the order of the rows, nor on how they are cut."""
    path, states = tmp_path / "m.json", [tmp_path / f"{place}.state" for place in range(2)]
    found = model(invoke, path, "hetcal", rows, *QUICK, *AUTO, *more)
    judged = [one for one in found["precalibrate"]["candidates"] if "log_loss" in one]
    assert found["precalibrate"]["method"] in {one["method"] for one in judged}
    frame = pl.read_parquet(rows).reverse()
    for place, state in enumerate(states):
        part = tmp_path / f"{place}.parquet"
        frame[place::2].write_parquet(part)
        done = invoke("hetcal", part, *QUICK, *AUTO, *more, "--partial", "-o", state)
        assert done.code == 0, done.stderr
    merged = tmp_path / "merged.json"
    assert invoke("merge", *states, "-o", merged).code == 0
    assert merged.read_bytes() == path.read_bytes()


def test_scores_that_are_right_stay_as_they_are(tmp_path: Path, invoke: Invoke) -> None:
    random = np.random.default_rng(3)
    score = random.random(3000)
    frame = pl.DataFrame(
        {"score": score, "label": random.random(3000) < score, "x": random.random(3000)}
    )
    path = tmp_path / "right.parquet"
    frame.write_parquet(path)
    options = ["--features", "x", "--max-depth", 0, "--shrinkage", 0]
    found = model(invoke, tmp_path / "m.json", "hetcal", path, *options, *AUTO)
    plain = model(invoke, tmp_path / "n.json", "hetcal", path, *options, "--precalibrate", "none")
    assert found["precalibrate"]["method"] == "none"
    assert found["maps"] == plain["maps"]


def test_raw_scores_and_few_rows_take_platt(tmp_path: Path, invoke: Invoke) -> None:
    few, path = bent(12), tmp_path / "few.csv"
    few.write_csv(path)
    raw = ["--score", "logit", "--scale", "raw", "--features", "x", "--max-depth", 0]
    found = model(invoke, tmp_path / "m.json", "hetcal", path, *raw, *AUTO)
    assert found["precalibrate"]["method"] == "platt"
    assert all("reason" in one or "log_loss" in one for one in found["precalibrate"]["candidates"])
