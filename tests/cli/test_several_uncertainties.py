"""Boundaries over several uncertainties: what is found, what is written, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit.files.frames import open_frame
from calibkit.methods.boundary.certificate.certificate import _over_leaves
from calibkit.methods.boundary.certificate.evidence import Split
from calibkit.methods.boundary.result.answer import _boxes
from calibkit.options.boundary import BoundaryOptions
from calibkit.summaries.score_rows import read_score_rows
from tests.cli.score_files import write
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
    for name in ("a", "b"):
        alone = fit(invoke, rows, "--folds 2 --uncertainty", name)[1]["fit"]["cross_validated"]
        assert alone["recall"] < 0.1
    model, said = fit(invoke, rows, "--uncertainty a,b")
    checked = said["fit"]["cross_validated"]
    assert checked["recall"] > 0.25
    chance = 3 * (0.8 * 0.2 / said["fit"]["in_sample"]["selected"]) ** 0.5
    assert checked["precision"] == pytest.approx(0.8, abs=chance)
    new = frame(40_000, 2)
    fresh = ck.load(model).apply(new).filter(pl.col("decision") == 1)
    recall = fresh["label"].sum() / new["label"].sum()
    assert recall == pytest.approx(checked["recall"], abs=0.06)
    assert fresh["label"].mean() == pytest.approx(0.8, abs=chance)


def test_columns_that_say_nothing_change_nothing(invoke: Invoke) -> None:
    path = write(frame(4000, 3, told=False), "rows.parquet")
    done = invoke("boundary", path, "--recall 0.4 --uncertainty a,b,c --json")
    assert done.result()["method"] == "st"


def test_rows_are_decided_by_the_leaf_of_their_cell(rows: Path, invoke: Invoke) -> None:
    options = "--uncertainty a --uncertainty b --method exact --uncertainty-bins 3"
    model, said = fit(invoke, rows, options)
    assert [said["columns"][role]["name"] for role in ("uncertainty", "uncertainty_2")] == [
        "a",
        "b",
    ]
    seen = invoke("apply", model, rows, "--add-level -o", rows.parent / "out.parquet").result()
    edges = said["partition"]["edges"]
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


@pytest.mark.parametrize(("method", "found"), [("auto", "curved"), ("exact", "exact")])
def test_a_certificate_over_leaves_that_its_rows_did_not_choose(
    method: str, found: str, invoke: Invoke
) -> None:
    path = write(frame(20_000, 5), "rows.parquet")
    model, said = fit(invoke, path, "--uncertainty a,b --confidence 0.9 --method", method)
    assert said["method"] == found
    assert said["fit"]["certificate"]["quantity"] == "precision"
    applied = invoke("apply", model, path, "-o out.parquet").result()
    chosen, seen = applied.filter(pl.col("decision") == 1), said["fit"]["in_sample"]
    assert (chosen.height, chosen["label"].sum()) == (seen["selected"], seen["true_positives"])
    assert seen["precision"] >= 0.8 and seen["recall"] > 0.15  # each column alone: next to nothing
    assert " <= a" in invoke("show", model).stdout.decode()


def test_rows_that_certify_take_no_part_in_cells_and_leaves() -> None:
    options = BoundaryOptions(precision=0.8, uncertainty=["a", "b"], confidence=0.9)
    rows, fits = frame(6000, 6), np.arange(6000) % 3 == 0
    fitting = pl.lit(pl.Series(fits))
    changed = rows.with_columns(
        label=pl.when(fitting).then("label").otherwise(1 - pl.col("label")),
        a=pl.when(fitting).then("a").otherwise(pl.col("a") * 3),
    )
    found = []
    for one in (rows, changed):
        source = open_frame(one, "rows")
        read = read_score_rows(source, options.columns, others=["a", "b"], uncertainty=False)
        cells, _, leaves = _over_leaves(read, np.arange(6000), Split(read, fits), options)
        assert cells.cells is not None
        found.append((leaves.tolist(), [own.tolist() for own in cells.cells.edges]))
    assert found[0] == found[1] and max(found[0][0]) > 0


def test_rules_are_shown_and_cover_all_cells(rows: Path, invoke: Invoke) -> None:
    model, said = fit(invoke, rows, "--uncertainty a,b --method exact")
    shown = invoke("show", model).stdout.decode()
    assert " <= a" in shown and " <= b" in shown
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


def test_a_surface_over_all_columns_where_they_work_smoothly(invoke: Invoke) -> None:
    path = write(smooth(12_000, 3), "rows.parquet")
    _, auto = fit(invoke, path, "--uncertainty a,b")
    assert auto["method"] == "logistic"
    assert "logistic" in [one["method"] for one in auto["fit"]["candidates"]]
    _, exact = fit(invoke, path, "--uncertainty a,b --method exact")
    found, rival = (one["fit"]["cross_validated"]["recall"] for one in (auto, exact))
    assert found > rival
    model, said = fit(invoke, path, "--uncertainty a,b --method logistic")
    applied = invoke("apply", model, path, "-o out.parquet").result()
    assert applied["decision"].sum() == said["fit"]["in_sample"]["selected"]
    assert len(said["score_thresholds"]) == len(said["partition"]["leaves"])
    assert invoke("show", model).code == 0
    invoke("export", model, "--to sql --check", path, "-o rule.sql").succeeded()


def test_drift_evaluate_and_three_ways(rows: Path, invoke: Invoke) -> None:
    _, said = fit(invoke, rows, "--uncertainty a,b --recall 0.6 --folds 2")
    assert said["partition"] and said["fit"]["in_sample"]["recall"] >= 0.6
    two, said = fit(invoke, rows, "--uncertainty a,b --folds 2")
    done = invoke("evaluate", rows, "--boundary", two, "--no-intervals --json")
    seen = done.result()["metrics"]["boundary"]["all"]
    assert seen["recall"] == said["fit"]["in_sample"]["recall"]
    share = invoke("drift", two, rows, "--json").result()["selected_share"]
    assert share == pytest.approx(seen["selected_share"])
    parts, output = rows.parent / "parts.json", rows.parent / "o.json"
    invoke("hetcal", rows, "--features a --max-depth 0 -o", parts).succeeded()
    done = invoke("drift", two, rows, "--estimate --calibrator", parts)
    assert "also uses 'b'" in done.stderr
    assert invoke("bundle", f"x={two}", "-o", output).code != 0
    assert invoke("apply", two, rows, "--uncertainty a -o", output).code == 2


def test_every_uncertainty_is_planned_and_read_as_numbers(rows: Path, invoke: Invoke) -> None:
    line = ("boundary", rows, "--precision 0.8 --uncertainty")
    columns = invoke(*line, "a,b", "--dry-run --json").result()["columns"]
    assert (columns["uncertainty"], columns["uncertainty_2"]) == ("a", "b")
    invoke(*line, "a,segment").refused(3, "segment")


def weighed(frame: pl.DataFrame, invoke: Invoke, more: str) -> list[Any]:
    """Return the cells, the thresholds and the figures of a fit."""
    path = write(frame, "rows.parquet")
    options = f"--uncertainty a,b --method exact --folds 0 --maximize f1 {more}"
    said = invoke("boundary", path, options, "-o model.json").result()
    return [said["partition"], said["score_thresholds"], said["fit"]["in_sample"]]


def test_a_weight_of_two_is_two_rows(invoke: Invoke) -> None:
    rows = frame(900, 2).with_columns(pl.Series("w", np.random.default_rng(3).integers(1, 4, 900)))
    nothing, bins = rows.with_columns(w=pl.lit(0, pl.Int64)), "--uncertainty-bins 3"
    copies = rows.select(pl.exclude("w").repeat_by("w").explode())
    written = weighed(copies, invoke, bins)
    for weighted in (rows, pl.concat([rows, nothing, nothing])):
        assert weighed(weighted, invoke, f"{bins} --weight w") == written


def test_sampling_weights_say_nothing_of_how_many_rows_there_are(invoke: Invoke) -> None:
    rows = frame(900, 2).with_columns(w=pl.Series(np.random.default_rng(3).integers(1, 4, 900)))
    given = (invoke, "--weight w --weight-kind sampling")
    cells, *_ = weighed(rows.with_columns(pl.col("w") * 1.0), *given)
    assert weighed(rows.with_columns(pl.col("w") * 0.01), *given)[0] == cells
