"""Sums of a logistic regression: against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels.logistic import newton_sums
from tests.naive import logistic as naive

number = st.floats(-3, 3)


@given(st.data(), st.integers(1, 6), st.integers(1, 3))
def test_sums_are_those_of_the_definition(data: st.DataObject, rows: int, inputs: int) -> None:
    x = [data.draw(st.lists(number, min_size=inputs, max_size=inputs)) for _ in range(rows)]
    label = data.draw(st.lists(st.integers(0, 1), min_size=rows, max_size=rows))
    times = data.draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    weights = data.draw(st.lists(number, min_size=inputs, max_size=inputs))
    gradient, hessian = np.zeros(inputs), np.zeros((inputs, inputs))
    loss = newton_sums(
        np.array(x),
        np.array(label, np.float64),
        np.array(times, np.float64),
        np.array(weights),
        gradient,
        hessian,
    )
    wanted, slope, curve = naive.newton_sums(x, label, times, weights)
    assert loss == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert gradient.tolist() == pytest.approx(slope, rel=1e-9, abs=1e-9)
    assert np.allclose(np.tril(hessian), np.tril(curve), rtol=1e-9, atol=1e-9)
