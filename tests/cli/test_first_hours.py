"""What people meet in their first hours: slips that are easily made, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.naive_bayes import GaussianNB

import calibkit as ck
from calibkit.sklearn import BoundaryClassifier, HeterogeneousCalibrator
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, make

ROWS = simulate(600, seed=3)
NUMBER = pl.int_range(pl.len())
ODD = ROWS.with_columns(
    lists=pl.concat_list(NUMBER % 2),
    length=pl.duration(days=NUMBER % 7),
    bytes=pl.lit(b"x"),
    uuid=pl.when(NUMBER % 3 == 0).then(pl.lit(b"\xff\x00")).otherwise(pl.lit(b"ab")),
    zoned=pl.datetime(2026, 1, 1, time_zone="UTC"),
)
PLATT = ck.fit_calibrator(ROWS, method="platt")

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def _folder() -> None:
    """Begin in a folder with rows of odd types and a calibrator."""
    write(ODD, "r.parquet")
    PLATT.save("m.json")


@pytest.fixture
def made_of(invoke: Invoke) -> Run:
    """Return what a command makes of rows, as JSON, without where it comes from."""

    def call(frame: pl.DataFrame, line: str) -> Any:
        command, *options = line.split()
        file = write(frame, "given.parquet")
        found = invoke(command, file, *options, "-o", "made.json").result()
        del found["provenance"]
        return found

    return call


@pytest.fixture
def applied(invoke: Invoke) -> Run:
    """Return the lines that `apply` prints, without their last field."""

    def call(*arguments: object) -> list[str]:
        lines = invoke("apply", "m.json", *arguments, "-o", "-").stdout.decode().splitlines()
        return [line.rpartition(",")[0] for line in lines]

    return call


@pytest.mark.parametrize(
    ("column", "suffix", "told"),
    [
        ("length", "csv", "CSV cannot hold duration"),
        ("bytes", "csv", "CSV cannot hold binary columns"),
        ("bytes", "ndjson", "NDJSON cannot hold binary columns"),
        ("bytes", "xlsx", "Excel cannot hold binary columns; write Parquet"),
        ("zoned", "xlsx", "Excel cannot hold lists, or times with a zone"),
    ],
)
def test_columns_that_a_format_cannot_hold(
    column: str, suffix: str, told: str, invoke: Invoke
) -> None:
    line = ("apply", "m.json", "r.parquet", f"--keep score,{column} -o out.{suffix}")
    invoke(*line).refused(2, told)


def test_columns_of_odd_types_that_do_fit(invoke: Invoke) -> None:
    for column in ("length", "uuid"):
        assert invoke("calibrate", "r.parquet", "--groups", column).code == 0
    for column, value in (("length", "2 days, 0:00:00"), ("uuid", "ab"), ("uuid", "\\xff\x00")):
        words = ("--label", column, "--positive", value)
        assert invoke("evaluate", "r.parquet", *words).code == 0


def test_python_warns_of_a_bound_that_will_be_missed() -> None:
    told = "misses the bound precision >= 0.8; to certify a bound"
    with pytest.warns(ck.CalibkitWarning, match=told):
        ck.fit_boundary(ROWS, precision=0.8, method="exact")
    with pytest.warns(ck.CalibkitWarning, match="2 of 2 segments are expected to miss the bound"):
        part = ROWS.with_columns(part=NUMBER % 2)
        ck.fit_boundary(part, precision=0.8, method="exact", by="part", bound="each")


@pytest.mark.parametrize(
    ("command", "role"),
    [
        *(("boundary --precision 0.6", role) for role in ("by", "groups", "time")),
        *(("calibrate", role) for role in ("by", "groups", "time")),
        *(("evaluate", role) for role in ("by", "groups")),
        *(("hetcal --max-depth 1", role) for role in ("groups", "time")),
    ],
)
def test_rows_without_a_segment_group_or_time_are_dropped(
    command: str, role: str, invoke: Invoke
) -> None:
    text = pl.when(NUMBER % 50 == 7).then(None).otherwise(NUMBER % 9).cast(pl.String)
    file = write(ROWS.with_columns(s=text, feature_x=NUMBER % 3), "rows.csv")
    name, *more = command.split()
    words = (name, file, *more, f"--{role}", "s")
    invoke(*words).refused(3, "fill these rows, or leave them out by --on-missing drop")
    done = invoke(*words, "--on-missing", "drop", "-o", "out.json")
    done.succeeded("column 's': 12 rows without a value dropped (--on-missing drop)")
    found = done.result()
    assert found.get("rows", found.get("fit", {}).get("rows")) == 588


def test_a_metric_of_decisions_that_are_there(invoke: Invoke) -> None:
    done = invoke("evaluate", "r.parquet", "--metrics f1,auc --threshold 0.5 --json")
    assert done.result()["metrics"]["threshold:0.5"]["all"]["f1"] > 0


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ([-0.6, 1.4, 3.0, -2.0, 0.1, 0.2], "these look like logits: use --scale logit"),
        ([3.0, 8.0, 4.0, 9.0, 1.0, 2.0], "these look like percentages: use --scale percent, or"),
        ([0.1, 0.2, 1.5, *[0.3] * 17], "probabilities lie in [0, 1]; use --scale logit or"),
        ([0.1, 0.2, -999.0, *[0.3] * 17], "and --null-values for a number that stands for none"),
    ],
)
def test_what_scores_of_another_scale_look_like(
    scores: list[float], told: str, invoke: Invoke
) -> None:
    frame = pl.DataFrame({"score": scores, "label": ([0, 1] * 10)[: len(scores)]})
    invoke("calibrate", write(frame, "rows.csv")).refused(3, told)


def test_what_python_takes() -> None:
    # Lists that begin with a whole number.
    expected = PLATT.apply(score=np.array([1.0, 0.5])).tolist()
    assert PLATT.apply(score=[1, 0.5]).tolist() == expected
    assert PLATT.apply({"score": [1, 0.5]})["calibrated"].tolist() == expected
    # Several files, and a positive class that is a number.
    signed = ROWS.with_columns(label=2 * pl.col("label").cast(pl.Int8) - 1)
    parts = [write(signed[:300], "0.csv"), write(signed[300:], "1.csv")]
    model = ck.fit_calibrator(parts, positive=1, method="platt")
    assert (model.fit.rows, model.a) == (600, PLATT.a)
    # Arrays to `drift` and as decisions.
    boundary = ck.fit_boundary(ROWS, recall=0.5, method="st")
    found = boundary.drift(score=ROWS["score"].to_numpy())
    assert found.as_dict() == boundary.drift(ROWS.select("score")).as_dict()
    decided = boundary.apply(ROWS)["decision"].to_numpy()
    judged = ck.evaluate(ROWS, decision=decided, metrics="recall")
    assert judged.metrics["decision"]["all"]["recall"] == boundary.fit.in_sample.recall


def test_what_python_does_not_take() -> None:
    with pytest.raises(ck.DataError, match=r"or leave them empty$"):  # there is no null_values
        ck.fit_calibrator({"score": ["n/a", "0.5"], "label": [0, 1]})
    frame = ROWS.head(3).to_pandas().assign(extra=["a1", 2, "c3"])
    with pytest.raises(ck.UsageError, match=r"frame: polars cannot read its column 'extra' \("):
        PLATT.apply(frame)
    with pytest.raises(ck.UsageError, match="frame: polars cannot read a dict"):
        PLATT.apply({"score": np.array([0.1, 0.2]), "other": np.array([1.0])})
    for bound in (True, "9/10", float("nan")):
        with pytest.raises(ck.UsageError, match=r"expected a decimal number such as 0\.9"):
            ck.fit_boundary(ROWS, precision=bound)


def test_weights_of_estimators_are_numbers_of_rows() -> None:
    x, y = ROWS.select("score", "uncertainty").to_numpy(), ROWS["label"].to_numpy()
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


def test_a_map_that_makes_scores_worse_is_no_gain(invoke: Invoke) -> None:
    file = write(ROWS.with_columns(score=0.02 + 0.96 * pl.col("label")), "r.parquet")
    done = invoke("calibrate", file, "--method histogram --bins 1 -o", "out.json")
    done.succeeded("on the fitting rows; the scores as they are do better.")


def test_files_of_another_kind(invoke: Invoke) -> None:
    ck.evaluate(ROWS, metrics="auc").save("metrics.json")
    told = "not a calibkit model, but metrics (calibkit gate and diff read them)"
    invoke("show", "metrics.json").refused(3, told)
    for text in ('[{"score": 1}, {"score": 0.5}]', "[\n  {\n"):
        Path("rows.ndjson").write_text(text)
        invoke("calibrate", "rows.ndjson").refused(3, "write one object a line")


def test_pictures_of_states_in_python() -> None:
    model = make("b.json", "boundary", "r.parquet", "--recall 0.5 --method st")
    found = ck.watch(ROWS, model=model, state="w.state", recall=0.4)
    drawn = ck.plot.watch("w.state")
    assert drawn.get_ylabel() == ck.plot.watch(found.history()).get_ylabel()
    with pytest.raises(ck.UsageError):
        ck.plot.watch("nothing.state")


def test_apply_leaves_text_that_it_does_not_read(applied: Run, invoke: Invoke) -> None:
    lines = ["score,account,code,long,flag,name", '0.9,007,12e3,99999999999999999999,TRUE,"a,b"']
    lines += ["0.2,8,1.50,1,,"]
    Path("ids.csv").write_text("\n".join(lines) + "\n")
    assert applied("ids.csv") == applied("ids.csv", "--dtype", "float32") == lines
    out = invoke("apply", "m.json", "ids.csv", "--overwrite-columns", "-o", "out.parquet").result()
    assert out["account"].to_list() == [7, 8]
    assert invoke("apply", "m.json", "ids.csv", "--in-place").code == 0
    written = Path("ids.csv").read_text().splitlines()
    assert [line.rpartition(",")[0] for line in written] == lines
    # Labels, and values that a fit read.
    Path("labels.csv").write_text("score,label\n0.5,TRUE\n0.6,0.0\n")
    assert applied("labels.csv")[1:] == ["0.5,TRUE", "0.6,0.0"]
    amounts = ROWS.with_columns(amount=pl.col("score") * 100)
    ck.fit_boundary(amounts, precision=0.6, method="st", value="amount").save("m.json")
    Path("amounts.csv").write_text("score,amount\n0.5,1.50\n")
    assert applied("amounts.csv")[1].startswith("0.5,1.50,")


def test_decimal_commas_leave_other_columns_as_they_are_written(
    applied: Run, invoke: Invoke
) -> None:
    Path("commas.csv").write_text("score;code;flag;price\n0,5;01067;TRUE;1,50\n0,6;1e3;FALSE;2,5\n")
    Path("points.csv").write_text("score,code,flag,price\n0.5,007,TRUE,1.50\n")
    assert applied("commas.csv")[1:] == ["0.5,01067,TRUE,1.5", "0.6,1e3,FALSE,2.5"]
    both = applied("points.csv", "commas.csv")
    assert [line.split(",")[1] for line in both[1:]] == ["007", "01067", "1e3"]
    Path("counted.csv").write_text("score;label;code\n0,5;1;01067\n0,6;0;80331\n")
    levels = invoke("bin", "counted.csv", "--add-level --score-bins 2 -o -").stdout.decode()
    assert levels.splitlines()[1].startswith("0.5,1,01067,")


def test_in_place_refuses_what_it_would_write_otherwise(
    applied: Run, invoke: Invoke, command: Callable[..., CompletedProcess[bytes]]
) -> None:
    file = Path("eu.csv")
    file.write_bytes("score;amount;name\n0,93;12,50;J\xfcrgen\n".encode("latin-1"))
    invoke("apply", "m.json", file, "--in-place").refused(2, "semicolons between fields")
    assert applied(file)[1] == "0.93,12.5,Jürgen"
    piped = command("apply", "m.json", "-", input=file.read_bytes())
    assert piped.stdout.decode().splitlines()[1].startswith("0.93,12.5,Jürgen,"), piped.stderr
    ROWS.head(5).write_excel("book.xlsx")
    invoke("apply", "m.json", "book.xlsx", "--in-place").refused(2, "a workbook anew")


def test_a_positive_class_that_no_row_has(invoke: Invoke) -> None:
    named = ROWS.with_columns(label=pl.col("label").replace_strict({0: "no", 1: "yes"}))
    file = write(named, "r.parquet")
    ck.fit_boundary(named, recall=0.5, method="st", positive="yes").save("b.json")
    words = ("watch", "b.json", file, "--state w.state --recall 0.4 --positive")
    told = "no row has the positive class 'YES'"
    invoke(*words, "YES").refused(3, f"{told}; name one of its values")
    assert invoke(*words, "yes").code == 0
    assert told in invoke(*words, "YES").stderr
    assert told in invoke("drift", "b.json", file, "--label label --positive YES -q").stderr


def test_exported_python_takes_no_value_for_a_float32_feature() -> None:
    feature = pl.when(NUMBER % 7 == 0).then(None).otherwise((NUMBER % 5) / 10).cast(pl.Float32)
    frame = ROWS.with_columns(feature_x=feature)
    model = ck.fit_hetcal(frame, max_depth=2, min_leaf=50, shrinkage=0.0)
    made: dict[str, Any] = {}
    exec(ck.export(model, to="python", check_on=frame), made)
    found = made["apply"]({"score": 0.5, "feature_x": None})
    expected = model.apply(frame.head(1).with_columns(score=0.5, feature_x=None))
    assert found["calibrated"] == pytest.approx(expected["calibrated"][0])


def test_only_the_first_column_that_is_added_has_another_name(invoke: Invoke) -> None:
    write(ROWS.with_columns(margin=1, decision=1), "r.parquet")
    ck.fit_boundary(ROWS, precision=0.6, method="st").save("b.json")
    line = ("apply", "b.json", "r.parquet", "-o", "out.csv")
    invoke(*line).refused(2, "'decision' already", "by --column")
    ended = invoke(*line, "--column chosen")
    ended.refused(2, "'margin' already", "by --keep")
    assert "--column" not in ended.stderr


def test_groups_are_the_same_as_numbers_and_as_text(invoke: Invoke) -> None:
    users = (NUMBER * 7919 % 101).cast(pl.String)
    found, states = [], [Path("text.state"), Path("numbers.state")]
    for state, name in zip(states, ("text.parquet", "numbers.csv"), strict=True):
        line = ("evaluate", write(ROWS.with_columns(user=users), Path(name)), "--groups user")
        content = invoke(*line, "--metrics ace,auc -o", "out.json").result()
        found.append((content["metrics"], content["intervals"]))
        assert invoke(*line, "--metrics ace --partial -o", state).code == 0
    assert found[0] == found[1]
    ended = invoke("merge", *states, "-o", "both.json")
    ended.refused(3, "column 'user' holds Int64 here, but String")
    assert "1.0, not 1" not in ended.stderr


def test_capacities_that_are_missed_or_hold_no_positive(invoke: Invoke) -> None:
    file = write(simulate(1500, seed=5), "r.parquet")
    said = "misses the bound capacity <= 0.00666667; to certify a bound, use --confidence"
    line = "--capacity 10 --method exact --uncertainty-bins 11 -o"
    assert said in invoke("boundary", file, line, "c.json").stderr
    few = pl.DataFrame({"score": [0.9, 0.8, 0.2, 0.1], "label": [0, 0, 1, 1]})
    ended = invoke("boundary", write(few, "few.csv"), "--capacity 2 --method exact --folds 0")
    ended.refused(4, "hold a positive one: raise the bound")


@pytest.mark.parametrize(
    "line",
    [
        "calibrate --method auto",
        "boundary --precision 0.7 --method st --uncertainty-bins 1",
        "hetcal --features feature --max-depth 1 --min-leaf 50",
    ],
)
def test_rows_that_weigh_nothing_make_no_blocks_of_time(line: str, made_of: Run) -> None:
    whole = ROWS.with_columns(day=NUMBER, feature=NUMBER % 3, weight=1.0)
    before = whole.with_columns(day=pl.col("day") - 20_000, weight=pl.lit(0.0))
    line += " --weight weight --time day --seed 1"
    assert made_of(pl.concat([before, before, whole]), line) == made_of(whole, line)


def test_rows_that_stand_for_none_are_no_evidence(made_of: Run) -> None:
    whole = ROWS.with_columns(feature=NUMBER % 4, weight=1.0)
    nothing = whole.with_columns(weight=pl.lit(0.0))
    line = "hetcal --features feature --max-depth 1 --min-leaf 100 --shrinkage 1000 "
    line += "--weight weight --weight-kind sampling"
    one, more = made_of(whole, line), made_of(pl.concat([whole, nothing, nothing]), line)
    assert (one["tree"], one["maps"]) == (more["tree"], more["maps"])


@pytest.mark.parametrize("method", ["exact", "st"])
def test_bins_that_levels_share_are_not_open_below(method: str) -> None:
    table = {"score": [0.1, 0.3, 0.9, 0.7, 0.9], "uncertainty": [2, 2, 2, 1, 1]}
    frame = pl.DataFrame({**table, "label": [0, 0, 1, 1, 1]})
    bins: dict[str, Any] = {"uncertainty_bins": 2, "score_bins": 4, "strategy": "equal-width"}
    for rows, own in ((frame, bins), (ck.bin(frame, **bins), {})):
        model = ck.fit_boundary(rows, precision=0.9, method=method, folds=0, **own)
        found = model.apply(score=[0.2, 0.2], uncertainty=[1.0, 2.0])
        assert found.tolist() == [0, 0]


@pytest.mark.parametrize(
    "line", ["boundary --precision 0.7 --method st", "hetcal --features feature"]
)
def test_blocks_of_time_do_not_hang_on_the_scale_of_sampling_weights(
    line: str, made_of: Run
) -> None:
    weight = pl.when(NUMBER % 9 == 0).then(180.0).when(NUMBER < 100).then(20.0).otherwise(1.0)
    whole = ROWS.with_columns(day=NUMBER, feature=NUMBER % 3, weight=weight)
    line += " --weight weight --weight-kind sampling --time day --seed 1"
    one, half = (
        made_of(frame, line)["fit"]["cross_validated"]
        for frame in (whole, whole.with_columns(pl.col("weight") / 2))
    )
    one.pop("by_depth", None)
    half.pop("by_depth", None)
    assert one == pytest.approx(half)


def test_values_that_are_all_one_are_rows_in_segments_too(made_of: Run) -> None:
    whole = ROWS.with_columns(day=NUMBER, part=NUMBER % 2, amount=1.0)
    line = "boundary --precision 0.6 --method st --by part --bound each --time day"
    plain, valued = (
        made_of(whole, line + more)["fit"]["cross_validated"] for more in ("", " --value amount")
    )
    # Judged rows are taken to be worth their share of all; no fit judges the first block of time.
    judged, worth = ROWS["label"][100:].sum(), round(ROWS["label"].sum() * 500 / 600)
    assert valued["recall"] == pytest.approx(plain["recall"] * judged / worth)
    assert plain["precision"] == valued["precision"]
