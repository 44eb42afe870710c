"""``--time``: text is read as the dates that it stands for, and never ordered as text in silence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit.errors import DataError
from calibkit.files.formats import Dialect, Opening
from calibkit.files.sources import Source, open_source
from tests.conftest import Invoke, Outcome

DAYS = [datetime(2023, 11, 20) + timedelta(days=3 * k) for k in range(60)]


def read(folder: Path, texts: Sequence[str | None], **said: Any) -> list[Any]:
    """Return the moments that a column of text is read as."""
    path = folder / "x.parquet"
    pl.DataFrame({"day": pl.Series(texts, dtype=pl.String)}).write_parquet(path)
    source = open_source([str(path)], Opening(dialect=Dialect(**said)))
    source.as_dates(["day"])
    return source.read(["day"])["day"].to_list()


ONLY_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y")
TIMES = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M:%S.%f", "%m/%d/%Y %I:%M %p")


@pytest.mark.parametrize("form", [*ONLY_DAYS, *TIMES])
def test_every_way_to_write_a_day(form: str, tmp_path: Path) -> None:
    minutes = 37 if form in TIMES else 0
    moments = [day + timedelta(minutes=minutes * k) for k, day in enumerate(DAYS)]
    assert read(tmp_path, [day.strftime(form) for day in moments]) == moments
    assert read(tmp_path, [day.strftime(form) for day in moments], date_format=form) == moments


def test_weeks_months_and_zones(tmp_path: Path) -> None:
    monday = datetime(2024, 1, 29)
    assert read(tmp_path, ["2024-W05", "2024W05", "2024-W05-3"]) == [
        monday, monday, monday + timedelta(days=2)
    ]  # fmt: skip
    assert read(tmp_path, ["2024-02", "2023-12"]) == [datetime(2024, 2, 1), datetime(2023, 12, 1)]
    there = timezone(timedelta(hours=-5, minutes=-30))
    moments = [datetime(2024, 2, 1, 9, 30, tzinfo=there), datetime(2024, 2, 1, 14, tzinfo=UTC)]
    assert read(tmp_path, ["2024-02-01T09:30-05:30", "2024-02-01T14:00:00Z"]) == moments
    later = moments[0] + timedelta(seconds=0.5)
    assert read(tmp_path, ["2024-02-01 09:30:00,5-0530", None]) == [later, None]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["01/02/2024", "03/04/2024"], ["%d/%m/%Y", "%m/%d/%Y"]),
        (["13/02/2024", "03/14/2024"], ["--date-format"]),
        (["2024-01-05", "yesterday"], ["'yesterday'", "--date-format"]),
        (["2024-02-30"], ["'2024-02-30'"]),
        (["2024-01-05", "06.01.2024"], ["%Y-%m-%d, as others are", "'06.01.2024'"]),
        (["2024-01-05T10:00", "2024-01-05T10:00Z"], ["--date-format"]),
        (["Jan 5, 2024"], ["no date in 50 rows", "--date-format"]),
        (["05.01.24"], ["--date-format"]),
    ],
)
def test_doubt_is_refused(texts: list[str], said: list[str], tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, texts * 50)
    assert all(word in caught.value.message for word in said), caught.value.message
    assert caught.value.column == "day"
    assert caught.value.first_rows


def test_other_values_and_late_ones_settle_a_column(tmp_path: Path) -> None:
    day = datetime(2024, 2, 2)  # which means the same either way
    assert read(tmp_path, ["02/02/2024", "NA", "", None]) == [day, None, None, None]
    texts = ["01/02/2024"] * 500 + ["02/13/2024"]
    assert read(tmp_path, texts)[0] == datetime(2024, 1, 2)


@pytest.fixture
def rows() -> pl.DataFrame:
    random = np.random.default_rng(5)
    score = random.random(600)
    return pl.DataFrame(
        {
            "score": score.round(3),
            "size": random.random(600).round(3),
            "label": (random.random(600) < score).astype(int),
            "day": [DAYS[k] for k in random.integers(0, len(DAYS), 600)],
        }
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "fit",
    [
        ["boundary", "--precision", "0.6", "--method", "st"],
        ["calibrate"],
        ["hetcal", "--features", "size", "--partition", "tree", "--max-depth", "1"],
    ],
    ids=lambda fit: fit[0],
)
def test_text_gives_the_folds_of_dates(fit: list[str], rows: pl.DataFrame, invoke: Invoke) -> None:

    def run(name: str, *more: object) -> Outcome:
        return invoke(fit[0], Path(name), *fit[1:], "--time day -o model.json", *more)

    def model(name: str, *more: object) -> Any:
        found = run(name, *more).result()
        del found["provenance"]
        return found

    rows.write_parquet("dates.parquet")
    expected = model("dates.parquet")
    for form in ("%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%d", "%G-W%V-%u"):
        text = rows.with_columns(day=pl.col("day").dt.strftime(form))
        text.write_csv("text.csv")
        assert model("text.csv") == expected, form
        if form == "%d.%m.%Y":
            assert model("text.csv", "--date-format", form) == expected
            assert model("text.csv", "--date-format", "text") != expected
            states = [Path("0.state"), Path("1.state")]
            for state, part in zip(states, (text[:250], text[250:]), strict=True):
                part.write_csv("part.csv")
                run("part.csv", "--partial -o", state).succeeded()
            merged = invoke("merge", *states, "-o merged.json").result()
            assert merged.pop("provenance")["text"] == {"dates": form}
            assert merged == expected
    early = rows.filter(pl.col("day").dt.day() <= 12)
    early.with_columns(pl.col("day").dt.strftime("%d/%m/%Y")).write_csv("text.csv")
    run("text.csv").refused(3, "--date-format %d/%m/%Y")
    run("text.csv", "--date-format", "dmy").refused(2, "no format of dates")


def test_states_of_other_formats_do_not_merge(rows: pl.DataFrame, invoke: Invoke) -> None:
    states = []
    for form, part in {"%d/%m/%Y": rows[:300], "%m/%d/%Y": rows[300:]}.items():
        path = Path(f"{len(states)}.csv")
        part.with_columns(pl.col("day").dt.strftime(form)).write_csv(path)
        states.append(f"{path}.state")
        line = ["hetcal", path, "--features", "size", "--time", "day", "--partial"]
        assert invoke(*line, "-o", states[-1]).code == 0
    invoke("merge", *states, "-o model.json").refused(3, "--date-format")


def test_frames_and_findings(rows: pl.DataFrame, invoke: Invoke) -> None:
    text = rows.with_columns(pl.col("day").dt.strftime("%d.%m.%Y").cast(pl.Categorical))
    fit = partial(ck.fit_boundary, precision=0.6, method="st", time="day")
    told, said, dated = fit(text), fit(text, date_format="%d.%m.%Y"), fit(rows)
    assert told.fit.cross_validated == dated.fit.cross_validated == said.fit.cross_validated
    odd = text.with_columns(day=pl.lit("soon"))
    with pytest.raises(DataError, match="date_format"):
        fit(odd)
    odd.write_csv("odd.csv")
    found = invoke("validate", "odd.csv", "--time", "day", "--json")
    assert found.code == 3
    errors = [one for one in json.loads(found.stdout)["findings"] if one["level"] == "error"]
    assert [one["column"] for one in errors] == ["day"]
    assert Source.from_frame(rows).told is None
