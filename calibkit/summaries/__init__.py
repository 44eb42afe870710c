"""What rows become within a budget of memory: score rows, tallies, bins, and states that merge."""
