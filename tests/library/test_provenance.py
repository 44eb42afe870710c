"""Fingerprints of rows: free of their order, told apart by anything else."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibkit.numerics import hashes
from calibkit.numerics.hashes import data_hash, random_parts

column = st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=8)


@given(column, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_does_not_matter(values: list[float], random: object) -> None:
    score, label = np.array(values), np.arange(len(values)) % 2
    order = list(range(len(values)))
    random.shuffle(order)  # type: ignore[attr-defined]
    first = data_hash({"score": score, "label": label})
    assert first == data_hash({"label": label[order], "score": score[order]})
    assert len(first) == 16 and int(first, 16) >= 0


@given(column)
def test_equal_numbers_of_other_types_are_the_same(values: list[float]) -> None:
    narrow = np.array(values, np.float32)
    assert data_hash({"score": narrow}) == data_hash({"score": narrow.astype(np.float64)})


def test_values_roles_pairs_and_copies_tell() -> None:
    a, b = np.array([0.25, 0.5, 0.75]), np.array([1, 0, 1])
    found = {
        data_hash({"score": a, "label": b}),
        data_hash({"score": b, "label": a}),
        data_hash({"score": a}),
        data_hash({"label": a}),
        data_hash({"score": a, "label": b[::-1] * 0}),
        data_hash({"score": a, "label": np.array([0, 1, 1])}),
        data_hash({"score": np.array([0.25, 0.5, 0.5]), "label": b}),
        data_hash({"score": a[:2], "label": b[:2]}),
        data_hash({"score": np.tile(a, 2), "label": np.tile(b, 2)}),
        data_hash({"score": np.nextafter(a, 1), "label": b}),
    }
    assert len(found) == 10


def test_blocks_do_not_matter(monkeypatch: object) -> None:
    score = np.random.default_rng(0).random(1000)
    whole = data_hash({"score": score})
    monkeypatch.setattr(hashes, "_BLOCK", 7)  # type: ignore[attr-defined]
    assert data_hash({"score": score}) == whole


def test_parts_are_of_about_equal_size_and_follow_the_seed() -> None:
    rng = np.random.default_rng(1)
    columns = {"score": rng.random(5000), "weight": rng.random(5000)}
    parts = random_parts(columns, 5, 0)
    assert stats.chisquare(np.bincount(parts, minlength=5)).pvalue > 1e-6
    assert not np.array_equal(parts, random_parts(columns, 5, 1))
    order = rng.permutation(5000)
    shuffled = {name: values[order] for name, values in columns.items()}
    assert np.array_equal(random_parts(shuffled, 5, 0), parts[order])
    # Identical rows are dealt apart.
    parts = random_parts({"score": np.full(4000, 0.5)}, 4, 3)
    assert stats.chisquare(np.bincount(parts, minlength=4)).pvalue > 1e-6
