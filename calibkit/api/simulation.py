"""`simulate_posterior` and the other simulations: score files from a known truth, as frames."""

from __future__ import annotations

import polars as pl

from calibkit import simulations
from calibkit.api.functions import options_function
from calibkit.options.simulate import (
    PartitionsOptions,
    PosteriorOptions,
    RatersOptions,
    SelectionOptions,
)


@options_function(PosteriorOptions)
def simulate_posterior(options: PosteriorOptions) -> pl.DataFrame:
    """Return simulated scores with labels, uncertainty and the truth behind them.

    The same seed gives the same rows, and the first rows of a longer simulation are those of a
    shorter one (for one version of numpy, which may change how it draws from a distribution).

    Returns
    -------
    DataFrame
        `id` (from 1), `label` (0/1), `score`, `uncertainty` = -(p1 + p0 + evidence) (larger = less
        certain; minus the strength of the posterior, which serves better than its entropy),
        `evidence` (whole numbers), `entropy` (differential, of the posterior network's
        Beta distribution, in nats), `true_positivity` (the probability that `label` is 1).

    Examples
    --------
    >>> simulate_posterior(1000, seed=1).height
    1000
    >>> simulate_posterior(2, keep=["score", "label"]).columns
    ['label', 'score']
    """
    return simulations.posterior(options)


@options_function(SelectionOptions)
def simulate_selection(options: SelectionOptions) -> pl.DataFrame:
    """Return scores of replicate models, to see what selecting by one of them does to it.

    All parts of one seed are scored by the same models.

    Returns
    -------
    DataFrame
        `id` (from 1), `label` (not in validation), `score_1` (the model), `score_2`, … (its
        bootstrap refits), `true_probability` (that `label` is 1).

    Examples
    --------
    >>> simulate_selection(2, part="validation", seed=1).columns
    ['id', 'score_1', 'score_2', 'score_3', 'true_probability']
    """
    return simulations.selection(options)


@options_function(RatersOptions)
def simulate_raters(options: RatersOptions) -> pl.DataFrame:
    """Return votes of raters on two classes, with the class probabilities of a model.

    Under ``ideal`` calibration and dispersion loss are 0; under ``modes`` the model knows the mean
    of ten kinds of row only, and the kind is given as ten indicator features.

    Returns
    -------
    DataFrame
        `id` (from 1), `prob_0`, `prob_1`, `count_0`, `count_1`; under ``modes`` also
        `true_probability` (that a rater says class 1), `mode` (``clear``, ``epistemic`` or
        ``aleatoric``) and `feature_0` to `feature_9`.

    Examples
    --------
    >>> simulate_raters(2, raters=3).select("count_0", "count_1").sum_horizontal().to_list()
    [3, 3]
    """
    return simulations.raters(options)


@options_function(PartitionsOptions)
def simulate_partitions(options: PartitionsOptions) -> pl.DataFrame:
    """Return labelled scores of a model that is over-confident on the rows it was trained on.

    Returns
    -------
    DataFrame
        `id` (from 1), `label`, `score`, `feature_pattern` (0 or 1), `feature_noise` (normal, of no
        use), `true_positivity` (the probability that the label of a new row is 1).

    Examples
    --------
    >>> simulate_partitions(1000, kind="training")["feature_pattern"].n_unique()
    2
    """
    return simulations.partitions(options)
