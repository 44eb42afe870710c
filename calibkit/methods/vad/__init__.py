"""Variance-adjusting debiasing: what selecting by a noisy score adds to it, taken off again.

The formula is `Moments.estimate` in `moments`; `run` makes a model of it, alone or in tandem;
`application` shrinks scores.
"""
