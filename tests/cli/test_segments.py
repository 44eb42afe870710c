"""``boundary --by``: thresholds for each value of a column, under one bound or one each."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit.methods.boundary import segments
from tests.cli.score_files import Model, changed, decision, margin, recount, simulate, write
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
def fit(invoke: Invoke) -> Fit:
    """Fit and return the model."""

    def call(path: object, *options: object) -> Model:
        return invoke("boundary", path, "--by", "shop", *options, "-q", "-o fitted.json").result()

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


FITS = [
    "--method exact",
    "--method st",
    "--method gmt",
    "--method auto",
    "--bound each --method exact",
    "--bound each --method logistic",
    "--bound each --method vw-dpmt --score-bins 10",
    "--bound each",
]


@pytest.mark.few(4)
@pytest.mark.parametrize("options", FITS)
def test_figures_are_those_of_the_rows(invoke: Invoke, fit: Fit, options: str) -> None:
    frame, test = rows(), rows(700, 6)
    path, other = write(frame, "rows.parquet"), write(test, "test.csv")
    model = fit(path, "--precision", "0.6", "--test", other, options)
    assert model["columns"]["by"] == {"name": "shop"}
    assert sorted(model["groups"]) == list(SHOPS)
    assert model["bound"] == ("each" if "each" in options else "overall")
    fits = [model["groups"][shop]["fit"] for shop in SHOPS]
    for name, lines in (("in_sample", frame), ("test", test)):
        own = [lines.filter(pl.col("shop") == shop) for shop in SHOPS]
        for part, some in zip([model["fit"], *fits], [lines, *own], strict=True):
            again = counted(decide(model, some), some)
            assert {key: part[name][key] for key in again} == again
            assert part[name]["recall"] == again["true_positives"] / some["label"].sum()
    for part in [model["fit"], *(fits if "each" in options else [])]:
        seen = part["in_sample"]
        assert Fraction(seen["true_positives"]) >= Fraction("0.6") * seen["selected"]
    if options != "--method auto":
        pooled = sum(part["cross_validated"]["recall"] * part["positives"] for part in fits)
        expected = pooled / sum(part["positives"] for part in fits)
        assert model["fit"]["cross_validated"]["recall"] == pytest.approx(expected, rel=1e-12)
    applied = invoke("apply", "fitted.json", other, "-o a.parquet").result()
    assert applied["decision"].to_list() == decide(model, test)
    if "vw-dpmt" not in options:
        triples = zip(test["shop"], test["score"], test["uncertainty"], strict=True)
        wanted = [margin(rule(model, shop), score, u) for shop, score, u in triples]
        assert applied["margin"].to_list() == pytest.approx(wanted, rel=1e-9)


def prefixes(frame: pl.DataFrame) -> list[tuple[int, int]]:
    """Return (rows, positive rows) of every threshold on some rows."""
    found = [(0, 0)]
    for cut in sorted(set(frame["score"])):
        taken = frame.filter(pl.col("score") >= cut)
        found.append((taken.height, int(taken["label"].sum())))
    return sorted(set(found))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("levels", [1, 2])
def test_one_bound_is_met_by_the_best_thresholds_together(fit: Fit, seed: int, levels: int) -> None:
    frame = rows(40, seed, SHOPS[:2]).with_columns(pl.col("score").round(1))
    path = write(frame, "rows.parquet")
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


def test_each_segment_is_a_fit_of_its_own(invoke: Invoke, fit: Fit) -> None:
    frame, options = rows(), "--precision 0.6 --method exact"
    model = fit(write(frame, "rows.parquet"), options, "--bound each")
    total = 0
    for shop in SHOPS:
        path = write(frame.filter(pl.col("shop") == shop), f"{shop}.parquet")
        alone, own = invoke("boundary", path, options, "-q --json").result(), model["groups"][shop]
        for name in ("score_thresholds", "uncertainty_edges", "uncertainty_min"):
            assert own[name] == alone[name]
        for name in ("in_sample", "cross_validated", "rows", "positives", "bound_met"):
            assert own["fit"][name] == alone["fit"][name]
        total += alone["fit"]["in_sample"]["true_positives"]
    assert model["fit"]["in_sample"]["true_positives"] == total
    assert model["fit"]["upper_bound"] == pytest.approx(model["fit"]["in_sample"]["recall"])


def test_small_segments_share_one(invoke: Invoke, fit: Fit) -> None:
    frame = pl.concat([rows(), rows(60, 8, ("x", "y", "z"))])
    path, options = write(frame, "rows.parquet"), "--precision 0.6 --method st"
    model = fit(path, options, "--bound each")
    assert sorted(model["groups"]) == ["a", "b", "c", "other"]
    assert model["pooled"] == ["x", "y", "z"]
    assert model["groups"]["other"]["fit"]["rows"] == 60
    model = fit(path, options)
    assert sorted(model["groups"]) == ["a", "b", "c", "x", "y", "z"]
    assert model["pooled"] == []
    model = fit(path, options, "--min-group-positives 30")
    assert sorted(model["groups"]) == ["a", "b", "c", "other"]
    # Values that the fit has not seen, and none, are decided like those that share a segment.
    new = frame.with_columns(shop=pl.when(pl.col("id") % 3 == 0).then(None).otherwise(pl.lit("q")))
    given = (Path("fitted.json"), write(new, path), "-o", Path("applied.parquet"))
    assert invoke("apply", *given).result()["decision"].to_list() == decide(model, new)


def test_unseen_values_are_decided_like_all_rows_together(invoke: Invoke, fit: Fit) -> None:
    frame, options = rows(), "--precision 0.6 --method exact"
    path = write(frame, "rows.parquet")
    model, whole = fit(path, options), invoke("boundary", path, options, "-q --json").result()
    assert model["score_thresholds"] == whole["score_thresholds"]
    new = write(frame.with_columns(shop=pl.lit("new")), "new.csv")
    applied = invoke("apply", "fitted.json", new, "-o applied.csv").result()
    assert applied["decision"].sum() == recount(whole, frame)["selected"]


def test_a_segment_that_cannot_meet_its_bound_selects_nothing(invoke: Invoke) -> None:
    frame = rows(600, 9).with_columns(
        label=pl.when((pl.col("shop") == "c") & (pl.col("id") % 4 > 0)).then(0).otherwise("label")
    )
    path, output = write(frame, "rows.parquet"), Path("b.json")
    given = ["--by shop --bound each --min-group-positives 1 --method st -o", output]
    done = invoke("boundary", path, "--precision", "0.8", *given)
    done.succeeded("segment 'c'")
    model = done.result()
    assert model["groups"]["c"]["score_thresholds"] == [None]
    assert model["groups"]["c"]["fit"]["in_sample"] is None
    assert counted(decide(model, frame), frame)["selected"] == model["fit"]["in_sample"]["selected"]
    none = frame.with_columns(label=pl.when(pl.col("id") % 50 == 0).then(1).otherwise(0))
    invoke("boundary", write(none, path), "--precision", "0.9", *given).refused(4)


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ("--weight w", 0, "segment 'd' has no positive row"),
        ("--folds 0", 0, "segment 'a' has no negative row"),
        ("--confidence 0.5", 4, "9 rows are too few"),
    ],
)
def test_a_segment_that_lacks_a_class(invoke: Invoke, more: str, code: int, said: str) -> None:
    score = [0.9, 0.8, 0.7, 0.3, 0.2, 0.5, 0.4, 0.1, 0.6]
    lines = {"score": score, "label": [1, 1, 1, 0, 0, 1, 0, 1, 0], "shop": [*"aaabbccdd"]}
    frame = pl.DataFrame(lines | {"w": [1, 1, 1, 1, 1, 1, 1, 0, 1]})
    path = write(frame, "rows.parquet")
    each = f"--by shop --bound each --min-group-positives 0 --folds 0 {more}"
    done = invoke("boundary", path, "--fpr", "0.5", each, "-q -o -")
    assert done.code == code
    assert said in done.stderr
    if not code:
        assert json.loads(done.stdout)["groups"]["c"]["score_thresholds"] == [0.5]


def test_a_segment_left_out_is_one_whose_recall_is_missed(invoke: Invoke) -> None:
    lines = {"score": [0.4, 0.6, 0.2, 0.8], "label": [1, 1, 1, 0], "shop": [*"aabb"]}
    path = write(pl.DataFrame(lines), "rows.csv")
    each = "--by shop --bound each --min-group-positives 0 --folds 0 --prevalence 0.2"
    for bound, met in (("--recall=0.3", False), ("--precision=0.1", True)):
        done = invoke("boundary", path, each, bound, "-o each.json")
        done.succeeded("segment 'a' has no negative row", "each that selects rows meets the bound")
        model = done.result()
        assert model["groups"]["a"]["score_thresholds"] == [None]
        assert model["fit"]["bound_met"] is met


@pytest.mark.parametrize("method", ["st", "exact", "mist", "stochastic", "auto"])
def test_a_segment_that_weighs_nothing(fit: Fit, method: str) -> None:
    lines = {"score": [0.2, 0.8, 1.0, 0.0], "uncertainty": [0.1, 0.2, 0.3, 0.4]}
    lines |= {"label": [1, 0, 1, 1], "w": [3, 1, 2, 0], "shop": [*"aaab"]}
    path, folds = write(pl.DataFrame(lines), "rows.csv"), 2 if method == "auto" else 0
    model = fit(path, "--weight w --precision 0.5 --method", method, "--folds", folds)
    assert set(model["groups"]["b"]["score_thresholds"]) == {None}
    assert model["groups"]["a"]["fit"]["in_sample"]["recall"] == 1.0


def test_stochastic_segments(invoke: Invoke, fit: Fit) -> None:
    path = write(rows(), "rows.parquet")
    exact, model = (fit(path, "--precision 0.6 --method", m) for m in ("exact", "stochastic"))
    seen = model["fit"]["in_sample"]
    assert seen["precision"] == pytest.approx(0.6, abs=1e-9)
    assert seen["recall"] >= exact["fit"]["in_sample"]["recall"]
    shares = [one["tie_probability"] for one in model["groups"].values()]
    assert sum(0.0 < share < 1.0 for share in itertools.chain(*shares)) == 1
    given = (Path("fitted.json"), path, "--key id -o", Path("applied.parquet"))
    chance = invoke("apply", *given).result()["decision_probability"].sum()
    assert chance == pytest.approx(seen["selected"])


@pytest.mark.parametrize(
    ("bound", "figure", "sign"),
    [
        ("--recall 0.5", "recall", 1),
        ("--fpr 0.1", "false_positive_rate", -1),
        ("--capacity 0.2", "selected", -1),
    ],
)
def test_bounds_other_than_precision(fit: Fit, bound: str, figure: str, sign: int) -> None:
    path = write(rows(), "rows.parquet")
    model, limit = fit(path, bound, "--bound each --method exact"), float(bound.split()[1])
    for own in model["groups"].values():
        rows_of = own["fit"]["rows"] if figure == "selected" else 1
        assert sign * own["fit"]["in_sample"][figure] >= sign * limit * rows_of
    whole, figure = model["fit"], model["objective"]["maximize"]
    assert whole["upper_bound"] >= whole["in_sample"][figure] - 1e-12


def test_rows_without_a_segment(invoke: Invoke) -> None:
    path = write(changed(rows(100), shop={7: None}), "rows.parquet")
    error = invoke("boundary", path, "--precision 0.5 --by shop --json").refused(3)
    assert (error["column"], error["first_rows"]) == ("shop", [7])


def test_the_hash_of_the_rows_is_that_of_their_segments_too() -> None:
    frame, options = rows(90), {"precision": 0.5, "by": "shop", "folds": 0}
    other = frame.with_columns(shop=pl.col("shop").reverse())
    first, again, second = (
        ck.fit_boundary(one, **options).provenance.data_hash
        for one in (frame, frame.reverse(), other)
    )
    assert first == again != second


@pytest.mark.parametrize(
    ("kind", "options", "added"),
    [
        ("boundary", "--precision 0.7 --method st --bound each --folds 0", "decision"),
        ("calibrate", "--method platt", "calibrated"),
    ],
)
def test_a_pooled_segment_is_not_taken_for_the_same_number(
    kind: str, options: str, added: str, invoke: Invoke
) -> None:
    random = np.random.default_rng(1)
    score = random.random(850).round(3)
    shop = pl.Series(["1.0"] * 400 + ["x"] * 400 + ["01"] * 50)
    power = np.repeat([3.0, 1.0, 1.0], [400, 400, 50])
    label = (random.random(850) < score**power).astype(int)
    frame = pl.DataFrame({"score": score, "shop": shop, "label": label})
    path = write(frame, "r.parquet")
    model = invoke(kind, path, options, "--by shop -o m.json")
    applied = invoke("apply", model.output, path, "-o o.parquet").result()
    renamed = frame.with_columns(shop=pl.col("shop").replace("01", "other"))
    unseen = write(renamed, "unseen.parquet")
    other = invoke("apply", model.output, unseen, "-o o.parquet").result()
    assert applied[added][800:].to_list() == other[added][800:].to_list()
    if kind == "boundary":
        assert model.result()["fit"]["in_sample"]["selected"] == applied["decision"].sum()
    for to in ("sql", "python", "polars"):
        given = (model.output, "--to", to, "--check", path, "-o", Path("x"))
        invoke("export", *given).succeeded()


def test_one_threshold_is_one_a_segment_at_any_number_of_levels(fit: Fit) -> None:
    path = write(rows(300), "rows.parquet")
    options = ("--precision", "0.7", "--method", "st", "--by", "shop", "--folds", 0)
    one, several = (fit(path, *options, "--uncertainty-bins", bins) for bins in (1, 3))
    assert several["fit"]["in_sample"] == one["fit"]["in_sample"]
    assert all(len(own["score_thresholds"]) == 1 for own in several["groups"].values())


def test_no_more_levels_are_tried_than_segments_leave_room_for(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MOST_LEVELS", 10)
    path, line = write(rows(), "r.parquet"), ["--by shop --precision 0.5"]
    done = invoke("boundary", path, *line, "-o b.json")
    assert "Chosen by cross-validation among st and exact with 2, 3 levels." in done.stderr
    more = "3 segments of 5 uncertainty levels are more than 10 levels"
    invoke("boundary", path, *line, "--uncertainty-bins 5").refused(2, more)
