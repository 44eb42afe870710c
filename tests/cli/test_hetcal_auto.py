"""``calibkit hetcal --precalibrate auto``: the map that all scores go through first is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit

from tests.cli.score_files import merge_parts, write
from tests.conftest import Invoke

QUICK = "--features x,kind --max-depth 1 --min-leaf 100"
AUTO = "--precalibrate auto"
LOGITS = "--score logit --scale logit"


def bent(size: int, seed: int = 0) -> pl.DataFrame:
    """Rows whose log-odds bend where those of their scores do not."""
    random = np.random.default_rng(seed)
    z, x = random.normal(0.0, 1.5, size), random.normal(size=size)
    label = random.random(size) < expit(np.where(z > 0.0, 2.2 * z, 0.3 * z) + (x > 0.5))
    return pl.DataFrame(
        {
            "score": expit(z),
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
    return write(bent(4000), tmp_path_factory.mktemp("bent") / "rows.parquet")


def test_the_choice_is_that_of_calibrate(rows: Path, invoke: Invoke) -> None:
    """On the same logits the same figures, but maps with steps take no part; so applied."""
    model, other = Path("m.json"), Path("c.json")
    options = f"{LOGITS} {QUICK} --shrinkage 50"
    found = invoke("hetcal", rows, options, AUTO, "-o", model).result()
    alone = invoke("calibrate", rows, LOGITS, "--json").result()
    first = found["precalibrate"]
    assert first["method"] == alone["method"] == "spline"
    table = {one["method"]: one for one in first["candidates"]}
    for one in alone["candidates"]:
        if one["method"] in ("venn-abers", "isotonic"):
            assert "steps" in table[one["method"]]["reason"]
        else:
            assert table[one["method"]]["log_loss"] == pytest.approx(one["log_loss"], rel=1e-12)
    for name in ("logit_knots", "logits", "slopes"):
        assert first["map"][name] == pytest.approx(alone[name], rel=1e-12)
    platt = invoke("hetcal", rows, options, "--json").result()
    assert found["fit"]["in_sample"]["pooled"] < platt["fit"]["in_sample"]["pooled"] - 0.005
    assert platt["precalibrate"].keys() == {"a", "b"}
    assert invoke("calibrate", rows, LOGITS, "--method spline --clip 0 -o", other).code == 0
    fresh = write(bent(500, seed=1), "fresh.parquet")
    applied, mapped = (
        invoke("apply", one, fresh, "-o out.parquet").result() for one in (model, other)
    )
    a, b = (np.array([one[name] for one in found["maps"]])[applied["leaf"]] for name in "ab")
    expected = expit(a * logit(mapped["calibrated"].to_numpy()) + b)
    assert applied["calibrated"].to_numpy() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("partition", ["tree --shrinkage 50", "boosted --trees 5"])
def test_what_is_chosen_is_shown_and_exported(partition: str, rows: Path, invoke: Invoke) -> None:
    path, fresh = Path("m.json"), write(bent(500, seed=1), "fresh.parquet")
    assert invoke("hetcal", rows, QUICK, AUTO, f"--partition {partition} -o", path).code == 0
    shown = invoke("show", path).stdout.decode()
    assert "All scores go through spline first: 12 knots of the logit" in shown
    assert "spline was chosen from 6 methods on held-out rows" in shown
    assert "candidate" in shown and "venn-abers" in shown
    for kind in ("sql", "python", "polars"):
        line = ("export", path, f"--to {kind} --check", fresh, "-o", f"code.{kind}")
        invoke(*line).succeeded()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "more",
    ["--weight half", "--weight half --weight-kind sampling", "--groups site", "--time day"],
)
def test_weights_groups_and_times(more: str, rows: Path, invoke: Invoke) -> None:
    """The choice does not depend on the order of the rows, nor on how they are cut."""
    path = Path("m.json")
    options = f"{QUICK} --shrinkage 50 {AUTO} {more}"
    first = invoke("hetcal", rows, options, "-o", path).result()["precalibrate"]
    judged = [one["method"] for one in first["candidates"] if "log_loss" in one]
    assert first["method"] in judged
    frame = pl.read_parquet(rows).reverse()
    merged = merge_parts("merged.json", (frame[::2], frame[1::2]), "hetcal", options)
    assert merged.read_bytes() == path.read_bytes()


def test_scores_that_are_right_stay_as_they_are(invoke: Invoke) -> None:
    random = np.random.default_rng(3)
    score = random.random(3000)
    columns = {"score": score, "label": random.random(3000) < score, "x": random.random(3000)}
    path = write(pl.DataFrame(columns), "right.parquet")
    found, plain = (
        invoke("hetcal", path, "--features x --max-depth 0 --shrinkage 0 --json", kind).result()
        for kind in (AUTO, "--precalibrate none")
    )
    assert found["precalibrate"]["method"] == "none"
    assert found["maps"] == plain["maps"]


def test_raw_scores_and_few_rows_take_platt(invoke: Invoke) -> None:
    path = write(bent(12), "few.csv")
    raw = "--score logit --scale raw --features x --max-depth 0 --json"
    first: dict[str, Any] = invoke("hetcal", path, raw, AUTO).result()["precalibrate"]
    assert first["method"] == "platt"
    assert all("reason" in one or "log_loss" in one for one in first["candidates"])
