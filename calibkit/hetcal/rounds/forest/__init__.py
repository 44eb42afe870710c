"""Forests in rounds: all trees grow together, then their maps."""
