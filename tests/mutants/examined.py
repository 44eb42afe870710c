# ruff: noqa: E501  (lines of the kernels as they are)
"""Changes of kernels that no result can show, each with the reason: looked at one by one."""

from __future__ import annotations

#: File and function, the line before and after, and why it changes nothing.
EXAMINED = """
binomial.py upper_tail | if p * (total + 3.0) < a + 1.0: | if p * (total + 3.0) < a + 1.5: | both ways of adding up are accurate beside the limit between them
binomial.py bound | if abs(guess - p) <= 2e-16 * p or high - low <= 2e-16 * high: | if abs(guess - p) <= 2e-16 * p or high - low <= 2e-16 / high: | the bisection stops a step earlier or later, below the precision promised
bootstrap.py poisson | if not 0.0 < square < 1.0: | if not 0.0 < square < 1.5: | reached only when every pair of draws was refused: never in practice
criteria.py mixture_auc | share = 0.5 if away == 0.0 else 1.0 if away > 0.0 else 0.0 | share = 0.5 if away == 0.0 else 1.0 if away >= 0.0 else 0.0 | 0 is taken before
raters.py log_rising | while left > 0 and taken < _MULTIPLIED and (left <= _MULTIPLIED or low < _LARGE): | while False: | the series that follows takes all factors, to the same digits
tally.py group_gains | last = 0 | last = 1 | not read before it is set
knapsack.py nested_levels | if size > 0: | if True: | a short cut: without it the loop has no turns
logistic.py spread | if weight > 0.0: | if weight >= 0.0: | weight 0 adds 0
normal.py normal_quantile | if tail > 0.3: | if tail >= 0.3: | both formulas hold at the limit between them
ranking.py ranking_sums | if good > 0: | if True: | adds 0
binomial.py deviance | if abs(x - mean) < 0.1 * (x + mean): | if abs(x - mean) <= 0.1 * (x + mean): | both formulas hold at the limit between them
splits.py hypergeometric | while u >= 0.0 and (above < high or below > low): | while u >= 0.0 and (above <= high or below > low): | looks once more at a value that cannot occur
isotonic.py added_row_fits | size, left, right = (0, 0, 0) | size, left, right = (0, 0, 1) | the first group raises it to 1 before it is read
tree.py search_splits | continue | pass | costs time alone: a node is looked at twice, or though it cannot be split
"""
ROWS = [line.split(" | ") for line in EXAMINED.strip().splitlines()]

#: (file, function, line before, line after) -> why it changes nothing.
EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    (*place.split(), before, after): why for place, before, after, why in ROWS
}
