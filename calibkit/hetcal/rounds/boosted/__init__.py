"""Boosted models in rounds: a level of one tree of each run a round."""
