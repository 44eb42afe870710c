"""`fit_alpha`, `fit_boundary`, `fit_calibrator`, `fit_hetcal`, `fit_vad`; `compare`: all boundaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibkit.api.functions import python_function, tell
from calibkit.options.alpha_cal import AlphaOptions
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.hetcal import HetcalOptions
from calibkit.options.option import Options
from calibkit.options.vad import VadOptions

if TYPE_CHECKING:
    import polars as pl

    from calibkit.files.sources import Source
    from calibkit.maps.calibrator import CalibratorModel
    from calibkit.methods.boundary.result.model import BoundaryModel
    from calibkit.methods.hetcal.model import HetcalModel
    from calibkit.methods.raters.model import AlphaModel
    from calibkit.methods.vad.model import VadModel
    from calibkit.summaries.runs import Fitted, M


def _model(fitted: Fitted[M], options: Options) -> M:
    tell(fitted.warnings, options)
    return fitted.model


@python_function(AlphaOptions)
def fit_alpha(source: Source, options: AlphaOptions) -> AlphaModel:
    """See `AlphaOptions`.

    Returns AlphaModel: The model that ``calibkit alpha-cal`` writes for the same rows and options,
    byte for byte.

    >>> votes = ck.simulate_raters(1_000, raters=3, seed=1)
    >>> model = ck.fit_alpha(votes)
    >>> model.apply(votes.head(2), keep="prob_0").columns[:3]
    ['prob_0', 'alpha0', 'disagreement']
    """
    from calibkit.methods.raters import run

    return _model(run.fit(options, source), options)


@python_function(BoundaryOptions)
def fit_boundary(source: Source, options: BoundaryOptions) -> BoundaryModel:
    """See `BoundaryOptions`.

    The rows have a score, a label 0/1 and, for several levels, an uncertainty (larger = less
    certain); or they are a grid of their counts, as `calibkit.bin` makes it.  The objective is exactly
    one of ``precision``, ``recall``, ``fpr``, ``capacity``, ``maximize`` and ``minimize``.  A float
    stands for its shortest decimal: 0.9 is nine tenths, and the bound is compared in whole numbers.

    Returns BoundaryModel: The model that ``calibkit boundary`` writes for the same rows and options,
    byte for byte.  An `InfeasibleError` says that no boundary selects a row and meets the bound, or
    that nothing can be certified.

    >>> rows = ck.simulate_posterior(5_000, seed=1)
    >>> model = ck.fit_boundary(rows, precision=0.8, method="exact", uncertainty_bins=2)
    >>> model.fit.in_sample.precision >= 0.8, len(model.score_thresholds)
    (True, 2)
    """
    from calibkit.methods.boundary import run

    return _model(run.fit(options, source), options)


@python_function(BoundaryOptions)
def compare(source: Source, options: BoundaryOptions) -> pl.DataFrame:
    """Fit a boundary by every method that takes the objective, on the same rows.

    The rows and the options are those of `fit_boundary`; with the method ``auto`` its choice has a
    row of its own.

    Returns polars.DataFrame: One row a method, those that meet the bound first: what it selects,
    precision and recall on these rows, cross-validated and on the rows of ``test``, and a note.

    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> table = ck.compare(rows, precision=0.6, uncertainty_bins=2, score_bins=20, folds=0)
    >>> bool((table["precision"].drop_nulls() >= 0.6).all())
    True
    """
    from calibkit.methods.boundary.compare import compare

    compared = compare(options, source)
    tell(compared.inputs.warnings, options)
    return compared.frame


@python_function(CalibrateOptions)
def fit_calibrator(source: Source, options: CalibrateOptions) -> CalibratorModel:
    """See `CalibrateOptions`.

    The rows have a score and a label 0/1, or class probabilities (`probs`) with a label or votes.

    Returns CalibratorModel: The model that ``calibkit calibrate`` writes for the same rows and
    options, byte for byte.

    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> model = ck.fit_calibrator(rows, method="isotonic")
    >>> model.fit.log_loss < model.fit.log_loss_before
    True
    """
    from calibkit.methods.calibrators import run

    return _model(run.fit(options, source), options)


@python_function(HetcalOptions)
def fit_hetcal(source: Source, options: HetcalOptions) -> HetcalModel:
    """See `HetcalOptions`.

    Returns HetcalModel: The model that ``calibkit hetcal`` writes for the same rows and options, byte
    for byte.

    >>> rows = ck.simulate_partitions(2_000, seed=1)
    >>> model = ck.fit_hetcal(rows, max_depth=1, min_leaf=100, shrinkage=0.0)
    >>> model.tree[0].feature, len(model.maps)
    ('feature_pattern', 2)
    """
    from calibkit.methods.hetcal import run

    return _model(run.fit(options, source), options)


@python_function(VadOptions)
def fit_vad(source: Source, options: VadOptions) -> VadModel:
    """See `VadOptions`.

    The rows are of the distribution that the model will be applied to, with the scores of at least
    two replicate predictors.

    Returns VadModel: The model that ``calibkit vad`` writes for the same rows and options, byte for
    byte.

    >>> rows = ck.simulate_selection(2_000, train_rows=500, seed=1)
    >>> model = ck.fit_vad(rows)
    >>> 0 < model.lambda_ < 1
    True
    """
    from calibkit.methods.vad import run

    return _model(run.fit(options, source), options)
