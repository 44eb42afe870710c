"""Label histograms: class probabilities beside the votes of several raters."""
