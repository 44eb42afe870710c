"""Label histograms: class probabilities beside the votes of several raters.

Dirichlet strengths are fitted in `run`, and applied in `application`; maps of the class probabilities
are in `calibkit.maps.logit_maps`.
"""
