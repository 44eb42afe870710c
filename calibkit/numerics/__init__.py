"""Numbers: exact sums and bounds, distributions, roots and minima."""
