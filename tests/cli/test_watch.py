"""``watch``: states, nights, alarms and exit codes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit.methods.watch.state import read_state
from tests.budgets import little_memory
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, Outcome, make

DAY = date(2026, 11, 1)

#: What the fixture `watch` is.
Watch = Callable[..., Outcome]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with models."""
    folder = tmp_path_factory.mktemp("watch")
    frame = simulate(1_500, seed=1)
    fit = write(frame, folder / "fit.parquet")
    raw = write(frame.with_columns(pl.col("score") * 10), folder / "raw.parquet")
    for name, rows, options in (
        ("boundary", fit, "--precision 0.7 --method st"),
        ("certified", fit, "--precision 0.6 --confidence 0.9"),
        ("other", fit, "--precision 0.75 --method exact"),
        ("random", fit, "--fpr 0.2 --method stochastic"),
        ("best", fit, "--maximize f1 --method st"),
        ("weighted", fit, "--precision 0.7 --method st --weight weight"),
        ("raw", raw, "--scale raw --precision 0.7 --method st"),
    ):
        make(folder / f"{name}.json", "boundary", rows, options)
    make(folder / "cal.json", "calibrate", fit)
    return folder


@pytest.fixture
def watch(models: Path, invoke: Invoke) -> Watch:
    """Watch rows, by a model and with a state in the test's folder, both by name."""
    number = itertools.count()

    def call(
        rows: Any, *words: object, model: str = "boundary", state: str = "w", form: str = "parquet"
    ) -> Outcome:
        if isinstance(rows, pl.DataFrame):
            rows = write(rows, f"{next(number)}.{form}")
        return invoke("watch", models / f"{model}.json", rows, "--state", Path(state), *words)

    return call


def nights(count: int, *, rows: int = 300, wrong: int | None = None) -> pl.DataFrame:
    """Return rows of some nights; from number `wrong` on (from 0) every alert is false."""
    frame = simulate(count * rows, seed=5).drop("id")
    number = pl.int_range(pl.len()) // rows
    frame = frame.with_columns(day=pl.lit(DAY) + pl.duration(days=number), night=number)
    if wrong is not None:
        frame = frame.with_columns(
            label=pl.when(pl.col("night") >= wrong).then(0).otherwise(pl.col("label"))
        )
    return frame


def each_night(frame: pl.DataFrame) -> list[pl.DataFrame]:
    return frame.partition_by("night", maintain_order=True)


@pytest.mark.parametrize(
    ("model", "other"), [("boundary", 1.0), ("boundary", 5.0), ("random", 1.0)]
)
def test_counts_are_those_of_apply(
    model: str, other: float, models: Path, invoke: Invoke, watch: Watch
) -> None:
    frame = nights(4).with_columns(
        draw=pl.when(pl.col("score") > 0.5).then(1.0).otherwise(other),
        place=pl.int_range(pl.len()) % 5,
    )
    # All rows of high scores are labelled, and one in as many of the others as their weight says.
    rows = write(frame.filter((pl.col("draw") == 1.0) | (pl.col("place") == 0)), "rows.parquet")
    words = ["--period day --precision 0.2 --recall 0.1 --fpr 0.5"]
    words += ["--weight draw --max-weight 5"] if other > 1.0 else []
    found = watch(rows, *words, model=model).result()
    with little_memory(194) as budget:
        assert watch(rows, *words, *budget, model=model, state="again").result() == found
    apply = ("apply", models / f"{model}.json", rows, "-q", "-o applied.parquet")
    taken = invoke(*apply, *(["--key row-number"] if model == "random" else [])).result()
    chance = "decision_probability" if model == "random" else "decision"
    label, mass, select = taken["label"], taken["draw"], taken[chance].cast(pl.Float64)
    assert found.keys() >= {"alarm", "tests", "period", "advice"}
    assert (found["alarm"], found["period"]) == (False, "2026-11-04")
    assert found["rows"] == taken.height
    assert [test["name"] for test in found["tests"]] == ["precision", "recall", "fpr"]
    sides = ((select, label), (label, select), (1 - label, select))
    for test, (side, value) in zip(found["tests"], sides, strict=True):
        expected = (mass * side * value).sum() / (mass * side).sum()
        assert test["estimate"] == pytest.approx(expected, rel=1e-12)
        assert test["rows"] == int((side > 0).sum())
        assert 0 <= test["low"] < expected < test["high"] <= 1
        assert test["alpha"] == pytest.approx(0.05 / 3)
        assert test["threshold"] == pytest.approx(60)


def test_a_bound_in_each_segment_is_watched_in_each(
    models: Path, invoke: Invoke, watch: Watch
) -> None:
    """A segment whose alerts are all false from the third night on, under a mean that is not."""
    number = pl.int_range(pl.len())
    shop = pl.when(number % 4 == 0).then(pl.lit("b")).otherwise(pl.lit("a"))
    never = number % 25 == 7  # a segment without positives, which has no threshold and no promise
    fit = pl.read_parquet(models / "fit.parquet").with_columns(
        shop=pl.when(never).then(pl.lit("c")).otherwise(shop),
        label=pl.when(never).then(0).otherwise(pl.col("label")),
    )
    each = ("--by shop --bound each --min-group-positives 0", "--precision 0.6 --method st")
    make(models / "each.json", "boundary", write(fit, "fit.parquet"), *each)
    frame = nights(4).with_columns(shop=shop)
    wrong = (pl.col("shop") == "b") & (pl.col("night") >= 2)
    frame = frame.with_columns(label=pl.when(wrong).then(0).otherwise(pl.col("label")))
    found = watch(frame, "--period day", model="each").result()
    by_segment = {test["segment"]: test for test in found["tests"]}
    assert [test["refuted"] for test in by_segment.values()] == [None, "2026-11-03"]
    assert {test["alpha"] for test in by_segment.values()} == {0.025}
    assert "precision >= 0.6 in shop:b is refuted" in found["advice"]
    for own, name in ((pl.col("shop") == "a", "shop:a"), (pl.col("shop") == "b", "shop:b")):
        rows = frame.filter(own)
        alone = watch(rows, "--period day", model="each", state=name).result()["tests"]
        assert by_segment[name] in alone
        taken = invoke("apply", models / "each.json", write(rows, "one.parquet"), "-q -o out.csv")
        labels = taken.result().filter(pl.col("decision") == 1)["label"]
        assert by_segment[name]["rows"] == labels.len()
        assert by_segment[name]["estimate"] == pytest.approx(labels.mean())
    halves = [frame.filter(number % 2 == half) for half in (0, 1)]
    for half, rows in enumerate(halves):
        watch(rows, "--period day", model="each", state=f"{half}.state")
    make("merged.json", "merge", "0.state", "1.state")
    assert json.loads(Path("merged.json").read_bytes()) == found
    pooled = watch(frame, "--period day --precision 0.6", model="each", state="p").result()
    (test,) = pooled["tests"]
    assert "segment" not in test
    chance = ("--by shop --bound each --min-group-positives 0", "--fpr 0.001 --method stochastic")
    ties = fit.with_columns(score=0.75)  # of which each segment selects some by chance alone
    make(models / "chance.json", "boundary", write(ties, "ties.parquet"), *chance)
    found = watch(frame.with_columns(score=0.75), model="chance", state="chance").result()
    assert [test["segment"] for test in found["tests"]] == ["shop:a", "shop:b"]
    assert test["rows"] == sum(one["rows"] for one in by_segment.values())
    other = watch(frame, "--period day --precision 0.6", model="each")
    other.refused(3, "precision >= 0.6 in each segment there, precision >= 0.6 here")
    watch(frame, "--period day -q -o watch.prom", model="each", state="m").succeeded()
    assert (
        'calibkit_precision_rows{score="boundary",slice="shop:b"}' in Path("watch.prom").read_text()
    )


def test_night_by_night_is_all_at_once(watch: Watch) -> None:
    frame = nights(4)
    once = watch(frame, "--period day", state="a", form="csv").result()
    for own in each_night(frame):
        each = watch(own, "--period day", state="b").result()
    assert each == once
    of_text, of_numbers = (json.loads(Path(name).read_bytes()) for name in "ab")
    assert of_text.pop("text") == {"marks": ["."]}
    assert of_text == of_numbers
    mixed = frame.sample(fraction=1.0, shuffle=True, seed=1)
    text = mixed.with_columns(pl.col("day").dt.strftime("%d.%m.%Y"))
    words = ("--period", "day", "--date-format", "%d.%m.%Y")
    assert watch(text, *words, state="d", form="csv").result()["period"] == each["period"]
    again = watch(mixed, "--period night", state="c").result()
    assert again["tests"] == once["tests"]
    assert again["period"] == 3


def test_the_last_night_takes_shards_and_knows_its_rows(watch: Watch) -> None:
    first, second, third = each_night(nights(3))
    state = Path("w")
    watch(first, "--period day").succeeded()
    assert watch(second[:120], "--period day").result()["rows"] == 420
    before = state.read_bytes()
    watch(second[:120], "--period day").succeeded("already")
    assert state.read_bytes() == before
    assert watch(second[120:], "--period day").result()["rows"] == 600
    assert watch(third, "--period day").result()["rows"] == 900
    before = state.read_bytes()
    watch(second[:120], "--period day").refused(3, "2026-11-02")
    assert state.read_bytes() == before


def test_a_run_over_several_nights_is_made_again(watch: Watch) -> None:
    watch(nights(3), "--period day").succeeded()
    before = Path("w").read_bytes()
    watch(nights(3), "--period day").succeeded("nothing was added")
    assert Path("w").read_bytes() == before
    watch(each_night(nights(3))[0], "--period day", form="csv").refused(3)


def test_without_a_period_each_run_is_a_night(watch: Watch) -> None:
    first, second = (own.drop("day", "night") for own in each_night(nights(2)))
    for number, own in ((1, first), (2, second), (2, second)):
        found = watch(own, form="csv").result()
        assert found["period"] == number
    assert (found["rows"], found["nights"]) == (600, 2)


def test_an_alarm_stays_and_fails_when_asked(watch: Watch) -> None:
    frame = nights(9, wrong=4).with_columns(
        label=pl.when(pl.col("night") > 6).then(1).otherwise(pl.col("label"))
    )
    output = Path("watch.json")
    words = ("--period day --precision 0.5 -q", "-o", output)
    codes = []
    for own in each_night(frame):
        done = watch(own, *words, "--fail-if alarm")
        codes.append(done.code)
        found = json.loads(output.read_bytes())
        assert found["alarm"] == (done.code == 1)
        assert ("alarm" in done.stderr) == found["alarm"]
    assert codes[:4] == [0] * 4
    assert codes[6:] == [1] * 3
    (test,) = found["tests"]
    assert test["refuted"] == (DAY + timedelta(days=codes.index(1))).isoformat()
    assert test["since"] == "2026-11-05"
    assert f"refuted at night {test['refuted']}" in found["advice"]
    assert test["highest"] >= test["threshold"] > 1
    watch(own, *words).succeeded()


@pytest.mark.parametrize(
    ("model", "words", "expected"),
    [
        ("boundary", "", ("precision", 0.7, 0.05)),
        ("certified", "", ("precision", 0.6, 0.1)),
        ("random", "", ("fpr", 0.2, 0.05)),
        ("best", "--precision 0.5", ("precision", 0.5, 0.05)),
        ("weighted", "--precision 0.5", ("precision", 0.5, 0.05)),
        ("best", "--calibration", ("calibration", 0.0, 0.05)),
    ],
)
def test_promises_and_confidence_are_the_models_own(
    model: str, words: str, expected: tuple[str, float, float], watch: Watch
) -> None:
    found = watch(nights(1), *([words] if words else []), model=model).result()
    (one,) = found["tests"]
    assert (one["name"], one["bound"], round(one["alpha"], 12)) == expected


def test_a_state_of_anything_else_is_refused(watch: Watch) -> None:
    first, then = each_night(nights(2))
    watch(first, "--period day").succeeded()
    before = Path("w").read_bytes()
    for words, model, said in (
        ("--period day --precision 0.7", "other", "model"),
        ("--period day --precision 0.71", "boundary", "bound"),
        ("--period day --recall 0.1", "boundary", "bound"),
        ("--period day --calibration", "boundary", "bound"),
        ("--period day --drift", "boundary", "bound"),
        ("--period day --confidence 0.99", "boundary", "confidence"),
        ("--period night", "boundary", "kind of night"),
        ("--period day --maturity 1", "boundary", "maturity"),
    ):
        watch(then, words, model=model).refused(3, f"another {said}")
    assert Path("w").read_bytes() == before
    for broken in (b"{}", b"ARROW1", before.replace(b"[1.0,", b"[1.5,"), before[:-20]):
        Path("broken").write_bytes(broken)
        watch(then, "--period day", state="broken").refused(3)
    given = "--period day --weight weight --max-weight {}"
    heavy = first.with_columns(pl.col("weight") + 1.0)
    watch(heavy, given.format(5), state="weights").succeeded()
    for words, said in ((given.format(9), "9.0 here"), ("--period day", "none here")):
        done = watch(heavy, words, state="weights")
        done.refused(3, f"another largest weight: 5.0 there, {said}")


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_night_is_that_of_the_clock_on_the_wall(form: str, watch: Watch) -> None:
    late = pl.col("day").dt.combine(time(23, 30)).dt.replace_time_zone("America/New_York")
    frame = nights(2).with_columns(late.alias("at"))
    if form == "csv":
        frame = frame.with_columns(pl.col("at").dt.to_string("iso:strict"))
    assert watch(frame, "--period at", form=form).result()["period"] == "2026-11-02"


def test_late_labels_and_rows_of_age(watch: Watch) -> None:
    delay = pl.int_range(pl.len()) % 5
    frame = nights(10).with_columns(
        seen=pl.when(delay > 0).then(pl.col("night") + delay),
        label=pl.when(delay > 0).then("label"),
    )
    rows = write(frame, "rows.csv")
    words = "--labelled-at seen --period night"
    arrived = frame.drop_nulls("seen")
    done = watch(rows, words, state="a")
    done.succeeded("delay")
    assert (done.result()["rows"], done.result()["period"]) == (arrived.height, 13)
    found = watch(rows, words, "--maturity 4", state="b").result()
    assert found["rows"] == arrived.filter(pl.col("night") + 4 <= 13).height
    found = watch(rows, words, "--maturity 6", state="c").result()
    assert (found["rows"], found["period"]) == (arrived.filter(pl.col("night") <= 7).height, 13)
    state = json.loads(Path("c").read_bytes())
    assert [night[0] for night in state["nights"]] == list(range(6, 14))


def test_rows_of_age_may_come_in_several_files(watch: Watch) -> None:
    """The state knows what night it is where a further file has no row of tonight."""
    old = pl.DataFrame({"score": [0.9, 0.1] * 50, "label": [1, 0, 0, 1] * 25, "night": 1})
    tonight = old.head(4).with_columns(night=pl.lit(4, pl.Int32))
    words = "--period night --maturity 3"
    for k, part in enumerate((pl.concat([old[:40], tonight]), old[40:])):
        found = watch(write(part, f"{k}.csv"), words, state="two")
    whole = write(pl.concat([old, tonight]), "whole.csv")
    assert found.result()["tests"] == watch(whole, words, state="one").result()["tests"]
    assert found.result()["rows"] == old.height
    alone = watch(write(old, "alone.csv"), words, state="none")
    alone.succeeded("old enough by --maturity")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_night_on_which_no_label_has_arrived(form: str, watch: Watch) -> None:
    words, late = "--labelled-at seen --period night", nights(1).with_columns(seen=pl.lit(None))
    assert watch(late, words, form=form).result()["rows"] == 0
    assert watch(late.with_columns(seen=4), words, form=form).result()["period"] == 4


@pytest.mark.parametrize("day", ["2026-01-011", "2026-01-01x", "2026-01-01 late"])
def test_text_that_only_begins_with_a_date_is_no_night(day: str, watch: Watch) -> None:
    at = pl.int_range(pl.len()) == 3
    days = pl.when(at).then(pl.lit(day)).otherwise(pl.lit("2026-01-01T23+01:00"))
    done = watch(nights(1).with_columns(day=days), "--period day", form="csv")
    done.refused(3, "no night in 1 row (first: row 4")


def test_missing_weights_are_not_said_to_be_dropped_by_an_option(watch: Watch) -> None:
    rows = nights(1).with_columns(weight=pl.when(pl.int_range(pl.len()) > 0).then(1.0))
    done = watch(rows, "--weight weight --max-weight 5")
    done.refused(3, "leave them out of the input")
    assert "--on-missing" not in done.stderr


def test_labels_that_are_missing(watch: Watch) -> None:
    frame = nights(1).with_columns(label=pl.when(pl.int_range(pl.len()) < 100).then("label"))
    watch(frame).refused(3, "--unlabelled drop")
    assert watch(frame, "--unlabelled drop").result()["rows"] == 100
    none = frame.with_columns(label=pl.lit(None, pl.Int64))
    done = watch(none, "--unlabelled drop", state="none")
    done.succeeded("nothing was added")
    found = done.result()
    assert (found["period"], found["tests"][0]["estimate"]) == (None, None)
    near = nights(1).rename({"label": "Label"})
    assert watch(near, state="near").result()["rows"] == 300


@pytest.mark.parametrize(
    "words",
    ["--precision 0.7", "--calibration", "--drift", "--weight draw --max-weight 5 --recall 0.1"],
)
def test_merge_adds_states_of_shards(
    words: str, watch: Watch, invoke: Invoke, command: Callable[..., Any]
) -> None:
    frame = nights(3).with_columns(
        label=pl.when(pl.int_range(pl.len()) % 7 > 0).then("label"), draw=pl.col("weight") + 1.0
    )
    given = ("--period day --unlabelled drop", words)
    whole = watch(frame, *given, state="all").result()
    for part in (0, 1):
        watch(frame.gather_every(2, part), *given, state=f"{part}", form="csv").succeeded()
    names = [Path("0"), Path("1")]
    piped = command("merge", "-", names[1], "--json", input=names[0].read_bytes())
    assert json.loads(piped.stdout) == whole
    for order in (names, names[::-1]):
        assert invoke("merge", *order, "-q", "-o merged.state").code == 0
        assert invoke("merge", "merged.state", "--json").result() == whole
    invoke("merge", names[0], names[0]).refused(3)
    watch(frame, "--period day --unlabelled drop", model="other", state="other").succeeded()
    invoke("merge", names[0], "other").refused(3)


def test_outputs_pipes_and_plans(models: Path, watch: Watch, command: Callable[..., Any]) -> None:
    rows = write(nights(2), "rows.parquet")
    texts = {}
    for suffix in ("prom", "csv", "md", "tex", "json"):
        output = Path(f"watch.{suffix}")
        watch(rows, "--period day --drift -q", "-o", output, state=suffix).succeeded()
        texts[suffix] = output.read_text()
    assert 'calibkit_alarm{score="boundary",slice="all"} 0' in texts["prom"]
    assert 'calibkit_precision_e_value{score="boundary",slice="all"}' in texts["prom"]
    assert "calibkit_score_drift_e_value" in texts["prom"]
    assert "boundary,all,precision," in texts["csv"]
    words = ("--period day --drift -q --memory 100MB --state", Path("pipe"))
    piped = command("watch", models / "boundary.json", "-", *words, input=rows.read_bytes())
    assert piped.returncode == 0
    assert piped.stdout.decode() == texts["json"]
    plan = watch(rows, "--period day --dry-run --json", state="none").result()
    assert plan["plan"] == ["test precision >= 0.7"]
    assert not Path("none").exists()


def test_calibration_joins_when_asked(watch: Watch) -> None:
    right, words = nights(3), "--period day --precision 0.3"
    chance = pl.Series(np.random.default_rng(4).random(right.height))
    right = right.with_columns(label=(chance < right["score"]).cast(pl.Int64))
    found = watch(right, words, "--calibration", state="a").result()
    precision, calibration = found["tests"]
    assert (precision["name"], calibration["name"]) == ("precision", "calibration")
    assert precision["alpha"] == calibration["alpha"] == pytest.approx(0.025)
    mean = right["label"].mean() - right["score"].mean()  # type: ignore[operator]
    assert calibration["estimate"] == pytest.approx(mean, abs=1e-4)
    assert calibration["low"] < mean < calibration["high"]
    assert (calibration["rows"], calibration["bound"], found["alarm"]) == (900, 0.0, False)
    logit = (pl.col("score") / (1 - pl.col("score"))).log()
    bent = right.with_columns(score=1 / (1 + (-2.5 * logit).exp()))
    found = watch(bent, words, "--calibration", state="b").result()
    assert found["alarm"] is True
    assert "calibration is refuted" in found["advice"]
    assert "recalibrate" in found["advice"]
    assert not watch(bent, words, state="c").result()["alarm"]


def test_the_table_on_a_terminal(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibkit_cli.console._is_terminal", lambda stream: True)
    done = watch(nights(1))
    assert (done.code, done.stderr) == (0, "")
    for word in ("precision", "e-value", "estimate"):
        assert word in done.stdout.decode()


def test_no_night_is_later_than_the_last_day_there_is(watch: Watch) -> None:
    frame = nights(1, rows=40).with_columns(day=pl.lit("9999-12-31"))
    words = "--period day --precision 0.45"
    assert "night 9999-12-31 at" in watch(frame, words, state="a").result()["advice"]
    assert watch(frame, words, "--maturity 3", state="b").result()["rows"] == 0


#: What is done to good rows, by name.
ROWS: dict[str, dict[str, Any]] = {
    "good": {},
    "odd": {"day": pl.lit("yesterday")},
    "gone": {"night": pl.when(pl.col("score") > 0.5).then("night")},
    "outside": {"score": pl.col("score") * 2},
    "soon": {"night": pl.when(pl.int_range(pl.len()) < 9).then(pl.lit("1")).otherwise(pl.lit("n"))},
    "early": {"day": pl.lit("0000-01-01")},
    "weightless": {"draw": 2 * (pl.col("weight") > 0)},
    "many weights": {"draw": 1 + pl.int_range(pl.len()) / 1e4},
    "bare": {"label": None},
}


@pytest.mark.parametrize(
    ("rows", "model", "words", "code", "said"),
    [
        ("good", "boundary", "--precision 1", 2, "--precision"),
        ("good", "boundary", "--fpr 0", 2, "--fpr"),
        ("good", "boundary", "--confidence 1.5", 2, "--confidence"),
        ("good", "boundary", "--maturity 3", 2, "--period"),
        ("good", "boundary", "--period dya", 2, "did you mean 'day'"),
        ("good", "boundary", "--label lable", 2, "did you mean 'label'"),
        ("good", "boundary", "--fail-if precision<0.5", 2, "alarm"),
        ("good", "boundary", "-o ./", 2, "one result"),
        ("odd", "boundary", "--period day", 3, "'day'"),
        ("gone", "boundary", "--period night", 3, "'night'"),
        ("soon", "boundary", "--period night", 3, "no night"),
        ("early", "boundary", "--period day", 3, "no night"),
        ("outside", "boundary", "-q", 3, "'score'"),
        ("good", "boundary", "--period score", 3, "'score'"),
        ("good", "boundary", "--weight draw", 2, "--max-weight go together"),
        ("good", "boundary", "--max-weight 5", 2, "--max-weight go together"),
        ("good", "boundary", "--weight draw --max-weight 0", 2, "--max-weight is 0"),
        ("good", "boundary", "--weight draw --max-weight 5 --calibration", 2, "--calibration"),
        ("good", "boundary", "--weight drwa --max-weight 5", 2, "did you mean 'draw'"),
        ("good", "boundary", "--weight draw --max-weight 3", 3, "above --max-weight 3"),
        ("weightless", "boundary", "--weight draw --max-weight 5", 3, "weight 0"),
        ("many weights", "boundary", "--weight draw --max-weight 5", 3, "100 at most"),
        ("bare", "boundary", "--period day --drift", 2, "'label'"),
        ("good", "boundary", "--drift --labelled-at day", 2, "--period"),
        ("good", "weighted", "--precision 0.1 --drift", 2, "weights"),
        ("good", "weighted", "-q", 2, "once"),
        ("good", "best", "-q", 2, "name a promise"),
        ("good", "cal", "-q", 3, "calibrator"),
        ("outside", "raw", "--calibration", 2, "--scale raw"),
    ],
)
def test_bad_usage(rows: str, model: str, words: str, code: int, said: str, watch: Watch) -> None:
    frame = nights(1).with_columns(draw=pl.col("weight") + 1.0).with_columns(**ROWS[rows])
    frame = frame.drop("label") if rows == "bare" else frame
    done = watch(frame, words, model=model, form="csv")
    done.refused(code, said)
    assert done.stdout == b""


def test_places_where_no_state_can_be(models: Path, invoke: Invoke) -> None:
    rows = write(nights(1), "rows.parquet")
    words = ("watch", models / "boundary.json", rows)
    invoke(*words).refused(2, "--state")
    for state, said in (
        ("-", "--state"),
        ("./", "--state"),
        (rows, "written over"),
        (Path("no/x.state"), "no such folder"),
    ):
        done = invoke(*words, "--state", state)
        done.refused(2, said)
        assert done.stderr.count("\n") == 1  # before anything is said of the rows


def test_drift_counts_rows_without_a_label_and_never_alarms(watch: Watch) -> None:
    frame = nights(6).with_columns(
        label=pl.when(pl.int_range(pl.len()) % 3 == 0).then("label"),
        uncertainty=pl.when(pl.col("night") >= 3)
        .then(pl.col("uncertainty") * 4)
        .otherwise("uncertainty"),
    )
    words = "--period day --precision 0.1 --drift --unlabelled drop"
    found = watch(frame, words, model="certified").result()
    score, uncertainty = found["drift"]
    assert (score["name"], uncertainty["name"]) == ("score", "uncertainty")
    assert (score["refuted"], score["rows"], found["rows"]) == (None, 1800, 600)
    assert score["alpha"] == uncertainty["alpha"] == pytest.approx(0.025)
    assert (uncertainty["since"], found["alarm"]) == ("2026-11-04", False)
    assert uncertainty["refuted"] >= "2026-11-04"
    assert uncertainty["moved"] > 0.2 > score["moved"]
    assert "not as those of the fit: uncertainty since night 2026-11-04" in found["advice"]
    changed = frame.filter(pl.col("night") >= 3)
    alone = watch(changed, words, model="certified", state="changed").result()["drift"][1]
    assert (alone["since"], alone["moved"]) == ("2026-11-04", uncertainty["moved"])
    done = watch(frame.drop("label"), words, model="certified", state="bare")
    done.succeeded("there is no column 'label'")
    assert done.result()["drift"] == found["drift"]


def test_drift_counts_a_row_once_though_its_label_comes_later(watch: Watch) -> None:
    """Each night brings its new rows, those of the last two nights again, and labels that arrived."""
    frame = nights(6).with_columns(seen=pl.col("night") + pl.int_range(pl.len()) % 3)
    words = "--period night --labelled-at seen --drift --precision 0.1"
    for night in range(6):
        own = frame.filter(pl.col("night").is_between(night - 2, night)).with_columns(
            seen=pl.when(pl.col("seen") <= night).then("seen")
        )
        own = own.filter(pl.col("seen").is_null() | (pl.col("seen") == night))
        for _ in range(2):
            done = watch(own, words)
            found = done.result()
        assert ("that are over left out of drift" in done.stderr) == (night > 0)
        assert found["drift"][0]["rows"] == 300 * (night + 1)
    whole = frame.filter(pl.col("seen") <= 5)
    assert found["rows"] == whole.height
    assert watch(whole, words, state="once").result()["tests"] == found["tests"]


def test_late_labels_of_a_night_without_rows_come_in_several_files(watch: Watch) -> None:
    frame = nights(2).with_columns(seen=pl.lit(3))
    new = frame.with_columns(seen=pl.lit(None, pl.Int32), label=pl.lit(None, pl.Int64))
    words = "--period night --labelled-at seen --drift --unlabelled drop --precision 0.1"
    for part in (new, frame[::2], frame[1::2]):
        found = watch(part, words).result()
    assert (found["rows"], found["drift"][0]["rows"]) == (frame.height, frame.height)


def test_runs_at_the_same_time_keep_all_rows(models: Path) -> None:
    """The files of a night may come in any number of runs, also in threads and other processes."""
    parts = [simulate(300, seed=seed).with_columns(day=pl.lit(DAY)) for seed in range(4)]
    state = str(Path("w.state"))

    def add(part: pl.DataFrame) -> None:
        ck.watch(part, model=models / "boundary.json", state=state, period="day")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, parts))
    (night,) = read_state(Path(state).read_bytes(), state).nights
    assert len(night.shards) == 4
    assert [one.name for one in Path().iterdir()] == ["w.state"]
