"""Columns of the inputs as checked arrays: labels, scores, weights, segments, features, patterns."""
