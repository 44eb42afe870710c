"""Measures: what scores and decisions are worth on labelled rows, with intervals.

views         what a metric of one score is, and what it is computed from: its sorted tally in a slice
ranking, reliability               the families of metrics of one score; metrics has them by name
decisions, classes, cells          what else is judged
influence, resampling              Wilson, DeLong and other influences; the bootstrap
result        the structure of metrics.json
"""
