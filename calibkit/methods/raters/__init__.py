"""Label histograms: class probabilities beside the votes of several raters.

Dirichlet strengths are fitted in `alpha`; `run` makes a model of one, `application` applies it.
Maps of the class probabilities are in `calibkit.maps.logit_maps`.
"""
