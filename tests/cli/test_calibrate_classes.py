"""``calibkit calibrate --probs``: temperature, vector and matrix scaling; probabilities in lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit.files.sources import open_source
from calibkit.maps.class_rows import RaterOptions, logits_of, softmax
from calibkit.maps.logit_maps import fit_logit_map, read_rater_rows
from calibkit.maps.methods import FOLDS
from calibkit.methods.calibrators.classes import _judged, choose_class_map
from calibkit.numerics.hashes import folds_of_keys
from calibkit.options.calibrate import CalibrateOptions
from tests.cli.score_files import changed, write
from tests.conftest import ROOT, Invoke, Outcome, make

ROWS = ROOT / "tests" / "golden" / "p22_logit_scaling" / "rows.parquet"


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    generator, names = np.random.default_rng(3), ("cat", "dog", "fox")
    truth = generator.dirichlet(np.ones(3), 500)
    stretched = softmax(2 * logits_of(truth) + [0.3, 0.0, -0.3])
    counts = generator.multinomial(generator.integers(1, 8, 500), truth)
    label = [names[generator.choice(3, p=p)] for p in truth]
    columns = {f"prob_{name}": stretched[:, k] for k, name in enumerate(names)}
    columns |= {f"count_{name}": counts[:, k] for k, name in enumerate(names)}
    return pl.DataFrame(columns).with_columns(label=pl.Series(label))


@pytest.fixture
def rows(frame: pl.DataFrame) -> Path:
    return write(frame, "rows.parquet")


def fit(invoke: Invoke, *arguments: object) -> dict[str, Any]:
    return invoke("calibrate", *arguments, "--json").result()


def calibrated(model: Path, rows: Path) -> np.ndarray:
    out = make(model.with_name("out.parquet"), "apply", model, rows)
    return pl.read_parquet(out).select("^calibrated_.*$").to_numpy()


@pytest.mark.parametrize("method", ["temperature", "vector", "matrix"])
@pytest.mark.parametrize("votes", ["--counts count_*", "--label label"])
def test_maps_gain_and_are_applied(
    invoke: Invoke, rows: Path, frame: pl.DataFrame, method: str, votes: str
) -> None:
    out = Path("cal.json")
    said = invoke("calibrate", rows, "--probs", "prob_*", votes, "--method", method, "-o", out)
    model = said.result()
    assert (model["kind"], model["classes"]) == ("calibrator", ["cat", "dog", "fox"])
    assert model["fit"]["log_loss"] < model["fit"]["log_loss_before"]
    assert f"{method}: log loss" in said.stderr
    assert f"{method}: log loss" in invoke("show", out).stdout.decode()
    z, u = calibrated(out, rows), logits_of(frame.select("^prob_.*$").to_numpy())
    if method == "temperature":
        expected = softmax(u / model["temperature"])
    else:
        weights = np.array(model["weights"])
        mapped = u * weights if method == "vector" else u @ weights.T
        expected = softmax(mapped + model["intercept"])
    assert z == pytest.approx(expected)
    assert z.sum(axis=1) == pytest.approx(1.0)
    given = frame.select("^count_.*$") if "counts" in votes else frame["label"].to_dummies()
    squared = ((z[:, None] - np.eye(3)) ** 2).sum(axis=2)  # of each row and class voted for
    mean = np.average(squared, weights=given.to_numpy())
    assert model["fit"]["brier"] == pytest.approx(mean)


def test_logits_are_mapped_as_they_are() -> None:
    golden = ("--probs logit* --counts y* --scale logit",)
    out = make("cal.json", "calibrate", ROWS, *golden)
    u = pl.read_parquet(ROWS).select("^logit.*$").to_numpy()
    expected = softmax(u / json.loads(out.read_bytes())["temperature"])
    assert calibrated(out, ROWS) == pytest.approx(expected, abs=1e-12)


def test_labels_by_index_and_rows_without_one(invoke: Invoke, frame: pl.DataFrame) -> None:
    names = frame.with_columns(label=pl.when(pl.int_range(500) != 7).then("label"))
    place = pl.col("label").replace_strict({"cat": 0, "dog": 1, "fox": 2})
    found = []
    for labels in (names, names.with_columns(place)):
        some = write(labels, "some.parquet")
        error = invoke("calibrate", some, "--probs", "prob_*", "--json").refused(3)
        assert (error["column"], error["first_rows"]) == ("label", [8])
        found.append(fit(invoke, some, "--probs prob_* --unlabelled drop"))
    assert found[0]["fit"]["rows"] == 499
    assert found[0]["temperature"] == found[1]["temperature"]


def test_labels_that_are_no_class(invoke: Invoke, frame: pl.DataFrame) -> None:
    wrong = write(changed(frame, label={5: "cow"}), "wrong.parquet")
    error = invoke("calibrate", wrong, "--probs", "prob_*", "--json").refused(3, "'cow'")
    assert (error["rows"], error["first_rows"]) == (1, [5])


def test_an_infinite_temperature_says_so(invoke: Invoke) -> None:
    against = {"prob_0": [0.9, 0.1], "prob_1": [0.1, 0.9], "count_0": [0, 3], "count_1": [3, 0]}
    rows, model = write(pl.DataFrame(against), "wrong.parquet"), Path("cal.json")
    said = invoke("calibrate", rows, "--counts", "count_*", "-o", model)
    said.succeeded("the best temperature is infinite")
    assert said.result()["temperature"] is None
    assert "temperature infinite" in invoke("show", model).stdout.decode()
    assert calibrated(model, rows) == pytest.approx(0.5)


@pytest.mark.parametrize("measure", ["log_loss", "brier"])
def test_a_map_is_chosen_by_rows_held_out(measure: str, rows: Path, invoke: Invoke) -> None:
    votes = ("--probs prob_* --counts count_*", "--method")
    model = fit(invoke, rows, *votes, "auto", "--optimize", measure)
    table = model["candidates"]
    assert [one["method"] for one in table] == ["none", "temperature", "vector", "matrix"]
    best = min(one[measure] for one in table)
    allowed = [(0.25 if one["method"] == "none" else 1.0) * one["error"] for one in table]
    within = [
        one["method"]
        for one, error in zip(table, allowed, strict=True)
        if one[measure] <= best + error
    ]
    # The truth: logits halved, and shifted by class.
    assert model["method"] == within[0] == "vector"
    plain = fit(invoke, rows, *votes, "vector")
    assert (model["weights"], model["intercept"]) == (plain["weights"], plain["intercept"])
    Path("cal.json").write_text(json.dumps(model))
    shown = invoke("show", "cal.json").stdout.decode()
    assert "vector was chosen from 4 methods" in shown


def test_errors_of_the_choice_are_those_of_paired_rows(rows: Path) -> None:
    options = CalibrateOptions(probs=("prob_*",), counts="count_*", method="auto")
    source = open_source([str(rows)])
    stored = read_rater_rows(source, RaterOptions(probs=("prob_*",), counts="count_*", logits=True))
    _, table = choose_class_map(stored, options)
    found = {one.method: one for one in table}
    fold = folds_of_keys(stored.key, FOLDS, 0)
    votes = stored.counts.sum(axis=1)
    lost, maps = [], []
    for name in ("none", "temperature"):
        fits = [
            fit_logit_map(stored.logits, stored.counts, name, chosen=fold != k)
            for k in range(FOLDS)
        ]
        own = np.empty(stored.rows)
        for k, one in enumerate(fits):
            p = one.probabilities(stored.logits[fold == k])
            own[fold == k] = -(stored.counts[fold == k] * np.log(p)).sum(axis=1)
        assert found[name].log_loss == pytest.approx(own.sum() / votes.sum(), rel=1e-9)
        lost.append(own)
        maps.append(fits)
    _, errors = _judged(stored, fold, maps)
    apart = lost[0] - lost[1]
    spread = apart - votes * apart.sum() / votes.sum()
    wanted = np.sqrt((spread**2).sum()) / votes.sum()
    assert errors[0, 0, 1] == pytest.approx(wanted, rel=1e-9)


def test_class_probabilities_that_are_right_stay(invoke: Invoke) -> None:
    generator = np.random.default_rng(5)
    truth = generator.dirichlet(np.ones(3), 2000)
    frame = pl.DataFrame({f"prob_{k}": truth[:, k] for k in range(3)}).with_columns(
        label=pl.Series([int(generator.choice(3, p=p)) for p in truth])
    )
    path, cal = write(frame, "right.parquet"), Path("cal.json")
    model = invoke("calibrate", path, "--probs prob_* --method auto -o", cal).result()
    assert model["method"] == "none"
    assert calibrated(cal, path) == pytest.approx(truth, abs=1e-12)
    few = write(frame.head(2), "few.parquet")
    model = fit(invoke, few, "--probs prob_* --method auto")
    assert model["method"] == "none"
    assert {one["reason"] for one in model["candidates"]} == {"there are too few rows for folds"}


PROBS: list[Any] = [[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]]
VOTES: list[Any] = [[1, 2], [2, 1], [3, 0]]
LISTS = (("p", PROBS), ("n", VOTES))
FIT = ("alpha-cal", "--probs", "p", "--counts", "n")


def fit_lists(invoke: Invoke, folder: Path, **columns: list[Any]) -> Outcome:
    frame = pl.DataFrame({"p": PROBS * 10, "n": VOTES * 10, **columns}, strict=False)
    return invoke(FIT[0], write(frame, folder / "a.parquet"), *FIT[1:], "-o", folder / "m.json")


def test_lists_are_what_columns_are(tmp_path: Path, invoke: Invoke) -> None:
    columns = [(f"{n}_{k}", [row[k] for row in rows] * 10) for n, rows in LISTS for k in (0, 1)]
    path, out = write(pl.DataFrame(dict(columns)), tmp_path / "wide.parquet"), tmp_path / "w.json"
    wide = invoke("alpha-cal", path, "--probs p_* --counts n_* -o", out).result()
    assert fit_lists(invoke, tmp_path).result()["log_alpha0"] == wide["log_alpha0"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"p": [None, *PROBS[1:]] * 10}, "no value (null)"),
        ({"p": [[0.2, 0.3, 0.5], *PROBS[1:]] * 10}, "'p'"),
        ({"p": [["a", "b"]] * 30}, "instead of numbers"),
        ({"p": [[0.2, None], *PROBS[1:]] * 10}, "no value (null)"),
        ({"p": [[float("inf"), 0.0], *PROBS[1:]] * 10}, "missing or infinite"),
        ({"n": [[-1, 3], *VOTES[1:]] * 10}, "not a number of votes"),
        ({"n": [[0.5, 3.0]] * 30}, "not a number of votes"),
    ],
    ids=["null", "lengths", "text", "null inside", "infinite", "negative", "fraction"],
)
def test_lists_that_hold_no_such_numbers_are_refused(
    columns: dict[str, list[Any]], said: str, tmp_path: Path, invoke: Invoke
) -> None:
    fit_lists(invoke, tmp_path, **columns).refused(3, said)


def test_a_list_that_lacks_a_number_is_dropped_or_null(invoke: Invoke) -> None:
    frame = pl.DataFrame({"p": [[0.2, None], [None], *PROBS] * 9, "y": [0, 1, 0, 0, 1] * 9})
    path, model, out = (Path(name) for name in ("a.parquet", "m.json", "o.parquet"))
    write(frame, path)
    line = ("calibrate", path, "--probs", "p", "--label", "y", "-o", model)
    assert "18 rows without a value dropped" in invoke(*line, "--on-missing", "drop").stderr
    assert invoke("apply", model, path, "--on-missing", "null", "-o", out).code == 0
    assert pl.read_parquet(out)["calibrated_0"].is_null().sum() == 18


def test_a_pattern_of_several_lists_is_refused(invoke: Invoke) -> None:
    frame = pl.DataFrame({"p_1": PROBS, "p_2": PROBS, "n": VOTES})
    path = write(frame, "a.parquet")
    line = ("alpha-cal", path, "--probs", "p_*", "--counts", "n", "-o m.json")
    invoke(*line).refused(2, "p_1")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return more rows than a small memory holds, with lists and with bytes that are no text."""
    place = [row % 37 for row in range(70_000)]
    frame = ck.simulate_posterior(70_000, seed=1).select(
        "score",
        "label",
        "uncertainty",
        pl.Series("lists", [[one] for one in place]),
        pl.Series("bytes", [bytes([128 + one]) for one in place]),
    )
    return write(frame, tmp_path_factory.mktemp("many") / "many.parquet")


SMALL = ("--memory", "300MB")
BOUNDARY = ("boundary", "--precision", "0.6", "--method", "st", "-q")


@pytest.mark.parametrize("memory", [(), SMALL], ids=["held", "stored"])
@pytest.mark.parametrize(
    "line",
    [
        (*BOUNDARY, "--time"),
        (*BOUNDARY, "--groups"),
        ("calibrate", "--method", "auto", "--time"),
        ("hetcal", "--features", "uncertainty", "--groups"),
    ],
    ids=["boundary time", "boundary groups", "calibrate", "hetcal"],
)
def test_lists_are_no_groups_and_no_times(
    line: tuple[str, ...], memory: tuple[str, ...], many: Path, invoke: Invoke
) -> None:
    done = invoke(*line, "lists", many, *memory)
    done.refused(3, "column 'lists': List(Int64) holds several values in 70000 rows")


@pytest.mark.parametrize("option", ["--time", "--groups", "--by"])
def test_bytes_that_are_no_text_deal_rows_that_do_not_fit(
    option: str, many: Path, invoke: Invoke
) -> None:
    line = (*BOUNDARY, option, "bytes", many)
    held, stored = invoke(*line), invoke(*line, *SMALL)
    assert (held.code, stored.code) == (0, 0), stored.stderr
    assert stored.stdout == held.stdout
