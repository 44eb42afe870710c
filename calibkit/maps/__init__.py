"""Maps to probabilities: of scores, and of the logits of class probabilities.

Each method has a file of its own name, with its formula, its fit, and how it is written for an export:
`beta`, `platt`, `quadratic`, `spline`, `isotonic`, `histogram`, `scaling_binning`, `venn_abers`,
`temperature`, `prior_shift`, `none`.
Those of class probabilities (temperature, vector and matrix scaling) are in `logit_maps`, their fit in
`map_fit`.
"""
