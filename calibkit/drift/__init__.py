"""Drift: whether new rows are still like those that a boundary was fitted on."""
