"""``evaluate --report``: one page that shows everything and runs nothing."""

from __future__ import annotations

import itertools
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit.measures import classes as multiclass
from calibkit.measures import decisions
from calibkit.measures import metrics as registry
from calibkit.numerics.confusion import MEASURES
from calibkit.options.metrics import MEANINGS, OF_CELLS, OF_VOTES, meaning
from calibkit.reports import evaluated, html
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke

HOSTILE = '<script>alert("1")</script>'
VOID = {"meta", "img", "wbr", "br"}


class Reader(HTMLParser):
    """Reads a page: its tags in order, their balance, its headings and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.headings: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data.replace("\xa0", " ")
        if any(re.fullmatch("h[1-6]", tag) for tag in self.open):
            self.headings[-1] += data


def read(page: Path) -> Reader:
    """Return a page once it is known to be well formed, accessible and to load nothing."""
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    assert reader.open == []
    names = [tag for tag, _ in reader.tags]
    assert names.count("h1") == names.count("main") == names.count("title") == 1
    assert not {"script", "link", "iframe", "object", "form", "base"} & set(names)
    for tag, attributes in reader.tags:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "data:").startswith(("data:", "#")), (tag, attributes)
        if tag == "th":
            assert attributes["scope"] in ("row", "col")
        if tag in ("svg", "img") and "aria-hidden" not in attributes:
            assert attributes.get("aria-label") or attributes.get("alt"), (tag, attributes)
    assert names.count("caption") <= names.count("table")
    return reader


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(simulate(400), tmp_path / "rows.parquet")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing, as without matplotlib, which takes most of the time of a page."""
    monkeypatch.setattr("calibkit.reports.evaluated.find_spec", lambda _name: None)


@pytest.mark.usefixtures("plain")
def test_the_page_says_what_value_is_caught_and_missed(
    rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    model, page, metrics = (tmp_path / name for name in ("v.json", "v.html", "m.json"))
    amounts = pl.read_parquet(rows).with_columns(
        amount=pl.Series(np.random.default_rng(2).lognormal(5.0, 1.0, 400).round(2))
    )
    amounts.write_parquet(rows)
    fit = ("boundary", rows, "--precision", "0.6", "--method", "exact", "--value", "amount")
    assert invoke(*fit, "-q", "-o", model).code == 0
    judge = ("evaluate", rows, "--boundary", model, "--report", page, "-o", metrics)
    assert invoke(*judge, "--by label --prevalence 0.2 --top 0.5 --top-by score").code == 0
    done = invoke("apply", model, rows, "-q", "-o", tmp_path / "a.parquet").result()
    sums = {
        (label, decision): float(done.filter(label=label, decision=decision)["amount"].sum())
        for label in (0, 1)
        for decision in (0, 1)
    }
    caught, missed = sums[1, 1], sums[1, 0]
    text = read(page).text
    assert f"amount: {caught:,.0f} of the {caught + missed:,.0f} in the positives is caught" in text
    assert f" %), {missed:,.0f} is missed; {sums[0, 1]:,.0f} is in false alarms." in text
    write(amounts.with_columns(amount=pl.lit(-1.0)), rows)
    assert invoke(*judge).code == 0
    assert "amount is not summed: " in read(page).text
    assert invoke(*judge, "--weight", "weight").code == 0
    assert "amount" not in read(page).text.partition("Pictures")[0]
    write(amounts.drop("amount"), rows)
    assert invoke(*judge).code == 0
    assert "in the positives" not in read(page).text


def test_the_page_shows_every_figure_and_the_story_of_the_boundary(
    rows: Path, model: Path, tmp_path: Path, invoke: Invoke
) -> None:
    page, metrics = tmp_path / "report.html", tmp_path / "metrics.json"
    done = invoke("evaluate", rows, "--boundary", model, "--top 0.1 --report", page, "-o", metrics)
    assert (done.code, done.stdout) == (0, b"")
    reader, found = read(page), json.loads(metrics.read_text())
    for wanted in ("score at a glance", "Boundary", "All rows", "Slices", "How they were computed"):
        assert wanted in reader.headings
    for name, value in found["metrics"]["score"]["all"].items():
        assert name in reader.text
        assert html.number(value) in reader.text
    for signature in found["signature"].values():
        assert signature in reader.text
    counts = found["metrics"]["boundary"]["all"]
    assert all(f"{counts[name]:,}" in reader.text for name in ("tp", "fp", "fn", "tn"))
    assert "What to expect, and what was found" in reader.text
    assert "precision >= 0.6: these rows show" in reader.text
    assert "On new data expect" not in reader.text
    assert "figures: rows, selected" not in reader.text  # a caption that repeats the header
    assert reader.headings.index("In short") < reader.headings.index("Pictures")
    assert reader.headings.index("Pictures") < reader.headings.index("All rows")
    right = counts["tp"] / counts["selected"]
    assert f"{100 * right:.0f} of 100 alerts are right" in reader.text
    assert f"{counts['selected']:,} of {found['rows']:,} rows raise an alert" in reader.text
    missed = 100 * counts["tp"] / (counts["tp"] + counts["fn"])
    false_alarms = 100 * counts["fp"] / (counts["fp"] + counts["tn"])
    assert f"{missed:.0f} % of the positives are found" in reader.text
    assert f"{false_alarms:.0f} % of the negatives raise a false alarm" in reader.text
    assert f"Report written to {page}." in done.stderr
    assert page.read_bytes().isascii() is False
    assert ck.report(rows, boundary=model, top=0.1).encode() == page.read_bytes()


def test_names_are_shown_and_never_obeyed(tmp_path: Path, invoke: Invoke) -> None:
    names = [HOSTILE, "\"><img src='http://example.invalid/x'>", "&amp;", "\u202eevil"]
    truth = np.linspace(0.01, 0.99, 300)
    columns = {name: truth ** (1 + place) for place, name in enumerate(names)}
    frame = pl.DataFrame(
        {
            **columns,
            "label": (np.arange(300) * 7919 % 300 < truth * 300).astype(int),
            "by<b>": ["</td><script>", "</style>", "fine"] * 100,
        }
    )
    rows, page = write(frame, tmp_path / "<i>rows.parquet"), tmp_path / "report.html"
    scores = [word for name in names for word in ("--score", name)]
    done = invoke(
        *("evaluate", rows, *scores, "--by", "by<b>", "--min-rows", 10, "--metrics", "auc,ece"),
        *("--report", page, "-q", "-o", tmp_path / "metrics.json"),
    )
    assert done.code == 0, done.stderr
    reader = read(page)
    for name in (*names, "by<b>:</td><script>", "<i>rows.parquet"):
        assert name in reader.text


def test_what_html_cannot_write_is_replaced() -> None:
    assert html.escaped("a\x00b\ud800c\x1bd") == "a\ufffdb\ufffdc\ufffdd"
    assert html.escaped("<'&\">") == "&lt;&#x27;&amp;&quot;&gt;"


def test_numbers_have_four_digits_and_a_true_minus() -> None:
    shown = [html.number(value) for value in (1234567, 0.123456, -2.0, 123456.789, 1e-9, None)]
    assert shown == ["1,234,567", "0.1235", "−2", "123,500", "1e−09", "–"]
    assert html.number(0.5, signed=True) == "+0.5"
    assert html.paragraphs(["69 % of"]) == "<p>69\u00a0% of</p>"  # on one line


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("counts", [[], ["--counts", "count_*"]])
def test_classes_and_votes_have_a_page_as_well(
    counts: list[str], tmp_path: Path, invoke: Invoke
) -> None:
    rows, page = tmp_path / "votes.parquet", tmp_path / "report.html"
    frame = invoke("simulate", "raters", "--rows", 200, "-q", "-o", rows).result()
    classes = sum(name.startswith("prob_") for name in frame.columns)
    frame = frame.with_columns(
        label=(pl.int_range(pl.len()) % classes).cast(pl.String),
        rival_0=pl.col("prob_0"),
        part=pl.when(pl.int_range(pl.len()) < 120).then(pl.lit("a")).otherwise(pl.lit("b")),
    )
    frame.write_parquet(rows)
    told = counts or ["--label", "label"]
    done = invoke(
        *("evaluate", rows, "--probs", "prob_*", *told, "--by", "part", "--min-rows", 5),
        *("--report", page, "-q", "-o", tmp_path / "metrics.json"),
    )
    assert done.code == 0, done.stderr
    reader = read(page)
    assert "prob_* at a glance" in reader.headings
    assert "part:b" in reader.text


@pytest.mark.usefixtures("plain")
def test_warnings_stand_on_the_page(tmp_path: Path, invoke: Invoke) -> None:
    frame = simulate(300).with_columns(
        score=pl.when(pl.int_range(pl.len()) < 7).then(None).otherwise(pl.col("score"))
    )
    rows, page = write(frame, tmp_path / "rows.parquet"), tmp_path / "report.html"
    done = invoke(
        "evaluate", rows, "--on-missing drop --report", page, "-o", tmp_path / "metrics.json"
    )
    assert done.code == 0
    assert "What to know about the data" in read(page).headings
    warned = next(line for line in done.stderr.splitlines() if line.startswith("Warning: "))
    assert warned.removeprefix("Warning: ") in read(page).text


@pytest.mark.usefixtures("plain")
def test_without_matplotlib_page_and_terminal_say_how_to_have_pictures(
    rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    page = tmp_path / "report.html"
    done = invoke("evaluate", rows, "--report", page, "-o", tmp_path / "m.json")
    assert done.code == 0
    reader = read(page)
    assert "svg" not in [tag for tag, _ in reader.tags]
    for text in (reader.text, " ".join(done.stderr.split())):
        assert "pip install 'calibkit[plot]'" in text


def test_names_with_backslashes_stand_as_they_are(tmp_path: Path, invoke: Invoke) -> None:
    name = "C:\\new\\q\\g<1>"
    rows, page = (
        write(simulate(100).rename({"score": name}), tmp_path / "r.parquet"),
        tmp_path / "r.html",
    )
    done = invoke("evaluate", rows, "--score", name, "-q --report", page, "-o", tmp_path / "m.json")
    assert done.code == 0, done.stderr
    labels = [str(own["aria-label"]) for tag, own in read(page).tags if tag == "svg"]
    assert any(f"{name}: ece" in label for label in labels)


def test_another_prevalence_has_no_pictures_of_precision(
    rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    page = tmp_path / "report.html"
    line = ("evaluate", rows, "--prevalence 0.05 --threshold 0.5 -q --report", page)
    assert invoke(*line, "-o", tmp_path / "m.json").code == 0
    reader = read(page)
    shown = [str(own["aria-label"]).split(" (")[0] for tag, own in reader.tags if tag == "svg"]
    assert [one for one in shown if "recision" in one or "hreshold" in one] == []
    assert "Pictures of precision are left out" in reader.text


def test_few_slices_of_many_are_all_drawn(tmp_path: Path, invoke: Invoke) -> None:
    names = [f"small {k}" for k in range(50)] + ["a", "b"] * 150
    rows = write(simulate(350).with_columns(site=pl.Series(names)), tmp_path / "rows.parquet")
    page = tmp_path / "report.html"
    line = ("evaluate", rows, "--by site --min-rows 100 -q --report", page)
    assert invoke(*line, "-o", tmp_path / "m.json").code == 0
    assert "are drawn" not in page.read_text()


def test_slices_are_drawn_with_their_intervals(tmp_path: Path, invoke: Invoke) -> None:
    frame = simulate(400).with_columns(site=pl.Series(["north", "south", "west", "east"] * 100))
    rows, page = write(frame, tmp_path / "rows.parquet"), tmp_path / "report.html"
    line = ("evaluate", rows, "--by site -q --report", page, "-o", tmp_path / "metrics.json")
    assert invoke(*line).code == 0
    labels = [str(own["aria-label"]) for tag, own in read(page).tags if tag == "svg"]
    assert labels[-1] == "auc of score in each slice; the dashed line is that of all rows."
    assert len(labels) == len(set(labels))


def test_a_picture_of_slices_has_a_line_a_slice_as_long_as_its_interval() -> None:
    spans = {"a": html.Span(0.3, 0.2, 0.4), "site:b": html.Span(0.5, 0.4, 0.7)}
    drawn = ET.fromstring(evaluated._by_slice("precision", spans))
    paths = [one.attrib["d"] for one in drawn.iter() if one.tag.endswith("path")]
    levels = [re.fullmatch(r"M([\d.]+) ([\d.]+)H([\d.]+)", path) for path in paths]
    lengths = sorted(float(one[3]) - float(one[1]) for one in levels if one is not None)
    assert any(
        long / short == pytest.approx(1.5, abs=0.01)
        for short, long in itertools.pairwise(lengths)
        if short > 0
    )


@pytest.mark.usefixtures("plain")
def test_the_page_says_which_differences_may_be_none(
    rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    noisy = pl.read_parquet(rows).with_columns(
        other=pl.col("score") ** 2, alike=(pl.col("score") + 1e-4).clip(0.0, 1.0)
    )
    write(noisy, rows)
    page, metrics = tmp_path / "report.html", tmp_path / "metrics.json"
    given = ("--score other,alike --baseline score --metrics auc,brier,ece --report", page)
    found = invoke("evaluate", rows, *given, "-q", "-o", metrics).result()["differences"]
    pairs = ("other-score", "alike-score")
    ends = [own for pair in pairs for own in found[pair]["all"].values()]
    open_to_none = [own["low"] <= 0.0 <= own["high"] for own in ends if own["low"] is not None]
    assert set(open_to_none) == {True, False}
    said = re.findall(">(yes|no)<", page.read_text())
    assert [word == "yes" for word in said] == open_to_none


@pytest.mark.parametrize("output", ["-", "report.txt", "no/such/report.html", "report.html/"])
def test_a_page_that_cannot_be_written_is_refused_before_any_work(
    output: str, rows: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke("evaluate", rows, "--report", output, "-o", "metrics.json")
    assert done.code == 2
    assert not (tmp_path / "metrics.json").exists()


def test_every_metric_is_explained() -> None:
    names = {*registry.METRICS, *decisions.OF_DECISIONS, *MEASURES, *multiclass.METRICS}
    names |= {*OF_CELLS, *OF_VOTES}
    assert names == MEANINGS.keys()
    assert all(meaning(name) for name in names)


@pytest.mark.usefixtures("plain")
def test_metrics_may_go_to_a_device_beside_the_page(
    rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    page = tmp_path / "report.html"
    assert invoke("evaluate", rows, "--report", page, "-q", "-o", "/dev/null").code == 0
    assert page.is_file()


@pytest.mark.more
def test_matplotlib_draws_in_the_colours_of_the_page(
    rows: Path, model: Path, tmp_path: Path, invoke: Invoke
) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "report.html"
    more = ("--report", page, "-q", "-o", tmp_path / "metrics.json")
    assert invoke("evaluate", rows, "--boundary", model, *more).code == 0
    reader = read(page)
    assert not re.search("https?:", page.read_text())
    labels = [attributes["aria-label"] or "" for tag, attributes in reader.tags if tag == "svg"]
    for kind in (
        "Reliability diagram (score: ece 0.",
        "Precision and recall (",
        "ROC curve (",
        "Pos",
    ):
        assert any(label.startswith(kind) for label in labels), kind
    names = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(names) == len(set(names))
    used = [attributes.get("xlink:href") or "" for tag, attributes in reader.tags if tag == "use"]
    assert {name.removeprefix("#") for name in used} <= set(names)
    assert not re.search("#1a1a1a|#ffffff(?!;)", page.read_text().partition("</style>")[2])


def test_scores_that_allow_no_picture_have_a_page_without(
    rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    frame = simulate(200).with_columns(label=pl.lit(0), score=pl.col("score") * 9 - 20)
    page = tmp_path / "report.html"
    done = invoke(
        *("evaluate", write(frame, tmp_path / "negative.parquet"), "--scale", "raw"),
        *("--report", page, "-q", "-o", tmp_path / "metrics.json"),
    )
    assert done.code == 0, done.stderr
    assert "svg" not in [tag for tag, _ in read(page).tags]


def test_rows_that_do_not_fit_have_a_page_all_the_same(tmp_path: Path, invoke: Invoke) -> None:
    pytest.importorskip("matplotlib")
    frame = simulate(300).with_columns(score=pl.col("score").round(3))
    rows = write(pl.concat([frame] * 250), tmp_path / "rows.parquet")
    page = tmp_path / "report.html"
    done = invoke(
        *("evaluate", rows, "--memory", "1MB", "--no-intervals", "--metrics", "auc,ece"),
        *("--report", page, "-q", "-o", tmp_path / "metrics.json"),
    )
    assert done.code == 0, done.stderr
    reader = read(page)
    labels = [attributes.get("aria-label") or "" for tag, attributes in reader.tags if tag == "svg"]
    assert [label.partition(" (")[0] for label in labels] == ["Reliability diagram"]
    assert "do not fit into the memory given" in reader.text


@pytest.mark.more
def test_of_many_slices_the_first_stand_in_full(tmp_path: Path, invoke: Invoke) -> None:
    frame = simulate(600).with_columns(shop=pl.int_range(pl.len()) % 150)
    rows, page = write(frame, tmp_path / "rows.parquet"), tmp_path / "report.html"
    done = invoke(
        *("evaluate", rows, "--by", "shop", "--min-rows", 1, "--metrics", "count,ece"),
        *("--no-intervals", "--report", page, "-q", "-o", tmp_path / "metrics.json"),
    )
    assert done.code == 0, done.stderr
    assert "of the first 100; metrics.json has 50 more" in read(page).text
    assert page.stat().st_size < 500_000
