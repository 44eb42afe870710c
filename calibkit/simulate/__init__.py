"""Score files from a known truth, one module a kind."""
