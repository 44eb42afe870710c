"""The number of uncertainty levels by cross-validation."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from calibkit.columns.columns import ScoreRows
from calibkit.errors import InfeasibleError, UsageError
from calibkit.methods.boundary.choice import EVERY_LEVELS, choose_levels, marginal_prices
from calibkit.methods.boundary.result.fit import delivered, fit_boundary
from calibkit.methods.boundary.solvers.summary import summarise
from calibkit.options.boundary import BoundaryOptions

from .samples import score_rows


def asked(**options: Any) -> BoundaryOptions:
    return BoundaryOptions(**{"method": "exact", **options})


def rows(size: int, *, useful: bool, seed: int = 0) -> ScoreRows:
    """Rows whose uncertainty tells how far a score can be trusted, or is noise."""
    rng = np.random.default_rng(seed)
    score, uncertainty = rng.random(size), rng.random(size)
    trust = 1 - uncertainty if useful else 0.5
    label = rng.random(size) < 0.2 + (score - 0.2) * trust
    return score_rows(score=score, label=label.astype(int), uncertainty=uncertainty)


def test_useful_uncertainty_gets_levels_and_noise_gets_one() -> None:
    target = {"precision": "0.6"}
    assert choose_levels(rows(20_000, useful=True), asked(**target)).summary.planned.levels > 1
    noise = choose_levels(rows(20_000, useful=False), asked(precision="0.5"))
    assert noise.summary.planned.levels == 1


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "target",
    [
        {"precision": "0.6"},
        {"recall": "0.3"},
        {"fpr": "0.05"},
        {"capacity": "0.1"},
        {"maximize": "f1"},
        {"minimize": "cost:1,2"},
    ],
    ids=str,
)
def test_the_fewest_levels_within_one_standard_error_of_the_best(target: dict[str, str]) -> None:
    data, wanted = rows(3_000, useful=True, seed=5), asked(**target)
    found = delivered(choose_levels(data, wanted), wanted)
    single = summarise(data, replace(wanted, uncertainty_bins=1))
    (price,) = marginal_prices(single, single.aim()[1])
    worth, error, models = {}, {}, {}
    for levels in EVERY_LEVELS:
        fitted = fit_boundary(data, replace(wanted, uncertainty_bins=levels))
        models[levels], checked = fitted.model, fitted.model.fit.cross_validated
        if wanted.target.bound is None:
            sign = -1 if "minimize" in target else 1
            worth[levels], error[levels] = sign * checked.objective_value, checked.standard_error
            continue
        folds = np.array(fitted.folds)
        gains = folds[:, 3] - price * folds[:, 2]
        worth[levels] = gains.sum() / folds[:, 1].sum()
        error[levels] = (gains / folds[:, 1]).std(ddof=1) / np.sqrt(len(folds))
        assert checked.recall == folds[:, 3].sum() / folds[:, 1].sum()
    best = max(worth, key=lambda levels: worth[levels])
    levels = found.summary.planned.levels
    assert levels == min(k for k in worth if worth[k] >= worth[best] - error[best])
    assert found.model.to_json() == models[levels].to_json()


def test_a_capacity_prices_blocks_that_end_in_any_row() -> None:
    """Seven tenths of the positives reach row 5; of it all but the two reviewed are blocked."""
    data = score_rows(score=[6, 5, 4, 3, 2, 1], label=[1, 1, 0, 0, 1, 0])
    wanted = asked(method="st", recall="0.7", review_capacity="2")
    counted = summarise(data, wanted)
    assert marginal_prices(counted, counted.aim()[1]) == (2 / 3, 1 / 3, 1 / 3)


def test_what_cannot_be_chosen() -> None:
    with pytest.raises(UsageError, match="--folds"):
        asked(precision="0.6", uncertainty_bins="auto", folds=0)
    bad = score_rows(score=[0.9, 0.1] * 20, label=[0, 1] * 20, uncertainty=[1.0, 2.0] * 20)
    with pytest.raises(InfeasibleError):
        choose_levels(bad, asked(fpr="0", method="st"))
    few = score_rows(score=[0.1, 0.9], label=[0, 1], uncertainty=[1.0, 2.0])
    assert choose_levels(few, asked(precision="0.6")).summary.planned.levels == 1
    alone = score_rows(score=[0.1, 0.9] * 20, label=[0, 1] * 20)
    assert choose_levels(alone, asked(precision="0.6")).summary.planned.levels == 1


def test_a_number_of_levels_is_whole_or_left_to_the_rows() -> None:
    assert asked(precision="0.6", uncertainty_bins="3").levels == 3
    assert asked(precision="0.6", uncertainty_bins=np.int64(3)).levels == 3
    assert asked(precision="0.6", uncertainty_bins="auto").levels is None
    for value in ("0", 0, 3.0, True, Decimal(3)):
        with pytest.raises(UsageError, match="expected a whole number, at least 1, or auto"):
            asked(precision="0.6", uncertainty_bins=value)
