"""Label histograms: class probabilities beside the votes of several raters.

The Dirichlet strength alpha0 is fitted in `alpha`; `alpha_cal` makes a model of it and applies one.
Maps of the class probabilities are in `calibkit.maps.logit_maps`.
"""
