"""Calibrators: maps from scores, or from class probabilities, to calibrated probabilities.

The formula of each method is with those of its family in `calibkit.maps`; here `run` fits one to all
rows and to those of each segment, `classes` one to class probabilities.
"""
