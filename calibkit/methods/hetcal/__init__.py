"""Heterogeneous calibration: a partition of the feature space, a calibration map for each part.

Durfee, Gupta, Basu, "Heterogeneous calibration: a post-hoc model-agnostic framework for improved
generalization".
"""
