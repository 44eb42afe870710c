"""Heterogeneous calibration: a partition of the feature space, a calibration map for each part.

Durfee, Gupta, Basu, "Heterogeneous calibration: a post-hoc model-agnostic framework for improved
generalization".  Algorithm 1 is `trees_fit`: trees are grown in `grow`, by the criteria of
`calibkit_kernels.criteria`, and their leaves mapped in `maps`; those in turn are in
`in_turn`.
"""
