"""Bins of scores and uncertainties, and the grid of counts over them."""
