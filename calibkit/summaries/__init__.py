"""What rows become within a budget of memory: tallies and condensed rows that merge, and states."""
