"""Evaluation: measures of slices of the rows of files, and what is written of them."""
