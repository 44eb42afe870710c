"""Nights as they happen: shards, merges, tasks and files in any order, twice, damaged or not at all."""
