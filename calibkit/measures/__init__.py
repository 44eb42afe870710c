"""Measures: what scores and decisions are worth on labelled rows, with intervals.

views         what a measure is computed from: the sorted tally of one score in one slice
metric        what a metric is; registry has those of one score by name
ranking, reliability, smooth                   the families of metrics of one score
decisions, multiclass, votes, cells            what else is judged
influence, resampling, intervals               Wilson, DeLong and other influences; the bootstrap
result        the structure of metrics.json
"""
