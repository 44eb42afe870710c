"""Calibration and decision boundaries for score files."""
