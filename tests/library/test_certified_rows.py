"""Certificates of rows of every kind keep their bounds as often as they say."""

from __future__ import annotations

import pytest
from scipy import stats

import calibkit as ck
from calibkit.errors import InfeasibleError
from docs.evidence.coverage_kinds import KINDS, kept, kind_rows

RUNS, CONFIDENCE = 20, 0.8


@pytest.mark.few(3)
@pytest.mark.filterwarnings("ignore:segment")
@pytest.mark.parametrize("kind", KINDS)
def test_promises_are_broken_no_more_often_than_said(kind: str) -> None:
    broken = certified = 0
    for seed in range(RUNS):
        frame, _ = kind_rows(1800, seed)
        try:
            model = ck.fit_boundary(frame, confidence=CONFIDENCE, seed=seed << 24, **KINDS[kind])
        except InfeasibleError:
            continue
        certified += 1
        broken += not kept(model, 60_000, KINDS[kind])
    assert certified > RUNS // 3
    assert stats.binom.sf(broken - 1, RUNS, 1 - CONFIDENCE) > 1e-3
