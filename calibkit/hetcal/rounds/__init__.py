"""Calibration by parts in rounds: what is asked of the rows, and what follows from the answers."""
