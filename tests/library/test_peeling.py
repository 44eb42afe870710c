"""Peeling: how rows are divided, that the region depends on rows outside it alone, that bounds hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from calibkit.errors import InfeasibleError
from calibkit.methods.boundary.certificate import evidence, peeling
from calibkit.methods.boundary.certificate.certificate import certify_boundary
from calibkit.methods.boundary.certificate.evidence import Split, deal_rows, fitting_share
from calibkit.methods.boundary.certificate.paths import CURVED, Path, Region, fit_path
from calibkit.methods.boundary.certificate.peeling import peel, peels
from calibkit.methods.boundary.result.application import decide
from calibkit.options.boundary import BoundaryOptions
from calibkit.summaries.score_rows import ScoreRows
from tests.library.samples import score_rows
from tests.library.test_certificate import asked, draw, quantity

OPTIONS = asked(precision="0.6")


def naive_peel(rows: ScoreRows, core: np.ndarray, bound: float) -> tuple[Path, np.ndarray, int]:
    """Return the last path, which rows are inside its region, and how many rounds that took."""
    assert rows.uncertainty is not None
    sizes = quantity("precision", str(bound)).size
    path = fit_path(rows.only(np.flatnonzero(core)), CURVED, None, sizes)
    inside, rounds = np.full(core.size, True), 0
    for beyond in (7.0, 5.0, 5.0):
        own = core & inside
        testing = int((inside & ~core).sum())
        margins = []
        for selected, hits in path.expected.tolist():
            trials, expected = (one * testing / own.sum() for one in (selected, hits))
            spread = (bound * (1 - bound) * (trials + 10)) ** 0.5
            margins.append((expected - bound * trials) / spread - stats.norm.isf(0.1))
        assert rounds or max(margins) >= 1.0, "not peeled"
        last = max(j for j, one in enumerate(margins) if one >= min(-beyond, max(margins)))
        level = path.levels.of(rows.uncertainty, core.size)
        taken = inside & (rows.score >= path.thresholds[: last + 1, level]).any(axis=0)
        known = int((taken & own).sum())
        if known < 10 or known > 0.98 * own.sum():
            break
        inside, rounds = taken, rounds + 1
        each = round(inside.sum() / known)
        trust = (1 + (each - 1) * known / (known + 400)) / each
        region = Region(path.levels, np.nan_to_num(path.thresholds[last], nan=np.inf), each, trust)
        path = fit_path(rows.only(np.flatnonzero(core | ~inside)), CURVED, None, sizes, region)
    return path, inside, rounds


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
def test_rows_are_divided_as_a_slow_twin_divides_them(seed: int) -> None:
    rows, _ = draw(3000, seed)
    found = peel(rows, OPTIONS, 0.1)
    assert found is not None
    core = deal_rows(rows, OPTIONS, 0.75 * fitting_share(3000)).fits
    path, inside, rounds = naive_peel(rows, core, 0.6)
    assert rounds > 0
    assert found[1].fits.tolist() == (core | ~inside).tolist()
    assert np.array_equal(found[0].thresholds, path.thresholds, equal_nan=True)
    assert found[0].totals[0] == int((core & inside).sum())
    certificate = certify_boundary(rows, OPTIONS).model.fit.certificate
    assert certificate is not None
    assert certificate.rows == int((~found[1].fits).sum()) < 1500


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(6))
def test_region_and_path_depend_on_the_core_and_rows_outside_alone(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows inside that test may be any others there: nothing moves.  One row outside moves it."""
    rows, _ = draw(4000, seed)
    stream = np.random.default_rng(seed)
    core = stream.random(4000) < 0.2

    def dealt(rows: ScoreRows) -> tuple[Path, Split]:
        monkeypatch.setattr(evidence, "deal_rows", lambda *_: Split(rows, core))
        found = peel(rows, OPTIONS, 0.1)
        assert found is not None
        return found

    found = dealt(rows)
    inside = np.flatnonzero(~found[1].fits)
    assert 50 < inside.size < 2500
    source = np.arange(4000)
    source[inside] = stream.choice(inside, inside.size)
    other = rows.only(source)
    label = other.labels.copy()
    label[inside] = stream.integers(0, 2) if seed % 2 else stream.integers(0, 2, inside.size)
    again = dealt(replace(other, label=label))
    assert np.array_equal(again[1].fits, found[1].fits)
    assert np.array_equal(again[0].thresholds, found[0].thresholds, equal_nan=True)
    assert np.array_equal(again[0].expected, found[0].expected)
    label = rows.labels.copy()
    label[found[1].fits & ~core] ^= 1
    assert not np.array_equal(dealt(replace(rows, label=label))[0].expected, found[0].expected)


@pytest.mark.more
def test_a_bound_that_no_boundary_keeps_is_certified_with_the_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chances of half of the rows are the bound itself, whatever the score: each is as bad as allowed.

    Tests at twice the level would certify about 60 of the files.
    """
    monkeypatch.setattr(peeling, "_HOPE", -9.0)
    monkeypatch.setattr("calibkit.methods.boundary.certificate.certificate.LEAST_POWER", 0.0)
    errors, peeled, runs = 0, 0, 200
    for seed in range(runs):
        stream = np.random.default_rng(seed)
        score, spread = stream.random((2, 1500))
        label = stream.random(1500) < np.where(score + 0.1 * spread > 0.5, 0.6, 0.2)
        rows = score_rows(score, label, spread, scale="probability")
        options = dataclasses.replace(asked("0.8", precision="0.6"), seed=seed << 20)
        if seed < 20:
            own = peel(rows, options, 0.2)
            peeled += own is not None and own[1].fits.mean() > 0.5
        try:
            certify_boundary(rows, options)
        except InfeasibleError:
            continue
        errors += 1
    assert peeled > 10
    assert errors > 0.08 * runs
    assert stats.binom.sf(errors - 1, runs, 0.2) > 1e-3


def test_a_peeled_certificate_keeps_its_bound() -> None:
    fresh, truth = draw(20_000, 10**6)
    violated, certified, runs = 0, 0, 16
    for seed in range(runs):
        rows, _ = draw(6000, seed)
        options = asked("0.8", precision="0.7")
        try:
            model = certify_boundary(rows, options).model
        except InfeasibleError:
            continue
        certified += 1
        assert seed > 3 or peel(rows, options, 0.2) is not None
        chosen = decide(model, fresh.score, fresh.uncertainty)[0] == 1
        violated += bool(truth[chosen].mean() < 0.7)
    assert certified > runs / 2
    assert stats.binom.sf(violated - 1, runs, 0.2) > 1e-3


@pytest.mark.parametrize(
    "given",
    [
        {"recall": "0.3"},
        {"precision": "0.6", "fpr": "0.2"},
        {"precision": "0.6", "method": "st"},
        {"precision": "0.6", "prevalence": "0.2"},
        {"precision": "0.6", "groups": "user"},
        {"precision": "0.6", "time": "day"},
        {"precision": "0.6", "by": "shop", "bound": "each"},
        {"precision": "0.6", "review_capacity": "0.2"},
    ],
)
def test_what_is_not_one_precision_of_all_rows_keeps_two_parts(given: dict[str, Any]) -> None:
    rows, _ = draw(300, 1)
    assert peels(OPTIONS, rows)
    assert not peels(BoundaryOptions(**{"confidence": "0.9", **given}), rows)
    assert not peels(OPTIONS, replace(rows, weight=np.full(300, 0.5)))


def test_rows_that_promise_little_keep_two_parts() -> None:
    rows, _ = draw(1000, 4)
    assert peel(rows, asked(precision="0.95"), 0.1) is None
    certificate = certify_boundary(rows, asked(precision="0.5", method="st")).model.fit.certificate
    assert certificate is not None
    assert certificate.rows == int((~deal_rows(rows, OPTIONS).fits).sum())
