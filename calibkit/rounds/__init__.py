"""Fits in rounds: each round is one pass over every shard, and a plan says what it is to sum."""
