"""Calibration and decision boundaries for score files."""

__version__ = "0.1.0.dev0"
