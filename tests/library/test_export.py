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
    Agreement,
    Request,
    applied,
    check_export,
    compared,
    export_model,
    run,
    with_classes,
)
from calibkit.exports.sql import Postgres, Table, _table, table_name
from calibkit.expressions.nodes import Number, Ref, Steps
from calibkit.expressions.program import Inverse, Scores, first_reaching
from calibkit.files.sources import Source, open_source
from calibkit.maps.model import CalibratorModel, MapFit
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.models.model import Column, Model, load
from calibkit.options.apply import ApplyOptions
from tests import export_models
from tests.library.samples import example, fit, score_rows

LANGUAGES = ("duckdb", "polars", "python")
TABLE = example(150, seed=11)
MODEL = fit(
    score_rows(**TABLE, scale="probability"), precision="0.7", uncertainty_bins=3, folds=0
).model

Fitted = Callable[[str], Model]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="session")
def fitted(folder: Path) -> Fitted:
    """Return a model by its name in `export_models`."""
    return lambda name: load(str(export_models.fit(name, folder)))


def request_of(name: str) -> Request:
    return Request(key="id") if name in export_models.RANDOM else Request()


def checked(model: Model, frame: pl.DataFrame, language: str, **request: Any) -> Agreement:
    source = Source.from_frame(frame)
    asked = with_classes(model, Request(**request), source)
    return check_export(model, language, asked, source)


def exported(
    model: Model, frame: pl.DataFrame, language: str = "duckdb", **request: Any
) -> pl.DataFrame:
    """Return what an export makes of rows."""
    return run(language, export_model(model, language, Request(**request)), frame)


@pytest.mark.few(20)
@pytest.mark.parametrize("name", export_models.NAMES)
def test_every_model_agrees_with_apply(name: str, fitted: Fitted, folder: Path) -> None:
    model = fitted(name)
    source = open_source([str(folder / "rows-800.parquet")])
    request = with_classes(model, request_of(name), source)
    for language in LANGUAGES:
        found = check_export(model, language, request, source)
        assert found.holds, f"{language}: {found}"
        assert (found.rows, found.made_rows >= 1) == (800, True)


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
    model = msgspec.structs.replace(
        MODEL,
        columns={
            "score": Column("score", dtype.__name__, scale),
            "uncertainty": Column("uncertainty", dtype.__name__),
        },
        uncertainty_min=least,
        uncertainty_edges=edges,
        score_thresholds=thresholds,
        fit=msgspec.structs.replace(MODEL.fit, reference=None),
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
    frame = pl.DataFrame(
        pairs, schema={"score": pl.Float64, "uncertainty": pl.Float64}, orient="row"
    )
    return model, frame


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


def test_a_function_that_falls_or_stands_has_steps_of_the_score_too() -> None:
    values = [Number(float(place)) for place in range(3)]
    scores = Scores(False, 0.0, 1.0)
    falling = Inverse(Ref("s"), lambda s: 1.0 - s, -1.0, scores).steps([0.25, 0.5], values)
    assert (falling.knots, falling.strict) == ((0.5, 0.75), True)
    assert [value.value for value in falling.values] == [2.0, 1.0, 0.0]
    level = Inverse(Ref("s"), lambda s: np.full(s.size, 0.3), 0.0, scores).steps(
        [0.25, 0.5], values
    )
    assert level == Number(1.0)


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


@pytest.mark.few(20)
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("language", LANGUAGES)
def test_names_are_names_whatever_they_hold(name: str, language: str) -> None:
    columns = MODEL.columns | {"score": Column(name, "float64", "probability")}
    model = msgspec.structs.replace(MODEL, columns=columns)
    frame = pl.DataFrame({"score": TABLE["score"], "uncertainty": TABLE["uncertainty"]})
    expected = applied(MODEL, Request(), frame)
    found = exported(model, frame.rename({"score": name}), language)
    assert found.columns == [name, "uncertainty", "decision", "margin"]
    agreement = compared(found, expected, frame.height)
    assert agreement.holds, str(agreement)


@pytest.mark.parametrize("language", LANGUAGES)
def test_segments_and_categories_are_texts_whatever_they_hold(language: str) -> None:
    rules = {
        name: msgspec.structs.replace(
            MODEL.with_rule(MODEL.rule), score_thresholds=[place / 20] * MODEL.levels
        )
        for place, name in enumerate(HOSTILE)
    }
    from calibkit.methods.boundary.result.parts import Segment, SegmentFit

    seen = SegmentFit(rows=1, positives=1, in_sample=None)
    groups = {
        name: Segment(
            method="exact",
            uncertainty_min=rule.uncertainty_min,
            uncertainty_edges=rule.uncertainty_edges,
            score_thresholds=rule.score_thresholds,
            fit=seen,
        )
        for name, rule in rules.items()
    }
    model = msgspec.structs.replace(
        MODEL,
        columns=MODEL.columns | {"by": Column("by")},
        groups=groups,
        bound="overall",
        pooled=[],
    )
    names = [HOSTILE[place % len(HOSTILE)] for place in range(149)]
    frame = pl.DataFrame(TABLE).drop("label").with_columns(by=pl.Series([*names, "unseen"]))
    assert checked(model, frame, language).holds
    others = msgspec.structs.replace(model, groups=groups | {"other": groups["it's"]})
    assert checked(others, frame.with_columns(by=pl.lit("unseen")), language).holds


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
@pytest.mark.parametrize("language", LANGUAGES)
def test_segments_read_the_same_from_columns_of_any_type(
    values: list[object], language: str, fitted: Fitted
) -> None:
    model = fitted("by-year")
    assert isinstance(model, BoundaryModel) and isinstance(model.groups, dict)
    model = msgspec.structs.replace(
        model,
        groups={
            "2019": model.groups["2019"],
            "true": model.groups["2020"],
            "2019-01-01": model.groups["2020"],
            "2019-01-01 03:00:00": model.groups["2020"],
        },
    )
    frame = pl.DataFrame({"year": values * 50, **{k: TABLE[k] for k in ("score", "uncertainty")}})
    assert checked(model, frame, language).holds


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_apply_refuses_has_null(language: str) -> None:
    frame = pl.DataFrame(
        {
            "score": [0.5, None, math.nan, -0.1, 1.1, math.inf, 0.9, 0.9],
            "uncertainty": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, None, math.inf],
        }
    )
    found = exported(MODEL, frame, language)
    assert found["decision"].is_null().to_list() == [False] + [True] * 7
    assert found["margin"].is_null().to_list() == [False] + [True] * 7
    assert found.columns[:2] == frame.columns


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_infinite_feature_gives_null_and_a_missing_one_has_its_side(
    language: str, fitted: Fitted
) -> None:
    frame = export_models.rows(60).with_columns(
        x=pl.when(pl.col("id") == 3).then(math.inf).otherwise(pl.col("x"))
    )
    found = exported(fitted("tree"), frame, language)
    assert found["calibrated"].is_null().arg_true().to_list() == [3]
    assert frame["x"].null_count() > 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_float32_cannot_hold_gives_null(language: str) -> None:
    frame = export_models.rows(300).with_columns(pl.col("x").cast(pl.Float32))
    options = {"features": ["x"], "partition": "tree", "max_depth": 2, "min_leaf": 20}
    model = ck.fit_hetcal(frame, **options)
    large = frame.head(3).with_columns(x=pl.Series([1e300, -1e39, 0.5]))
    found = exported(model, large, language)["calibrated"]
    assert found.is_null().to_list() == [True, True, False]


@pytest.mark.parametrize("language", LANGUAGES)
def test_percentages_are_divided_in_the_dtype_of_the_fit(language: str) -> None:
    model = msgspec.structs.replace(
        calibrator("none"), columns={"score": Column("score", "float64", "percent")}
    )
    frame = pl.DataFrame({"score": pl.Series([12.3, 45.6, 78.9], dtype=pl.Float32)})
    assert model.apply(frame)["calibrated"][0] == float(np.float32(12.3)) / 100.0
    assert checked(model, frame, language).holds


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
    model = calibrator("venn-abers", **ends)
    frame = pl.DataFrame({"score": [0.0, 0.5, 1.0]})
    assert exported(model, frame, language)["calibrated"].to_list() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("language", ["polars", "python"])
def test_the_line_between_knots_is_written_once(language: str) -> None:
    model = calibrator("centred-isotonic", knots=[0.25, 0.5], values=[0.125, 0.5])
    assert export_model(model, language).count(" * ") == 1


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
    found = run(language, text, frame)
    assert found["id"].to_list() == list(range(3501))
    assert checked(model, frame, language).holds
    if language == "duckdb":  # without help from a column that numbers the rows
        import duckdb

        connection = duckdb.connect()
        connection.register("scores", frame.to_arrow())
        again = pl.from_arrow(connection.sql(text).to_arrow_table())
        assert isinstance(again, pl.DataFrame)
        assert again["id"].to_list() == list(range(3501))


def test_a_random_decision_is_the_hash_of_the_key(fitted: Fitted) -> None:
    model = fitted("block")
    frame = export_models.rows(500, seed=4).with_columns(key=pl.format("row {} \u00e9", "id"))
    for column in ("id", "key"):
        for language in LANGUAGES:
            found = checked(model, frame, language, key=column, seed=7)
            assert found.holds, f"{language}, {column}: {found}"
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
        Request(key="row-number")


def test_class_columns_come_from_the_pattern_or_from_a_file(fitted: Fitted) -> None:
    model = fitted("classes-vector")
    frame = export_models.rows(30)
    for pattern in ("prob_*", "listed"):
        assert checked(model, frame, "duckdb", columns={"probs": pattern}).holds
        exported(model, frame, "polars", columns={"probs": pattern})
    with pytest.raises(UsageError, match="--check"):
        exported(model, frame, columns={"probs": "prob_[0-2]"})
    assert checked(model, frame, "duckdb", columns={"probs": "prob_[0-2]"}).holds
    longer = frame.with_columns(listed=pl.Series([[0.5, 0.25, 0.15, 0.1]] * 30))
    for language in LANGUAGES:
        found = exported(model, longer, language, columns={"probs": "listed"})
        assert found["calibrated_0"].null_count() == 30
        off = frame.with_columns(prob_0=pl.col("prob_0") + 0.01)
        assert exported(model, off, language)["calibrated_1"].null_count() == 30


def test_a_role_may_be_in_another_column() -> None:
    frame = pl.DataFrame({"p": TABLE["score"], "u": TABLE["uncertainty"]})
    for language in LANGUAGES:
        assert checked(MODEL, frame, language, columns={"score": "p", "uncertainty": "u"}).holds


def test_steps_of_steps_are_one_table_with_a_place_for_each() -> None:
    low = Steps(Ref("x"), (0.25, 0.5), (Number(1.0), Number(2.0), Number(3.0)))
    high = Steps(Ref("x"), (0.75,), (Number(4.0), Number(5.0)))
    found = _table(Steps(Ref("level"), (7.0,), (low, high)), 2)
    index = Steps(Ref("level"), (7.0,), (Number(0.0), Number(1.0)))
    assert found == Table(index, (low, high))


def test_postgres_finds_a_step_among_the_knots() -> None:
    steps = Steps(Number(0.5), (0.25, 0.5), (Number(1.0), Number(2.0), Number(3.0)))
    x, values = "'0.5'::float8", "'{1,2,3}'::float8[]"
    assert Postgres().table(steps) == f"({values})[WIDTH_BUCKET({x}, '{{0.25,0.5}}'::float8[]) + 1]"
    below = f"3 - WIDTH_BUCKET(-({x}), '{{-0.5,-0.25}}'::float8[])"
    assert Postgres().table(msgspec.structs.replace(steps, strict=True)) == f"({values})[{below}]"


@pytest.mark.parametrize("language", ["duckdb", "polars", "python"])
def test_scores_of_a_narrow_fit_are_rounded_before_they_are_compared(language: str) -> None:
    model = msgspec.structs.replace(
        MODEL,
        columns=MODEL.columns | {"score": Column("score", "float32", "raw")},
        score_thresholds=[float(np.float32(0.1))] * MODEL.levels,
    )
    frame = pl.DataFrame(TABLE).head(3).drop("label").with_columns(score=pl.Series([0.1, 0.2, 0.0]))
    assert checked(model, frame, language).holds


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


def test_python_writes_what_the_command_line_does(fitted: Fitted, folder: Path) -> None:
    frame = export_models.rows(50)
    fitted("exact").save(folder / "model.json")
    for to, dialect in (("sql", "duckdb"), ("polars", "polars"), ("python", "python")):
        text = ck.export(folder / "model.json", to=to, check_on=frame)
        assert text == export_model(fitted("exact"), dialect)
    odd = msgspec.structs.replace(fitted("exact"), kind="oracle")
    with pytest.raises(UsageError, match="cannot be exported"):
        ck.export(odd, to="sql")


def test_a_name_no_database_takes_is_refused() -> None:
    columns = MODEL.columns | {"score": Column("a\0b", "float64", "probability")}
    model = msgspec.structs.replace(MODEL, columns=columns)
    for dialect in ("duckdb", "postgres"):
        with pytest.raises(UsageError, match="cannot be the name"):
            export_model(model, dialect)


def test_unknown_targets_and_kinds_are_refused(fitted: Fitted) -> None:
    with pytest.raises(UsageError, match="use one of sql, polars, python"):
        ck.export(MODEL, to="cobol")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="use one of duckdb, postgres"):
        ck.export(MODEL, to="sql", dialect="oracle")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="dialect and table go with to sql"):
        ck.export(MODEL, to="python", table="scores")
    odd = msgspec.structs.replace(MODEL, kind="oracle")
    with pytest.raises(UsageError, match="cannot be exported"):
        export_model(odd, "duckdb")


def test_the_python_module_takes_texts_and_needs_only_the_standard_library(fitted: Fitted) -> None:
    text = export_model(fitted("bundle"), "python")
    assert {line for line in text.splitlines() if line.startswith(("import", "from"))} <= {
        "import bisect",
        "import math",
    }
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
