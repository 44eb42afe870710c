"""Pictures of every kind: nothing clipped, overlapping or empty, and the same bytes each time."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import math
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import matplotlib
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibkit as ck
from calibkit.errors import UsageError
from calibkit.options.plot import KINDS, Look, RocOptions
from calibkit.reports import plots, style
from calibkit.reports.grids import log_odds
from tests.library.pictures import SHOWN, faults, points, points_of, scored

SVG = "{http://www.w3.org/2000/svg}"
SIZES = [Look(), Look(width=3.0, height=2.6)]


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_clipped_overlapping_or_empty(kind: str) -> None:
    for look in SIZES:
        assert faults(plots.draw(points_of(kind), look)) == []


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_points_give_the_same_svg_which_holds_them(kind: str) -> None:
    shown = points_of(kind)
    svg = plots.picture(shown)
    assert plots.picture(shown) == svg
    assert len(svg) < 60_000
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("aria-label") == KINDS[kind].HEADING
    groups = [one for one in root.iter(f"{SVG}g") if one.get("id", "").startswith("axes_")]
    assert groups
    for group in groups:
        assert sum(1 for _ in group.iter(f"{SVG}path")) > 4
    for text in (b"nan", b"inf", b"<!--", b"<dc:date>"):
        assert text not in svg.lower()


def test_without_matplotlib_python_is_told_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"pip install 'calibkit\[plot\]'"):
        ck.plot.roc(scored())


@pytest.mark.parametrize(
    ("kind", "start", "date"), [("png", b"\x89PNG", b"tEXt"), ("pdf", b"%PDF", b"CreationDate")]
)
def test_other_formats_have_the_same_bytes_and_no_date(
    kind: str, start: bytes, date: bytes
) -> None:
    found = plots.picture(points_of("roc"), format=kind)
    assert found == plots.picture(points_of("roc"), format=kind)
    assert found.startswith(start)
    assert date not in found


def test_the_settings_of_the_user_change_nothing() -> None:
    import matplotlib

    before = plots.picture(points_of("roc"))
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.fonttype": "none"}):
        assert plots.picture(points_of("roc")) == before
        assert matplotlib.rcParams["font.size"] == 30


def test_threads_draw_alike_and_leave_the_settings_alone() -> None:
    logger = logging.getLogger("matplotlib")
    logger.setLevel(logging.INFO)
    before, shown = dict(matplotlib.rcParams), points_of("roc")
    with ThreadPoolExecutor(4) as pool:
        pictures = set(pool.map(lambda _: plots.picture(shown), range(8)))
    assert pictures == {plots.picture(shown)}
    assert (dict(matplotlib.rcParams), logger.level) == (before, logging.INFO)


def test_levels_of_uneven_height_do_not_write_over_each_other() -> None:
    frame = scored().with_columns(uncertainty=pl.col("uncertainty") ** 5)
    shown = points("heatmap", frame, uncertainty_bins=20, score_bins=5, strategy="equal-width")
    assert faults(plots.draw(shown)) == []


@pytest.mark.parametrize("kind", ["heatmap", "positivity"])
def test_scores_by_their_log_odds(kind: str) -> None:
    frame = scored().with_columns(pl.col("score") ** 6)
    shown = points(kind, frame, axis="logit", score_bins=4, strategy="equal-mass")
    plain = points(kind, frame, axis="value", score_bins=4, strategy="equal-mass")
    assert shown.table.equals(plain.table)
    wide = points(kind, frame, score_bins=4, axis="logit").table
    inner = wide.filter(pl.col("score_low").is_finite() & pl.col("score_high").is_finite())
    widths = log_odds(inner["score_high"]) - log_odds(inner["score_low"])
    assert widths == pytest.approx(widths[0]) and len(widths) >= 2
    named = []
    for look in (*SIZES, Look(width=12.0, height=2.6)):
        figure = plots.draw(shown, look)
        assert faults(figure) == []
        ticks = figure.axes[0].xaxis.get_major_ticks()
        named.append(len(ticks))
        for tick in ticks:
            assert log_odds(float(tick.label1.get_text())) == pytest.approx(tick.get_loc())
    assert named[1] < named[2] >= named[0]  # as many as there is room for
    with pytest.raises(UsageError, match="is of probabilities"):
        points(kind, axis="logit", scale="raw")
    for rare, axis in ((pl.col("score") / 20, "logit"), (pl.col("score"), "value")):
        assert points(kind, scored().with_columns(rare), score_bins=4).words["axis"] == axis


def test_log_odds_reach_as_far_as_those_of_scores_between_0_and_1() -> None:
    sure = pl.when(pl.col("score") < 0.3).then(0.0).when(pl.col("score") > 0.7).then(1.0)
    frame = scored().with_columns(score=sure.otherwise(pl.col("score")))
    shown = points("positivity", frame, score_bins=6, strategy="equal-mass", axis="logit")
    means = shown.table["mean_score"].drop_nulls().unique().sort()
    assert means[0] == 0.0 and means[-1] == 1.0
    inside = log_odds(means.to_numpy()[1:-1])
    ends = plots.draw(shown).axes[0].get_xlim()
    assert ends == pytest.approx((inside.min() - 0.5, inside.max() + 0.5))
    found = log_odds([0.0, 0.25, 0.5, 1.0, -1.0]).tolist()
    assert found == pytest.approx([-math.inf, -math.log(3), 0.0, math.inf, -math.inf])


def test_names_are_shown_as_they_are() -> None:
    """Dollars are no formulas, a leading underscore hides nothing, long names are cut."""
    names = ("$a_{b}$", "_hidden", "漢字", "n" * 300)
    frame = scored().with_columns(scored()["score"].alias(name) for name in names)
    shown = points("reliability", frame, scores=names)
    figure = plots.draw(shown, Look(title="$x_1$ & <b>"))
    texts = [text.get_text().strip() for text in figure.legends[0].get_texts()]
    assert texts[:4] == ["$a_{b}$", "_hidden", "漢字", f"{'n' * 39}…"]
    assert b"$x_1$ &amp; &lt;b&gt;" in style.to_bytes(figure)
    assert figure._suptitle is not None and not figure._suptitle.get_parse_math()
    assert style.shown_name("/a/very/long/path" * 4 + "/model.json").endswith("/model.json")


def test_titles_and_grounds() -> None:
    shown = points_of("roc")
    # Long titles are wrapped, an empty one is none.
    assert faults(plots.draw(shown, Look(title="many words " * 12, width=3.5))) == []
    assert plots.draw(shown, Look(title="")).get_suptitle() == ""
    assert b'aria-label="ROC curve"' in plots.picture(shown, Look(title=""))
    assert b'aria-label="a b"' in plots.picture(shown, Look(title="a\x07\nb"))
    plain, dark = plots.draw(shown), plots.draw(shown, Look(dark=True))
    assert plain.get_facecolor() != dark.get_facecolor()
    clear = plots.draw(shown, Look(transparent=True))
    assert clear.get_facecolor()[3] == 0.0


def test_too_many_lines_are_refused() -> None:
    names = [f"s{k}" for k in range(9)]
    frame = scored().with_columns(scored()["score"].alias(name) for name in names)
    with pytest.raises(UsageError, match="9 diagrams are too many"):
        points("reliability", frame, scores=names)


def test_sizes() -> None:
    assert RocOptions(size="6x4").look == Look(width=6.0, height=4.0)
    assert RocOptions(width=5.0).look == Look(width=5.0)
    for text in ("6", "6x", "ax4", "-6x4"):
        with pytest.raises(UsageError, match="WIDTHxHEIGHT"):
            RocOptions(size=text)
    with pytest.raises(UsageError, match="--size is width and height"):
        RocOptions(size="6x4", width=5.0)
    for size in (2.4, 41.0, float("nan")):
        with pytest.raises(UsageError, match=r"expected 2\.5 to 40"):
            Look(width=size)


# ---------------------------------------------------------------- on axes


@pytest.fixture
def pyplot() -> Iterator[Any]:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_on_axes(kind: str, pyplot: Any) -> None:
    rows, options = SHOWN[kind]
    draw = getattr(ck.plot, kind.replace("-", "_"))
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 5))
    with pyplot.rc_context({"lines.linewidth": 9.0}):
        found = draw(rows(), ax=left, **options)
    assert found is left
    assert left.get_title() == ""
    assert left.lines or left.collections or left.patches
    assert not right.lines
    assert set(faults(figure)) <= {"empty panel"}  # the one on the right
    assert left.get_tightbbox().x1 < right.get_tightbbox().x0
    alone = draw(rows(), **options)
    assert alone.figure is pyplot.gcf()
    assert alone.figure is not figure
    assert style.to_bytes(alone.figure) == plots.picture(points_of(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_signatures_are_those_of_the_options(kind: str) -> None:
    function = getattr(ck.plot, kind.replace("-", "_"))
    found = dict(inspect.signature(function).parameters)
    assert found.pop("frame").default is None
    fields = {field.name: field.default for field in dataclasses.fields(KINDS[kind])}
    assert {name: one.default for name, one in found.items()} == fields
    assert all(f"\n{field}\n    " in function.__doc__ for field in fields)
    assert "--" not in function.__doc__.replace("---", "")


def test_the_look_of_axes_is_theirs(pyplot: Any) -> None:
    _, ax = pyplot.subplots()
    assert ck.plot.roc(scored(), ax=ax, title="Mine").get_title() == "Mine"
    ax.set_facecolor((1.0, 1.0, 1.0, 0.0))
    assert style.AxesSheet(ax, None).rim["mec"] == "#ffffff00"  # as clear as the axes
    with pytest.raises(UsageError, match="leave them out with ax"):
        ck.plot.roc(scored(), ax=ax, size=(4, 3))
    with pytest.raises(UsageError, match="ax is Figure; expected axes"):
        ck.plot.roc(scored(), ax=ax.figure)
    png = style.to_bytes(ck.plot.roc(scored(), size=(4, 3), dark=True).figure, "png")
    assert [int.from_bytes(png[place : place + 4]) for place in (16, 20)] == [800, 600]


def test_a_second_picture_joins_the_first(pyplot: Any) -> None:
    _, ax = pyplot.subplots()
    ax.plot([0, 2], [0, 0], color="red")
    for rows in (scored(), scored().head(200), scored().head(150)):
        ck.plot.reliability(rows, ax=ax)
    colours = [line.get_color() for line in ax.lines if line.get_linestyle() == "None"]
    assert colours == list(style.COLOURS[1:4])
    below = [one for one in ax.figure.axes if one is not ax]
    assert len(below) == 1
    assert below[0].get_ylim()[1] > 20
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said.count("calibrated") == 1
    assert said.count("isotonic regression (CORP)") == 3
    assert ax.get_xlim()[1] > 2.0
    assert ck.plot.roc(scored(), ax=ax) is ax  # which has one panel


def test_models_are_drawn_as_files_are(pyplot: Any) -> None:
    model = ck.fit_boundary(scored(), precision=0.7, method="st", folds=0)
    shown = points("roc", boundary=model)
    assert shown.table.filter(curve="decisions")["name"].to_list() == ["boundary"]
    ck.plot.heatmap(scored(), boundary=[model, model])
    with pytest.raises(UsageError, match=r"plot\.roc: no option 'scoer'"):
        ck.plot.roc(scored(), scoer="other")  # type: ignore[call-arg]


COORDINATES = st.integers(0, 3).map(lambda k: f"{k / 2:g}")
STEPS = st.one_of(
    st.tuples(st.sampled_from("ML"), st.lists(COORDINATES, min_size=2, max_size=2)),
    st.tuples(st.just("C"), st.lists(COORDINATES, min_size=6, max_size=6)),
    st.just(("z", [])),
)


@given(st.lists(STEPS, max_size=12))
def test_level_and_upright_lines_lead_to_the_same_places(
    steps: list[tuple[str, list[str]]],
) -> None:
    path = style._stairs(" ".join(f"{command} {' '.join(ends)}\n" for command, ends in steps))
    assert len(path) <= sum(1 + len(" ".join(ends)) for _, ends in steps)
    found: list[tuple[str, list[str]]] = []
    for command, text in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        ends = text.split()
        if command in "HV":
            x, y = found[-1][1][-2:]
            command, ends = "L", [ends[0], y] if command == "H" else [x, ends[0]]
        found.append((command, ends))
    assert found == steps


def test_ticks_that_have_just_enough_room_stay() -> None:
    ticks = [(0.0, "a"), (0.5, "b"), (1.0, "c"), (1.75, "d"), (2.0, "e")]
    assert style.with_room(ticks, 1.0) == ([0.0, 1.0, 2.0], ["a", "c", "e"])


def test_a_bar_of_colours_has_no_frame() -> None:
    (cells,) = plots.draw(points_of("heatmap")).axes[0].collections[:1]
    assert not cells.colorbar.outline.get_visible()


def test_thresholds_stand_in_the_middle_of_their_cells() -> None:
    shown = points_of("regions")
    ends = shown.table.select(
        f"{axis}_rank_{end}" for axis in "xy" for end in ("low", "high")
    ).iter_rows()
    middles = {((left + right) / 2, (low + high) / 2) for left, right, low, high in ends}
    written = [text.get_position() for text in plots.draw(shown).axes[0].texts]
    assert written and middles.issuperset(written)
