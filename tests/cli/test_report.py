"""``evaluate --report``: one page that shows everything and runs nothing."""

from __future__ import annotations

import itertools
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
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
from tests.conftest import Invoke, make

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


def labels(reader: Reader) -> list[str]:
    """Return what pictures of a page are called."""
    return [own.get("aria-label") or "" for tag, own in reader.tags if tag == "svg"]


@pytest.fixture
def reported(invoke: Invoke) -> Callable[..., Reader]:
    """Evaluate rows with a page, and read it."""

    def call(frame: pl.DataFrame, *options: object) -> Reader:
        rows, page = write(frame, "rows.parquet"), Path("report.html")
        invoke("evaluate", rows, *options, "--report", page, "-q -o metrics.json").succeeded()
        return read(page)

    return call


Reported = Callable[..., Reader]


@pytest.fixture
def rows() -> Path:
    return write(simulate(400), "rows.parquet")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing, as without matplotlib, which takes most of the time of a page."""
    monkeypatch.setattr("calibkit.reports.evaluated.find_spec", lambda _name: None)


@pytest.mark.usefixtures("plain")
def test_the_page_says_what_value_is_caught_and_missed(rows: Path, invoke: Invoke) -> None:
    page = Path("v.html")
    amount = pl.Series(np.random.default_rng(2).lognormal(5.0, 1.0, 400).round(2))
    amounts = pl.read_parquet(rows).with_columns(amount=amount)
    write(amounts, rows)
    fit = "--precision 0.6 --method exact --value amount"
    model = make("v.json", "boundary", rows, fit)
    judge = ("evaluate", rows, "--boundary", model, "--report", page, "-o m.json")
    assert invoke(*judge, "--by label --prevalence 0.2 --top 0.5 --top-by score").code == 0
    done = pl.read_parquet(make("a.parquet", "apply", model, rows))
    missed, caught, alarms = (
        float(done.filter(label=label, decision=decision)["amount"].sum())
        for label, decision in ((1, 0), (1, 1), (0, 1))
    )
    text = read(page).text
    whole, share = caught + missed, 100 * caught / (caught + missed)
    assert (
        f"amount: {caught:,.0f} of the {whole:,.0f} in the positives is caught ({share:.0f} %), "
        f"{missed:,.0f} is missed; {alarms:,.0f} is in false alarms."
    ) in text
    write(amounts.with_columns(amount=pl.lit(-1.0)), rows)
    assert invoke(*judge).code == 0
    assert "amount is not summed: " in read(page).text
    assert invoke(*judge, "--weight", "weight").code == 0
    assert "amount" not in read(page).text.partition("Pictures")[0]
    write(amounts.drop("amount"), rows)
    assert invoke(*judge).code == 0
    assert "in the positives" not in read(page).text


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("fit", "judge", "said", "beside"),
    [
        ("--precision 0.6", "", "precision >= 0.6: these rows show", {"precision", "recall"}),
        ("--precision 0.8 --prevalence 0.8", "",
         "is not judged here: it is one at a base rate of 0.8 (--prevalence 0.8)", {"recall"}),
        ("--precision 0.8 --prevalence 0.8", "--prevalence 0.80",
         "precision >= 0.8: these rows show", {"precision", "recall"}),
        ("--precision 0.6 --weight weight", "", "the fit weighs rows by weight (--weight)", set()),
        ("--precision 0.6 --weight weight", "--weight weight",
         "precision >= 0.6: these rows show", {"precision", "recall"}),
        ("--precision 0.6 --value amount", "", "precision >= 0.6: these rows show", {"precision"}),
        ("--recall 0.6 --value amount", "", "it is a share of amount", {"precision"}),
    ],
)  # fmt: skip
def test_a_page_compares_figures_of_rows_that_count_alike(
    fit: str, judge: str, said: str, beside: set[str], reported: Reported
) -> None:
    frame = simulate(400).with_columns(amount=pl.col("id") % 7 + 1)
    rows = write(frame, "fit.parquet")
    model = make("m.json", "boundary", rows, fit + " --method st")
    text = reported(frame, "--boundary", model, *filter(None, [judge])).text
    assert said in text
    table = text.partition("What to expect, and what was found")[2].partition("Flag rows")[0]
    assert {name for name in ("precision", "recall") if name in table} == beside
    found = ck.load(model).drift(frame, label="label").metrics.metrics["boundary"]["fit"]
    assert ("precision" in found, "recall" in found) == (
        "--prevalence" not in fit,
        "--value" not in fit,
    )


@pytest.mark.usefixtures("plain")
def test_a_bound_of_each_segment_is_judged_where_the_page_shows_it(reported: Reported) -> None:
    sites = pl.Series(["a", "b"] * 300)
    frame = simulate(600).with_columns(site=sites, other=sites)
    words = "--precision 0.5 --method st --by site --bound each --min-group-positives 20"
    rows = write(frame, "fit.parquet")
    model = make("each.json", "boundary", rows, words + " --confidence 0.8")
    shown = reported(frame, "--boundary", model, "--by site").text
    for site in ("a", "b"):
        assert f"precision >= 0.5 in site:{site}: these rows show" in shown
    assert "not judged here" not in shown
    assert "in each segment of site that has thresholds" in shown
    other = reported(frame, "--boundary", model, "--by other").text
    assert "precision >= 0.5 is not judged here in site:a, site:b: name its column by --by" in other
    assert "these rows show" not in other.partition("Pictures")[0]
    part = reported(frame.filter(site="a"), "--boundary", model, "--by site").text
    assert "precision >= 0.5 is not judged here in site:b." in part


@pytest.mark.usefixtures("plain")
def test_bounds_and_shares_are_not_rounded_away(reported: Reported) -> None:
    label = [1] * 19_999 + [0] + [0] * 900
    frame = pl.DataFrame({"score": [0.9] * 20_000 + [0.1] * 900, "label": label})
    rows = write(frame.with_columns(all=1), "fit.parquet")
    model = make("m.json", "boundary", rows, "--precision 0.99994 --method st --folds 0")
    text = reported(frame, "--boundary", model).text
    assert "precision >= 0.99994: these rows show 0.99995, which meets it" in text
    assert (
        "raise an alert, 1,000 of a thousand"
        in reported(frame.with_columns(all=1), "--decision all").text
    )


def test_the_page_shows_every_figure_and_the_story_of_the_boundary(
    rows: Path, model: Path, invoke: Invoke
) -> None:
    page, metrics = Path("report.html"), Path("metrics.json")
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


def test_names_are_shown_and_never_obeyed(reported: Reported) -> None:
    names = [HOSTILE, "\"><img src='http://example.invalid/x'>", "&amp;", "\u202eevil"]
    names.append("C:\\new\\q\\g<1>")
    truth = np.linspace(0.01, 0.99, 300)
    frame = pl.DataFrame({name: truth ** (1 + place) for place, name in enumerate(names)})
    frame = frame.with_columns(
        pl.Series("label", np.arange(300) * 7919 % 300 < truth * 300).cast(pl.Int64),
        pl.Series("by<b>", ["</td><script>", "</style>", "fine"] * 100),
    )
    scores = [word for name in names for word in ("--score", name)]
    reader = reported(frame, *scores, "--by by<b> --min-rows 10 --metrics auc,ece")
    for name in (*names, "by<b>:</td><script>"):
        assert name in reader.text
    assert any(f"{names[-1]}: ece" in label for label in labels(reader))


def test_the_name_of_a_file_is_escaped(invoke: Invoke) -> None:
    rows, page = write(simulate(100), "<i>rows.parquet"), Path("report.html")
    invoke("evaluate", rows, "--report", page, "-q -o /dev/null").succeeded()
    assert "<i>rows.parquet" in read(page).text


def test_what_html_cannot_write_is_replaced() -> None:
    assert html.escaped("a\x00b\ud800c\x1bd") == "a\ufffdb\ufffdc\ufffdd"
    assert html.escaped("<'&\">") == "&lt;&#x27;&amp;&quot;&gt;"


def test_numbers_have_four_digits_and_a_true_minus() -> None:
    shown = [html.number(value) for value in (1234567, 0.123456, -2.0, 123456.789, 1e-9, None)]
    assert shown == ["1,234,567", "0.1235", "−2", "123,500", "1e−09", "–"]
    assert html.number(0.5, signed=True) == "+0.5"
    assert html.paragraphs(["69 % of"]) == "<p>69\u00a0% of</p>"  # on one line


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("judged", ["--counts count_*", "--label label"])
def test_classes_and_votes_have_a_page_as_well(judged: str, reported: Reported) -> None:
    place = pl.int_range(pl.len())
    frame = ck.simulate_raters(200, seed=1).with_columns(
        label=(place % 2).cast(pl.String),
        part=pl.when(place < 120).then(pl.lit("a")).otherwise(pl.lit("b")),
    )
    reader = reported(frame, "--probs prob_*", judged, "--by part --min-rows 5")
    assert "prob_* at a glance" in reader.headings
    assert "part:b" in reader.text


@pytest.mark.usefixtures("plain")
def test_warnings_stand_on_the_page(invoke: Invoke) -> None:
    frame = simulate(300).with_columns(
        score=pl.when(pl.int_range(pl.len()) < 7).then(None).otherwise(pl.col("score"))
    )
    rows, page = write(frame, "rows.parquet"), Path("report.html")
    done = invoke("evaluate", rows, "--on-missing drop --report", page, "-o m.json")
    assert done.code == 0
    assert "What to know about the data" in read(page).headings
    warned = next(line for line in done.stderr.splitlines() if line.startswith("Warning: "))
    assert warned.removeprefix("Warning: ") in read(page).text


@pytest.mark.usefixtures("plain")
def test_without_matplotlib_page_and_terminal_say_how_to_have_pictures(
    rows: Path, invoke: Invoke
) -> None:
    page = Path("report.html")
    done = invoke("evaluate", rows, "--report", page, "-o /dev/null")
    assert done.code == 0
    reader = read(page)
    assert labels(reader) == []
    for text in (reader.text, " ".join(done.stderr.split())):
        assert "pip install 'calibkit[plot]'" in text


def test_another_prevalence_has_no_pictures_of_precision(reported: Reported) -> None:
    reader = reported(simulate(400), "--prevalence 0.05 --threshold 0.5")
    shown = [label.split(" (")[0] for label in labels(reader)]
    assert [one for one in shown if "recision" in one or "hreshold" in one] == []
    assert "Pictures of precision are left out" in reader.text


def test_slices_are_drawn_with_their_intervals(reported: Reported) -> None:
    frame = simulate(400).with_columns(site=pl.Series(["north", "south", "west", "east"] * 100))
    shown = labels(reported(frame, "--by site"))
    assert shown[-1] == "auc of score in each slice; the dashed line is that of all rows."
    assert len(shown) == len(set(shown))
    names = [f"small {k}" for k in range(50)] + ["a", "b"] * 150
    few = reported(simulate(350).with_columns(site=pl.Series(names)), "--by site --min-rows 100")
    assert "are drawn" not in few.text  # as all that are large enough are


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
def test_the_page_says_which_differences_may_be_none(reported: Reported) -> None:
    noisy = simulate(400).with_columns(
        other=pl.col("score") ** 2, alike=(pl.col("score") + 1e-4).clip(0.0, 1.0)
    )
    reported(noisy, "--score other,alike --baseline score --metrics auc,brier,ece")
    found = json.loads(Path("metrics.json").read_text())["differences"]
    pairs = ("other-score", "alike-score")
    ends = [own for pair in pairs for own in found[pair]["all"].values()]
    open_to_none = [own["low"] <= 0.0 <= own["high"] for own in ends if own["low"] is not None]
    assert set(open_to_none) == {True, False}
    said = re.findall(">(yes|no)<", Path("report.html").read_text())
    assert [word == "yes" for word in said] == open_to_none


def test_every_metric_is_explained() -> None:
    names = {*registry.METRICS, *decisions.OF_DECISIONS, *MEASURES, *multiclass.METRICS}
    names |= {*OF_CELLS, *OF_VOTES}
    assert names == MEANINGS.keys()
    assert all(meaning(name) for name in names)


@pytest.mark.more
def test_matplotlib_draws_in_the_colours_of_the_page(model: Path, reported: Reported) -> None:
    reader = reported(simulate(400), "--boundary", model)
    page = Path("report.html").read_text()
    assert not re.search("https?:", page)
    for kind in (
        "Reliability diagram (score: ece 0.",
        "Precision and recall (",
        "ROC curve (",
        "Pos",
    ):
        assert any(label.startswith(kind) for label in labels(reader)), kind
    names = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(names) == len(set(names))
    used = [attributes.get("xlink:href") or "" for tag, attributes in reader.tags if tag == "use"]
    assert {name.removeprefix("#") for name in used} <= set(names)
    assert not re.search("#1a1a1a|#ffffff(?!;)", page.partition("</style>")[2])


def test_scores_that_allow_no_picture_have_a_page_without(reported: Reported) -> None:
    frame = simulate(200).with_columns(label=pl.lit(0), score=pl.col("score") * 9 - 20)
    assert labels(reported(frame, "--scale raw")) == []


def test_rows_that_do_not_fit_have_a_page_all_the_same(reported: Reported) -> None:
    frame = pl.concat([simulate(300).with_columns(pl.col("score").round(3))] * 250)
    reader = reported(frame, "--memory 1MB --no-intervals --metrics auc,ece")
    assert [label.partition(" (")[0] for label in labels(reader)] == ["Reliability diagram"]
    assert "do not fit into the memory given" in reader.text


@pytest.mark.more
def test_of_many_slices_the_first_stand_in_full(reported: Reported) -> None:
    frame = simulate(600).with_columns(shop=pl.int_range(pl.len()) % 150)
    reader = reported(frame, "--by shop --min-rows 1 --metrics count,ece --no-intervals")
    assert "of the first 100; metrics.json has 50 more" in reader.text
    assert Path("report.html").stat().st_size < 500_000


def test_counts_of_many_rows_are_told_in_full(invoke: Invoke) -> None:
    rows, page = Path("rows.parquet"), Path("report.html")
    score = np.arange(20_000) / 20_000
    pl.DataFrame({"score": score, "label": (score > 0.25).astype(np.int8)}).write_parquet(rows)
    invoke("evaluate", rows, "--threshold 0.3827 --no-intervals --report", page).succeeded()
    text = read(page).text
    assert "12,346 of 20,000 rows raise an alert" in text
    assert "12,346 of 14,999; 2,653 are missed" in text
