"""Watch: whether a deployed boundary still keeps its promises, by tests that hold at every look."""
