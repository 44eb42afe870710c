"""What rows become within a budget of memory: tallies and counted rows that merge, and states."""
