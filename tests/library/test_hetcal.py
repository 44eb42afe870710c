"""Calibration by parts: against scikit-learn, and what theory says of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec import UNSET, to_builtins
from msgspec.structs import replace
from polars.testing import assert_frame_equal
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from calibkit import simulate_partitions
from calibkit.apply.apply import apply_model
from calibkit.columns.patterns import find_features
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.methods.hetcal import in_turn, trees_fit
from calibkit.methods.hetcal.grow import Grower, Growth, Rules
from calibkit.methods.hetcal.maps import first_map, fit_maps, mean_loss, pooled_line
from calibkit.methods.hetcal.model import HetcalModel
from calibkit.methods.hetcal.rows import Folds, HetcalRows, read_hetcal_rows
from calibkit.methods.hetcal.run import fit_hetcal
from calibkit.methods.hetcal.trees_fit import Cells, Grid, choose_forest, discounted
from calibkit.options.apply import ApplyOptions
from calibkit.options.hetcal import HetcalOptions


def sample(rows: int = 3000, seed: int = 1, gaps: bool = True) -> pl.DataFrame:
    """Return over-confident scores with numbers, text and gaps beside them."""
    random = np.random.default_rng(seed)
    x, noise = random.normal(size=(2, rows))
    kind = random.integers(0, 5, rows)
    truth = random.normal(size=rows) + np.where(kind < 2, 1.5, -0.5) + np.where(x > 0.5, 1.0, 0.0)
    label = random.random(rows) < 1.0 / (1.0 + np.exp(-truth))
    logit = 3.0 * (truth - np.where(kind < 2, 1.5, -0.5)) + random.normal(size=rows)
    names = np.array(["ash", "birch", "cedar", "elm", "fir"])[kind]
    frame = pl.DataFrame(
        {
            "label": label.astype(np.int8),
            "score": 1.0 / (1.0 + np.exp(-logit)),
            "x": x,
            "noise": noise,
            "kind": names,
        }
    )
    if gaps:
        frame = frame.with_columns(
            x=pl.when(pl.int_range(pl.len()) % 7 == 0).then(None).otherwise(pl.col("x")),
            kind=pl.when(pl.int_range(pl.len()) % 11 == 0).then(None).otherwise(pl.col("kind")),
        )
    return frame


FEATURES = ["x", "noise", "kind"]
SMALL: dict[str, Any] = {"max_depth": 2, "min_leaf": 200}


def read(frame: pl.DataFrame, names: Any = FEATURES, **more: Any) -> HetcalRows:
    known = more.pop("known", None)
    options = HetcalOptions(**more)
    return read_hetcal_rows(Source.from_frame(frame), options, list(names), known=known)


def fit(frame: pl.DataFrame, *, train: pl.DataFrame | None = None, **options: Any) -> HetcalModel:
    grown = None if train is None else read(train, **options)
    rows = read(frame, **options, known=grown.features if grown else None)
    return fit_hetcal(rows, HetcalOptions(**options), train=grown).model


def applied(model: HetcalModel, frame: pl.DataFrame) -> pl.DataFrame:
    return apply_model(model, Source.from_frame(frame), ApplyOptions()).frame


def chances(model: HetcalModel, frame: pl.DataFrame) -> np.ndarray:
    return applied(model, frame)["calibrated"].to_numpy()


def loss(rows: pl.DataFrame) -> float:
    p, y = rows["calibrated"].to_numpy(), rows["label"].to_numpy()
    return float(-np.log(np.where(y == 1, p, 1 - p)).mean())


@pytest.mark.few(2)
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_tree_of_float32_numbers_is_that_of_scikit_learn(criterion: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.normal(size=(4000, 5)).astype(np.float32)
    y = (random.random(4000) < 1 / (1 + np.exp(-x[:, 0] * x[:, 1] - x[:, 2]))).astype(np.int64)
    frame = pl.DataFrame({"label": y, "score": 0.5, **{f"x{j}": x[:, j] for j in range(5)}})
    rows = read(frame, [f"x{j}" for j in range(5)])
    payload = np.stack([np.ones(rows.count), rows.label], axis=1).astype(np.int64)
    kind = {"gini": 0, "entropy": 1}[criterion]
    tree, _ = Grower(rows.features, payload, Rules(kind, 6, 40)).grow()
    tree = tree.pruned(6)
    peer = DecisionTreeClassifier(
        criterion=criterion, max_depth=6, min_samples_leaf=40, random_state=0
    ).fit(x, y)
    assert [node.feature for node in tree.nodes] == np.maximum(peer.tree_.feature, -1).tolist()
    cuts = [node.cut for node in tree.nodes if node.feature >= 0]
    assert cuts == peer.tree_.threshold[peer.tree_.feature >= 0].tolist()
    assert [node.rows for node in tree.nodes] == peer.tree_.n_node_samples.tolist()


def test_precalibration_changes_no_platt_map() -> None:
    frame = sample()
    spec: dict[str, Any] = {"train": frame, **SMALL, "shrinkage": 100.0}
    ours, theirs = (
        chances(fit(frame, precalibrate=kind, **spec), frame) for kind in ("platt", "none")
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_shrinkage_leads_from_each_leafs_own_map_to_the_pooled_one() -> None:
    frame = sample()
    pooled = fit(frame, max_depth=0, min_leaf=1, shrinkage=0.0)
    own, half, strong = (
        fit(frame, train=frame, shrinkage=weight, **SMALL) for weight in (0.0, 500.0, 1e12)
    )
    np.testing.assert_allclose(chances(strong, frame), chances(pooled, frame), atol=1e-6)
    for mine, drawn in zip(own.parts()[0].maps, half.parts()[0].maps, strict=True):
        share = mine.rows / (mine.rows + 500.0)
        assert drawn.a == pytest.approx(share * mine.a + (1 - share) * half.pooled.a)
        assert drawn.b == pytest.approx(share * mine.b + (1 - share) * half.pooled.b)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("partition", "with_train"),
    [
        *(("tree", True), ("tree", False), ("forest", True), ("forest", False)),
        *(("boosted", False), ("sequential", False)),
    ],
)
def test_parts_lower_the_loss_on_new_rows(partition: str, with_train: bool) -> None:
    frame, new = sample(6000), sample(6000, seed=9)
    train = sample(6000, seed=5) if with_train else None
    more = {"trees": 7} if partition == "forest" else {}
    model = fit(frame, train=train, partition=partition, threads=2, **more)
    rows = applied(model, new)
    pooled = applied(fit(frame, max_depth=0, min_leaf=1, shrinkage=0.0), new)
    losses = [loss(table) for table in (rows, pooled)]
    assert losses[0] < losses[1] - 0.02
    checked = model.fit.cross_validated
    assert checked is not None
    assert checked.calibrated == pytest.approx(losses[0], abs=0.03)
    better = [roc_auc_score(table["label"], table["calibrated"]) for table in (rows, pooled)]
    assert better[0] > better[1] + 0.01


def test_each_depth_is_told_with_about_the_loss_that_it_has_alone() -> None:
    frame = sample(2000)
    rest = {"partition": "tree", "min_leaf": 100, "shrinkage": 100.0}
    told = fit(frame, **rest).fit.cross_validated
    assert told is not None and told.by_depth is not None and len(told.by_depth) > 3
    for depth in (1, 2, 3):
        alone = fit(frame, max_depth=depth, **rest).fit.cross_validated
        assert alone is not None
        assert told.by_depth[str(depth)] == pytest.approx(alone.calibrated, abs=2e-3)


def test_isotonic_leaves_never_rank_worse_than_constant_ones_in_sample() -> None:
    frame = sample()
    size: dict[str, Any] = {"max_depth": 3, "min_leaf": 100, "shrinkage": 0.0, "map": "isotonic"}
    rows = applied(fit(frame, train=frame, **size), frame)
    rate = rows.select(pl.col("label").mean().over("leaf"))["label"]
    assert roc_auc_score(rows["label"], rows["calibrated"]) >= roc_auc_score(rows["label"], rate)
    for _, own in rows.group_by("leaf"):
        assert own.sort("score")["calibrated"].is_sorted()
        assert own["calibrated"].mean() == pytest.approx(own["label"].mean())
    kept = chances(fit(frame, clip=0.05, **size), frame)
    assert (kept.min(), kept.max()) == (0.05, 0.95)


def test_gaps_new_categories_and_leaves_without_rows_are_defined() -> None:
    frame = sample()
    model = fit(frame, train=frame, max_depth=3, min_leaf=50, shrinkage=30.0)
    new = pl.DataFrame({"x": [None, 0.2, 0.2, math.nan], "kind": ["ash", "yew", None, ""]})
    new = new.with_columns(score=0.5, noise=0.0)
    rows = applied(model, new)
    assert rows["calibrated"].null_count() == 0
    assert rows["leaf"][1] == rows["leaf"][2]  # a new category goes where a missing one goes
    few = frame.filter(pl.col("kind") == "elm").head(60)
    rare = fit(few, train=frame, max_depth=3, min_leaf=50, shrinkage=0.0)
    empty = [leaf for leaf in rare.parts()[0].maps if leaf.rows == 0]
    assert empty
    assert all((leaf.a, leaf.b) == (rare.pooled.a, rare.pooled.b) for leaf in empty)
    assert all(str(leaf.note).startswith("no rows") for leaf in empty)


def test_a_leaf_of_one_class_has_a_finite_map_and_is_named() -> None:
    frame = sample(1000, gaps=False).with_columns(x=pl.col("label").cast(pl.Float64))
    model = fit(frame, train=frame, max_depth=1, min_leaf=10, shrinkage=0.0)
    assert [leaf.note for leaf in model.parts()[0].maps] == ["one class", "one class"]
    assert loss(applied(model, frame)) < 0.01


def test_scores_at_0_and_1_are_moved_and_counted() -> None:
    frame = sample().with_columns(score=pl.col("score").round(2))
    edge = frame.filter(pl.col("score").is_in([0.0, 1.0])).height
    model = fit(frame, shrinkage=0.0, **SMALL)
    assert model.fit.clipped == edge > 0
    assert all(math.isfinite(leaf.a) for leaf in model.parts()[0].maps)


@pytest.mark.parametrize("partition", ["tree", "forest", "boosted", "sequential"])
def test_one_leaf_for_data_that_cannot_be_split(partition: str) -> None:
    frame = sample(200).with_columns(x=pl.lit(None, pl.Float64), noise=1.0, kind=pl.lit("a"))
    more = {"trees": 3} if partition != "tree" else {}
    model = fit(frame, partition=partition, **more)
    rows = applied(model, frame)
    assert rows["leaf"].unique().to_list() == [0] or partition == "boosted"
    assert len(model.parts()) == (3 if partition == "forest" else 1)
    assert rows["calibrated"].null_count() == 0
    if partition in ("boosted", "sequential"):  # which part rows by their score too
        (part,) = fit(frame.with_columns(score=0.5), partition=partition, **more).parts()
        assert [(leaf.a, leaf.b) for leaf in part.maps] == [(1.0, 0.0)]


@pytest.mark.parametrize("partition", ["boosted", "sequential"])
def test_partitions_in_turn_that_gain_nothing_are_not_made(partition: str) -> None:
    """Scores that are the chances of a positive leave nothing to features that are noise."""
    random = np.random.default_rng(1)
    score = expit(random.normal(-2.0, 1.0, 3000))
    rows = {"score": score, "label": random.random(3000) < score, "noise": random.random(3000)}
    frame = pl.DataFrame(rows).with_columns(x=pl.col("noise"), kind=pl.lit("a"))
    model = fit(frame, partition=partition)
    checked, pooled = model.fit.cross_validated, fit(frame, max_depth=0, min_leaf=1)
    assert checked is not None and checked.calibrated == checked.pooled
    assert [len(part.maps) for part in model.parts()] == [1]
    np.testing.assert_allclose(chances(model, frame), chances(pooled, frame), rtol=1e-9)
    few = frame.head(40).with_columns(label=pl.int_range(40) == 7)  # nothing says when to stop
    assert [len(part.maps) for part in fit(few, partition=partition).parts()] == [1]
    if partition == "boosted":
        assert len(fit(few, partition=partition, trees=2, min_leaf=5).parts()) == 2


def test_partitions_in_turn_end_a_while_after_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(in_turn.PATIENCE, "boosted", 2)
    rows = read(sample(300))
    folds = Folds((np.arange(rows.count) % 5).astype(np.uint8))
    made = in_turn.Booster(rows, HetcalOptions(partition="boosted"), folds).run(60, 1, 0)
    assert len(made.losses) == made.best + 1 + 2 < 60
    assert made.losses[made.best] == min(made.losses)


@pytest.mark.parametrize(("partition", "judged"), [("boosted", 1), ("sequential", 5)])
def test_many_boosted_rows_are_judged_once(
    partition: str, judged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_turn, "FEW_ROWS", 100)
    checked = fit(sample(200), partition=partition, trees=2).fit.cross_validated
    assert checked is not None and checked.folds == judged


def test_of_groups_nothing_is_said_of_chance() -> None:
    frame = sample(300).with_columns(user=pl.int_range(pl.len()) // 3)
    assert fit(frame).fit.gap_beyond_chance is not UNSET
    assert fit(frame, groups="user").fit.gap_beyond_chance is UNSET


def test_few_rows_are_fitted_without_cross_validation() -> None:
    done = fit_hetcal(read(sample(8, seed=4)), HetcalOptions())
    assert "too few" in done.warnings[0]
    assert done.model.fit.cross_validated is None


@pytest.mark.parametrize("criterion", ["gini", "entropy", "auc"])
@pytest.mark.parametrize(
    "ways", [((1, 1.0), (4, 0.25)), ((1, 2.0), (2, 1.0)), ((1, 3.3), (3, 1.1))]
)
def test_weights_are_rows_written_out(criterion: str, ways: tuple[tuple[int, float], ...]) -> None:
    frame = sample(150)  # few enough for sides of one class
    spec: dict[str, Any] = {"criterion": criterion, "max_depth": 4, "min_leaf": 3, "shrinkage": 9.0}
    models, trees = [], []
    for copies, weight in ways:
        rows, more = pl.concat([frame] * copies), {}
        if weight != 1.0:
            rows, more = rows.with_columns(weight=pl.lit(weight)), {"weight": "weight"}
        models.append(fit(rows, train=rows, **more, **spec))
        nodes = map(to_builtins, models[-1].tree)
        trees.append(pl.DataFrame(nodes, infer_schema_length=None))
    assert_frame_equal(*trees, check_dtypes=False, rel_tol=1e-9)
    assert trees[0].height > 9
    one, other = (chances(model, frame) for model in models)
    np.testing.assert_allclose(one, other, atol=1e-9)
    assert [model.fit.rows for model in models] == pytest.approx([150 * ways[0][1]] * 2)


def test_a_row_that_stands_for_many_counts_as_one() -> None:
    bare = sample(900, gaps=False)
    frame = bare.with_columns(weight=pl.lit(40.0))
    spec: dict[str, Any] = {"max_depth": 3, "min_leaf": 100, "shrinkage": 50.0}
    plain = fit(bare, train=bare, **spec)
    sampled = fit(frame, train=frame, weight="weight", weight_kind="sampling", **spec)
    assert sampled.fit.rows == 36_000
    assert sampled.columns["weight"].kind == "sampling"
    np.testing.assert_allclose(chances(sampled, frame), chances(plain, frame), atol=1e-9)
    written_out = fit(frame, weight="weight", **spec)
    assert written_out.fit.leaves > plain.fit.leaves == sampled.fit.leaves


def test_groups_stay_in_one_fold() -> None:
    frame, number = sample(900), pl.int_range(pl.len())
    options = HetcalOptions(groups="user", min_leaf=100)
    rows = read(frame.with_columns(user=number // 3), groups="user")
    assert rows.folds is not None
    by_user: dict[float, set[int]] = {}
    for score, fold in zip(rows.score.tolist(), rows.folds.part.tolist(), strict=True):
        by_user.setdefault(score, set()).add(fold)
    assert all(len(folds) == 1 for folds in by_user.values())
    few = read(frame.with_columns(user=number % 8), groups="user")
    assert few.folds is not None and 2 < len(few.folds.present) < 5  # some fold has none of 8
    checked = fit_hetcal(few, options).model.fit.cross_validated
    assert checked is not None and checked.folds == len(few.folds.present)
    one = read(frame.with_columns(user=pl.lit("a")), groups="user")
    done = fit_hetcal(one, options)
    assert "column 'user' are too few for 5 folds" in done.warnings[0]
    assert done.model.fit.cross_validated is None


@pytest.mark.parametrize("partition", ["tree", "forest", "boosted", "sequential"])
def test_folds_go_forward_in_time(partition: str) -> None:
    rows = read(sample(1200).with_columns(day=pl.int_range(pl.len()) // 100), time="day")
    folds = rows.folds
    assert folds is not None
    assert list(folds.judged()) == [1, 2, 3, 4, 5]
    # The first block is judged by nothing: labels that only it holds do not matter to the check.
    assert (folds.among(folds.judged()) == (folds.part > 0)).all()
    for part in folds.judged():
        assert folds.part[folds.used(part)].max() < part
    more = {"trees": 5} if partition != "tree" else {}
    spec = HetcalOptions(partition=partition, time="day", **more)
    checked = fit_hetcal(rows, spec).model.fit.cross_validated
    assert checked is not None
    assert checked.folds == 5
    assert checked.calibrated < checked.pooled


@pytest.mark.parametrize("partition", ["boosted", "sequential"])
def test_later_labels_do_not_change_how_a_block_of_time_is_judged(partition: str) -> None:
    frame = sample(1200).with_columns(day=pl.int_range(pl.len()) // 100)
    options, losses = HetcalOptions(partition=partition, time="day", trees=3), []
    for after in (99, 7):
        label = (pl.col("label") == 1) ^ (pl.col("day") > after)
        rows = read(frame.with_columns(label), time="day")
        booster = in_turn.Booster(rows, options, rows.folds)
        losses.append(booster.run(3, 1, 2).losses)
    assert losses[0] == losses[1]


def test_a_gain_within_luck_is_worth_nothing() -> None:
    mass = 10_000.0
    gains = np.array([0.0, 0.003, 0.0031, 0.1, -0.01])
    sums = np.stack([gains * mass, np.array([0.0, 0.01, 0.01, 0.01, 0.01]) * mass], axis=1)
    worth = discounted(sums, mass)  # standard errors of 0.001, but of 0.0 and of 0.1
    assert worth[0] == 0.0
    assert worth[1] == pytest.approx(0.0, abs=1e-5)
    assert worth[2] > worth[1]
    assert worth[4] < -0.012
    assert 0.0999 < discounted(np.array([0.1 * mass, 0.0100001 * mass]), mass) <= 0.1


def test_a_tree_that_gains_nothing_is_not_grown() -> None:
    frame, new = sample(4000, seed=2, gaps=False), sample(4000, seed=8, gaps=False)
    shuffled = [
        table.with_columns(pl.col("x", "kind").shuffle(seed=seed))
        for table, seed in ((frame, 1), (new, 2))
    ]
    for train in (None, shuffled[1]):
        model = fit(shuffled[0], train=train)
        assert model.fit.max_depth == 0
        assert loss(applied(model, shuffled[0])) == pytest.approx(model.fit.in_sample.pooled)


def test_beta_maps_are_fitted_leaf_by_leaf() -> None:
    frame = sample(4000)
    spec: dict[str, Any] = {**SMALL, "map": "beta"}
    model = fit(frame, train=frame, shrinkage=0.0, **spec)
    rows = applied(model, frame)
    for (leaf,), own in rows.group_by("leaf"):
        # a maximum of the likelihood of Platt's targets has their mean
        hits, count = own["label"].sum(), own.height
        targets = hits * (hits + 1) / (hits + 2) + (count - hits) / (count - hits + 2)
        assert own["calibrated"].sum() == pytest.approx(targets, rel=1e-6)
        made = model.parts()[0].maps[leaf]
        assert min(made.a, made.b) >= 0
        score = own["score"].clip(1e-6, 1 - 1e-6)
        s = expit(model.precalibrate.a * logit(score) + model.precalibrate.b)
        z = made.a * np.log(s) - made.b * np.log(1 - s) + made.c
        assert own["calibrated"].to_numpy() == pytest.approx(expit(z), abs=1e-9)
    few = frame.filter(pl.col("kind") == "elm").head(40)
    rare = fit(few, train=frame, shrinkage=0.0, **{**spec, "max_depth": 3})
    assert any(leaf.rows == 0 for leaf in rare.parts()[0].maps)
    assert applied(rare, frame)["calibrated"].is_finite().all()


def test_curves_are_drawn_to_that_of_all_rows() -> None:
    rows = read(sample(400))
    leaf, pooled = (np.arange(rows.count) % 2).astype(np.int32), pooled_line(rows)
    own = fit_maps(rows, leaf, 2, pooled, 0.0, "beta").lines
    together = fit_maps(rows, np.zeros_like(leaf), 1, pooled, 0.0, "beta").lines
    half = fit_maps(rows, leaf, 2, pooled, 200.0, "beta").lines
    assert half == pytest.approx((own + together) / 2, rel=1e-6)


@pytest.mark.parametrize("kind", ["isotonic", "histogram"])
def test_a_leaf_without_rows_has_the_map_of_all_beside_steps(kind: str) -> None:
    rows = read(sample(200))
    leaf, pooled = np.ones(rows.count, np.int32), pooled_line(rows)
    maps = fit_maps(rows, leaf, 2, pooled, 0.0, kind)
    assert maps.steps is not None
    assert [share for *_, share in maps.steps] == [0.0, 1.0]
    found = maps.probabilities(rows.score, np.zeros_like(leaf))
    assert found == pytest.approx(expit(pooled[0] * rows.score + pooled[1]), rel=1e-12)


def test_the_choice_of_a_first_map_is_judged_by_every_later_time() -> None:
    rows = read(sample(600).with_columns(day=pl.int_range(pl.len()) // 50), time="day")
    assert rows.folds is not None
    found = first_map(rows, "auto", 0, 1)
    assert found is not None
    candidates = found.candidates
    assert isinstance(candidates, list)
    plain = next(one for one in candidates if one.method == "none")
    later = rows.folds.among(rows.folds.judged())
    assert plain.log_loss == pytest.approx(mean_loss(rows, rows.score, later), rel=1e-6)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_ranges_of_scores_have_their_means(sign: float) -> None:
    rows = read(sample(3000))
    rows = replace(rows, score=sign * rows.score)
    cells = Cells(rows)
    count = int(cells.place.max()) + 1
    assert 1000 < count == cells.score.size < 3000
    means = [rows.score[cells.place == cell].mean() for cell in range(count)]
    assert cells.score == pytest.approx(means, rel=1e-12)


@pytest.mark.parametrize(("features", "kept"), [(1, 1), (2, 2), (6, 2), (7, 3), (10, 4)])
def test_a_node_of_a_forest_may_use_a_third_of_the_features(
    features: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed, tree = list[int](), Growth.tree

    def spied(growth: Growth, *rules: int, subsets: Any, counts: Any) -> Any:
        allowed.extend(subsets(5).sum(axis=1))
        return tree(growth, *rules, subsets=subsets, counts=counts)

    monkeypatch.setattr(Growth, "tree", spied)
    frame = sample(100).select(
        "label", "score", *(pl.col("x").alias(f"x{j}") for j in range(features))
    )
    rows = read(frame, [f"x{j}" for j in range(features)])
    spec: dict[str, Any] = {"max_depth": 1, "min_leaf": 10, "shrinkage": 1.0, "trees": 2}
    fit_hetcal(rows, HetcalOptions(partition="forest", **spec))
    assert allowed == [kept] * 10


def test_a_forest_is_judged_by_weights_as_by_rows_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = list[Any]()

    def spied(sums: Any, mass: float) -> Any:
        judged.append(sums)
        return discounted(sums, mass)

    monkeypatch.setattr(trees_fit, "discounted", spied)
    grown, frame = read(sample(300, seed=2)), sample(200)
    options = HetcalOptions(partition="forest", trees=2)
    grid = Grid.of(options, (0, 2), (20,))
    written_out = pl.concat([frame] * 4)
    for table, weight in ((frame.with_columns(weight=pl.lit(4)), "weight"), (written_out, None)):
        rows = read(table, weight=weight, known=grown.features)
        part = np.unique(rows.score, return_inverse=True)[1] % 5
        folds = Folds(part.astype(np.uint8))
        growth = Growth(grown, "gini", own=False)
        choose_forest(rows, growth, grid, options, folds, pooled_line(rows))
    assert (judged[0][..., 1] > 0.0).any()
    assert judged[0] == pytest.approx(judged[1], rel=1e-9, abs=1e-12)


def test_quantile_bins_stand_in_for_many_values() -> None:
    frame = sample(5000, gaps=False)
    for most, count in ((None, 5000), (16, 16)):
        found = read(frame, ["x", "noise"], max_bins=most).features
        assert [bins.count for bins in found.bins] == [count, count]


def test_features_are_found_by_name_and_glob() -> None:
    source, taken = Source.from_frame(sample()), {"score": "--score", "label": "--label"}
    assert find_features(source, ["*"], taken) == ["kind", "noise", "x"]
    assert find_features(source, ["x", "n*", "x"], taken) == ["x", "noise"]
    with pytest.raises(UsageError, match="matches no column"):
        find_features(source, ["s*"], taken)


@pytest.mark.parametrize(
    "options",
    [
        {"partition": "bush"},
        {"criterion": "luck"},
        {"max_depth": -1},
        {"min_leaf": 0},
        {"trees": 0, "partition": "forest"},
        {"trees": 5},
        {"shrinkage": -1.0},
        {"clip": 0.5},
        {"max_bins": 1},
        {"partition": "boosted", "map": "isotonic"},
        {"partition": "sequential", "map": "isotonic"},
        {"partition": "boosted", "shrinkage": 1.0},
        {"partition": "boosted", "criterion": "auc"},
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        HetcalOptions(**options)


def test_the_toy_example_of_the_paper() -> None:
    rows = simulate_partitions(200_000, seed=1)
    label = rows["label"].to_numpy()
    assert label.mean() == pytest.approx(0.5, abs=0.01)
    for weight, auc in ((1.8, 0.830), (3.6, 0.852), (4.0 * math.log(3.0), 0.8533), (0.0, 0.760)):
        score = simulate_partitions(200_000, seed=1, weight=weight)["score"]
        assert roc_auc_score(label, score) == pytest.approx(auc, abs=0.004)
    train = simulate_partitions(200_000, seed=2, kind="training")
    pattern = train["feature_pattern"].to_numpy()
    linear = np.log(train["score"] / (1 - train["score"])).to_numpy() - 1.8 * (pattern - 0.5)
    best = min(
        np.arange(1.2, 2.6, 0.1),
        key=lambda w: -_likelihood(linear + w * (pattern - 0.5), train["label"].to_numpy()),
    )
    assert best == pytest.approx(1.8, abs=0.1)
    truth = rows["true_positivity"].to_numpy()
    assert _likelihood(np.log(truth / (1 - truth)), label) > -0.53


def _likelihood(linear: np.ndarray, label: np.ndarray) -> float:
    return float(-np.log1p(np.exp(np.where(label == 1, -linear, linear))).mean())


def test_calibrating_both_values_of_the_pattern_ranks_as_the_truth_does() -> None:
    rows = simulate_partitions(50_000, seed=1)
    new = simulate_partitions(50_000, seed=2)
    names = ["feature_pattern", "feature_noise"]
    done = fit_hetcal(read(rows, names), HetcalOptions(max_depth=1, min_leaf=1000, shrinkage=0.0))
    found = applied(done.model, new)
    aucs = [
        roc_auc_score(new["label"], column)
        for column in (new["score"], found["calibrated"], new["true_positivity"])
    ]
    assert aucs[0] < 0.835
    assert aucs[1] == pytest.approx(aucs[2], abs=0.001)
