"""Exported models do what `apply` does: on files, on thresholds and next to them, whatever names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibkit as ck
from calibkit.apply.apply import apply_model
from calibkit.errors import UsageError
from calibkit.exports.export import (
    applied,
    check_export,
    compared,
    export_model,
    run,
    with_classes,
)
from calibkit.exports.sql import Postgres, _table, table_name
from calibkit.expressions.nodes import Number, Ref, Steps, Table
from calibkit.expressions.program import Scores, first_reaching
from calibkit.files.sources import Source, open_source
from calibkit.maps.model import CalibratorModel, MapFit
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import Segment, SegmentFit
from calibkit.methods.hetcal.model import (
    SCORE_FEATURE,
    FirstMap,
    LeafMap,
    Line,
    PartitionPart,
    TreeNode,
)
from calibkit.models.kinds import Request
from calibkit.models.model import Column, Model, load
from calibkit.options.apply import ApplyOptions
from tests import export_models
from tests.library.samples import example, fit, score_rows

LANGUAGES = ("duckdb", "polars", "python")
TABLE = example(150, seed=11)
FRAME = pl.DataFrame(TABLE).drop("label")
MODEL = fit(
    score_rows(**TABLE, scale="probability"), precision="0.7", uncertainty_bins=3, folds=0
).model

Fitted = Callable[[str], Model]
replaced = msgspec.structs.replace


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="session")
def fitted(folder: Path) -> Fitted:
    """Return a model by its name in `export_models`."""
    return lambda name: load(str(export_models.fit(name, folder)))


def request_of(name: str) -> Request:
    return Request(key="id") if name in export_models.RANDOM else Request()


def agrees(
    model: Model,
    rows: pl.DataFrame | Source,
    languages: tuple[str, ...] = LANGUAGES,
    request: Request | None = None,
) -> None:
    """See that exports add what the model adds, to rows and to others made on its thresholds."""
    source = Source.from_frame(rows) if isinstance(rows, pl.DataFrame) else rows
    asked = with_classes(model, request or Request(), source)
    for language in languages:
        found = check_export(model, language, asked, source)
        assert found.holds, f"{language}: {found}"
        assert found.made_rows >= 1


def exported(
    model: Model, frame: pl.DataFrame, language: str = "duckdb", **request: Any
) -> pl.DataFrame:
    """Return what an export makes of rows."""
    return run(language, export_model(model, language, Request(**request)), frame)


@pytest.mark.few(20)
@pytest.mark.parametrize("name", export_models.NAMES)
def test_every_model_agrees_with_apply(name: str, fitted: Fitted, folder: Path) -> None:
    model = fitted(name)
    agrees(model, open_source([str(folder / "rows-800.parquet")]), request=request_of(name))


def near(value: float, dtype: type) -> list[float]:
    own = dtype(value)
    return [float(np.nextafter(own, dtype(side))) for side in (-math.inf, math.inf)] + [float(own)]


@st.composite
def boundaries(draw: st.DrawFn) -> tuple[BoundaryModel, pl.DataFrame]:
    """Return a boundary with any thresholds and levels, and rows on them and next to them."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    scale = draw(st.sampled_from(["probability", "logit", "raw"]))
    probability = scale == "probability"
    number = st.floats(0, 1) if probability else st.floats(-1e6, 1e6)
    ends = [0.0, 1.0, 5e-324, 1 - 2**-53] if probability else [0.0, -1.0, 1e6]
    score = (number | st.sampled_from(ends)).map(lambda value: float(dtype(value)))
    levels = draw(st.integers(1, 5))
    threshold = score | st.sampled_from([None, "-inf", "inf"])
    spread = st.floats(-10, 10).map(lambda value: float(dtype(value)))
    thresholds = draw(st.lists(threshold, min_size=levels, max_size=levels))
    edges = sorted(draw(st.lists(spread, min_size=levels - 1, max_size=levels - 1)))
    least = draw(spread)
    model = replaced(
        MODEL,
        columns={
            "score": Column("score", dtype.__name__, scale),
            "uncertainty": Column("uncertainty", dtype.__name__),
        },
        uncertainty_min=least,
        uncertainty_edges=edges,
        score_thresholds=thresholds,
        fit=replaced(MODEL.fit, reference=None),
    )
    model.check()
    values = [value for value in thresholds if isinstance(value, float)]
    scores = [s for value in [*values, *ends] for s in near(value, dtype)]
    if probability:
        scores = [min(max(value, 0.0), 1.0) for value in scores]
    else:
        scores += [math.inf, -math.inf]
    spreads = [u for value in [*edges, least] for u in near(value, dtype)]
    pairs = list(itertools.product([*scores, draw(score), None, math.nan], [*spreads, None]))
    schema = {"score": pl.Float64, "uncertainty": pl.Float64}
    return model, pl.DataFrame(pairs, schema=schema, orient="row")


@settings(max_examples=25)
@given(boundaries())
def test_any_boundary_agrees_on_its_thresholds_and_their_neighbours(
    case: tuple[BoundaryModel, pl.DataFrame],
) -> None:
    model, frame = case
    expected = applied(model, Request(), frame)
    for language in LANGUAGES:
        found = compared(exported(model, frame, language), expected, frame.height)
        assert found.holds, f"{language}: {found}"


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.sampled_from([np.float32, np.float64]),
    st.floats(0.1, 5),
)
def test_a_knot_of_a_function_becomes_the_first_score_that_reaches_it(
    cuts: list[float], dtype: type, slope: float
) -> None:
    scores = Scores(dtype is np.float32, 0.0, 1.0)

    def function(values: np.ndarray) -> np.ndarray:
        return slope * np.sqrt(values.astype(np.float64))

    for cut, found in zip(cuts, first_reaching(function, cuts, scores).tolist(), strict=True):
        if found == math.inf:
            assert function(np.ones(1, dtype))[0] < cut
            continue
        assert dtype(found) == found
        assert function(np.array([found], dtype))[0] >= cut
        below = np.nextafter(dtype(found), dtype(-1))
        assert found == 0.0 or function(np.array([below]))[0] < cut


def test_a_knot_is_found_below_last_digits_that_fall() -> None:
    at, below = 0.32, math.nextafter(0.32, 0.0)
    end = at + 100 * np.spacing(at)

    def function(values: np.ndarray) -> np.ndarray:
        return np.where((values > at) & (values <= end), below, values)

    assert first_reaching(function, [at], Scores(False, 0.0, 1.0)).tolist() == [at]


HOSTILE = (
    'score"; DROP TABLE scores; --',
    "it's",
    "new\nline",
    "back\\slash\\",
    "*",
    "^s.*$",
    "\u00fcn\u00efc\u00f6de \U0001f600",
    "select",
    "{row} %s $1",
    "'''\"\"\"",
    " ",
    "_calibkit",
    "Score",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_names_whatever_they_hold(name: str) -> None:
    columns = MODEL.columns | {"score": Column(name, "float64", "probability")}
    model, expected = replaced(MODEL, columns=columns), applied(MODEL, Request(), FRAME)
    for language in LANGUAGES:
        found = exported(model, FRAME.rename({"score": name}), language)
        assert found.columns == [name, "uncertainty", "decision", "margin"]
        agreement = compared(found, expected, FRAME.height)
        assert agreement.holds, f"{language}: {agreement}"


def test_segments_and_categories_are_texts_whatever_they_hold() -> None:
    groups = {
        name: Segment(
            method="exact",
            uncertainty_min=MODEL.uncertainty_min,
            uncertainty_edges=MODEL.uncertainty_edges,
            score_thresholds=[place / 20] * MODEL.levels,
            fit=SegmentFit(rows=1, positives=1, in_sample=None),
        )
        for place, name in enumerate(HOSTILE)
    }
    columns = MODEL.columns | {"by": Column("by")}
    model = replaced(MODEL, columns=columns, groups=groups, bound="overall", pooled=[])
    names = [HOSTILE[place % len(HOSTILE)] for place in range(149)]
    agrees(model, FRAME.with_columns(by=pl.Series([*names, "unseen"])))
    others = replaced(model, groups=groups | {"other": groups["it's"]})
    agrees(others, FRAME.with_columns(by=pl.lit("unseen")))


@pytest.mark.parametrize(
    "values",
    [
        [2019, 2020, None],
        [2019.0, 2020.0, 2020.5],
        ["2019", "2020", "2019.0"],
        [" 2019", "20_19", "\u0662\u0660\u0661\u0669"],
        [True, False, None],
        [date(2019, 1, 1), date(2020, 1, 1), None],
        [datetime(2019, 1, 1, 3), datetime(2020, 1, 1), None],
    ],
    ids=["whole", "floats", "text", "odd", "truth", "dates", "times"],
)
def test_segments_read_the_same_from_columns_of_any_type(
    values: list[object], fitted: Fitted
) -> None:
    model = fitted("by-year")
    assert isinstance(model, BoundaryModel) and isinstance(model.groups, dict)
    others = dict.fromkeys(["true", "2019-01-01", "2019-01-01 03:00:00"], model.groups["2020"])
    model = replaced(model, groups={"2019": model.groups["2019"], **others})
    agrees(model, FRAME.with_columns(year=pl.Series(values * 50)))


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_apply_refuses_has_null(language: str, fitted: Fitted) -> None:
    odd = {
        "score": [0.5, None, math.nan, -0.1, 1.1, math.inf, 0.9, 0.9],
        "uncertainty": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, None, math.inf],
    }
    found = exported(MODEL, pl.DataFrame(odd), language)
    assert found["decision"].is_null().to_list() == [False] + [True] * 7
    assert found["margin"].is_null().to_list() == [False] + [True] * 7
    assert found.columns[:2] == ["score", "uncertainty"]
    # An infinite feature; one that is missing has its side of the tree.
    frame = export_models.rows(60).with_columns(
        x=pl.when(pl.col("id") == 3).then(math.inf).otherwise(pl.col("x"))
    )
    assert frame["x"].null_count() > 1
    found = exported(fitted("tree"), frame, language)
    assert found["calibrated"].is_null().arg_true().to_list() == [3]
    # What float32 cannot hold.
    frame = export_models.rows(300).with_columns(pl.col("x").cast(pl.Float32))
    model = ck.fit_hetcal(frame, features=["x"], partition="tree", max_depth=2, min_leaf=20)
    large = frame.head(3).with_columns(x=pl.Series([1e300, -1e39, 0.5]))
    found = exported(model, large, language)
    assert found["calibrated"].is_null().to_list() == [True, True, False]


def test_scores_are_brought_to_the_dtype_and_scale_of_the_fit() -> None:
    columns = {"score": Column("score", "float64", "percent")}
    percent = replaced(calibrator("none"), columns=columns)
    frame = pl.DataFrame({"score": pl.Series([12.3, 45.6, 78.9], dtype=pl.Float32)})
    assert percent.apply(frame)["calibrated"][0] == float(np.float32(12.3)) / 100.0
    agrees(percent, frame)
    narrow = replaced(
        MODEL,
        columns=MODEL.columns | {"score": Column("score", "float32", "raw")},
        score_thresholds=[float(np.float32(0.1))] * MODEL.levels,
    )
    agrees(narrow, FRAME.head(3).with_columns(score=pl.Series([0.1, 0.2, 0.0])))


def calibrator(method: str, **fields: Any) -> CalibratorModel:
    """Return a calibrator of probabilities with a table."""
    return CalibratorModel(
        kind="calibrator",
        version=1,
        columns={"score": Column("score", "float64", "probability")},
        method=method,
        clip=0.0,
        fit=MapFit(**dict.fromkeys(MapFit.__struct_fields__[:8], 0)),
        **fields,
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_venn_abers_is_one_half_where_low_is_1_and_high_0(language: str) -> None:
    ends = {"low_knots": [0.25], "low": [1.0], "high_knots": [0.75], "high": [0.0]}
    frame = pl.DataFrame({"score": [0.0, 0.5, 1.0]})
    found = exported(calibrator("venn-abers", **ends), frame, language)
    assert found["calibrated"].to_list() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("language", ["polars", "python"])
def test_the_line_between_knots_is_written_once(language: str) -> None:
    model = calibrator("centred-isotonic", knots=[0.25, 0.5], values=[0.125, 0.5])
    assert export_model(model, language).count(" * ") == 1


@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_hundreds_of_classes_are_a_program_of_their_size(language: str, scale: str) -> None:
    """Once each class was a stage of its own and asked whether all were there: text grew by squares."""
    sizes, random = [], np.random.default_rng(1)
    for count in (40, 100, 200):
        names = [f"c{k}" for k in range(count)]
        weights, intercept = random.uniform(0.5, 2.0, count), random.normal(size=count)
        linear: Any = {"weights": weights.tolist(), "intercept": intercept.tolist()}
        columns = {"probs": Column("prob_*", "float64", scale)}
        named = calibrator("vector", classes=names, **linear)
        model = msgspec.structs.replace(named, version=2, columns=columns)
        sizes.append(len(export_model(model, language)))
        if count == 40:
            probs = random.dirichlet(np.ones(count), 4)
            frame = pl.DataFrame(probs, schema=[f"prob_{name}" for name in names])
            last = pl.when(pl.int_range(4) < 3).then("prob_c7")
            agrees(model, frame.with_columns(prob_c7=last), (language,))
    assert sizes[2] < 2.2 * sizes[1]


@pytest.mark.few(3)
@pytest.mark.parametrize("language", ["duckdb", "polars"])
@pytest.mark.parametrize("method", ["isotonic", "venn-abers"])
def test_long_tables_keep_the_rows_and_their_order(method: str, language: str) -> None:
    random = np.random.default_rng(1)
    knots = np.sort(random.random(5000)).tolist()
    values = np.sort(random.random(5000)).tolist()
    fields: dict[str, Any] = {"knots": knots, "values": values}
    if method == "venn-abers":
        fields = {"low_knots": knots, "low": values, "high_knots": knots, "high": values}
    model = calibrator(method, **fields)
    score = [*random.random(3000).tolist(), *random.choice(knots, 500).tolist(), None]
    frame = pl.DataFrame({"id": range(3501), "score": score})
    text = export_model(model, language)
    assert ("ASOF" in text) == (language == "duckdb")
    assert run(language, text, frame)["id"].to_list() == list(range(3501))
    agrees(model, frame, (language,))
    if language == "duckdb":  # without help from a column that numbers the rows
        import duckdb

        connection = duckdb.connect()
        connection.register("scores", frame.to_arrow())
        again = connection.sql(text).to_arrow_table()
        assert again["id"].to_pylist() == list(range(3501))


def test_a_random_decision_is_the_hash_of_the_key(fitted: Fitted) -> None:
    model = fitted("block")
    frame = export_models.rows(500, seed=4).with_columns(key=pl.format("row {} \u00e9", "id"))
    for column in ("id", "key"):
        agrees(model, frame, request=Request(key=column, seed=7))
    chances = exported(model, frame, key="id")["decision_probability"]
    assert chances.is_between(0.0, 1.0, closed="none").any()
    without = frame.with_columns(key=pl.lit(None, pl.String))
    assert exported(model, without, key="key")["decision"].null_count() == 500


def test_a_key_is_asked_for_where_chance_decides_and_refused_elsewhere(fitted: Fitted) -> None:
    with pytest.raises(UsageError, match="--key"):
        export_model(fitted("block"), "python")
    for name in ("exact", "beta", "tree", "vad", "alpha", "bundle", "classes-vector"):
        with pytest.raises(UsageError, match="leave --key and --seed out"):
            export_model(fitted(name), "python", Request(key="id"))
    with pytest.raises(UsageError, match="have no numbers"):
        ck.export(MODEL, to="python", key="row-number")


def test_columns_may_be_named_otherwise(fitted: Fitted) -> None:
    elsewhere = {"score": "p", "uncertainty": "u"}
    renamed = FRAME.rename(elsewhere)
    agrees(MODEL, renamed, request=Request(columns=elsewhere))
    # Class columns come from the pattern or from a file.
    model, frame = fitted("classes-vector"), export_models.rows(30)
    for pattern in ("prob_*", "listed"):
        agrees(model, frame, ("duckdb",), Request(columns={"probs": pattern}))
        exported(model, frame, "polars", columns={"probs": pattern})
    with pytest.raises(UsageError, match="--check"):
        exported(model, frame, columns={"probs": "prob_[0-2]"})
    agrees(model, frame, ("duckdb",), Request(columns={"probs": "prob_[0-2]"}))
    longer = frame.with_columns(listed=pl.Series([[0.5, 0.25, 0.15, 0.1]] * 30))
    for language in LANGUAGES:
        found = exported(model, longer, language, columns={"probs": "listed"})
        assert found["calibrated_0"].null_count() == 30
        off = frame.with_columns(prob_0=pl.col("prob_0") + 0.01)
        assert exported(model, off, language)["calibrated_1"].null_count() == 30


def test_steps_of_steps_are_one_table_with_a_place_for_each() -> None:
    low = Steps(Ref("x"), (0.25, 0.5), (Number(1.0), Number(2.0), Number(3.0)))
    high = Steps(Ref("x"), (0.75,), (Number(4.0), Number(5.0)))
    index = Steps(Ref("level"), (7.0,), (Number(0.0), Number(1.0)))
    assert _table(replaced(index, values=(low, high)), 2) == Table(index, (low, high))


def test_postgres_finds_a_step_among_the_knots() -> None:
    steps = Steps(Number(0.5), (0.25, 0.5), (Number(1.0), Number(2.0), Number(3.0)))
    x, values = "'0.5'::float8", "'{1,2,3}'::float8[]"
    assert Postgres().table(steps) == f"({values})[WIDTH_BUCKET({x}, '{{0.25,0.5}}'::float8[]) + 1]"
    below = f"3 - WIDTH_BUCKET(-({x}), '{{-0.5,-0.25}}'::float8[])"
    assert Postgres().table(replaced(steps, strict=True)) == f"({values})[{below}]"


def test_tables_are_quoted_and_schemas_kept_apart() -> None:
    assert table_name("scores") == '"scores"'
    assert table_name("a.b") == '"a"."b"'
    assert table_name('"a.b".c"d') == '"a.b"."c""d"'
    assert table_name('"x""y"') == '"x""y"'
    for text in ("", "a.", ".b", '"a', '"a"b'):
        with pytest.raises(UsageError):
            table_name(text)
    text = export_model(MODEL, "duckdb", table='x"; DROP TABLE y; --')
    assert 'FROM "x""; DROP TABLE y; --"\n' in text


UNNAMED = MODEL.columns | {"score": Column("a\0b", "float64", "probability")}


@pytest.mark.parametrize(
    ("changed", "options", "words"),
    [
        ({}, {"to": "cobol"}, "use one of sql, polars, python"),
        ({}, {"to": "sql", "dialect": "oracle"}, "use one of duckdb, postgres"),
        ({}, {"to": "python", "table": "scores"}, "dialect and table go with to sql"),
        ({"columns": UNNAMED}, {"to": "sql"}, "cannot be the name"),
        ({"columns": UNNAMED}, {"to": "sql", "dialect": "postgres"}, "cannot be the name"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    changed: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        ck.export(replaced(MODEL, **changed), **options)


def test_the_python_module_takes_texts_and_needs_only_the_standard_library(fitted: Fitted) -> None:
    text = export_model(fitted("bundle"), "python")
    imported = {line for line in text.splitlines() if line.startswith(("import", "from"))}
    assert imported <= {"import bisect", "import math"}
    space: dict[str, Any] = {}
    exec(compile(text, "bundle.py", "exec"), space)
    row = export_models.rows(1).row(0, named=True)
    typed = space["apply"](row)
    assert typed["action"] in ("block", "review", "pass")
    written = space["apply"]({name: str(value) for name, value in row.items()})
    assert written["calibrated"] == typed["calibrated"]
    assert space["apply"]({**row, "score": ""})["action"] is None


@pytest.mark.parametrize("name", ["by-year", "levels", "block", "bundle-by"])
def test_polars_code_takes_lazy_frames_and_gives_the_types_of_apply(
    name: str, fitted: Fitted
) -> None:
    model, frame, request = fitted(name), export_models.rows(100), request_of(name)
    space: dict[str, Any] = {}
    exec(export_model(model, "polars", request), space)
    found = space["apply"](frame)
    assert space["apply"](frame.lazy()).collect().equals(found)
    spec = ApplyOptions(key=request.key)
    assert found.schema == apply_model(model, Source.from_frame(frame), spec).frame.schema


def test_a_difference_is_found_and_shown() -> None:
    expected = pl.DataFrame(
        {"a": [1.0, 2.0, None, math.inf], "d": pl.Series([0, 1, 1, 0], dtype=pl.UInt8)}
    )
    near_enough = expected.with_columns(a=pl.col("a") * (1 + 1e-13))
    assert compared(near_enough, expected, 4).holds
    other = pl.DataFrame({"a": [1.1, 2.0, 3.0, -math.inf], "d": [0, 1, 0, 0]})
    found = compared(other, expected, 3)
    assert (found.different, found.rows, found.made_rows) == (3, 3, 1)
    assert str(found.examples[0]) == "row 1, a: 1.1 instead of 1.0"
    assert str(found.examples[2]) == "a made-up row, a: -inf instead of inf"


# Trees of any shape ------------------------------------------------------------------------------

KINDS = ("a", "it's", "c")
CUTS = (-1.0, 0.0, 0.5, 0.1)


@st.composite
def trees(draw: st.DrawFn) -> PartitionPart:
    """Return a tree with any splits; the children of a node stand after it."""
    nodes: list[TreeNode] = []
    maps: list[LeafMap] = []

    def grow(depth: int) -> int:
        place = len(nodes)
        nodes.append(TreeNode())
        if depth == 0 or draw(st.integers(0, 3)) == 0:
            nodes[place] = TreeNode(leaf=len(maps))
            slope = draw(st.sampled_from([1.0, 1.0, 0.5, -1.0]))
            maps.append(LeafMap(a=slope, b=draw(st.floats(-2, 2))))
            return place
        feature = draw(st.sampled_from(["x", "kind", SCORE_FEATURE]))
        node = TreeNode(feature=feature, missing=draw(st.sampled_from(["left", "right"])))
        if feature == "kind":
            sides = draw(st.lists(st.integers(0, 2), min_size=3, max_size=3))
            node.left_categories, node.right_categories = (
                [name for name, own in zip(KINDS, sides, strict=True) if own == side]
                for side in (0, 1)
            )
        else:
            node.cut = draw(st.sampled_from([*CUTS, None]))
        nodes[place] = node
        node.left, node.right = grow(depth - 1), grow(depth - 1)
        return place

    grow(draw(st.integers(0, 4)))
    return PartitionPart(tree=nodes, maps=maps)


def chain(depth: int) -> PartitionPart:
    """Return a tree in which every right side parts again."""
    nodes: list[TreeNode] = []
    for level in range(depth):
        split = TreeNode(feature="x", cut=level / depth, missing="left")
        split.left, split.right = 2 * level + 1, 2 * level + 2
        nodes += [split, TreeNode(leaf=level)]
    nodes.append(TreeNode(leaf=depth))
    maps = [LeafMap(a=1.0, b=level / depth) for level in range(depth + 1)]
    return PartitionPart(tree=nodes, maps=maps)


@pytest.mark.more
def test_any_trees_agree(fitted: Fitted) -> None:
    @settings(max_examples=12)
    @given(
        st.lists(trees(), min_size=1, max_size=3),
        st.sampled_from([pl.Float32, pl.Float64]),
        st.sampled_from([None, (1.5, 0.2), (-0.7, 0.1), (0.0, 0.3)]),
    )
    def agree(
        parts: list[PartitionPart], dtype: type[pl.DataType], line: tuple[float, float] | None
    ) -> None:
        score = Column("score", dtype.__name__.lower(), "probability")
        model = replaced(
            fitted("boosted"),
            columns=fitted("boosted").columns | {"score": score},
            partitions=parts,
            precalibrate=None if line is None else FirstMap(a=line[0], b=line[1]),
            final=Line(a=0.8, b=-0.1),
        )
        model.check()
        # Every feature missing, on a cut, next to it, unseen.
        numbers = [value for cut in CUTS for value in near(cut, np.float64)]
        scores = [0.0, 1e-7, 0.3, 0.5, 0.9, 1.0]
        pairs = itertools.product(scores, [*numbers, None], [*KINDS, "unseen", "", None])
        frame = pl.DataFrame(list(pairs), schema=["score", "x", "kind"], orient="row")
        agrees(model, frame.with_columns(pl.col("score").cast(dtype)))

    agree()


def test_a_deep_tree_is_written_in_pieces_and_an_absurd_one_refused(fitted: Fitted) -> None:
    def of(depth: int) -> Model:
        return replaced(fitted("boosted"), partitions=[chain(depth)])

    of(120).check()
    agrees(of(120), pl.DataFrame({"score": [0.5] * 300, "x": np.linspace(-1, 2, 300)}))
    assert export_model(of(1000), "polars")
    for language in LANGUAGES:
        with pytest.raises(UsageError, match="5000 levels deep"):
            export_model(of(5000), language)


def test_trees_without_a_last_map_are_averaged(fitted: Fitted) -> None:
    frame = pl.DataFrame({"score": [0.5] * 9, "x": np.linspace(-1, 2, 9)})
    for count in (1, 2, 3):
        model = replaced(fitted("boosted"), partitions=[chain(3)] * count, final=msgspec.UNSET)
        agrees(model, frame, ("polars",))
