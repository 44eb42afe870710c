"""``boundary --by``: thresholds for each value of a column, under one bound or one each."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit.methods.boundary import segments
from tests.cli.score_files import Model, decision, margin, recount, simulate, write
from tests.conftest import Invoke

Fit = Callable[..., Model]

SHOPS = ("a", "b", "c")


def rows(count: int = 900, seed: int = 5, shops: tuple[str, ...] = SHOPS) -> pl.DataFrame:
    """Return rows of shops whose scores are worth more or less."""
    frame = simulate(count, seed)
    random = np.random.default_rng(seed)
    shop = random.integers(0, len(shops), count)
    label = frame["label"].to_numpy() & (random.random(count) < 1.0 - 0.25 * shop)
    names = pl.Series([shops[one] for one in shop])
    return frame.with_columns(label=label.astype(np.int64), shop=names)


@pytest.fixture
def fit(tmp_path: Path, invoke: Invoke) -> Fit:
    """Fit and return the model."""

    def call(path: object, *options: object) -> Model:
        output = tmp_path / "fitted.json"
        return invoke("boundary", path, "--by", "shop", *options, "-q", "-o", output).result()

    return call


def rule(model: Model, shop: object) -> Model:
    """Return the boundary that decides the rows of a shop."""
    groups = model["groups"]
    own = groups.get("" if shop is None else str(shop), groups.get("other"))
    return {**model, **own} if own else model


def decide(model: Model, frame: pl.DataFrame) -> list[int]:
    lines = zip(frame["shop"], frame["score"], frame["uncertainty"], strict=True)
    return [decision(rule(model, shop), score, spread) for shop, score, spread in lines]


def counted(chosen: list[int], frame: pl.DataFrame) -> dict[str, int]:
    pairs = list(zip(chosen, frame["label"], strict=True))
    return {"selected": sum(chosen), "true_positives": sum(d and y for d, y in pairs)}


FITS = {
    "exact": ["--method", "exact"],
    "st": ["--method", "st"],
    "gmt": ["--method", "gmt"],
    "auto": [],
    "each, exact": ["--bound", "each", "--method", "exact"],
    "each, logistic": ["--bound", "each", "--method", "logistic"],
    "each, on a grid": ["--bound", "each", "--method", "vw-dpmt", "--score-bins", "10"],
    "each, auto": ["--bound", "each"],
}


@pytest.mark.few(4)
@pytest.mark.parametrize("options", FITS.values(), ids=FITS)
def test_figures_are_those_of_the_rows(
    tmp_path: Path, invoke: Invoke, fit: Fit, options: list[str]
) -> None:
    frame, test = rows(), rows(700, 6)
    path, other = write(frame, tmp_path / "rows.parquet"), write(test, tmp_path / "test.csv")
    model = fit(path, "--precision", "0.6", "--test", other, *options)
    assert model["columns"]["by"] == {"name": "shop"}
    assert sorted(model["groups"]) == list(SHOPS)
    assert model["bound"] == ("each" if "each" in options else "overall")
    for name, lines in (("in_sample", frame), ("test", test)):
        seen = model["fit"][name]
        again = counted(decide(model, lines), lines)
        assert {key: seen[key] for key in again} == again
        assert seen["recall"] == again["true_positives"] / lines["label"].sum()
        for shop in SHOPS:
            own = lines.filter(pl.col("shop") == shop)
            part = model["groups"][shop]["fit"][name]
            again = counted(decide(model, own), own)
            assert {key: part[key] for key in again} == again
            assert part["recall"] == again["true_positives"] / own["label"].sum()
    bounded = [model["fit"]["in_sample"]]
    if "each" in options:
        bounded += [model["groups"][shop]["fit"]["in_sample"] for shop in SHOPS]
    for seen in bounded:
        assert Fraction(seen["true_positives"]) >= Fraction("0.6") * seen["selected"]
    checked = model["fit"]["cross_validated"]
    parts = [model["groups"][shop]["fit"]["cross_validated"] for shop in SHOPS]
    positives = [model["groups"][shop]["fit"]["positives"] for shop in SHOPS]
    if "auto" not in model["provenance"]["options"]["method"] or "each" in options:
        pooled = sum(part["recall"] * p for part, p in zip(parts, positives, strict=True))
        assert checked["recall"] == pytest.approx(pooled / sum(positives), rel=1e-12)
    applied = tmp_path / "applied.parquet"
    assert invoke("apply", tmp_path / "fitted.json", other, "-q", "-o", applied).code == 0
    assert pl.read_parquet(applied)["decision"].to_list() == decide(model, test)
    if "vw-dpmt" not in options:
        triples = zip(test["shop"], test["score"], test["uncertainty"], strict=True)
        wanted = [margin(rule(model, shop), score, u) for shop, score, u in triples]
        assert pl.read_parquet(applied)["margin"].to_list() == pytest.approx(wanted, rel=1e-9)


def prefixes(frame: pl.DataFrame) -> list[tuple[int, int]]:
    """Return (rows, positive rows) of every threshold on some rows."""
    found = [(0, 0)]
    for cut in sorted(set(frame["score"])):
        taken = frame.filter(pl.col("score") >= cut)
        found.append((taken.height, int(taken["label"].sum())))
    return sorted(set(found))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("levels", [1, 2])
def test_one_bound_is_met_by_the_best_thresholds_together(
    tmp_path: Path, fit: Fit, seed: int, levels: int
) -> None:
    frame = rows(40, seed, SHOPS[:2]).with_columns(pl.col("score").round(1))
    path = write(frame, tmp_path / "rows.parquet")
    model = fit(path, "--precision 0.7 --method exact --uncertainty-bins", levels, "--folds 0")
    parts = []
    for shop in SHOPS[:2]:
        own = frame.filter(pl.col("shop") == shop)
        edges = model["groups"][shop]["uncertainty_edges"]
        level = [sum(edge <= u for edge in edges) for u in own["uncertainty"]]
        parts += [own.filter(pl.Series(level) == at) for at in range(levels)]
    best = (0, 0)
    for chosen in itertools.product(*(prefixes(part) for part in parts)):
        selected, hits = (sum(column) for column in zip(*chosen, strict=True))
        if hits >= Fraction("0.7") * selected:
            best = max(best, (hits, -selected))
    seen = model["fit"]["in_sample"]
    assert (seen["true_positives"], -seen["selected"]) == best
    assert model["fit"]["optimal_in_sample"]
    assert model["fit"]["upper_bound"] == seen["recall"]


def test_each_segment_is_a_fit_of_its_own(tmp_path: Path, invoke: Invoke, fit: Fit) -> None:
    frame = rows()
    options = ["--precision", "0.6", "--method", "exact"]
    model = fit(write(frame, tmp_path / "rows.parquet"), *options, "--bound", "each")
    total = 0
    for shop in SHOPS:
        path = write(frame.filter(pl.col("shop") == shop), tmp_path / f"{shop}.parquet")
        alone = json.loads(invoke("boundary", path, *options, "-q", "-o", "-").stdout)
        own = model["groups"][shop]
        for name in ("score_thresholds", "uncertainty_edges", "uncertainty_min"):
            assert own[name] == alone[name]
        for name in ("in_sample", "cross_validated", "rows", "positives", "bound_met"):
            assert own["fit"][name] == alone["fit"][name]
        total += alone["fit"]["in_sample"]["true_positives"]
    assert model["fit"]["in_sample"]["true_positives"] == total
    assert model["fit"]["upper_bound"] == pytest.approx(model["fit"]["in_sample"]["recall"])


def test_small_segments_share_one(tmp_path: Path, invoke: Invoke, fit: Fit) -> None:
    frame = pl.concat([rows(), rows(60, 8, ("x", "y", "z"))])
    path = write(frame, tmp_path / "rows.parquet")
    model = fit(path, "--precision", "0.6", "--method", "st", "--bound", "each")
    assert sorted(model["groups"]) == ["a", "b", "c", "other"]
    assert model["pooled"] == ["x", "y", "z"]
    assert model["groups"]["other"]["fit"]["rows"] == 60
    model = fit(path, "--precision", "0.6", "--method", "st")
    assert sorted(model["groups"]) == ["a", "b", "c", "x", "y", "z"]
    assert model["pooled"] == []
    model = fit(path, "--precision", "0.6", "--method", "st", "--min-group-positives", 30)
    assert sorted(model["groups"]) == ["a", "b", "c", "other"]
    # Values that the fit has not seen, and none, are decided like those that share a segment.
    new = frame.with_columns(shop=pl.when(pl.col("id") % 3 == 0).then(None).otherwise(pl.lit("q")))
    other, applied = write(new, tmp_path / "new.parquet"), tmp_path / "applied.parquet"
    assert invoke("apply", tmp_path / "fitted.json", other, "-q", "-o", applied).code == 0
    assert pl.read_parquet(applied)["decision"].to_list() == decide(model, new)


def test_unseen_values_are_decided_like_all_rows_together(
    tmp_path: Path, invoke: Invoke, fit: Fit
) -> None:
    frame = rows()
    path = write(frame, tmp_path / "rows.parquet")
    options = ["--precision", "0.6", "--method", "exact"]
    model = fit(path, *options)
    whole = json.loads(invoke("boundary", path, *options, "-q", "-o", "-").stdout)
    assert model["score_thresholds"] == whole["score_thresholds"]
    new = frame.with_columns(shop=pl.lit("new"))
    applied = tmp_path / "applied.csv"
    given = ["apply", tmp_path / "fitted.json", write(new, tmp_path / "new.csv"), "-o", applied]
    assert invoke(*given).code == 0
    selected = recount(whole, new)["selected"]
    assert pl.read_csv(applied)["decision"].sum() == selected


def test_a_segment_that_cannot_meet_its_bound_selects_nothing(
    tmp_path: Path, invoke: Invoke
) -> None:
    frame = rows(600, 9).with_columns(
        label=pl.when((pl.col("shop") == "c") & (pl.col("id") % 4 > 0)).then(0).otherwise("label")
    )
    path, output = write(frame, tmp_path / "rows.parquet"), tmp_path / "b.json"
    given = ["--by", "shop", "--bound", "each", "--min-group-positives", 1, "--method", "st"]
    invoke("boundary", path, "--precision", "0.8", *given, "-o", output).succeeded("segment 'c'")
    model = json.loads(output.read_bytes())
    assert model["groups"]["c"]["score_thresholds"] == [None]
    assert model["groups"]["c"]["fit"]["in_sample"] is None
    assert counted(decide(model, frame), frame)["selected"] == model["fit"]["in_sample"]["selected"]
    none = frame.with_columns(label=pl.when(pl.col("id") % 50 == 0).then(1).otherwise(0))
    done = invoke("boundary", write(none, path), "--precision", "0.9", *given, "-o", output)
    assert done.code == 4, done.stderr


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--weight", "w"), 0, "segment 'd' has no positive row"),
        ((), 0, "segment 'a' has no negative row"),
        (("--confidence", "0.5"), 4, "9 rows are too few"),
    ],
)
def test_a_segment_that_lacks_a_class(
    tmp_path: Path, invoke: Invoke, more: tuple[str, ...], code: int, said: str
) -> None:
    lines = [(0.9, 1, 1, "a"), (0.8, 1, 1, "a"), (0.7, 1, 1, "a"), (0.3, 0, 1, "b")]
    lines += [
        (0.2, 0, 1, "b"),
        (0.5, 1, 1, "c"),
        (0.4, 0, 1, "c"),
        (0.1, 1, 0, "d"),
        (0.6, 0, 1, "d"),
    ]
    frame = pl.DataFrame(lines, ("score", "label", "w", "shop"), orient="row")
    path = write(frame, tmp_path / "rows.parquet")
    each = ("--by", "shop", "--bound", "each", "--min-group-positives", 0, "--folds", 0, *more)
    done = invoke("boundary", path, "--fpr", "0.5", *each, "-q", "-o", "-")
    assert done.code == code
    assert said in done.stderr
    if not code:
        assert json.loads(done.stdout)["groups"]["c"]["score_thresholds"] == [0.5]


def test_a_segment_left_out_is_one_whose_recall_is_missed(tmp_path: Path, invoke: Invoke) -> None:
    lines = [(0.4, 1, "a"), (0.6, 1, "a"), (0.2, 1, "b"), (0.8, 0, "b")]
    frame = pl.DataFrame(lines, ("score", "label", "shop"), orient="row")
    each = ("--by", "shop", "--bound", "each", "--min-group-positives", 0, "--folds", 0)
    given = ("boundary", write(frame, tmp_path / "rows.csv"), *each, "-o", tmp_path / "each.json")
    for bound, met in (("--recall=0.3", False), ("--precision=0.1", True)):
        done = invoke(*given, bound, "--prevalence", "0.2")
        assert (done.code, "segment 'a' has no negative row" in done.stderr) == (0, True)
        assert "each that selects rows meets the bound" in done.stderr
        model = json.loads((tmp_path / "each.json").read_bytes())
        assert model["groups"]["a"]["score_thresholds"] == [None]
        assert model["fit"]["bound_met"] is met


@pytest.mark.parametrize("method", ["st", "exact", "mist", "stochastic", "auto"])
def test_a_segment_that_weighs_nothing(tmp_path: Path, invoke: Invoke, method: str) -> None:
    lines = [(0.2, 0.1, 1, 3, "a"), (0.8, 0.2, 0, 1, "a"), (1.0, 0.3, 1, 2, "a")]
    frame = pl.DataFrame(
        [*lines, (0.0, 0.4, 1, 0, "b")], ("score", "uncertainty", "label", "w", "g"), orient="row"
    )
    path = write(frame, tmp_path / "rows.csv")
    given = ("boundary", path, "--weight", "w", "--by", "g", "--method", method)
    folds = 2 if method == "auto" else 0
    done = invoke(*given, "--precision", "0.5", "--folds", folds, "-q", "-o", "-")
    assert done.code == 0, done.stderr
    segments = json.loads(done.stdout)["groups"]
    assert set(segments["b"]["score_thresholds"]) == {None}
    assert segments["a"]["fit"]["in_sample"]["recall"] == 1.0


def test_stochastic_segments(tmp_path: Path, invoke: Invoke, fit: Fit) -> None:
    frame = rows()
    path = write(frame, tmp_path / "rows.parquet")
    model = fit(path, "--precision", "0.6", "--method", "stochastic")
    exact = fit(path, "--precision", "0.6", "--method", "exact")
    seen = model["fit"]["in_sample"]
    assert seen["precision"] == pytest.approx(0.6, abs=1e-9)
    assert seen["recall"] >= exact["fit"]["in_sample"]["recall"]
    shares = [one["tie_probability"] for one in model["groups"].values()]
    assert sum(0.0 < share < 1.0 for share in itertools.chain(*shares)) == 1
    fit(path, "--precision", "0.6", "--method", "stochastic")
    applied = tmp_path / "applied.parquet"
    given = [tmp_path / "fitted.json", path, "--key", "id", "-q", "-o", applied]
    assert invoke("apply", *given).code == 0
    chance = pl.read_parquet(applied)["decision_probability"].sum()
    assert chance == pytest.approx(seen["selected"])


def test_bounds_other_than_precision(tmp_path: Path, fit: Fit) -> None:
    frame = rows()
    path = write(frame, tmp_path / "rows.parquet")
    for bound in (["--recall", "0.5"], ["--fpr", "0.1"], ["--capacity", "0.2"]):
        model = fit(path, *bound, "--bound", "each", "--method", "exact")
        figure = model["objective"]["maximize"]
        for shop in SHOPS:
            own, seen = (
                frame.filter(pl.col("shop") == shop),
                model["groups"][shop]["fit"]["in_sample"],
            )
            if bound[0] == "--recall":
                assert seen["recall"] >= 0.5
            elif bound[0] == "--fpr":
                assert seen["false_positive_rate"] <= 0.1
            else:
                assert seen["selected"] <= 0.2 * own.height
        assert model["fit"]["upper_bound"] >= model["fit"]["in_sample"][figure] - 1e-12


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--precision", "0.5", "--by", "shp"], "did you mean 'shop'"),
        (["--precision", "0.5", "--by", "shop", "--method", "logistic"], "auto, exact, st"),
        (["--precision", "0.5", "--by", "shop", "--method", "vw-dpmt"], "auto, exact, st"),
        (
            ["--precision", "0.5", "--by", "shop", "--method", "exact", "--score-bins", "9"],
            "--score-b",
        ),
        (["--maximize", "f1", "--by", "shop", "--bound", "each"], "needs a bound"),
        (["--precision", "0.5", "--bound", "each"], "--by"),
        (["--precision", "0.5", "--min-group-positives", "9"], "--by"),
        (["--precision", "0.5", "--by", "shop", "--compare"], "--compare"),
        (["--precision", "0.5", "--by", "shop", "--frontier", "f.csv"], "--frontier"),
    ],
)
def test_pairs_that_do_not_exist(
    tmp_path: Path, invoke: Invoke, options: list[str], said: str
) -> None:
    path = write(rows(200), tmp_path / "rows.parquet")
    invoke("boundary", path, *options, "-o", tmp_path / "b.json").refused(2, said)


def test_rows_without_a_segment(tmp_path: Path, invoke: Invoke) -> None:
    frame = rows(100)
    shops: list[Any] = frame["shop"].to_list()
    shops[6] = None
    path = write(frame.with_columns(shop=pl.Series(shops)), tmp_path / "rows.parquet")
    done = invoke("boundary", path, "--precision", "0.5", "--by", "shop", "--json", "-o", "b.json")
    assert done.code == 3
    error = json.loads(done.stdout)["error"]
    assert (error["column"], error["first_rows"]) == ("shop", [7])


def test_the_hash_of_the_rows_is_that_of_their_segments_too() -> None:
    frame, options = rows(90), {"precision": 0.5, "by": "shop", "folds": 0}
    other = frame.with_columns(shop=pl.col("shop").reverse())
    first, again, second = (
        ck.fit_boundary(one, **options).provenance.data_hash
        for one in (frame, frame.reverse(), other)
    )
    assert first == again != second


@pytest.mark.parametrize("kind", ["boundary", "calibrate"])
def test_a_pooled_segment_is_not_taken_for_the_same_number(
    kind: str, tmp_path: Path, invoke: Invoke
) -> None:
    random = np.random.default_rng(1)
    score = random.random(850).round(3)
    shop = pl.Series(["1.0"] * 400 + ["x"] * 400 + ["01"] * 50)
    power = np.repeat([3.0, 1.0, 1.0], [400, 400, 50])
    frame = pl.DataFrame({"score": score, "shop": shop, "uncertainty": random.random(850)})
    frame = frame.with_columns(label=pl.Series((random.random(850) < score**power).astype(int)))
    path, model, out = (
        write(frame, tmp_path / "r.parquet"),
        tmp_path / "m.json",
        tmp_path / "o.parquet",
    )
    options = {
        "boundary": "--precision 0.7 --method st --bound each --uncertainty-bins 1 --folds 0",
        "calibrate": "--method platt",
    }[kind]
    assert invoke(kind, path, *options.split(), "--by shop -q -o", model).code == 0
    assert invoke("apply", model, path, "-q -o", out).code == 0
    applied, added = pl.read_parquet(out), {"boundary": "decision", "calibrate": "calibrated"}[kind]
    unseen = tmp_path / "unseen.parquet"
    frame.with_columns(shop=pl.col("shop").replace("01", "other")).write_parquet(unseen)
    other = invoke("apply", model, unseen, "-o", out).result()
    pooled = pl.col("shop") == "01"
    np.testing.assert_array_equal(applied.filter(pooled)[added], other[added][800:])
    if kind == "boundary":
        seen = json.loads(model.read_bytes())["fit"]["in_sample"]["selected"]
        assert seen == applied["decision"].sum()
    for to in ("sql", "python", "polars"):
        assert invoke("export", model, "--to", to, "--check", path, "-o", tmp_path / "x").code == 0


def test_one_threshold_is_one_a_segment_at_any_number_of_levels(tmp_path: Path, fit: Fit) -> None:
    path = write(rows(300), tmp_path / "rows.parquet")
    options = ("--precision", "0.7", "--method", "st", "--by", "shop", "--folds", 0)
    one, several = (fit(path, *options, "--uncertainty-bins", bins) for bins in (1, 3))
    assert several["fit"]["in_sample"] == one["fit"]["in_sample"]
    assert all(len(own["score_thresholds"]) == 1 for own in several["groups"].values())


def test_no_more_levels_are_tried_than_segments_leave_room_for(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MOST_LEVELS", 10)
    path, line = write(rows(), tmp_path / "r.parquet"), ["--by shop --precision 0.5"]
    done = invoke("boundary", path, *line, "-o", tmp_path / "b.json")
    assert "Chosen by cross-validation among st and exact with 2, 3 levels." in done.stderr
    more = "3 segments of 5 uncertainty levels are more than 10 levels"
    invoke("boundary", path, *line, "--uncertainty-bins 5").refused(2, more)
