"""Boundaries over several uncertainties: what is found, what is written, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from tests.conftest import Invoke


def frame(rows: int, seed: int, *, told: bool = True) -> pl.DataFrame:
    """Return rows of which good ones lie where exactly one of two uncertainties is large."""
    random = np.random.default_rng(seed)
    a, b, c = random.random((3, rows)).round(3)
    z = random.normal(-1.0, 1.2, rows)
    good = (a > 0.5) != (b > 0.5)
    if not told:
        good = random.random(rows) < 0.5
    rate = 1.0 / (1.0 + np.exp(-np.where(good, 1.6 * z + 0.8, 0.25 * z - 1.2)))
    return pl.DataFrame(
        {
            "score": (1.0 / (1.0 + np.exp(-z))).round(4),
            "a": a,
            "b": b.astype(np.float32),
            "c": c,
            "label": (random.random(rows) < rate).astype(np.int64),
            "segment": random.choice(["x", "y"], rows),
        }
    )


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("several") / "rows.parquet"
    frame(6000, 1).write_parquet(path)
    return path


def fit(invoke: Invoke, rows: Path, *options: object) -> tuple[Path, dict[str, Any]]:
    model = rows.parent / "model.json"
    return model, invoke("boundary", rows, "--precision", 0.8, *options, "-o", model).result()


def test_an_exclusive_or_that_no_column_shows(rows: Path, invoke: Invoke) -> None:
    """Recall of each column alone is next to none; that of both is what fresh rows confirm."""
    alone = [
        fit(invoke, rows, "--uncertainty", name, "--folds", 2)[1]["fit"]["cross_validated"][
            "recall"
        ]
        for name in ("a", "b")
    ]
    model, said = fit(invoke, rows, "--uncertainty", "a,b")
    checked = said["fit"]["cross_validated"]
    assert max(alone) < 0.1 < 0.25 < checked["recall"]
    chance = 3 * (0.8 * 0.2 / said["fit"]["in_sample"]["selected"]) ** 0.5
    assert checked["precision"] == pytest.approx(0.8, abs=chance)
    fresh = ck.load(model).apply(frame(40_000, 2)).filter(pl.col("decision") == 1)
    recall = fresh["label"].sum() / frame(40_000, 2)["label"].sum()
    assert recall == pytest.approx(checked["recall"], abs=0.06)
    assert fresh["label"].mean() == pytest.approx(0.8, abs=chance)


def test_columns_that_say_nothing_change_nothing(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "rows.parquet"
    frame(4000, 3, told=False).write_parquet(path)
    done = invoke("boundary", path, "--recall", 0.4, "--uncertainty", "a,b,c", "--json")
    assert json.loads(done.stdout)["method"] == "st"


def test_rows_are_decided_by_the_leaf_of_their_cell(
    rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    options = ("--uncertainty", "a", "--uncertainty", "b", "--method", "exact")
    model, said = fit(invoke, rows, *options, "--uncertainty-bins", 3)
    assert [said["columns"][role]["name"] for role in ("uncertainty", "uncertainty_2")] == [
        "a",
        "b",
    ]
    out = tmp_path / "out.parquet"
    assert invoke("apply", model, rows, "--add-level", "-o", out).code == 0
    seen, edges = pl.read_parquet(out), said["partition"]["edges"]
    places = [
        np.searchsorted(e, seen[n].to_numpy(), "right") for n, e in zip("ab", edges, strict=True)
    ]
    leaf = np.array(said["partition"]["leaves"])[places[0] * (len(edges[1]) + 1) + places[1]]
    assert (seen["level"].to_numpy() == leaf).all()
    cuts = np.array([np.inf if cut is None else cut for cut in said["score_thresholds"]])
    decision = seen["score"].to_numpy() >= cuts[leaf]
    assert (seen["decision"].to_numpy() == decision).all()
    fitted = said["fit"]["in_sample"]
    assert fitted["selected"] == decision.sum()
    assert fitted["precision"] >= 0.8
    assert fitted["objective_value"] <= said["fit"]["upper_bound"]


@pytest.mark.parametrize(
    "more", [{"uncertainty_bins": 2, "folds": 0}, {"confidence": 0.8}], ids=["fit", "certified"]
)
def test_rows_that_judge_lie_in_the_cells_of_the_fit(more: dict[str, Any]) -> None:
    fresh, several = frame(400, 9).filter(pl.col("a") > 0.4), ["a", "b"]
    given = {"precision": 0.6, "uncertainty": several, "method": "exact", **more}
    model = ck.fit_boundary(frame(3000, 8), **given, test=fresh)
    chosen = model.apply(fresh).filter(pl.col("decision") == 1)
    seen = model.fit.test
    assert (seen.selected, seen.true_positives) == (chosen.height, chosen["label"].sum())


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_a_certificate_over_leaves_that_its_rows_did_not_choose(
    method: str, tmp_path: Path, invoke: Invoke
) -> None:
    path, out = tmp_path / "rows.parquet", tmp_path / "out.parquet"
    frame(20_000, 5).write_parquet(path)
    options = ("--uncertainty", "a,b", "--method", method, "--confidence", "0.9")
    model, said = fit(invoke, path, *options)
    assert said["method"] == {"auto": "curved"}.get(method, method)
    assert said["fit"]["certificate"]["quantity"] == "precision"
    chosen = invoke("apply", model, path, "-o", out).result().filter(pl.col("decision") == 1)
    seen = said["fit"]["in_sample"]
    assert (chosen.height, chosen["label"].sum()) == (seen["selected"], seen["true_positives"])
    assert seen["precision"] >= 0.8 and seen["recall"] > 0.15  # each column alone: next to nothing
    assert " <= a" in invoke("show", model).stdout.decode()


def test_rows_that_certify_take_no_part_in_cells_and_leaves() -> None:
    from calibkit.columns.columns import read_score_rows
    from calibkit.files.frames import open_frame
    from calibkit.methods.boundary.certificate.certificate import _over_leaves
    from calibkit.methods.boundary.certificate.evidence import Split
    from calibkit.options.boundary import BoundaryOptions

    options = BoundaryOptions(precision=0.8, uncertainty=["a", "b"], confidence=0.9)
    rows = frame(6000, 6)
    fits = np.arange(6000) % 3 == 0
    changed = rows.with_columns(
        pl.when(pl.Series(~fits))
        .then(1 - pl.col("label"))
        .otherwise(pl.col("label"))
        .alias("label"),
        pl.when(pl.Series(~fits)).then(pl.col("a") * 3).otherwise(pl.col("a")).alias("a"),
    )
    found = []
    for one in (rows, changed):
        read = read_score_rows(
            open_frame(one, "rows"), options.columns, others=["a", "b"], uncertainty=False
        )
        split, index = Split(read, fits), np.arange(read.score.size)
        cells, _, leaves = _over_leaves(read, index, split, options)
        assert cells.cells is not None
        found.append((leaves.tolist(), [own.tolist() for own in cells.cells.edges]))
    assert found[0] == found[1] and max(found[0][0]) > 0


def test_rules_are_shown_and_cover_all_cells(rows: Path, invoke: Invoke) -> None:
    model, said = fit(invoke, rows, "--uncertainty", "a,b", "--method", "exact")
    shown = invoke("show", model).stdout.decode()
    assert " <= a" in shown and " <= b" in shown
    from calibkit.views.answer import _boxes

    leaves, shape = said["partition"]["leaves"], [len(e) + 1 for e in said["partition"]["edges"]]
    covered = np.full(shape, -1)
    for level, boxes in enumerate(_boxes(leaves, tuple(shape), len(said["score_thresholds"]))):
        for box in boxes:
            place = tuple(slice(first, last + 1) for first, last in box)
            assert (covered[place] == -1).all()
            covered[place] = level
    assert covered.ravel().tolist() == leaves


def smooth(rows: int, seed: int) -> pl.DataFrame:
    """Return rows whose uncertainties work smoothly, and together."""
    random = np.random.default_rng(seed)
    a, b = random.random((2, rows))
    z = random.normal(-1.0, 1.3, rows)
    rate = 1.0 / (1.0 + np.exp(-((1.6 - 1.2 * a) * z + 1.5 * b - 1.0)))
    label = (random.random(rows) < rate).astype(np.int64)
    return pl.DataFrame({"score": 1.0 / (1.0 + np.exp(-z)), "a": a, "b": b, "label": label})


def test_a_surface_over_all_columns_where_they_work_smoothly(
    tmp_path: Path, invoke: Invoke
) -> None:
    path, out = tmp_path / "rows.parquet", tmp_path / "out.parquet"
    smooth(12_000, 3).write_parquet(path)
    model, said = fit(invoke, path, "--uncertainty", "a,b")
    assert said["method"] == "logistic" and "logistic" in [
        one["method"] for one in said["fit"]["candidates"]
    ]
    single = fit(invoke, path, "--uncertainty", "a,b", "--method", "exact")[1]["fit"]
    assert said["fit"]["cross_validated"]["recall"] > single["cross_validated"]["recall"]
    model, said = fit(invoke, path, "--uncertainty", "a,b", "--method", "logistic")
    assert invoke("apply", model, path, "-o", out).code == 0
    assert pl.read_parquet(out)["decision"].sum() == said["fit"]["in_sample"]["selected"]
    assert len(said["score_thresholds"]) == len(said["partition"]["leaves"])
    assert invoke("show", model).code == 0
    sql = tmp_path / "rule.sql"
    assert invoke("export", model, "--to", "sql", "--check", path, "-o", sql).code == 0


def test_drift_evaluate_and_three_ways(rows: Path, invoke: Invoke) -> None:
    _, said = fit(invoke, rows, "--uncertainty", "a,b", "--recall", 0.6, "--folds", 2)
    assert said["partition"] and said["fit"]["in_sample"]["recall"] >= 0.6
    two, said = fit(invoke, rows, "--uncertainty", "a,b", "--folds", 2)
    done = invoke("evaluate", rows, "--boundary", two, "--no-intervals", "--json")
    seen = json.loads(done.stdout)["metrics"]["boundary"]["all"]
    assert seen["recall"] == said["fit"]["in_sample"]["recall"]
    done = invoke("drift", two, rows, "--json")
    assert json.loads(done.stdout)["selected_share"] == pytest.approx(seen["selected_share"])
    parts = rows.parent / "parts.json"
    assert invoke("hetcal", rows, "--features", "a", "--max-depth", 0, "-o", parts).code == 0
    done = invoke("drift", two, rows, "--estimate", "--calibrator", parts)
    assert "also uses 'b'" in done.stderr
    assert invoke("bundle", f"x={two}", "-o", rows.parent / "b.json").code != 0
    assert invoke("apply", two, rows, "--uncertainty", "a", "-o", rows.parent / "o.csv").code == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--uncertainty", "a,b", "--method", "mist"], "takes one uncertainty"),
        (["--uncertainty", "a,b", "--by", "segment"], "--by"),
        (["--uncertainty", "a,b", "--score-bins", "9"], "--score-bins"),
        (["--uncertainty", "a,b", "--compare"], "--compare takes one uncertainty"),
        (["--uncertainty", "a,b", "--frontier", "f.csv"], "--frontier takes one uncertainty"),
        (["--uncertainty", "a,a"], "each once"),
        (["--uncertainty", "a,score"], "two roles"),
        (["--uncertainty", "a,nowhere"], "nowhere"),
    ],
)
def test_impossible_pairs(options: list[str], words: str, rows: Path, invoke: Invoke) -> None:
    done = invoke("boundary", rows, "--precision", 0.8, *options)
    assert done.code == 2 and words in done.stderr


def test_a_plan_has_every_uncertainty(rows: Path, invoke: Invoke) -> None:
    words = ("boundary", rows, "--precision 0.8 --uncertainty a,b --dry-run --json")
    columns = invoke(*words).result()["columns"]
    assert (columns["uncertainty"], columns["uncertainty_2"]) == ("a", "b")


def test_text_among_the_uncertainties_is_bad_data(rows: Path, invoke: Invoke) -> None:
    done = invoke("boundary", rows, "--precision", 0.8, "--uncertainty", "a,segment")
    assert done.code == 3 and "segment" in done.stderr


def test_a_weight_of_two_is_two_rows(tmp_path: Path, invoke: Invoke) -> None:
    counts = pl.Series("w", np.random.default_rng(3).integers(1, 4, 900))
    rows = frame(900, 2).with_columns(counts)
    nothing = rows.with_columns(w=pl.lit(0, pl.Int64))
    files = {
        "weighted": rows,
        "padded": pl.concat([rows, nothing, nothing]),
        "written": rows.select(pl.exclude("w").repeat_by("w").explode()),
    }
    options = "--uncertainty a,b --method exact --uncertainty-bins 3 --folds 0 --maximize f1"
    found = []
    for name, own in files.items():
        own.write_parquet(tmp_path / f"{name}.parquet")
        weight = [] if name == "written" else ["--weight", "w"]
        line = ["boundary", tmp_path / f"{name}.parquet", options, *weight]
        said = invoke(*line, "-o", tmp_path / "model.json").result()
        found.append((said["partition"], said["score_thresholds"], said["fit"]["in_sample"]))
    assert found[0] == found[1] == found[2]


def test_sampling_weights_say_nothing_of_how_many_rows_there_are(
    tmp_path: Path, invoke: Invoke
) -> None:
    counts = pl.Series("w", np.random.default_rng(3).integers(1, 4, 900))
    options = "--uncertainty a,b --method exact --folds 0 --maximize f1 --weight-kind sampling"
    found = []
    for scale in (1.0, 0.01):
        frame(900, 2).with_columns(w=counts * scale).write_parquet(tmp_path / "rows.parquet")
        line = ["boundary", tmp_path / "rows.parquet", options, "--weight w"]
        found.append(invoke(*line, "-o", tmp_path / "m.json").result()["partition"])
    assert found[0] == found[1]
