"""`fit_calibrator`: a map from scores, or from class probabilities, to probabilities."""

from __future__ import annotations

from calibkit.api.functions import fit_function
from calibkit.files.sources import Source
from calibkit.maps.calibrator import CalibratorModel
from calibkit.methods.calibrators import run
from calibkit.options.calibrate import CalibrateOptions
from calibkit.summaries.runs import Fitted


@fit_function(CalibrateOptions)
def fit_calibrator(source: Source, options: CalibrateOptions) -> Fitted[CalibratorModel]:
    """Fit a map from scores to probabilities on labelled rows.

    The rows have a score and a label 0/1, or class probabilities (`probs`) with a label or votes.

    Returns
    -------
    CalibratorModel
        The model that ``calibkit calibrate`` writes for the same rows and options, byte for byte.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> model = ck.fit_calibrator(rows, method="isotonic")
    >>> model.fit.log_loss < model.fit.log_loss_before
    True
    """
    return run.fit(options, source)
