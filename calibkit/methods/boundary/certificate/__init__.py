"""Boundaries whose bound holds on new data, with a stated confidence."""
