"""``watch``: states, nights, alarms and exit codes."""

from __future__ import annotations

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
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, make

DAY = date(2026, 11, 1)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with models."""
    folder = tmp_path_factory.mktemp("watch")
    fit = write(simulate(1_500, seed=1), folder / "fit.parquet")
    for name, options in (
        ("boundary", "--precision 0.7 --method st"),
        ("certified", "--precision 0.6 --confidence 0.9"),
        ("other", "--precision 0.75 --method exact"),
        ("random", "--fpr 0.2 --method stochastic"),
        ("best", "--maximize f1 --method st"),
        ("weighted", "--precision 0.7 --method st --weight weight"),
    ):
        make(folder / f"{name}.json", "boundary", fit, options)
    make(folder / "cal.json", "calibrate", fit)
    return folder


def nights(count: int, *, rows: int = 300, seed: int = 5, wrong: int | None = None) -> pl.DataFrame:
    """Return rows of some nights; from number `wrong` on (from 0) every alert is false."""
    frame = simulate(count * rows, seed=seed).drop("id")
    number = pl.int_range(pl.len()) // rows
    frame = frame.with_columns(day=pl.lit(DAY) + pl.duration(days=number), night=number)
    if wrong is not None:
        frame = frame.with_columns(
            label=pl.when(pl.col("night") >= wrong).then(0).otherwise(pl.col("label"))
        )
    return frame


def content(invoke: Invoke, *words: object, code: int = 0) -> dict[str, Any]:
    done = invoke("watch", *words, "--json")
    assert done.code == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_counts_are_those_of_apply(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    rows = write(nights(3), tmp_path / "rows.parquet")
    words = (models / "boundary.json", rows, "--state", tmp_path / "w.state", "--period", "day")
    found = content(invoke, *words, "--precision", "0.6", "--recall", "0.1", "--fpr", "0.4")
    applied = tmp_path / "applied.parquet"
    frame = invoke("apply", models / "boundary.json", rows, "-q", "-o", applied).result()
    taken, label = frame["decision"] == 1, frame["label"] == 1
    expected = {
        "precision": ((taken & label).sum() / taken.sum(), taken.sum()),
        "recall": ((taken & label).sum() / label.sum(), label.sum()),
        "fpr": ((taken & ~label).sum() / (~label).sum(), (~label).sum()),
    }
    assert found.keys() >= {"alarm", "tests", "period", "advice"}
    assert (found["alarm"], found["period"], found["rows"]) == (False, "2026-11-03", 900)
    assert [test["name"] for test in found["tests"]] == list(expected)
    for test in found["tests"]:
        assert test["estimate"] == pytest.approx(expected[test["name"]][0])
        assert test["rows"] == expected[test["name"]][1]
        assert 0 <= test["low"] <= test["estimate"] <= test["high"] <= 1
        assert test["alpha"] == pytest.approx(0.05 / 3)
        assert test["threshold"] == pytest.approx(60)


def test_night_by_night_is_all_at_once(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    frame = nights(4)
    model = models / "boundary.json"
    once = content(
        invoke, model, write(frame, tmp_path / "all.csv"), "--state", tmp_path / "a", "--period day"
    )
    for number in range(4):
        own = write(frame.filter(pl.col("night") == number), tmp_path / f"{number}.parquet")
        each = content(invoke, model, own, "--state", tmp_path / "b", "--period", "day")
    assert each == once
    of_text, of_numbers = (json.loads((tmp_path / name).read_bytes()) for name in "ab")
    assert of_text.pop("text") == {"marks": ["."]}
    assert of_text == of_numbers
    own = write(frame.sample(fraction=1.0, shuffle=True, seed=1), tmp_path / "shuffled.parquet")
    text = tmp_path / "text.csv"
    pl.read_parquet(own).with_columns(pl.col("day").dt.strftime("%d.%m.%Y")).write_csv(text)
    words = ("--state", tmp_path / "d", "--period", "day", "--date-format", "%d.%m.%Y")
    assert content(invoke, model, text, *words)["period"] == each["period"]
    again = content(invoke, model, own, "--state", tmp_path / "c", "--period", "night")
    assert again["tests"] == once["tests"]
    assert again["period"] == 3


def test_the_last_night_takes_shards_and_knows_its_rows(
    models: Path, invoke: Invoke, tmp_path: Path
) -> None:
    frame = nights(3)
    words = ("--state", tmp_path / "w.state", "--period", "day")
    files = []
    for number, part in (
        (0, slice(None)),
        (1, slice(0, 120)),
        (1, slice(120, None)),
        (2, slice(None)),
    ):
        own = frame.filter(pl.col("night") == number)[part]
        files.append(write(own, tmp_path / f"{len(files)}.parquet"))
    model = models / "boundary.json"
    content(invoke, model, files[0], *words)
    first = content(invoke, model, files[1], *words)
    state = (tmp_path / "w.state").read_bytes()
    invoke("watch", model, files[1], *words, "-o", tmp_path / "w.json").succeeded("already")
    assert (tmp_path / "w.state").read_bytes() == state
    assert first["rows"] == 420
    assert content(invoke, model, files[2], *words)["rows"] == 600
    assert content(invoke, model, files[3], *words)["rows"] == 900
    state = (tmp_path / "w.state").read_bytes()
    invoke("watch", model, files[1], *words).refused(3, "2026-11-02")
    assert (tmp_path / "w.state").read_bytes() == state


def test_without_a_period_each_run_is_a_night(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    frame = nights(2).drop("day", "night")
    words = ("--state", tmp_path / "w.state")
    for number in (0, 1, 1):
        own = write(frame[number * 300 : number * 300 + 300], tmp_path / f"{number}.csv")
        found = content(invoke, models / "boundary.json", own, *words)
        assert found["period"] == number + 1
    assert (found["rows"], found["nights"]) == (600, 2)


def test_an_alarm_stays_and_fails_when_asked(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    frame = nights(9, wrong=4).with_columns(
        label=pl.when(pl.col("night") > 6).then(1).otherwise(pl.col("label"))
    )
    state, output = tmp_path / "w.state", tmp_path / "watch.json"
    codes = []
    for number in range(9):
        own = write(frame.filter(pl.col("night") == number), tmp_path / f"{number}.parquet")
        words = (models / "boundary.json", own, "--state", state, "--period day --precision 0.5")
        done = invoke("watch", *words, "--fail-if", "alarm", "-q", "-o", output)
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
    assert invoke("watch", *words, "-q", "-o", output).code == 0


def test_promises_and_confidence_are_the_models_own(
    models: Path, invoke: Invoke, tmp_path: Path
) -> None:
    rows = write(nights(1), tmp_path / "rows.parquet")
    for name, expected in (
        ("boundary", [("precision", 0.7, 0.05)]),
        ("certified", [("precision", 0.6, 0.1)]),
        ("random", [("fpr", 0.2, 0.05)]),
    ):
        found = content(
            invoke, models / f"{name}.json", rows, "--state", tmp_path / f"{name}.state"
        )
        seen = [(one["name"], one["bound"], pytest.approx(one["alpha"])) for one in found["tests"]]
        assert seen == expected
    for name, said in (("best", "name a promise"), ("weighted", "once")):
        done = invoke("watch", models / f"{name}.json", rows, "--state", tmp_path / "x.state")
        done.refused(2, said)
        more = ("--precision", "0.5", "--state", tmp_path / f"{name}.state")
        assert invoke("watch", models / f"{name}.json", rows, *more).code == 0
    done = invoke("watch", models / "cal.json", rows, "--state", tmp_path / "x.state")
    assert done.code == 3
    assert not (tmp_path / "x.state").exists()
    done = invoke("watch", models / "boundary.json", rows, "--state", tmp_path / "no" / "x.state")
    done.refused(2, "no such folder")
    assert done.stderr.count("\n") == 1  # before anything is said of the rows


def test_a_state_of_anything_else_is_refused(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    frame, state = nights(2), tmp_path / "w.state"
    first = write(frame.filter(pl.col("night") == 0), tmp_path / "0.parquet")
    then = write(frame.filter(pl.col("night") == 1), tmp_path / "1.parquet")
    model = models / "boundary.json"
    content(invoke, model, first, "--state", state, "--period", "day")
    before = state.read_bytes()
    for words, said in (
        ((models / "other.json", then, "--period", "day", "--precision", "0.7"), "model"),
        ((model, then, "--period", "day", "--precision", "0.71"), "bound"),
        ((model, then, "--period", "day", "--recall", "0.1"), "bound"),
        ((model, then, "--period", "day", "--confidence", "0.99"), "confidence"),
        ((model, then, "--period", "night"), "kind of night"),
        ((model, then, "--period", "day", "--maturity", "1"), "maturity"),
    ):
        invoke("watch", *words, "--state", state).refused(3, f"another {said}")
    for broken in (b"{}", b"ARROW1", before.replace(b"[1.0,", b"[1.5,"), before[:-20]):
        (tmp_path / "broken.state").write_bytes(broken)
        words = (model, then, "--period", "day", "--state", tmp_path / "broken.state")
        assert invoke("watch", *words).code == 3
    assert state.read_bytes() == before


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_night_is_that_of_the_clock_on_the_wall(
    suffix: str, models: Path, invoke: Invoke, tmp_path: Path
) -> None:
    late = pl.col("day").dt.combine(time(23, 30)).dt.replace_time_zone("America/New_York")
    frame = nights(2).with_columns(late.alias("at"))
    if suffix == "csv":
        frame = frame.with_columns(pl.col("at").dt.to_string("iso:strict"))
    rows = write(frame, tmp_path / f"rows.{suffix}")
    words = (models / "boundary.json", rows, "--state", tmp_path / "w.state", "--period", "at")
    assert content(invoke, *words)["period"] == "2026-11-02"


def test_late_labels_and_rows_of_age(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    delay = pl.int_range(pl.len()) % 5
    frame = nights(10).with_columns(
        seen=pl.when(delay > 0).then(pl.col("night") + delay),
        label=pl.when(delay > 0).then("label"),
    )
    model = models / "boundary.json"
    rows = write(frame, tmp_path / "rows.csv")
    words = (model, rows, "--labelled-at", "seen", "--period", "night")
    arrived = frame.drop_nulls("seen")
    found = content(invoke, *words, "--state", tmp_path / "a.state")
    assert (found["rows"], found["period"]) == (arrived.height, 13)
    assert (
        "delay"
        in invoke("watch", *words, "--state", tmp_path / "d", "-o", tmp_path / "o.json").stderr
    )
    found = content(invoke, *words, "--state", tmp_path / "b.state", "--maturity", "4")
    assert found["rows"] == arrived.filter(pl.col("night") + 4 <= 13).height
    found = content(invoke, *words, "--state", tmp_path / "c.state", "--maturity", "6")
    assert (found["rows"], found["period"]) == (arrived.filter(pl.col("night") <= 7).height, 13)
    state = json.loads((tmp_path / "c.state").read_bytes())
    assert [night[0] for night in state["nights"]] == list(range(6, 14))


def test_labels_that_are_missing(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    frame = nights(1).with_columns(label=pl.when(pl.int_range(pl.len()) < 100).then("label"))
    rows = write(frame, tmp_path / "rows.parquet")
    words = (models / "boundary.json", rows, "--state", tmp_path / "w.state")
    invoke("watch", *words).refused(3, "--unlabelled drop")
    assert content(invoke, *words, "--unlabelled", "drop")["rows"] == 100
    none = write(frame.with_columns(label=pl.lit(None, pl.Int64)), tmp_path / "none.parquet")
    words = (models / "boundary.json", none, "--state", tmp_path / "none.state")
    done = invoke("watch", *words, "--unlabelled", "drop", "--json")
    done.succeeded("nothing was added")
    found = json.loads(done.stdout)
    assert (found["period"], found["tests"][0]["estimate"]) == (None, None)
    near = write(nights(1).rename({"label": "Label"}), tmp_path / "near.parquet")
    words = (models / "boundary.json", near, "--state", tmp_path / "near.state")
    assert content(invoke, *words)["rows"] == 300


def test_merge_adds_states(
    models: Path, invoke: Invoke, command: Callable[..., Any], tmp_path: Path
) -> None:
    frame, model = nights(3), models / "boundary.json"
    names = []
    for shard in range(2):
        own = frame.filter(pl.int_range(pl.len()) % 2 == shard)
        rows = write(own, tmp_path / f"{shard}.parquet")
        names.append(tmp_path / f"{shard}.state")
        content(invoke, model, rows, "--state", names[-1], "--period", "day")
    whole = content(
        invoke,
        model,
        write(frame, tmp_path / "a.parquet"),
        "--state",
        tmp_path / "a",
        "--period day",
    )
    assert invoke("merge", *names, "--json").result() == whole
    for order in (names, names[::-1]):
        merged = tmp_path / "merged.state"
        assert invoke("merge", *order, "-q", "-o", merged).code == 0
        found = json.loads(invoke("merge", merged, "--json").stdout)
        assert found == whole
    with names[0].open("rb") as file:
        piped = command("merge", "-", names[1], "--json", stdin=file)
    assert json.loads(piped.stdout) == whole
    assert invoke("merge", names[0], names[0]).code == 3
    other = tmp_path / "other.state"
    content(invoke, models / "other.json", tmp_path / "a.parquet", "--state", other, "--period day")
    assert invoke("merge", names[0], other).code == 3


def test_outputs_pipes_and_batches(
    models: Path, invoke: Invoke, command: Callable[..., Any], tmp_path: Path
) -> None:
    rows = write(nights(2), tmp_path / "rows.parquet")
    words = (models / "boundary.json", rows, "--period", "day", "-q")
    texts = {}
    for suffix in ("prom", "csv", "md", "tex", "json"):
        output = tmp_path / f"watch.{suffix}"
        state = ("--state", tmp_path / f"{suffix}.state")
        assert invoke("watch", *words, *state, "-o", output).code == 0
        texts[suffix] = output.read_text()
    assert 'calibkit_alarm{score="boundary",slice="all"} 0' in texts["prom"]
    assert 'calibkit_precision_e_value{score="boundary",slice="all"}' in texts["prom"]
    assert "boundary,all,precision," in texts["csv"]
    piped = command(
        "watch", models / "boundary.json", "-", "--period", "day", "-q", "--state",
        tmp_path / "pipe.state", "--memory", "100MB", input=rows.read_bytes(),
    )  # fmt: skip
    assert piped.returncode == 0
    assert piped.stdout.decode() == texts["json"]
    plan = invoke("watch", *words, "--state", tmp_path / "no.state", "--dry-run", "--json")
    assert json.loads(plan.stdout)["plan"] == ["test precision >= 0.7"]
    assert not (tmp_path / "no.state").exists()


def test_a_run_over_several_nights_is_made_again(
    models: Path, invoke: Invoke, tmp_path: Path
) -> None:
    rows = write(nights(3), tmp_path / "rows.parquet")
    state = tmp_path / "w.state"
    words = ("watch", models / "boundary.json", rows, "--period", "day", "--state", state)
    assert invoke(*words, "-q").code == 0
    before = state.read_bytes()
    done = invoke(*words)
    assert (done.code, "nothing was added" in done.stderr) == (0, True)
    assert state.read_bytes() == before
    early = pl.read_parquet(rows).filter(pl.col("day") == pl.col("day").min())
    assert invoke(*words[:2], write(early, tmp_path / "early.csv"), *words[3:]).code == 3


def honest(frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows with labels drawn anew, each positive with its score as the chance."""
    chance = np.random.default_rng(4).random(frame.height)
    return frame.with_columns(label=(pl.Series(chance) < frame["score"]).cast(pl.Int64))


def bent(frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows whose scores say too much: those above a half nearer to 1, the others to 0."""
    logit = (pl.col("score") / (1 - pl.col("score"))).log()
    return frame.with_columns(score=1 / (1 + (-2.5 * logit).exp()))


def test_calibration_joins_when_asked(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    right, wrong = (
        write(frame, tmp_path / f"{name}.parquet")
        for name, frame in (("right", honest(nights(3))), ("wrong", bent(honest(nights(3)))))
    )
    words = (models / "boundary.json", right, "--period", "day", "--precision", "0.3")
    found = content(invoke, *words, "--state", tmp_path / "a.state", "--calibration")
    precision, calibration = found["tests"]
    assert (precision["name"], calibration["name"]) == ("precision", "calibration")
    assert precision["alpha"] == calibration["alpha"] == pytest.approx(0.025)
    frame = pl.read_parquet(right)
    mean = frame["label"].mean() - frame["score"].mean()  # type: ignore[operator]
    assert calibration["estimate"] == pytest.approx(mean, abs=1e-4)
    assert calibration["low"] < mean < calibration["high"]
    assert (calibration["rows"], calibration["bound"], found["alarm"]) == (900, 0.0, False)
    words = (words[0], wrong, *words[2:])
    found = content(invoke, *words, "--state", tmp_path / "b.state", "--calibration")
    assert found["alarm"] is True
    assert "calibration is refuted" in found["advice"]
    assert "recalibrate" in found["advice"]
    assert not content(invoke, *words, "--state", tmp_path / "c.state")["alarm"]
    other = invoke("watch", *words, "--state", tmp_path / "c.state", "--calibration")
    assert (other.code, "another bound" in other.stderr) == (3, True)
    only = content(
        invoke, models / "best.json", right, "--calibration", "--state", tmp_path / "d.state"
    )
    assert [test["name"] for test in only["tests"]] == ["calibration"]


def test_calibration_in_shards_is_that_of_all_rows(
    models: Path, invoke: Invoke, tmp_path: Path
) -> None:
    frame = nights(3)
    words = ("--period", "day", "--calibration", "-q")
    for name, own in (("all", frame), ("odd", frame[::2]), ("even", frame[1::2])):
        rows = write(own, tmp_path / f"{name}.csv")
        line = ("watch", models / "boundary.json", rows, *words)
        state = ("--state", tmp_path / f"{name}.state", "-o", tmp_path / f"{name}.json")
        assert invoke(*line, *state).code == 0
    parts = (tmp_path / "odd.state", tmp_path / "even.state")
    assert invoke("merge", *parts, "-q", "-o", tmp_path / "merged.json").code == 0
    assert (tmp_path / "merged.json").read_bytes() == (tmp_path / "all.json").read_bytes()
    damaged = json.loads((tmp_path / "all.state").read_bytes())
    damaged["nights"][0][3][0][1] = 10_000
    (tmp_path / "odd.state").write_text(json.dumps(damaged))
    assert invoke("merge", *parts).code == 3


def test_calibration_of_scores_that_are_no_probabilities(invoke: Invoke, tmp_path: Path) -> None:
    raw = simulate(400, seed=3).with_columns(pl.col("score") * 10)
    rows = write(raw, tmp_path / "raw.parquet")
    model = tmp_path / "raw.json"
    fit = ("boundary", rows, "--scale", "raw", "--precision", "0.7", "--method", "st", "-q")
    assert invoke(*fit, "-o", model).code == 0
    done = invoke("watch", model, rows, "--state", tmp_path / "w.state", "--calibration")
    assert (done.code, "--scale raw" in done.stderr) == (2, True)


def test_the_table_on_a_terminal(
    models: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from calibkit_cli import console

    monkeypatch.setattr(console, "_is_terminal", lambda stream: True)
    rows = write(nights(1), tmp_path / "rows.parquet")
    done = invoke("watch", models / "boundary.json", rows, "--state", tmp_path / "w.state")
    assert (done.code, done.stderr) == (0, "")
    for word in ("precision", "e-value", "estimate"):
        assert word in done.stdout.decode()


def test_no_night_is_later_than_the_last_day_there_is(
    models: Path, invoke: Invoke, tmp_path: Path
) -> None:
    frame = nights(1, rows=40).with_columns(day=pl.lit("9999-12-31"))
    rows = write(frame, tmp_path / "rows.parquet")
    words = (models / "boundary.json", rows, "--period", "day", "--precision", "0.45")
    assert "night 9999-12-31 at" in content(invoke, *words, "--state", tmp_path / "a")["advice"]
    late = content(invoke, *words, "--state", tmp_path / "b", "--maturity", "3")
    assert late["rows"] == 0


def test_bad_usage(models: Path, invoke: Invoke, tmp_path: Path) -> None:
    frame = nights(1)
    rows = write(frame, tmp_path / "rows.parquet")
    model, state = models / "boundary.json", tmp_path / "w.state"
    odd = write(frame.with_columns(day=pl.lit("yesterday")), tmp_path / "odd.csv")
    gone = write(
        frame.with_columns(night=pl.when(pl.col("score") > 0.5).then("night")), tmp_path / "g.csv"
    )
    outside = write(frame.with_columns(pl.col("score") * 2), tmp_path / "outside.csv")
    number = pl.when(pl.int_range(pl.len()) < 9).then(pl.lit("1")).otherwise(pl.lit("soon"))
    soon = write(frame.with_columns(night=number), tmp_path / "soon.csv")
    early = write(frame.with_columns(day=pl.lit("0000-01-01")), tmp_path / "early.csv")
    for words, code, said in (
        ((model, rows), 2, "--state"),
        ((model, rows, "--state", "-"), 2, "--state"),
        ((model, rows, "--state", f"{tmp_path}/"), 2, "--state"),
        ((model, rows, "--state", state, "--precision", "1"), 2, "--precision"),
        ((model, rows, "--state", state, "--fpr", "0"), 2, "--fpr"),
        ((model, rows, "--state", state, "--confidence", "1.5"), 2, "--confidence"),
        ((model, rows, "--state", state, "--maturity", "3"), 2, "--period"),
        ((model, rows, "--state", state, "--period", "dya"), 2, "did you mean 'day'"),
        ((model, rows, "--state", state, "--label", "lable"), 2, "did you mean 'label'"),
        ((model, rows, "--state", state, "--fail-if", "precision<0.5"), 2, "alarm"),
        ((model, rows, "--state", state, "-o", f"{tmp_path}/"), 2, "one result"),
        ((model, rows, "--state", rows), 2, "written over"),
        ((model, odd, "--state", state, "--period", "day"), 3, "'day'"),
        ((model, gone, "--state", state, "--period", "night"), 3, "'night'"),
        ((model, soon, "--state", state, "--period", "night"), 3, "no night"),
        ((model, early, "--state", state, "--period", "day"), 3, "no night"),
        ((model, outside, "--state", state), 3, "'score'"),
        ((model, rows, "--state", state, "--period", "score"), 3, "'score'"),
    ):
        done = invoke("watch", *words)
        assert (done.code, done.stdout) == (code, b""), (words, done)
        assert said in done.stderr, done.stderr
        assert not state.exists()


def test_sampling_weights_judge_recall_where_few_rows_have_labels(
    models: Path, invoke: Invoke, tmp_path: Path
) -> None:
    rows = nights(4, rows=1_000).with_columns(
        draw=pl.when(pl.col("score") > 0.5).then(1.0).otherwise(5.0),
        place=pl.int_range(pl.len()) % 5,
    )
    # All rows of high scores are labelled, and one in five of the others.
    drawn = rows.filter((pl.col("draw") == 1.0) | (pl.col("place") == 0)).drop("place")
    path = write(drawn, tmp_path / "drawn.parquet")
    words = [models / "boundary.json", "--period", "day", "--recall", "0.1", "--fpr", "0.5"]
    words += ["--precision", "0.2", "--weight", "draw", "--max-weight", "5"]
    found = content(invoke, words[0], path, *words[1:], "--state", tmp_path / "all.state")
    applied = tmp_path / "applied.parquet"
    taken = invoke("apply", models / "boundary.json", path, "-o", applied).result()
    label, mass = taken["label"].cast(pl.Int64), taken["draw"]
    select = taken["decision"].cast(pl.Float64)
    by_name = {test["name"]: test for test in found["tests"]}
    for name, side in (("recall", label), ("fpr", 1 - label), ("precision", select)):
        value = label if name == "precision" else select
        expected = (mass * side * value).sum() / (mass * side).sum()
        assert by_name[name]["estimate"] == pytest.approx(expected, rel=1e-12)
        assert by_name[name]["low"] < expected < by_name[name]["high"]
        assert by_name[name]["rows"] == int((side > 0).sum())
    # Shards in any order are all rows at once.
    for part in (0, 1):
        shard = write(drawn.gather_every(2, part), tmp_path / f"{part}.parquet")
        content(invoke, words[0], shard, *words[1:], "--state", tmp_path / f"{part}.state")
    merged = tmp_path / "merged.json"
    parts = [tmp_path / f"{part}.state" for part in (1, 0)]
    assert invoke("merge", *parts, "-o", merged, "-q").result()["tests"] == found["tests"]
    # What the tests rest on is declared, and holds.
    state = tmp_path / "new.state"
    many = write(drawn.with_columns(draw=1 + pl.int_range(pl.len()) / 1e4), tmp_path / "m.parquet")
    none = write(drawn.with_columns(draw=pl.col("draw") - 1.0), tmp_path / "none.parquet")
    other = tmp_path / "all.state"
    for file, words, code, said in (
        (path, ["--weight", "draw"], 2, "--max-weight go together"),
        (path, ["--max-weight", "5"], 2, "--max-weight go together"),
        (path, ["--weight", "draw", "--max-weight", "0"], 2, "--max-weight is 0"),
        (path, ["--weight", "draw", "--max-weight", "5", "--calibration"], 2, "--calibration"),
        (path, ["--weight", "drwa", "--max-weight", "5"], 2, "did you mean 'draw'"),
        (path, ["--weight", "draw", "--max-weight", "4"], 3, "above --max-weight 4"),
        (none, ["--weight", "draw", "--max-weight", "5"], 3, "weight 0"),
        (many, ["--weight", "draw", "--max-weight", "5"], 3, "100 at most"),
    ):
        done = invoke("watch", models / "boundary.json", file, "--state", state, *words)
        assert (done.code, done.stdout) == (code, b""), (words, done)
        assert said in done.stderr, done.stderr
        assert not state.exists()
    words = [models / "boundary.json", path, "--period", "day", "--recall", "0.1", "--fpr", "0.5"]
    words += ["--precision", "0.2", "--weight", "draw", "--max-weight", "9", "--state", other]
    done = invoke("watch", *words)
    assert (done.code, "another largest weight: 5.0 there, 9.0 here" in done.stderr) == (3, True)
    place = words.index("--weight")
    done = invoke("watch", *words[:place], *words[place + 4 :])
    assert (done.code, "another largest weight: 5.0 there, none here" in done.stderr) == (3, True)


def test_drift_counts_rows_without_a_label_and_never_alarms(
    models: Path, invoke: Invoke, tmp_path: Path
) -> None:
    frame = nights(6).with_columns(
        label=pl.when(pl.int_range(pl.len()) % 3 == 0).then("label"),
        uncertainty=pl.when(pl.col("night") >= 3)
        .then(pl.col("uncertainty") * 4)
        .otherwise("uncertainty"),
    )
    words = ("--period", "day", "--precision", "0.1", "--drift", "--unlabelled", "drop")
    rows = write(frame, tmp_path / "rows.parquet")
    model = models / "certified.json"
    found = content(invoke, model, rows, *words, "--state", tmp_path / "a.state")
    score, uncertainty = found["drift"]
    assert (score["name"], uncertainty["name"]) == ("score", "uncertainty")
    assert (score["refuted"], score["rows"], found["rows"]) == (None, 1800, 600)
    assert score["alpha"] == uncertainty["alpha"] == pytest.approx(0.025)
    assert (uncertainty["since"], found["alarm"]) == ("2026-11-04", False)
    assert uncertainty["refuted"] >= "2026-11-04"
    assert uncertainty["moved"] > 0.2 > score["moved"]
    changed = write(frame.filter(pl.col("night") >= 3), tmp_path / "changed.parquet")
    alone = content(invoke, model, changed, *words, "--state", tmp_path / "changed.state")
    assert alone["drift"][1]["since"] == uncertainty["since"]
    assert alone["drift"][1]["moved"] == uncertainty["moved"]  # of the nights since then
    assert "not as those of the fit: uncertainty since night 2026-11-04" in found["advice"]
    # Shards in any order are all rows at once; without a column of labels it is all drift.
    for part in (0, 1):
        shard = write(frame.gather_every(2, part), tmp_path / f"{part}.csv")
        state = ("--state", tmp_path / f"{part}.state")
        content(invoke, model, shard, *words, *state)
    parts = [tmp_path / f"{part}.state" for part in (1, 0)]
    assert invoke("merge", *parts, "-q", "-o", tmp_path / "merged.json").code == 0
    merged = json.loads((tmp_path / "merged.json").read_bytes())
    assert (merged["drift"], merged["tests"]) == (found["drift"], found["tests"])
    bare = write(frame.drop("label"), tmp_path / "bare.parquet")
    done = invoke("watch", model, bare, *words, "--state", tmp_path / "b.state", "--json")
    assert (done.code, "there is no column 'label'" in done.stderr) == (0, True)
    assert json.loads(done.stdout)["drift"] == found["drift"]
    for line, code, said in (
        ((model, bare, *words[:-2], "--state", tmp_path / "c.state"), 2, "'label'"),
        ((model, rows, *words[:4], "--unlabelled", "drop", "--state", tmp_path / "a.state"), 3,
         "another bound"),
        ((models / "weighted.json", rows, *words, "--state", tmp_path / "c.state"), 2, "weights"),
        ((model, rows, *words[2:], "--labelled-at", "day", "--state", tmp_path / "c.state"), 2,
         "--period"),
    ):  # fmt: skip
        done = invoke("watch", *line)
        assert (done.code, said in done.stderr) == (code, True), done.stderr
    prom = tmp_path / "w.prom"
    line = ("watch", model, rows, *words, "--state", tmp_path / "a.state", "-q", "-o", prom)
    assert invoke(*line).code == 0
    assert "calibkit_uncertainty_drift_e_value" in prom.read_text()


def test_drift_counts_a_row_once_though_its_label_comes_later(
    models: Path, invoke: Invoke, tmp_path: Path
) -> None:
    """Each night brings its new rows, those of the last two nights again, and labels that arrived."""
    frame = nights(6).with_columns(seen=pl.col("night") + pl.int_range(pl.len()) % 3)
    words = ("--period", "night", "--labelled-at", "seen", "--drift", "--precision", "0.1")
    model, state = models / "boundary.json", tmp_path / "w.state"
    for night in range(6):
        own = frame.filter(pl.col("night").is_between(night - 2, night)).with_columns(
            seen=pl.when(pl.col("seen") <= night).then("seen")
        )
        own = own.filter(pl.col("seen").is_null() | (pl.col("seen") == night))
        rows = write(own, tmp_path / f"{night}.parquet")
        for _ in range(2):
            done = invoke("watch", model, rows, *words, "--state", state, "-o", tmp_path / "w.json")
            assert done.code == 0, done.stderr
        assert ("that are over left out of drift" in done.stderr) == (night > 0)
        found = json.loads((tmp_path / "w.json").read_bytes())
        assert found["drift"][0]["rows"] == 300 * (night + 1)
    assert found["rows"] == frame.filter(pl.col("seen") <= 5).height
    whole = write(frame.filter(pl.col("seen") <= 5), tmp_path / "all.parquet")
    once = content(invoke, model, whole, *words, "--state", tmp_path / "once.state")
    assert once["tests"] == found["tests"]


def test_late_labels_of_a_night_without_rows_come_in_several_files(
    models: Path, invoke: Invoke, tmp_path: Path
) -> None:
    frame = nights(2).with_columns(seen=pl.lit(3))
    new = frame.with_columns(seen=pl.lit(None, pl.Int32), label=pl.lit(None, pl.Int64))
    state, last = tmp_path / "w.state", tmp_path / "w.json"
    words = ("--period", "night", "--labelled-at", "seen", "--drift", "--unlabelled", "drop")
    for place, part in enumerate((new, frame[::2], frame[1::2])):
        rows = write(part, tmp_path / f"{place}.parquet")
        line = ("watch", models / "boundary.json", rows, *words, "--precision", "0.1")
        done = invoke(*line, "--state", state, "-q", "-o", last)
        assert done.code == 0, done.stderr
    found = json.loads(last.read_bytes())
    assert (found["rows"], found["drift"][0]["rows"]) == (frame.height, frame.height)


def test_runs_at_the_same_time_keep_all_rows(models: Path, tmp_path: Path) -> None:
    """The files of a night may come in any number of runs, also in threads and other processes."""
    parts = [simulate(300, seed=seed).with_columns(day=pl.lit(DAY)) for seed in range(4)]
    state = str(tmp_path / "w.state")

    def add(part: pl.DataFrame) -> None:
        ck.watch(part, model=models / "boundary.json", state=state, period="day")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, parts))
    (night,) = read_state(Path(state).read_bytes(), state).nights
    assert len(night.shards) == 4
    assert [one.name for one in tmp_path.iterdir()] == ["w.state"]
