"""Metrics: what scores are worth on labelled rows, with intervals.

result        the structure of metrics.json
views         what a metric is computed from: the sorted tally of one score in one slice
registry      the metrics by name
ranking, calibration, corp, smooth, decisions, multiclass    the families
slices        all rows, the top, the values of a column
evaluate      a run of all this over the inputs
"""
