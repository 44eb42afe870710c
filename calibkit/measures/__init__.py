"""Measures: what scores and decisions are worth on labelled rows, with intervals.

views         what a measure is computed from: the sorted tally of one score in one slice
registry      the measures by name
ranking, reliability, corp, smooth, decisions, multiclass    the families
"""
