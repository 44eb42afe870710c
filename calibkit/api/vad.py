"""`fit_vad`: scores without the bias of selection, by replicates of the model."""

from __future__ import annotations

from calibkit.api.functions import fit_function
from calibkit.files.sources import Source
from calibkit.methods.vad import run
from calibkit.methods.vad.model import VadModel
from calibkit.options.vad import VadOptions
from calibkit.summaries.runs import Fitted


@fit_function(VadOptions)
def fit_vad(source: Source, options: VadOptions) -> Fitted[VadModel]:
    """Shrink scores so that the highest of them are not too high: variance-adjusting debiasing.

    The rows are unlabelled, of the distribution that the model will be applied to, with the scores of
    at least two replicate predictors.

    Returns
    -------
    VadModel
        The model that ``calibkit vad`` writes for the same rows and options, byte for byte.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_selection(2_000, train_rows=500, seed=1)
    >>> model = ck.fit_vad(rows)
    >>> 0 < model.lambda_ < 1
    True
    """
    return run.fit(options, source)
