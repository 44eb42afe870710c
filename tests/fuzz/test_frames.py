"""Drawn frames through every command: refused with a reason, or a result that can be counted again.

``FRAMES=2000 pytest tests/fuzz/test_frames.py`` tries as many of each kind.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli import score_files
from tests.fuzz.frames import FRACTIONS, PROBABILITIES, REALS, SCALES, WEIGHTS, Given, frames
from tests.fuzz.harness import run_quietly
from tests.naive import maps as naive_maps
from tests.naive import vad as naive_vad
from tests.naive.raters import histogram_costs

SOME = settings(
    max_examples=int(os.environ.get("FRAMES", "15")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SCORED = {"score": PROBABILITIES, "label": [0, 1]}
UNCERTAIN = {**SCORED, "uncertainty": REALS}
VOTES = {"prob_0": [0.0, 0.25, 1.0], "count_0": [0, 1, 2], "count_1": [0, 1, 3]}

Row = tuple[float, int, Fraction]


def ran(given: Given, *words: str, model: Path | None = None) -> Any:
    """Run a command on a frame; return its result, or None where it was refused with a reason."""
    with tempfile.TemporaryDirectory() as folder:
        file, out = given.save(Path(folder)), Path(folder) / "out.json"
        command, *more = (given.names.get(word, word) for word in words)
        before = [] if model is None else [str(model)]
        table = command in ("bin", "apply")
        out = out.with_suffix(".parquet") if table else out
        code, said = run_quietly([command, *before, str(file), *more, "-q", "-o", str(out)])
        assert code in (0, 2, 3, 4), said
        assert "Traceback" not in said
        assert {path.name for path in Path(folder).iterdir()} == {
            file.name,
            *([out.name] if code == 0 else []),
        }
        if code:
            assert "Error: " in said
            assert code in (3, 4) or given.names or given.sound is not True, said
            return None
        assert given.sound is not False, (said, given.frame)
        if table:
            return pl.read_parquet(out)
        return json.loads(out.read_bytes(), parse_constant=pytest.fail)


def applied_to(given: Given, content: dict[str, Any]) -> Any:
    """Return what a model adds to a frame."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        path.write_text(json.dumps(content))
        return ran(given, "apply", model=path)


def without(given: Given, name: str) -> Given:
    """Leave a column out, and with it perhaps what is wrong."""
    return Given(given.frame.drop(name), given.sound or None, given.suffix, given.names)


def weighed(given: Given, weight: str | None = None) -> list[Row]:
    weights = given[weight] if weight else [1] * given.frame.height
    rows = zip(given["score"], given["label"], weights, strict=True)
    return [(float(s), int(y), Fraction(w)) for s, y, w in rows]


def total(rows: Sequence[Row]) -> Fraction:
    return sum((w for _, _, w in rows), Fraction(0))


def auc(rows: Sequence[Row]) -> float | None:
    good, bad = ([row for row in rows if row[1] == y] for y in (1, 0))
    pairs = total(good) * total(bad)
    if not pairs:
        return None
    wins = sum(w * v * (2 * (s > t) + (s == t)) for s, _, w in good for t, _, v in bad)
    return float(wins / (2 * pairs))


def ece(rows: Sequence[Row], bins: int = 15) -> float:
    edges = [j / bins for j in range(1, bins)]
    gaps: dict[int, Fraction] = {}
    for s, y, w in rows:
        place = sum(edge <= s for edge in edges)
        gaps[place] = gaps.get(place, Fraction(0)) + w * (y - Fraction(s))
    return float(sum(map(abs, gaps.values())) / total(rows))


def near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


weights = st.sampled_from([WEIGHTS, *([value * scale for value in FRACTIONS] for scale in SCALES)])


@SOME
@given(weights.flatmap(lambda pool: frames({**SCORED, "weight": pool})), st.booleans())
def test_metrics_are_those_of_the_definitions(given: Given, weighted: bool) -> None:
    more = ("--weight", "weight") if weighted else ()
    known = ("--score", "score", "--label", "label", "--no-intervals")
    given = given if weighted else without(given, "weight")
    result = ran(given, "evaluate", *known, *more)
    if result is None:
        return
    rows = weighed(given, "weight" if weighted else None)
    (found,) = (part["all"] for part in result["metrics"].values())
    everything = total(rows)
    assert near(found["count"], float(everything))
    assert near(found["positives"], float(total([row for row in rows if row[1]])))
    assert near(found["auc"], auc(rows))
    assert near(found["ece"], ece(rows))
    brier = sum((w * (Fraction(s) - y) ** 2 for s, y, w in rows), Fraction(0))
    assert near(found["brier"], float(brier / everything))
    mean = sum((w * Fraction(s) for s, _, w in rows), Fraction(0)) / everything
    assert near(found["mean_score"], float(mean))
    clipped = [(min(max(s, 1e-15), 1 - 1e-15), y, w) for s, y, w in rows]
    losses = [float(w / everything) * -math.log(s if y else 1 - s) for s, y, w in clipped]
    assert near(found["log_loss"], math.fsum(losses))


@SOME
@given(weights.flatmap(lambda pool: frames({**UNCERTAIN, "weight": pool})), st.data())
def test_boundaries_select_what_they_say(given: Given, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(["exact", "st", "gmt", "mist", "vw-dpmt"]))
    levels = data.draw(st.sampled_from(["1", "2", "3"]))
    goal = (data.draw(st.sampled_from(["--precision", "--recall"])), "0.5")
    weighted = data.draw(st.booleans()) and method in ("exact", "st")
    given = given if weighted else without(given, "weight")
    more = ("--weight", "weight") if weighted else ()
    columns = ("--score", "score", "--label", "label", "--uncertainty", "uncertainty")
    if method == "st":
        columns, levels = columns[:4], "1"
        given = without(given, "uncertainty")
    options = ("--method", method, "--uncertainty-bins", levels, "--folds", "0")
    found = ran(given, "boundary", *goal, *columns, *options, *more)
    if found is None:
        return
    rows = weighed(given, "weight" if weighted else None)
    frame = given.frame.rename(given.names)
    taken = score_files.decisions(found, frame)
    chosen = [row for row, selected in zip(rows, taken, strict=True) if selected]
    hits, positives = (total([row for row in part if row[1]]) for part in (chosen, rows))
    figures = found["fit"]["in_sample"]
    assert near(figures["selected"], float(total(chosen)))
    assert near(figures["true_positives"], float(hits))
    assert near(figures["recall"], float(hits / positives))
    assert near(figures["precision"], float(hits / total(chosen)))
    reached = hits / total(chosen) if goal[0] == "--precision" else hits / positives
    assert float(reached) >= 0.5 - 1e-9
    if method in ("exact", "st"):
        cuts = [[row for row in rows if row[0] >= cut] for cut in {row[0] for row in rows}]
        best = max(_objective(cut, positives, goal[0]) for cut in cuts)
        assert figures["objective_value"] >= float(best) - 1e-9
        assert levels != "1" or near(figures["objective_value"], float(best))


def _objective(chosen: list[Row], positives: Fraction, goal: str) -> Fraction:
    """Return what a cut reaches, or -1 where it does not meet the bound of one half."""
    hits, selected = total([row for row in chosen if row[1]]), total(chosen)
    if not selected:
        return Fraction(-1)
    precision, recall = hits / selected, hits / positives
    bound, value = (precision, recall) if goal == "--precision" else (recall, precision)
    return value if bound >= Fraction(1, 2) else Fraction(-1)


def _rest(given: Given) -> tuple[str, dict[str, str]]:
    return given.suffix, given.names


@SOME
@given(frames(UNCERTAIN), st.sampled_from(["equal-mass", "equal-width"]), st.integers(1, 5))
def test_cells_hold_the_rows_between_their_limits(given: Given, strategy: str, bins: int) -> None:
    columns = ("--score", "score", "--label", "label", "--uncertainty", "uncertainty")
    options = ("--uncertainty-bins", "2", "--score-bins", str(bins), "--strategy", strategy)
    grid = ran(given, "bin", *columns, *options)
    if grid is None:
        return
    numbers = (map(float, given[name]) for name in ("score", "uncertainty"))  # categories in a CSV
    rows = list(zip(*numbers, given["label"], strict=True))
    for cell in grid.iter_rows(named=True):
        own = [
            y
            for s, u, y in rows
            if cell["uncertainty_low"] <= max(u, cell["uncertainty_min"]) < cell["uncertainty_high"]
            and cell["score_low"] is not None
            and cell["score_low"] <= max(s, cell["score_min"]) < cell["score_high"]
        ]
        assert (cell["count"], cell["positives"]) == (len(own), sum(own))
    assert grid["count"].sum() == len(rows)


@SOME
@given(frames({**SCORED, "weight": WEIGHTS}), st.booleans())
def test_isotonic_maps_are_the_max_min_formula(given: Given, weighted: bool) -> None:
    given = given if weighted else without(given, "weight")
    columns = ("--score", "score", "--label", "label", "--method", "isotonic", "--clip", "0")
    model = ran(given, "calibrate", *columns, *(("--weight", "weight") if weighted else ()))
    if model is None:
        return
    rows = weighed(given, "weight" if weighted else None)
    scores = sorted({s for s, _, w in rows if w})
    count = [total([row for row in rows if row[0] == s]) for s in scores]
    positive = [total([row for row in rows if row[0] == s and row[1]]) for s in scores]
    fitted = naive_maps.isotonic_fit(count, positive)
    applied = applied_to(given, model)
    for score, value in zip(given["score"], applied["calibrated"].to_list(), strict=True):
        if score in scores:
            assert near(value, float(fitted[scores.index(score)]))


@SOME
@given(frames(SCORED), st.sampled_from(["beta", "platt", "histogram", "venn-abers", "temperature"]))
def test_calibrated_scores_are_probabilities_in_order(given: Given, method: str) -> None:
    columns = ("--score", "score", "--label", "label", "--method", method)
    model = ran(given, "calibrate", *columns)
    if model is None:
        return
    applied = applied_to(given, model)
    values = applied["calibrated"].to_list()
    assert all(0.0 < value < 1.0 for value in values)
    pairs = sorted(zip(given["score"], values, strict=True))
    assert len({score for score, _ in pairs}) == len(set(pairs))
    rising = all(a[1] <= b[1] for a, b in pairwise(pairs))
    falling = all(a[1] >= b[1] for a, b in pairwise(pairs))
    assert rising or method not in ("temperature", "beta")
    assert rising or falling or method != "platt"  # labels may fall with the score


@SOME
@given(frames({f"score_{k}": [0.1, 0.25, 0.5, 0.5000000001, 0.9] for k in range(3)}))
def test_lambda_is_that_of_the_definition(given: Given) -> None:
    names = ",".join(given.names.get(f"score_{k}", f"score_{k}") for k in range(3))
    found = ran(given, "vad", "--members", names.replace("[", "[[]"))
    if found is None or given.sound is None:
        return
    members = [[naive_vad.link(value) for value in given[f"score_{k}"]] for k in range(3)]
    ones = [1.0] * given.frame.height
    _, variance, within = naive_vad.estimate(members, ones)
    assert near(found["fit"]["variance"], float(variance))
    if variance > 1e-20:
        # Squares about the mean of a row are rounded; beside a small variance that shows.
        rounded = 1e-15 * max(abs(value) for own in members for value in own) ** 2 / float(variance)
        assert math.isclose(found["lambda"], float(1 - within / variance), abs_tol=1e-8 + rounded)


@SOME
@given(frames(VOTES))
def test_alpha0_is_a_minimum(given: Given) -> None:
    if given.sound is not None:
        other = 1.0 - given.frame["prob_0"].cast(pl.Float64)
        frame = given.frame.with_columns(prob_1=other)
        given = Given(frame, given.sound, given.suffix, {})
    found = ran(given, "alpha-cal", "--probs", "prob_*", "--counts", "count_*")
    if found is None or given.sound is None:
        return
    rows = [
        ([max(p, 1e-6), max(1 - p, 1e-6)], [a, b])
        for p, a, b in zip(given["prob_0"], given["count_0"], given["count_1"], strict=True)
        if a + b
    ]

    def objective(strength: float) -> float:
        costs = [
            histogram_costs([p / sum(ps) for p in ps], votes, strength)[0] for ps, votes in rows
        ]
        return math.fsum(costs) / len(rows) + 0.005 * strength**2

    best = found["log_alpha0"]
    lowest = objective(best)
    assert all(lowest <= objective(best + step) + 1e-9 for step in (-1, -0.01, 0.01, 1))


@pytest.fixture(scope="module")
def boundary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    rows = score_files.write(score_files.simulate(200, ties=True), folder / "rows.parquet")
    words = ["boundary", str(rows), "--precision", "0.6", "--method", "exact"]
    assert run_quietly([*words, "-o", str(folder / "b.json")])[0] == 0
    return folder / "b.json"


@SOME
@given(frames({**UNCERTAIN, "score": [*PROBABILITIES, 0.2, 0.4, 0.6, 0.8]}, wide=True))
def test_decisions_and_drift_are_counted_again(boundary: Path, given: Given) -> None:
    columns = ("--score", "score", "--uncertainty", "uncertainty")
    applied = ran(Given(given.frame, None, *_rest(given)), "apply", *columns, model=boundary)
    if applied is None or not given.sound:
        return
    model = json.loads(boundary.read_bytes())
    expected = score_files.decisions(model, given.frame)
    assert applied["decision"].to_list() == expected
    found = ran(given, "drift", *columns, "--label", "label", model=boundary)
    if found is not None:
        assert near(found["selected_share"], sum(expected) / len(expected))


@SOME
@given(frames({**SCORED, "x": REALS, "y": [0.0, 1.0, -3.5]}))
def test_parts_and_maps_are_numbers(given: Given) -> None:
    columns = ("--score", "score", "--label", "label", "--max-depth", "2", "--min-leaf", "2")
    names = ",".join(given.names.get(name, name).replace("[", "[[]") for name in ("x", "y"))
    free = Given(given.frame, None, *_rest(given))  # features may be missing and of any type
    model = ran(free, "hetcal", *columns, "--features", names, "--shrinkage", "1")
    if model is None:
        return
    applied = applied_to(free, model)
    assert applied.height == given.frame.height
    assert applied["calibrated"].is_between(0.0, 1.0).all()
    pairs = zip(given["score"], applied["leaf"], applied["calibrated"], strict=True)
    same: dict[tuple[float, int], float] = {}
    assert all(same.setdefault((float(s), leaf), value) == value for s, leaf, value in pairs)


@SOME
@given(frames(UNCERTAIN), st.sampled_from(["text", "plot"]))
def test_validate_and_reports_never_break(given: Given, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = given.save(Path(folder))
        score = given.names.get("score", "score")
        code, said = run_quietly(["validate", str(file), "--score", score, "--json"])
        assert code in (0, 2, 3), said
        assert "Traceback" not in said


@SOME
@given(frames(UNCERTAIN))
def test_states_give_what_one_run_gives(given: Given) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = str(given.save(Path(folder)))
        name = given.names.get("label", "label")
        words = [file, "--label", name, "--precision", "0.5", "--method", "exact", "-q"]
        state, one, two = (str(Path(folder) / name) for name in ("a.state", "1.json", "2.json"))
        direct = run_quietly(["boundary", *words, "-o", one])
        part = run_quietly(["boundary", *words, "--partial", "-o", state])
        if direct[0] == 0:
            assert part[0] == 0, part[1]
            assert run_quietly(["merge", state, "-q", "-o", two])[0] == 0
            assert Path(one).read_bytes() == Path(two).read_bytes()
        elif part[0] == 0:
            assert run_quietly(["merge", state, "-q", "-o", two])[0] == direct[0]


@pytest.mark.parametrize("header", ["score,score,label", "score,label,label", "score,label,", ",,"])
@pytest.mark.parametrize("command", ["evaluate", "calibrate", "boundary", "validate"])
def test_headers_with_equal_or_empty_names(header: str, command: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n0.1,0,0\n0.9,1,1\n")
    goal = ["--precision", "0.5"] if command == "boundary" else []
    code, said = run_quietly([command, str(path), *goal])
    assert code in (0, 2, 3), said
    assert "Traceback" not in said
    assert header == "score,label," or code != 0
