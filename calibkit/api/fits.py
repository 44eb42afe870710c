"""`fit_alpha`, `fit_boundary`, `fit_calibrator`, `fit_hetcal`, `fit_vad`; `compare`: all boundaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibkit.api.functions import fit_function, python_function, tell
from calibkit.options.alpha_cal import AlphaOptions
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.hetcal import HetcalOptions
from calibkit.options.vad import VadOptions
from calibkit.registry.methods import alpha, boundary, calibrator, hetcal, vad

if TYPE_CHECKING:
    import polars as pl

    from calibkit.files.sources import Source
    from calibkit.maps.model import CalibratorModel
    from calibkit.methods.boundary.result.model import BoundaryModel
    from calibkit.methods.hetcal.model import HetcalModel
    from calibkit.methods.raters.model import AlphaModel
    from calibkit.methods.vad.model import VadModel
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
    >>> model.apply(votes.head(2), keep="prob_0").columns[:3]
    ['prob_0', 'alpha0', 'disagreement']
    """
    return alpha.run().fit(options, source)


@fit_function(BoundaryOptions)
def fit_boundary(source: Source, options: BoundaryOptions) -> Fitted[BoundaryModel]:
    """Fit a decision boundary: in each uncertainty level, the rows from one score threshold up.

    The rows have a score, a label 0/1 and, for several levels, an uncertainty (larger = less
    certain); or they are a grid of their counts, as `calibkit.bin` makes it.  The objective is exactly
    one of ``precision``, ``recall``, ``fpr``, ``capacity``, ``maximize`` and ``minimize``.  A float
    stands for its shortest decimal: 0.9 is nine tenths, and the bound is compared in whole numbers.

    Returns
    -------
    BoundaryModel
        The model that ``calibkit boundary`` writes for the same rows and options, byte for byte.  An
        `InfeasibleError` says that no boundary selects a row and meets the bound, or that nothing can
        be certified.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(5_000, seed=1)
    >>> model = ck.fit_boundary(rows, precision=0.8, method="exact", uncertainty_bins=2)
    >>> model.fit.in_sample.precision >= 0.8, len(model.score_thresholds)
    (True, 2)
    """
    return boundary.run().fit(options, source)


@python_function(BoundaryOptions)
def compare(source: Source, options: BoundaryOptions) -> pl.DataFrame:
    """Fit a boundary by every method that takes the objective, on the same rows.

    The rows and the options are those of `fit_boundary`; with the method ``auto`` its choice has a
    row of its own.

    Returns
    -------
    polars.DataFrame
        One row a method, those that meet the bound first: what it selects, precision and recall on
        these rows, cross-validated and on the rows of ``test``, and a note.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> table = ck.compare(rows, precision=0.6, uncertainty_bins=2, score_bins=20, folds=0)
    >>> bool((table["precision"].drop_nulls() >= 0.6).all())
    True
    """
    from calibkit.methods.boundary.compare import compare as side_by_side

    compared = side_by_side(options, source)
    tell(compared.inputs.warnings, BoundaryOptions)
    return compared.frame


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
    return calibrator.run().fit(options, source)


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
    return hetcal.run().fit(options, source)


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
    return vad.run().fit(options, source)
