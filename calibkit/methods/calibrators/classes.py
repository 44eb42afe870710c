"""``calibrate --probs``: temperature, vector and matrix scaling of logits of class probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from calibkit.arrays import Floats, Numbers, UInt8s
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.maps.class_rows import RaterOptions, softmax, used_roles
from calibkit.maps.logit_maps import (
    LogitMap,
    StoredRows,
    class_state,
    fit_logit_map,
    read_rater_rows,
)
from calibkit.maps.methods import FOLDS, first_good, parts_of_many
from calibkit.maps.model import CalibratorModel, Candidate, MapFit
from calibkit.numerics.hashes import folds_of_keys
from calibkit.options.calibrate import AUTO, CalibrateOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.row_states import RowState, sources_of
from calibkit.summaries.states import Fitted, State, about, finished, options_of
from calibkit_kernels.metrics import CLIP

#: What is compared, from simple to complex.
CANDIDATES: Final = ("none", "temperature", "vector", "matrix")
MEASURES: Final = ("log_loss", "brier")


def fit(
    options: CalibrateOptions, source: Source, memory: Memory | None
) -> Fitted[CalibratorModel]:
    """Fit a map of logits to labels or votes; see `calibkit.maps.logit_maps.fit_logit_map`."""
    rows = read_rater_rows(source, _columns(options), memory)
    method, penalties = options.named, options.penalties
    candidates: list[Candidate] | msgspec.UnsetType = msgspec.UNSET
    more: dict[str, object] = {"method": method}
    if method not in ("temperature", "none"):
        chosen = "cv" if penalties is None else list(penalties)
        more |= {"regularization": chosen, "seed": options.seed}
    if method == AUTO:
        more["optimize"] = options.optimize or "log_loss"
        method, candidates = choose_class_map(rows, options)
    fitted = rows.fit_map(method, penalties, options.seed)
    stored = fitted.stored()
    model = CalibratorModel(
        **about(
            CalibratorModel, options, ["scale"], rows.rows, rows.hash, rows.source.paths, **more
        ),
        columns={"probs": rows.column},
        method=method,
        clip=0.0,
        classes=list(rows.classes),
        temperature=stored.temperature,
        weights=stored.weights,
        intercept=stored.intercept,
        regularization=stored.regularization or msgspec.UNSET,
        candidates=candidates,
        fit=MapFit(
            rows=rows.rows,
            positives=None,
            votes=rows.votes,
            log_loss=fitted.loss,
            log_loss_before=fitted.loss_before,
            brier=_squared_loss(rows, fitted.probabilities),
            brier_before=_squared_loss(rows, softmax),
            inputs_clipped=rows.clipped,
            outputs_clipped=0,
            **fitted.ended.told,
        ),
    )
    return Fitted(model, (*rows.warnings, *fitted.warnings("--regularization")))


def used_columns(source: Source, options: CalibrateOptions) -> dict[str, str]:
    """Return the column of each role that is read."""
    return used_roles(source, _columns(options))


class ClassState(RowState):
    """Rows for ``calibrate --probs``."""

    KIND, OPTIONS = "calibrate --probs", CalibrateOptions


def state(options: CalibrateOptions, source: Source) -> State:
    """Return the rows of a shard."""
    return class_state(ClassState, options, source, _columns(options))


def finish(state: State, memory: Memory, threads: int) -> Fitted[CalibratorModel]:
    """Return the model of the rows of a merged state."""
    options = options_of(state, CalibrateOptions, threads)
    return finished(fit(options, sources_of(state)[0], memory), state)


def _columns(options: CalibrateOptions) -> RaterOptions:
    counts = options.counts or None
    return options.part(RaterOptions, probs=(options.pattern,), counts=counts, logits=True)


def _squared_loss(rows: StoredRows, predict: Callable[[Floats], Floats]) -> float:
    """Return the mean squared distance of a prediction from logits and a vote."""
    of_blocks = (_squares(predict(rows.logits[own]), rows.counts[own]) for own in rows.blocks)
    return sum(float(np.add.reduce(squares)) for squares in of_blocks) / rows.votes


def _squares(p: Floats, counts: Numbers) -> Floats:
    """Return the squared distances of predictions and votes, summed over the votes of each row."""
    number: Floats = np.add.reduce(counts, axis=1, dtype=np.float64)
    found: Floats = np.add.reduce(p * (number[:, None] * p - 2.0 * counts), axis=1) + number
    return found


def choose_class_map(rows: StoredRows, options: CalibrateOptions) -> tuple[str, list[Candidate]]:
    """Return the name of the map chosen for some rows, and what was found of each.

    Penalties that are not given are chosen once, on all rows.
    """
    fold = folds_of_keys(rows.key, parts_of_many(rows.rows), options.seed)
    if not np.bincount(fold, minlength=FOLDS)[:FOLDS].all():
        few = "there are too few rows for folds"
        return "none", [Candidate(method=name, reason=few) for name in CANDIDATES]
    maps: dict[str, list[LogitMap]] = {}
    table = {name: Candidate(method=name) for name in CANDIDATES}
    for name in CANDIDATES:
        try:
            penalties = rows.fit_map(name, options.penalties, options.seed).regularization
        except UsageError as error:
            table[name] = Candidate(method=name, reason=str(error))
            continue
        used = [(fold < FOLDS) & (fold != own) for own in range(FOLDS)]
        maps[name] = [
            fit_logit_map(rows.logits, rows.counts, name, penalties, chosen=own) for own in used
        ]
    means, errors = _judged(rows, fold, list(maps.values()))
    measure = options.optimize or "log_loss"
    best = int(np.argmin(means[MEASURES.index(measure)]))
    for at, name in enumerate(maps):
        lost = dict(zip(MEASURES, means[:, at].tolist(), strict=True))
        apart = float(errors[MEASURES.index(measure), at, best])
        table[name] = Candidate(method=name, **lost, error=apart)
    return first_good([*table.values()], measure), [*table.values()]


def _judged(rows: StoredRows, fold: UInt8s, maps: list[list[LogitMap]]) -> tuple[Floats, Floats]:
    """Return the mean losses of a vote under maps, each on the fold that it was not fitted on.

    They are by measure and map; with them come the standard errors of the mean differences, over rows,
    by measure and pair of maps.  A row's loss is that of all its votes.
    """
    votes, squares, size = 0.0, 0.0, len(maps)
    sums, crossed = np.zeros((2, size)), np.zeros((2, size))
    products = np.zeros((2, size, size))
    for block in rows.blocks:
        for own in range(FOLDS):
            held = fold[block] == own
            logits, counts = rows.logits[block][held], rows.counts[block][held].astype(np.float64)
            number = np.add.reduce(counts, axis=1)
            lost = np.empty((2, number.size, size))
            for place, fitted in enumerate(maps):
                p = fitted[own].probabilities(logits)
                lost[0, :, place] = -np.add.reduce(counts * np.log(np.maximum(p, CLIP)), axis=1)
                lost[1, :, place] = _squares(p, counts)
            votes += float(np.add.reduce(number))
            squares += float(np.add.reduce(number * number))
            sums += np.add.reduce(lost, axis=1)
            crossed += np.add.reduce(lost * number[:, None], axis=1)
            products += np.add.reduce(lost[:, :, :, None] * lost[:, :, None, :], axis=1)
    means, alone = sums / votes, np.diagonal(products, axis1=1, axis2=2)
    apart, crossed_apart = (one[:, :, None] - one[:, None, :] for one in (means, crossed))
    spread = alone[:, :, None] + alone[:, None, :] - 2.0 * products
    spread += apart * (apart * squares - 2.0 * crossed_apart)
    return means, np.sqrt(np.maximum(spread, 0.0)) / votes
