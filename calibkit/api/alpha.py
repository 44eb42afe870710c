"""`fit_alpha`: distributions over class probabilities, from the votes of raters."""

from __future__ import annotations

from typing import Literal

from calibkit.api.calibrator import Penalties, penalties
from calibkit.api.options import (
    Missing,
    Provenance,
    Scale,
    at_work,
    chosen,
    delivered,
    one_pattern,
    tagged,
    whole,
)
from calibkit.files.frames import Frame, Names, names, open_frame
from calibkit.raters import alpha_cal
from calibkit.raters.model import AlphaModel
from calibkit.raters.rows import RaterOptions
from calibkit.raters.stored import read_rater_rows


def fit_alpha(
    frame: Frame,
    *,
    probs: str | None = None,
    counts: str | None = None,
    features: Names | None = None,
    scale: Scale = "probability",
    map: Literal["none", "temperature", "vector", "matrix"] = "none",
    map_regularization: Penalties = "cv",
    regularization: float = 0.005,
    disagreement_map: Literal["none", "isotonic"] = "none",
    on_missing: Missing = "error",
    provenance: Provenance = "hash",
    tags: dict[str, str] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> AlphaModel:
    """Fit how much raters agree: a Dirichlet distribution over class probabilities for each row.

    Parameters
    ----------
    frame
        Rows with class probabilities and votes per class; rows of two votes and more tell something.
    probs, counts
        Their columns: globs that pair by what ``*`` matches, or columns of lists (None:
        ``"prob_*"`` and ``"count_*"``).
    features
        What alpha0 depends on: columns (names and globs), ``"probs"`` or ``"sorted-probs"``; None: it
        is constant.
    map, map_regularization, regularization, disagreement_map
        What calibrates the class probabilities first; penalties; a rising step function on the
        predicted disagreement.
    scale, on_missing, provenance, tags, seed, threads
        As the options of ``calibkit alpha-cal``, which docs/alpha-cal.md explains.

    Returns
    -------
    AlphaModel
        The model that ``calibkit alpha-cal`` writes for the same rows and options, byte for byte.

    Raises
    ------
    UsageError
        An option, a column or a pair of options that is impossible.
    DataError
        Values that are missing, out of range or of the wrong type; no row with two votes.

    Examples
    --------
    >>> import calibkit as ck
    >>> votes = ck.simulate_raters(1_000, raters=3, seed=1)
    >>> model = ck.fit_alpha(votes)
    >>> sorted(model.apply(votes.head(2), keep="prob_0").columns)[:2]
    ['alpha0', 'calibrated_0']
    """
    chosen("--provenance", provenance, Provenance)
    whole("--seed", seed, 0)
    source = open_frame(frame)
    found = alpha_cal.feature_names(source, names(features))
    spec = alpha_cal.AlphaSpec(
        features=found,
        logit_map=map,
        map_regularization=penalties(map_regularization, "--map-regularization"),
        regularization=regularization,
        disagreement_map=disagreement_map,
        scale=scale,
        seed=seed,
        threads=at_work(threads),
    )
    columns = RaterOptions(
        probs=(one_pattern(probs),),
        counts=counts or "count_*",
        scale=scale,
        others=tuple(found) if isinstance(found, list) else (),
        on_missing=on_missing,
    )
    rows = read_rater_rows(source, columns)
    made = alpha_cal.fit_alpha(rows, spec, provenance=provenance, tags=tagged(tags))
    return delivered(made.model, source, (*rows.warnings, *made.warnings))
