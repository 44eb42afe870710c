"""Calibrators: maps from scores to probabilities, one method a module."""
