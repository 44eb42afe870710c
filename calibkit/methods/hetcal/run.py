"""A fit of ``hetcal`` from its rows to its model: see `calibkit.summaries.states.Run`.

Which partition is settled by fitting each whole without the rows that judge it: the first of the good
ones.  So the figures of all are of the same rows, and count what each fit chooses by itself, which it
does by folds of the rows that it learns from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from calibkit.arrays import Floats, Int32s, UInt8s
from calibkit.columns.patterns import find_features
from calibkit.columns.remarks import of_tally
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.maps.methods import FOLDS as PARTS
from calibkit.maps.methods import HeldOut, compared, first_good, parts_of_many
from calibkit.maps.model import Candidate
from calibkit.methods.hetcal import in_turn, trees_fit
from calibkit.methods.hetcal.grow import Growth
from calibkit.methods.hetcal.maps import Found, first_map, mean_loss, moved, pooled_line
from calibkit.methods.hetcal.model import (
    SCORE_FEATURE,
    CellGap,
    CrossValidated,
    FirstMap,
    HetcalFit,
    HetcalModel,
    Line,
    Losses,
)
from calibkit.methods.hetcal.rows import (
    Folds,
    HetcalRows,
    Reader,
    need_both_classes,
    read_hetcal_rows,
)
from calibkit.methods.hetcal.trees import Features, feature_columns
from calibkit.models.lineage import makers_in
from calibkit.models.model import Column
from calibkit.numerics.distributions import interval
from calibkit.numerics.hashes import folds_of_keys, hash_text
from calibkit.options.hetcal import FOLDS, HetcalOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.row_states import Reading, RowState, row_state, sources_of
from calibkit.summaries.score_rows import columns_beside, label_and_weight, resolve
from calibkit.summaries.states import Fitted, Plan, State, about, finished, options_of, recorded
from calibkit_kernels import leaves as kernels
from calibkit_kernels.metrics import CLIP

#: What is compared, in order of preference: what has fewer parts is easier to read.
Name = Literal["tree", "sequential", "forest", "boosted"]
CANDIDATES: Final[tuple[Name, ...]] = ("tree", "sequential", "forest", "boosted")

#: Fewer folds leave a fit without two of its own to choose by.
_FEWEST_FOLDS: Final = 3

#: Equal bins of the probability in which it is checked.
BINS: Final = 10
#: With which probability no cell of a calibrated model has a gap beyond chance.
CONFIDENCE: Final = 0.95

#: The options that shape a model.
_SHAPED: Final = (
    "partition", "criterion", "max_depth", "min_leaf", "shrinkage", "trees", "map", "precalibrate",
    "clip", "max_bins", "groups", "time", "seed", "on_missing", "unlabelled",
)  # fmt: skip

_TRAIN = "--train"

_TRAIN_IGNORED = (
    "--train is not used: partitions in turn learn what the scores miss, which only rows that "
    "the base model has not seen can tell"
)

_TRAIN_SCORED = (
    "--criterion auc looks at scores: grow on rows that the base model has not seen (without --train, "
    "or with others); on its own training rows it chooses splits that fail on new rows"
)


def fit(options: HetcalOptions, source: Source) -> Fitted[HetcalModel]:
    """Return the model of all rows."""
    return recorded(_fit(options, source, _train(options, source), source.memory), source)


def plan(options: HetcalOptions, source: Source) -> Plan:
    """Return what a fit would do."""
    grown: Any = options.train or "the same rows"
    said = grown if isinstance(grown, str) else ", ".join(grown)
    roles = _roles(options, source, "feature ") | columns_beside(source, options, "groups", "time")
    return Plan(roles, options.steps(said))


class HetcalState(RowState):
    """Rows to calibrate by parts."""

    KIND, OPTIONS = "hetcal", HetcalOptions


def state(options: HetcalOptions, source: Source) -> State:
    """Return the rows of a shard, with the columns that the fit uses, and those to grow on."""
    names = tuple(feature_names(source, options))
    makers = makers_in(source, _roles(options, source, "feature_"))
    ignored = _TRAIN if options.in_turn and options.train is not None else None
    kept, grown = dataclasses.replace(options, features=names, train=ignored), None
    train = None if options.in_turn else _train(options, source)
    if train is not None:
        resolve(train, options.columns, label=True, uncertainty=False)
        train.require(names, f"{_TRAIN}: --features")
        grown = _reading(train, dataclasses.replace(kept, groups=None, time=None))
    return row_state(HetcalState, kept, makers, _reading(source, kept), grown)


def finish(state: State, memory: Memory, threads: int) -> Fitted[HetcalModel]:
    """Return the model of the rows of a merged state."""
    options = options_of(state, HetcalOptions, threads)
    return finished(_fit(options, *sources_of(state), memory), state)


def _reading(source: Source, options: HetcalOptions) -> Reading:
    """Return what a state holds of an input: also the columns that deal its rows to folds."""
    reader = Reader(options, feature_columns(source, options.patterns))
    return Reading(source, reader.used, reader.window)


def _roles(options: HetcalOptions, source: Source, feature: str) -> dict[str, str]:
    """Return the column of each role; those of features begin with a word."""
    columns = resolve(source, options.columns, label=True, uncertainty=False)
    names = feature_names(source, options)
    return columns.roles | {f"{feature}{place}": name for place, name in enumerate(names, 1)}


def _train(options: HetcalOptions, source: Source) -> Source | None:
    """Return the rows to grow the partition on, if not those of the fit."""
    return None if options.train is None else source.beside(options.train, _TRAIN)


def feature_names(source: Source, options: HetcalOptions) -> list[str]:
    """Return the feature columns; a glob passes over the columns of other roles."""
    roles = options.columns.roles | columns_beside(source, options, "groups", "time")
    taken = {name: f"--{role}" for role, name in roles.items()}
    if options.partition in ("boosted", "auto"):  # whose nodes may cut the score, under this name
        taken[SCORE_FEATURE] = f"--partition {options.partition}"
    return find_features(source, options.patterns, taken)


def _fit(
    options: HetcalOptions, source: Source, train: Source | None, memory: Memory | None
) -> Fitted[HetcalModel]:
    names = feature_names(source, options)
    warnings, details = list[str](), list[str]()

    def read(part: Source, known: Features | None, prefix: str) -> HetcalRows:
        part.require(names, f"{prefix}--features")
        asked = dataclasses.replace(options, groups=None, time=None) if prefix else options
        rows = read_hetcal_rows(part, asked, names, known=known, memory=memory)
        warnings.extend(f"{prefix}{remark}" for remark in rows.warnings)
        details.append(f"{prefix}{rows.count:,} rows used of {part.rows:,} read")
        return rows

    grown = None
    if train is not None and not options.in_turn:
        grown = read(train, None, f"{_TRAIN}: ")
    rows = read(source, grown.features if grown else None, "")
    every = np.broadcast_to(np.uint8(1), rows.count)
    # Percentages are held as logits, as probabilities are.
    score = 1.0 / (1.0 + np.exp(-rows.score)) if options.scale == "percent" else rows.score
    falling = score[::-1], every, rows.label[::-1]
    warnings += of_tally(options.score, options.scale, *falling, rows.count)
    fitted = fit_hetcal(rows, options, train=grown)
    if options.train is not None and options.in_turn:
        warnings.append(_TRAIN_IGNORED)
    elif options.train is not None and options.criterion == "auc":
        warnings.append(_TRAIN_SCORED)
    said = (*warnings, *fitted.warnings)
    return replace(fitted, warnings=said, details=tuple(details))


def fit_hetcal(
    rows: HetcalRows, options: HetcalOptions, *, train: HetcalRows | None = None
) -> Fitted[HetcalModel]:
    """Fit a calibration by parts: Durfee, Gupta, Basu, algorithm 1 and section 13.

    The maps are fitted on the calibration rows; the partition is grown on `train`, or on the same rows,
    cross-fitted.  Rows of one class are refused.
    """
    need_both_classes(rows)
    if train is not None:
        need_both_classes(train)
    folds, warnings = _folds(rows, options)
    asked, candidates, checked = options, list[Candidate](), None
    if options.partition == "auto":
        asked, candidates, checked = choose_partition(rows, train, options, folds)
    before = first_map(rows, options.precalibrate, options.seed, options.workers)
    found, after, line = fit_partition(rows, train, asked, folds, before)
    slope, intercept = line.tolist()
    if checked is not None and found.checked is not None:
        checked = replace(checked, by_depth=found.checked.by_depth)
        found = replace(found, checked=checked)
    single = asked.partition == "tree"
    files = [*rows.files, *(() if train is None else train.files)]
    more = {} if train is None else {"train_data_hash": hash_text(train.totals.hash)}
    fingerprint = hash_text(rows.totals.hash)
    model = HetcalModel(
        **about(HetcalModel, options, _SHAPED, rows.count, fingerprint, files, **more),
        columns=_columns(rows),
        partition=asked.partition,
        criterion="log-loss" if asked.in_turn else options.criterion,
        map=options.map,
        precalibrate=before,
        pooled=Line(a=slope, b=intercept),
        clip=options.clip,
        fit=_figures(rows, train, options, found, mean_loss(after, after.score, line=line)),
        candidates=candidates or UNSET,
        tree=found.parts[0].tree if single else UNSET,
        maps=found.parts[0].maps if single else UNSET,
        partitions=UNSET if single else found.parts,
        final=found.final or UNSET,
    )
    return Fitted(model, tuple(warnings))


def _folds(rows: HetcalRows, options: HetcalOptions) -> tuple[Folds | None, list[str]]:
    """Return the folds of cross-validation; None, and why, where rows or values are too few."""
    hits, why = rows.totals.positives, ""
    folds = rows.folds or Folds(folds_of_keys(rows.key, FOLDS, options.seed))
    weighs = rows.mass > 0.0  # rows without weight make no fold
    folds = replace(folds, part=np.where(weighs, folds.part, folds.part[weighs.argmax()]))
    if rows.count < 2 * FOLDS or min(hits, rows.count - hits) < 2:
        why = f"{hits} positive of {rows.count} rows are"
    elif len(folds.present) < _FEWEST_FOLDS:
        column = f"the values of column {options.groups or options.time!r}"
        why = f"{rows.count} rows are" if rows.folds is None else f"{column} are"
    said = f"{why} too few for {FOLDS} folds: nothing is chosen or checked by cross-validation"
    return (None, [said]) if why else (folds, [])


def _figures(
    rows: HetcalRows, train: HetcalRows | None, options: HetcalOptions, found: Found, pooled: float
) -> HetcalFit:
    """Return what is known from a fit; `pooled` is the loss of the map of all rows."""
    probability, grown = found.probability, train or rows
    np.clip(probability, options.clip, 1.0 - options.clip, out=probability)
    largest, mean, cells, sums = cell_gaps(probability, rows.label, rows.mass, found.leaf)
    known = rows.options.scale != "raw"
    beyond: CellGap | UnsetType | None = UNSET  # rows of a group are not so many chances
    if options.groups is None:
        beyond = gap_beyond_chance(sums, sampled=rows.options.sampled)
    return HetcalFit(
        rows=rows.unit.amount(rows.totals.total),
        positives=rows.unit.amount(rows.totals.hits),
        clipped=rows.totals.clipped,
        leaves=sum(len(part.maps) for part in found.parts),
        max_depth=found.max_depth,
        min_leaf=found.min_leaf,
        shrinkage=found.shrinkage,
        in_sample=Losses(
            scores=mean_loss(rows, rows.score) if known else None,
            pooled=pooled,
            calibrated=mean_loss(rows, probability, line=None),
        ),
        cross_validated=found.checked,
        max_gap=largest,
        mean_gap=mean,
        cells=cells,
        gap_beyond_chance=beyond,
        growth_rows=grown.unit.amount(grown.totals.total),
        exact_arithmetic=rows.unit.exact,
    )


def _columns(rows: HetcalRows) -> dict[str, Column]:
    options = rows.options
    score = Column(options.score, rows.totals.dtype, scale=options.scale)
    columns = {"score": score} | label_and_weight(options)
    for place, column in enumerate(rows.features.columns, 1):
        columns[f"feature_{place}"] = column
    return columns


def fit_partition(
    rows: HetcalRows,
    train: HetcalRows | None,
    options: HetcalOptions,
    folds: Folds | None,
    before: FirstMap | None,
) -> tuple[Found, HetcalRows, Floats]:
    """Return a partition with its maps, the rows after their first map, and the line of all these."""
    if before is None or before.name == "none":
        after, pooled = rows, pooled_line(rows)
    else:
        after = replace(rows, score=rows.made(lambda own: moved(before, rows.score[own])))
        pooled = pooled_line(after, None, (1.0, 0.0))
    if options.in_turn:
        return in_turn.fit(after, options, folds), after, pooled
    # Trees look at scores as they are, so that they need no map to be fitted before.
    growth = Growth(train or rows, options.criterion, own=train is None)
    return trees_fit.fit(after, growth, options, folds, pooled), after, pooled


def choose_partition(
    rows: HetcalRows, train: HetcalRows | None, options: HetcalOptions, folds: Folds | None
) -> tuple[HetcalOptions, list[Candidate], CrossValidated | None]:
    """Return the options with the partition chosen, what was found of each, and of the one chosen.

    Chosen is the first whose log loss on rows held out is within one standard error of the least, as in
    `calibkit.maps.methods`; of many rows a part is looked at.  A tree where nothing can be compared.
    """
    asked = {name: _asked(name, options, train) for name in CANDIDATES}
    open_to = {str(name): own for name, own in asked.items() if isinstance(own, HetcalOptions)}
    if folds is not None:
        looked = folds_of_keys(rows.key, parts_of_many(rows.count) // PARTS, options.seed) == 0
        rows, folds = rows.only(looked), replace(folds, part=folds.part[looked])
    if folds is None or len(folds.present) < _FEWEST_FOLDS:
        few = [Candidate(method=name, reason="there are too few rows for folds") for name in asked]
        return open_to["tree"], few, None
    # Where folds go forward in time the first that is judged would leave one to choose by.
    parts = [judging(rows, folds, part, options) for part in folds.judged()[folds.forward :]]
    judged: dict[str, HeldOut | str] = {
        name: own if isinstance(own, str) else _together([losses(own, train) for losses in parts])
        for name, own in asked.items()
    }
    table = compared(judged, "log_loss")
    chosen = first_good(table, "log_loss")
    checked = CrossValidated(
        pooled=_together([losses(None, None) for losses in parts]).mean("log_loss"),
        calibrated=next(one.log_loss or 0.0 for one in table if one.method == chosen),
        folds=len(parts),
    )
    return open_to[chosen], table, checked


def _asked(name: Name, options: HetcalOptions, train: HetcalRows | None) -> HetcalOptions | str:
    """Return the options of a candidate; in words why it is left out."""
    try:
        asked = dataclasses.replace(options, partition=name, max_bins=options.bins)
    except UsageError as error:
        return str(error)
    return "--train takes no part in it" if asked.in_turn and train is not None else asked


def _together(found: list[HeldOut]) -> HeldOut:
    """Return the losses on the rows of all folds."""
    names = "log_loss", "brier", "weight"
    columns = {name: np.concatenate([getattr(one, name) for one in found]) for name in names}
    return HeldOut(**columns, times=1)


def judging(
    rows: HetcalRows, folds: Folds, part: int, options: HetcalOptions
) -> Callable[[HetcalOptions | None, HetcalRows | None], HeldOut]:
    """Return what judges a partition, or one map of all rows, on the rows of a fold."""
    held, others = folds.held(part), folds.before(part)
    mass = rows.mass[held]
    rows = rows.learning(folds.used(part))
    before = first_map(rows, options.precalibrate, options.seed, options.workers)

    def losses(asked: HetcalOptions | None, train: HetcalRows | None) -> HeldOut:
        if asked is None:
            slope, intercept = pooled_line(rows).tolist()
            value = 1.0 / (1.0 + np.exp(-(slope * rows.score + intercept)))
        else:
            found, *_ = fit_partition(rows, train, asked, others, before)
            value = found.probability.clip(asked.clip, 1.0 - asked.clip)
        value, positive = value[held], rows.label[held] == 1
        near = value.clip(CLIP, 1.0 - CLIP)
        log_loss = -np.log(np.where(positive, near, 1.0 - near))
        return HeldOut(log_loss, (positive - value) ** 2, mass, times=1)

    return losses


def cell_gaps(
    probability: Floats, label: UInt8s, weight: Floats, leaf: Int32s
) -> tuple[float, float, int, Floats]:
    """Return how far mean probability and positive rate are apart, cell by cell.

    A cell is a leaf and one of ten equal bins of [0, 1]; empty ones are left out.  Returned are the
    largest ``|mean probability - positive rate|``, the mean weighted as the cells, their number, and
    of all cells the sums of weights, positive weights, weighted probabilities and squared weights.
    Hebert-Johnson, Kim, Reingold, Rothblum, "Multicalibration: calibration for the
    (computationally-identifiable) masses", section 2.
    """
    leaves = int(leaf.max()) + 1 if leaf.size else 0
    sums = np.zeros((leaves * BINS, 4))
    edges = np.arange(BINS) / BINS
    largest, mean, cells = kernels.cell_gaps(probability, label, weight, leaf, edges, sums)
    return float(largest), float(mean), int(cells), sums


def gap_beyond_chance(sums: Floats, *, sampled: bool = False) -> CellGap | None:
    """Return the cell with the largest gap that chance does not explain; None where there is none.

    Chance explains a mean probability within the exact interval (Clopper and Pearson) of the positive
    rate; all intervals hold together with probability 0.95, by Bonferroni's bound.  What is beyond is
    the distance from the interval.

    `sums`: see `cell_gaps`. `sampled`: whether a row stands for as many as it weighs: a cell then
    counts as many rows as would have the same variance.
    """
    places = np.flatnonzero(sums[:, 0] > 0.0)
    own, hits, mass, squares = sums[places].T
    rate, mean = hits / own, mass / own
    rows = np.rint(own * own / squares if sampled else own).astype(np.int64)
    positives = np.rint(rate * rows).astype(np.int64)
    low, high = interval(positives, rows, 1.0 - (1.0 - CONFIDENCE) / max(places.size, 1))
    beyond = np.maximum(low - mean, mean - high)
    if not (beyond > 0.0).any():
        return None
    worst = int(np.argmax(beyond))
    leaf, tenth = divmod(int(places[worst]), BINS)
    return CellGap(
        beyond=float(beyond[worst]),
        leaf=leaf,
        probability_from=tenth / BINS,
        probability_to=(tenth + 1) / BINS,
        rows=int(own[worst]) if own[worst].is_integer() else float(own[worst]),
        positive_rate=float(rate[worst]),
        mean_probability=float(mean[worst]),
    )
