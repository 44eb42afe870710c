"""Maps to probabilities: of scores, and of the logits of class probabilities.

A method has its formula, its fit, and how it is written for an export, beside those of its family:
`lines`, `steps`.  Those of class probabilities (temperature, vector and matrix scaling) are in
`logit_maps`.
"""
