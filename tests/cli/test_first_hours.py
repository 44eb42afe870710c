"""What people meet in their first hours: slips that are easily made, and what they are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import polars as pl
import pytest
from sklearn.naive_bayes import GaussianNB

import calibkit as ck
from calibkit.sklearn import BoundaryClassifier, HeterogeneousCalibrator
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, make


@pytest.fixture
def rows() -> pl.DataFrame:
    return simulate(600, seed=3)


def test_python_warns_of_a_bound_that_will_be_missed(rows: pl.DataFrame) -> None:
    with pytest.warns(
        ck.CalibkitWarning, match="misses the bound precision >= 0.8; to certify a bound"
    ):
        ck.fit_boundary(rows, precision=0.8, method="exact")
    with pytest.warns(ck.CalibkitWarning, match="2 of 2 segments are expected to miss the bound"):
        part = rows.with_columns(part=pl.int_range(pl.len()) % 2)
        ck.fit_boundary(part, precision=0.8, method="exact", by="part", bound="each")


@pytest.mark.parametrize("role", ["by", "groups", "time"])
@pytest.mark.parametrize("command", ["boundary", "calibrate", "evaluate"])
def test_rows_without_a_segment_group_or_time_are_dropped(
    command: str, role: str, rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    if (command, role) == ("evaluate", "time"):
        return
    text = (
        pl.when(pl.int_range(pl.len()) % 50 == 7).then(None).otherwise(pl.int_range(pl.len()) % 9)
    )
    file = write(rows.with_columns(s=text.cast(pl.String)), tmp_path / "rows.csv")
    words = [
        command,
        file,
        *(["--precision", 0.6] if command == "boundary" else []),
        f"--{role}",
        "s",
    ]
    refused = invoke(*words)
    assert refused.code == 3
    assert "fill these rows, or leave them out by --on-missing drop" in refused.stderr
    done = invoke(*words, "--on-missing", "drop", "-o", tmp_path / "out.json")
    assert "column 's': 12 rows without a value dropped (--on-missing drop)" in done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    assert found.get("rows", found.get("fit", {}).get("rows")) == 588


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ("f1", "--metrics f1 is of decisions: name them by --boundary, --decision or --threshold"),
        ("auc,ece_at:3", "--metrics ece_at:3 is of the cells of a grid: name its table by --grid"),
        (
            "squared_loss[1]",
            "is of votes: name class probabilities by --probs and votes by --counts",
        ),
        ("classwise_ece", "is of class probabilities with labels: name them by --probs"),
    ],
)
def test_a_metric_that_nothing_has(
    metrics: str, told: str, rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    file = write(rows, tmp_path / "rows.parquet")
    invoke("evaluate", file, "--metrics", metrics).refused(2, told)


def test_a_metric_of_decisions_that_are_there(
    rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    file = write(rows, tmp_path / "rows.parquet")
    done = invoke("evaluate", file, "--metrics", "f1,auc", "--threshold", 0.5, "--json")
    assert json.loads(done.stdout)["metrics"]["threshold:0.5"]["all"]["f1"] > 0


def test_what_scores_of_another_scale_look_like(tmp_path: Path, invoke: Invoke) -> None:
    label = [0, 1] * 3
    for scores, told in (
        ([-0.6, 1.4, 3.0, -2.0, 0.1, 0.2], "these look like logits: use --scale logit"),
        ([3.0, 8.0, 4.0, 9.0, 1.0, 2.0], "these look like percentages: use --scale percent, or"),
        ([0.1, 0.2, 1.5, *[0.3] * 17], "probabilities lie in [0, 1]; use --scale logit or"),
    ):
        frame = pl.DataFrame({"score": scores, "label": (label * 4)[: len(scores)]})
        invoke("calibrate", write(frame, tmp_path / "rows.csv")).refused(3, told)


def test_lists_that_begin_with_a_whole_number(rows: pl.DataFrame) -> None:
    model = ck.fit_calibrator(rows, method="platt")
    expected = model.apply(score=np.array([1.0, 0.5]))
    assert model.apply(score=[1, 0.5]).tolist() == expected.tolist()
    assert model.apply({"score": [1, 0.5]})["calibrated"].tolist() == expected.tolist()


def test_several_files_and_a_positive_class_that_is_a_number(
    rows: pl.DataFrame, tmp_path: Path
) -> None:
    signed = rows.with_columns(label=2 * pl.col("label").cast(pl.Int8) - 1)
    parts = [
        write(part, tmp_path / f"{place}.csv")
        for place, part in enumerate((signed[:300], signed[300:]))
    ]
    model = ck.fit_calibrator(parts, positive=1, method="platt")
    assert model.fit.rows == 600
    assert model.a == ck.fit_calibrator(rows, method="platt").a


def test_a_column_that_polars_cannot_read_is_named(rows: pl.DataFrame) -> None:
    model = ck.fit_calibrator(rows, method="platt")
    frame = rows.head(3).to_pandas().assign(extra=["a1", 2, "c3"])
    with pytest.raises(ck.UsageError, match=r"frame: polars cannot read its column 'extra' \("):
        model.apply(frame)
    with pytest.raises(ck.UsageError, match="frame: polars cannot read a dict"):
        model.apply({"score": np.array([0.1, 0.2]), "other": np.array([1.0])})


@pytest.mark.parametrize("bound", [True, "9/10", float("nan")])
def test_a_bound_that_is_no_number(bound: object, rows: pl.DataFrame) -> None:
    with pytest.raises(ck.UsageError, match=r"expected a decimal number such as 0\.9"):
        ck.fit_boundary(rows, precision=bound)


def test_drift_and_decisions_take_arrays(rows: pl.DataFrame) -> None:
    model = ck.fit_boundary(rows, recall=0.5, method="st")
    found = model.drift(score=rows["score"].to_numpy())
    assert found.as_dict() == model.drift(rows.select("score")).as_dict()
    decided = model.apply(rows)["decision"]
    judged = ck.evaluate(rows, decision=decided.to_numpy(), metrics="recall")
    assert judged.metrics["decision"]["all"]["recall"] == model.fit.in_sample.recall


def test_weights_of_estimators_are_numbers_of_rows(rows: pl.DataFrame) -> None:
    x, y = rows.select("score", "uncertainty").to_numpy(), rows["label"].to_numpy()
    times = np.arange(len(y)) % 3
    weighted = BoundaryClassifier(method="st").fit(x, y, sample_weight=times)
    repeated = BoundaryClassifier(method="st").fit(np.repeat(x, times, axis=0), np.repeat(y, times))
    assert weighted.model_.score_thresholds == repeated.model_.score_thresholds
    parts = HeterogeneousCalibrator(max_depth=1).fit(x, y, sample_weight=times)
    assert parts.model_.fit.rows == times.sum()
    one = BoundaryClassifier(GaussianNB(), method="st").fit(x, y, sample_weight=times)
    assert one.estimator_.class_count_.sum() == times.sum()
    with pytest.raises(ValueError, match="one class in the rows whose sample_weight is above 0"):
        BoundaryClassifier().fit(x, y, sample_weight=y)


def test_a_map_that_makes_scores_worse_is_no_gain(
    rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    file = write(rows.with_columns(score=0.02 + 0.96 * pl.col("label")), tmp_path / "rows.parquet")
    done = invoke(
        "calibrate", file, "--method", "histogram", "--bins", 1, "-o", tmp_path / "m.json"
    )
    assert "on the fitting rows; the scores as they are do better." in done.stderr


def test_results_that_are_no_models(rows: pl.DataFrame, tmp_path: Path, invoke: Invoke) -> None:
    ck.evaluate(rows, metrics="auc").save(tmp_path / "metrics.json")
    told = "not a calibkit model, but metrics (calibkit gate and diff read them)"
    invoke("show", tmp_path / "metrics.json").refused(3, told)


def test_an_array_of_json_is_no_empty_file(tmp_path: Path, invoke: Invoke) -> None:
    for text in ('[{"score": 1}, {"score": 0.5}]', "[\n  {\n"):
        (tmp_path / "rows.ndjson").write_text(text)
        invoke("calibrate", tmp_path / "rows.ndjson").refused(3, "write one object a line")


def test_pictures_of_states_in_python(rows: pl.DataFrame, tmp_path: Path) -> None:
    model, state = (
        make(
            tmp_path / "b.json",
            "boundary",
            write(rows, tmp_path / "r.parquet"),
            "--recall 0.5 --method st",
        ),
        tmp_path / "w.state",
    )
    found = ck.watch(rows, model=model, state=state, recall=0.4)
    drawn = ck.plot.watch(state)
    assert drawn.get_ylabel() == ck.plot.watch(found.history()).get_ylabel()
    with pytest.raises(ck.UsageError):
        ck.plot.watch(tmp_path / "nothing.state")


def test_apply_leaves_text_that_it_does_not_read(
    rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    model = tmp_path / "cal.json"
    ck.fit_calibrator(rows, method="platt").save(model)
    lines = ["score,account,code,long,flag,name", '0.9,007,12e3,99999999999999999999,TRUE,"a,b"']
    file = tmp_path / "ids.csv"
    file.write_text("\n".join([*lines, "0.2,8,1.50,1,,"]) + "\n")
    for words in (("-o", "-"), ("-o", "-", "--dtype", "float32"), ("--in-place",)):
        done = invoke("apply", model, file, *words)
        written = done.stdout.decode() if words[0] == "-o" else file.read_text()
        assert [line.rpartition(",")[0] for line in written.splitlines()] == [
            *lines[:2],
            "0.2,8,1.50,1,,",
        ]
    typed = invoke("apply", model, file, "--overwrite-columns", "-o", tmp_path / "o.parquet")
    assert typed.code == 0
    assert pl.read_parquet(tmp_path / "o.parquet")["account"].to_list() == [7, 8]


def test_in_place_refuses_what_it_would_write_otherwise(
    rows: pl.DataFrame,
    tmp_path: Path,
    invoke: Invoke,
    command: Callable[..., CompletedProcess[bytes]],
) -> None:
    model, file = tmp_path / "cal.json", tmp_path / "eu.csv"
    ck.fit_calibrator(rows, method="platt").save(model)
    file.write_bytes("score;amount;name\n0,93;12,50;J\xfcrgen\n".encode("latin-1"))
    invoke("apply", model, file, "--in-place").refused(2, "semicolons between fields")
    assert (
        invoke("apply", model, file, "-o", "-")
        .stdout.decode()
        .splitlines()[1]
        .startswith("0.93,12.5,Jürgen,")
    )
    piped = command("apply", model, "-", input=file.read_bytes())
    assert piped.stdout.decode().splitlines()[1].startswith("0.93,12.5,Jürgen,"), piped.stderr
    book = tmp_path / "book.xlsx"
    rows.head(5).write_excel(book)
    invoke("apply", model, book, "--in-place").refused(2, "a workbook anew")


def test_an_empty_name_is_not_the_folder_at_hand(tmp_path: Path, invoke: Invoke) -> None:
    invoke("evaluate", "").refused(2, "an input has an empty name; is a variable not set?")


def test_a_positive_class_that_no_row_has(
    rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    named = rows.with_columns(label=pl.col("label").replace_strict({0: "no", 1: "yes"}))
    file, model = write(named, tmp_path / "rows.parquet"), tmp_path / "b.json"
    ck.fit_boundary(named, recall=0.5, method="st", positive="yes").save(model)
    state = tmp_path / "w.state"
    words = ("watch", model, file, "--state", state, "--recall", 0.4, "--positive")
    invoke(*words, "YES").refused(3, "no row has the positive class 'YES'; name one of its values")
    assert not state.exists()
    assert invoke(*words, "yes").code == 0
    assert "no row has the positive class 'YES'" in invoke(*words, "YES").stderr
    told = invoke("drift", model, file, "--label", "label", "--positive", "YES", "-q")
    assert "no row has the positive class 'YES'" in told.stderr


@pytest.mark.parametrize("role", ["groups", "time"])
def test_hetcal_drops_rows_without_a_group_or_time(
    role: str, rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    number = pl.int_range(pl.len())
    part = pl.when(number % 50 == 7).then(None).otherwise(number % 9)
    file = write(rows.with_columns(s=part, feature_x=number % 3), tmp_path / "rows.parquet")
    words = ("hetcal", file, f"--{role}", "s", "--max-depth", 1)
    invoke(*words).refused(3, "leave them out by --on-missing drop")
    done = invoke(*words, "--on-missing", "drop", "-o", tmp_path / "h.json")
    assert done.code == 0 and "12 rows without a value dropped" in done.stderr


def test_columns_that_do_not_fit(rows: pl.DataFrame, tmp_path: Path, invoke: Invoke) -> None:
    model, number = tmp_path / "cal.json", pl.int_range(pl.len())
    ck.fit_calibrator(rows, method="platt").save(model)
    file = write(
        rows.with_columns(
            lists=pl.concat_list(number % 2),
            length=pl.duration(days=number % 7),
            bytes=pl.lit(b"x"),
            uuid=pl.when(number % 3 == 0).then(pl.lit(b"\xff\x00")).otherwise(pl.lit(b"ab")),
            zoned=pl.datetime(2026, 1, 1, time_zone="UTC"),
        ),
        tmp_path / "rows.parquet",
    )
    for role, command in (("by", "evaluate"), ("groups", "calibrate"), ("label", "evaluate")):
        more = ("--positive", 1) if role == "label" else ()
        invoke(command, file, f"--{role}", "lists", *more).refused(3, "List(Int64) holds several")
    assert invoke("calibrate", file, "--groups", "length", "-o", tmp_path / "m.json").code == 0
    assert invoke("calibrate", file, "--groups", "uuid", "-o", tmp_path / "m.json").code == 0
    for column, value in (("length", "2 days, 0:00:00"), ("uuid", "ab"), ("uuid", "\\xff\x00")):
        words = ("--label", column, "--positive", value, "-o", tmp_path / "metrics.json")
        assert invoke("evaluate", file, *words).code == 0
    invoke("boundary", file, "--recall", 0.5, "--by", "label").refused(2, "has another role")
    for column, suffix, told in (
        ("length", "csv", "CSV cannot hold duration"),
        ("bytes", "csv", "CSV cannot hold binary columns"),
        ("bytes", "ndjson", "NDJSON cannot hold binary columns"),
        ("bytes", "xlsx", "Excel cannot hold binary columns; write Parquet"),
        ("zoned", "xlsx", "Excel cannot hold lists, or times with a zone"),
    ):
        words = ("--keep", f"score,{column}", "-o", tmp_path / f"out.{suffix}")
        invoke("apply", model, file, *words).refused(2, told)


def test_exported_python_takes_no_value_for_a_float32_feature(rows: pl.DataFrame) -> None:
    number = pl.int_range(pl.len())
    feature = pl.when(number % 7 == 0).then(None).otherwise((number % 5) / 10).cast(pl.Float32)
    frame = rows.with_columns(feature_x=feature)
    model = ck.fit_hetcal(frame, max_depth=2, min_leaf=50, shrinkage=0.0)
    made: dict[str, object] = {}
    exec(ck.export(model, to="python", check_on=frame), made)
    found = made["apply"]({"score": 0.5, "feature_x": None})  # type: ignore[operator]
    expected = model.apply(frame.head(1).with_columns(score=0.5, feature_x=None))
    assert found["calibrated"] == pytest.approx(expected["calibrated"][0])


@pytest.fixture
def model(rows: pl.DataFrame, tmp_path: Path, invoke: Invoke) -> Path:
    invoke("calibrate", write(rows, tmp_path / "c.csv"), "--method platt -o", tmp_path / "m.json")
    return tmp_path / "m.json"


def test_decimal_commas_leave_other_columns_as_they_are_written(
    model: Path, tmp_path: Path, invoke: Invoke
) -> None:
    file, other = tmp_path / "commas.csv", tmp_path / "points.csv"
    file.write_text("score;code;flag;price\n0,5;01067;TRUE;1,50\n0,6;1e3;FALSE;2,5\n")
    other.write_text("score,code,flag,price\n0.5,007,TRUE,1.50\n")
    found = invoke("apply", model, file, "-o", "-").stdout.decode().splitlines()
    assert [line.rpartition(",")[0] for line in found[1:]] == [
        "0.5,01067,TRUE,1.5",
        "0.6,1e3,FALSE,2.5",
    ]
    both = invoke("apply", model, other, file, "-o", "-").stdout.decode().splitlines()
    assert [line.split(",")[1] for line in both[1:]] == ["007", "01067", "1e3"]
    counted = tmp_path / "counted.csv"
    counted.write_text("score;label;code\n0,5;1;01067\n0,6;0;80331\n")
    levels = invoke("bin", counted, "--add-level --score-bins 2 -o -").stdout.decode().splitlines()
    assert levels[1].startswith("0.5,1,01067,")


def test_apply_leaves_labels_and_values_as_they_are_written(
    model: Path, rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("score,label\n0.5,TRUE\n0.6,0.0\n")
    found = invoke("apply", model, file, "-o", "-").stdout.decode().splitlines()
    assert found[1].startswith("0.5,TRUE,") and found[2].startswith("0.6,0.0,")
    amounts = write(rows.with_columns(amount=pl.col("score") * 100), tmp_path / "amounts.csv")
    boundary = tmp_path / "boundary.json"
    invoke("boundary", amounts, "--precision 0.6 --method st --value amount -o", boundary)
    file.write_text("score,amount\n0.5,1.50\n")
    found = invoke("apply", boundary, file, "-o", "-").stdout.decode().splitlines()
    assert found[1].startswith("0.5,1.50,")


@pytest.mark.parametrize("words", ["show", "gate --fail-if a<1", "export --to sql"])
def test_models_that_are_not_there_have_nearest_names(
    words: str, model: Path, tmp_path: Path, invoke: Invoke
) -> None:
    command, *more = words.split(" ", 1)
    invoke(command, tmp_path / "mm.json", *more).refused(2, "did you mean 'm.json'")


def test_only_the_first_column_that_is_added_has_another_name(
    rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    file = write(rows.with_columns(margin=1, decision=1), tmp_path / "rows.parquet")
    fitted = tmp_path / "b.json"
    invoke("boundary", file, "--precision 0.6 --method st -o", fitted)
    out = ("-o", tmp_path / "x.csv")
    invoke("apply", fitted, file, *out).refused(2, "'decision' already", "by --column")
    ended = invoke("apply", fitted, file, "--column chosen", *out)
    ended.refused(2, "'margin' already", "by --keep")
    assert "--column" not in ended.stderr


def test_groups_are_the_same_as_numbers_and_as_text(
    rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    users = (pl.int_range(pl.len()) * 7919 % 101).cast(pl.String)
    found = []
    for name in ("text.parquet", "numbers.csv"):
        file, out = write(rows.with_columns(user=users), tmp_path / name), tmp_path / f"{name}.json"
        invoke("evaluate", file, "--groups user --metrics ace,auc -o", out)
        invoke(
            "evaluate",
            file,
            "--groups user --metrics ace -o",
            tmp_path / f"{name}.state",
            "--partial",
        )
        content = json.loads(out.read_text())
        found.append((content["metrics"], content["intervals"]))
    assert found[0] == found[1]
    states = [tmp_path / f"{name}.state" for name in ("text.parquet", "numbers.csv")]
    ended = invoke("merge", *states, "-o", tmp_path / "both.json")
    ended.refused(3, "column 'user' holds Int64 here, but String")
    assert "1.0, not 1" not in ended.stderr


def test_a_capacity_is_missed_as_the_share_that_can_be_certified(
    tmp_path: Path, invoke: Invoke
) -> None:
    file = write(simulate(1500, seed=5), tmp_path / "rows.parquet")
    words = "--capacity 10 --method exact --uncertainty-bins 11 -o"
    ended = invoke("boundary", file, words, tmp_path / "c.json")
    said = "misses the bound capacity <= 0.00666667; to certify a bound, use --confidence"
    assert said in ended.stderr


def test_a_capacity_without_positives_is_not_said_to_be_exceeded(
    tmp_path: Path, invoke: Invoke
) -> None:
    file = write(
        pl.DataFrame({"score": [0.9, 0.8, 0.2, 0.1], "label": [0, 0, 1, 1]}), tmp_path / "f.csv"
    )
    ended = invoke("boundary", file, "--capacity 2 --method exact --folds 0")
    ended.refused(4, "hold a positive one: raise the bound")


@pytest.mark.parametrize(
    "line",
    [
        "calibrate --method auto",
        "boundary --precision 0.7 --method st --uncertainty-bins 1",
        "hetcal --features feature --max-depth 1 --min-leaf 50",
    ],
)
def test_rows_that_weigh_nothing_make_no_blocks_of_time(
    line: str, rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    day = pl.int_range(pl.len())
    whole = rows.with_columns(day=day, feature=day % 3, weight=1.0)
    before = whole.with_columns(day=pl.col("day") - 20_000, weight=pl.lit(0.0))
    command, *more = line.split(" ", 1)
    found = []
    for name, frame in (("whole", whole), ("more", pl.concat([before, before, whole]))):
        file, out = write(frame, tmp_path / f"{name}.parquet"), tmp_path / f"{name}.json"
        invoke(command, file, *more, "--weight weight --time day --seed 1 -o", out)
        content = json.loads(out.read_text())
        del content["provenance"]
        found.append(content)
    assert found[0] == found[1]


def test_rows_that_stand_for_none_are_no_evidence(
    rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    whole = rows.with_columns(feature=pl.int_range(pl.len()) % 4, weight=1.0)
    nothing = whole.with_columns(weight=pl.lit(0.0))
    found = []
    for name, frame in (("whole", whole), ("more", pl.concat([whole, nothing, nothing]))):
        file, out = write(frame, tmp_path / f"{name}.parquet"), tmp_path / f"{name}.json"
        options = "--features feature --max-depth 1 --min-leaf 100 --shrinkage 1000"
        invoke("hetcal", file, options, "--weight weight --weight-kind sampling -o", out)
        content = json.loads(out.read_text())
        found.append((content["tree"], content["maps"]))
    assert found[0] == found[1]


@pytest.mark.parametrize("method", ["exact", "st"])
def test_bins_that_levels_share_are_not_open_below(method: str) -> None:
    frame = pl.DataFrame(
        {
            "score": [0.1, 0.3, 0.9, 0.7, 0.9],
            "uncertainty": [2, 2, 2, 1, 1],
            "label": [0, 0, 1, 1, 1],
        }
    )
    own = {"uncertainty_bins": 2, "score_bins": 4, "strategy": "equal-width"}
    for rows_ in (frame, ck.bin(frame, **own)):
        fitted = {} if rows_ is not frame else own
        model = ck.fit_boundary(rows_, precision=0.9, method=method, folds=0, **fitted)
        found = model.apply(score=[0.2, 0.2], uncertainty=[1.0, 2.0])
        assert found.tolist() == [0, 0]


@pytest.mark.parametrize(
    "line", ["boundary --precision 0.7 --method st", "hetcal --features feature"]
)
def test_blocks_of_time_do_not_hang_on_the_scale_of_sampling_weights(
    line: str, rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    day = pl.int_range(pl.len())
    weight = pl.when(day % 9 == 0).then(180.0).when(day < 100).then(20.0).otherwise(1.0)
    whole = rows.with_columns(day=day, feature=day % 3, weight=weight)
    command, *more = line.split(" ", 1)
    found = []
    for name, frame in (("one", whole), ("half", whole.with_columns(pl.col("weight") / 2))):
        file, out = write(frame, tmp_path / f"{name}.parquet"), tmp_path / f"{name}.json"
        weights = "--weight weight --weight-kind sampling --time day --seed 1 -o"
        invoke(command, file, *more, weights, out)
        checked = json.loads(out.read_text())["fit"]["cross_validated"]
        checked.pop("by_depth", None)
        found.append(checked)
    assert found[0] == pytest.approx(found[1])


@pytest.mark.parametrize("more", [(), ("--partial",)])
def test_groups_of_lists_are_refused(
    more: tuple[str, ...], rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    lists = rows.with_columns(user=pl.concat_list(pl.int_range(pl.len())))
    file = write(lists, tmp_path / "lists.parquet")
    name = "m.state" if more else "m.json"
    ended = invoke("evaluate", file, "--groups user --metrics auc", *more, "-o", tmp_path / name)
    ended.refused(3, "holds several values")


def test_values_that_are_all_one_are_rows_in_segments_too(
    rows: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    day = pl.int_range(pl.len())
    whole = rows.with_columns(day=day, part=day % 2, amount=1.0)
    file, found = write(whole, tmp_path / "rows.parquet"), []
    for more in ((), ("--value", "amount")):
        words = "--precision 0.6 --method st --by part --bound each --time day -o"
        invoke("boundary", file, *more, words, tmp_path / "m.json")
        found.append(json.loads((tmp_path / "m.json").read_text())["fit"]["cross_validated"])
    # Judged rows are taken to be worth their share of all; no fit judges the first block of time.
    judged, worth = rows["label"][100:].sum(), round(rows["label"].sum() * 500 / 600)
    plain, valued = (one["recall"] for one in found)
    assert valued == pytest.approx(plain * judged / worth)
    assert found[0]["precision"] == found[1]["precision"]
