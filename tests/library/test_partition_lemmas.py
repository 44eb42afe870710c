"""What Durfee, Gupta and Basu prove of calibration by parts, on rows of any partition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit.measures.metrics import compute
from calibkit.measures.views import Sample, view_of
from calibkit.options.metrics import Settings

#: Negative and positive rows of each pair of a part and a score, and what else may be said of these.
cells = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 6)), min_size=2, max_size=9
).filter(lambda found: sum(n for n, _, _ in found) and sum(p for _, p, _ in found))


def metrics(cells: list[tuple[int, int, int]], scores: list[float]) -> dict[str, float]:
    """Return AUC and area under precision and recall where every cell has a score."""
    score = np.repeat(scores, [n + p for n, p, _ in cells])
    label = np.concatenate([np.repeat([0, 1], [n, p]) for n, p, _ in cells]).astype(np.uint8)
    view = view_of(Sample(score, label), "score", "all", Settings())
    return {name: float(value or 0) for name, value in compute(view, ["auc", "pr_auc"]).items()}


def rates(cells: list[tuple[int, int, int]]) -> list[float]:
    """Return the share of positives of each cell: perfect calibration by parts."""
    return [p / (n + p) if n + p else 0.0 for n, p, _ in cells]


@given(cells)
def test_no_other_score_of_the_cells_ranks_better(found: list[tuple[int, int, int]]) -> None:
    """Lemmas 4.1 and 4.3, and the same of precision and recall (section 10)."""
    best, other = metrics(found, rates(found)), metrics(found, [t / 6 for _, _, t in found])
    assert best["auc"] >= other["auc"] - 1e-12
    assert best["pr_auc"] >= other["pr_auc"] - 1e-12
