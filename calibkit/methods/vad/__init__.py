"""Variance-adjusting debiasing: what selecting by a noisy score adds to it, taken off again."""
