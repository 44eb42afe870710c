"""`fit_hetcal`: a partition of the rows by their features, each part with a map of its own."""

from __future__ import annotations

from calibkit.api.functions import fit_function
from calibkit.files.sources import Source
from calibkit.methods.hetcal import run
from calibkit.methods.hetcal.model import HetcalModel
from calibkit.options.hetcal import HetcalOptions
from calibkit.summaries.runs import Fitted


@fit_function(HetcalOptions)
def fit_hetcal(source: Source, options: HetcalOptions) -> Fitted[HetcalModel]:
    """Partition the rows by their features, and calibrate each part by a map of its own.

    Returns
    -------
    HetcalModel
        The model that ``calibkit hetcal`` writes for the same rows and options, byte for byte.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_partitions(2_000, seed=1)
    >>> model = ck.fit_hetcal(rows, max_depth=1, min_leaf=100, shrinkage=0.0)
    >>> model.tree[0].feature, len(model.maps)
    ('feature_pattern', 2)
    """
    return run.fit(options, source)
