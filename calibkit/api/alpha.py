"""`fit_alpha`: distributions over class probabilities, from the votes of raters."""

from __future__ import annotations

from calibkit.api.functions import fit_function
from calibkit.files.sources import Source
from calibkit.methods.raters import run
from calibkit.methods.raters.model import AlphaModel
from calibkit.options.alpha_cal import AlphaOptions
from calibkit.summaries.runs import Fitted


@fit_function(AlphaOptions)
def fit_alpha(source: Source, options: AlphaOptions) -> Fitted[AlphaModel]:
    """Fit how much raters agree: a Dirichlet distribution over class probabilities for each row.

    The rows have class probabilities and votes per class; rows of two votes and more tell something.

    Returns
    -------
    AlphaModel
        The model that ``calibkit alpha-cal`` writes for the same rows and options, byte for byte.

    Examples
    --------
    >>> import calibkit as ck
    >>> votes = ck.simulate_raters(1_000, raters=3, seed=1)
    >>> model = ck.fit_alpha(votes)
    >>> sorted(model.apply(votes.head(2), keep="prob_0").columns)[:2]
    ['alpha0', 'calibrated_0']
    """
    return run.fit(options, source)
