"""Which metrics there are and what they say; which are wanted, and the options that shape them.

To add a metric: its function in `calibkit.measures` (of decisions: its entry in
`calibkit.numerics.confusion`, and nothing here), and its line here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from calibkit.errors import UsageError, nearest
from calibkit.numerics.bounds import Bound
from calibkit.numerics.confusion import MEASURES
from calibkit.options.option import above_zero

#: What each metric of a score says, in a sentence for readers who do not know its name.
OF_SCORES: Final = {
    "count": "rows, or the sum of their weights",
    "positives": "rows with label 1",
    "base_rate": "share of rows with label 1",
    "mean_score": "mean of the scores; of a calibrated score it is the base rate",
    "lift": MEASURES["lift"].meaning,
    "calibration_bias": "sum of scores / sum of labels − 1: above 0 the scores are too high",
    "auc": "chance that a positive row scores above a negative one; 0.5 is a coin, 1 is perfect",
    "average_precision": "precision averaged over recall; the base rate is chance, 1 is perfect",
    "pr_auc": "area under precision and recall, equal scores in random order; 1 is perfect",
    "recall_at_precision": "largest recall of one threshold with at least this precision",
    "precision_at_recall": "largest precision of one threshold with at least this recall",
    "log_loss": "mean of −ln of the probability given to what happened; lower is better",
    "log_loss_reduction": "log loss over that of the baseline − 1; below 0 is better",
    "brier": "mean squared distance of score and label; lower is better",
    "ece": "mean absolute distance of scores and frequencies in bins (L1); 0 is calibrated",
    "ace": "the same in bins with equally many rows",
    "mce": "the same in the worst bin",
    "ece_debiased": "root of the mean squared distance in bins (L2), less its noise; not as ece, L1",
    "miscalibration": "how much isotonic regression lowers the Brier score; 0 is calibrated",
    "discrimination": "how far scores that were calibrated improve on the base rate; higher is better",
    "brier_uncertainty": "Brier score of the base rate itself",
    "smooth_ece": "calibration error without bins, smoothed at a width it finds itself",
}

#: Metrics of a score that are computed only where `--metrics` names them.
ON_REQUEST: Final = {"pr_auc"}

#: Metrics of a score over the cells of a grid; each has the number of a score bin after a colon.
OF_CELLS: Final = {
    "ece_at": "calibration error over the uncertainty levels of one score bin of the grid",
    "cumulative_ece_at": "calibration error over the cells of the grid from this score bin up",
}

#: Metrics of decisions beside `calibkit.numerics.confusion.MEASURES`.
OF_DECISIONS: Final = {
    "tp": "positive rows that were selected",
    "fp": "negative rows that were selected",
    "fn": "positive rows that were not selected",
    "tn": "negative rows that were not selected",
    "selected": "rows that were selected",
}

#: Metrics of class probabilities that are not those of a score.
OF_CLASSES: Final = {"classwise_ece": "calibration error of each class against the rest, averaged"}

_PLUGIN = "as without _plugin, with observed shares in place of true ones: biased"

#: Metrics of class probabilities judged by votes; those over classes also have one a class.
OF_VOTES: Final = {
    "rows_used": "rows with a vote",
    "rows_two_raters": "rows with two or more votes, which tell how far raters disagree",
    "squared_loss": "mean squared distance of the prediction and one rater's vote",
    "epistemic_loss": "mean squared distance of the prediction and what raters say on average",
    "epistemic_loss_plugin": _PLUGIN,
    "calibration_loss": "part of it that is miscalibration, summed over classes",
    "calibration_loss_plugin": _PLUGIN,
    "class_calibration_error": "root of the calibration loss",
    "dispersion_loss": "part of it that equal predictions leave: how far raters' shares differ there",
    "dispersion_loss_plugin": _PLUGIN,
    "dispersion_error": "root of the dispersion loss",
    "disagreement_loss": "mean squared error of the predicted chance that two raters differ",
    "disagreement_calibration_loss": "part of it that is miscalibration",
    "disagreement_calibration_loss_plugin": _PLUGIN,
    "disagreement_calibration_error": "root of the disagreement calibration loss",
    "class_disagreement_loss": "the disagreement loss about one class at a time, averaged",
    "class_disagreement_calibration_loss": "part of it that is miscalibration",
    "class_disagreement_calibration_loss_plugin": _PLUGIN,
    "class_disagreement_calibration_error": "the root, averaged over classes",
}

#: Every name, and what it says.
MEANINGS: Final[dict[str, str]] = {
    **OF_SCORES,
    **OF_CELLS,
    **OF_DECISIONS,
    **{name: measure.meaning for name, measure in MEASURES.items()},
    **OF_CLASSES,
    **OF_VOTES,
}

#: Metrics that take a bound, by the options of their names, and how one is read.
WITH_BOUND: Final = ("recall_at_precision", "precision_at_recall")
_bound = partial(above_zero, expected="more than 0, at most 1")


def stem(metric: str) -> str:
    """Return a metric's name without its bound, parameters or class."""
    return metric.partition(":")[0].partition("[")[0]


def needs(metric: str) -> str:
    """Return in words what has a metric."""
    name = stem(metric)
    if name in OF_CELLS:
        return "is of the cells of a grid: name its table by --grid, and one of its score bins"
    if name in OF_DECISIONS or (name in MEASURES and name not in OF_SCORES):
        return "is of decisions: name them by --boundary, --decision or --threshold"
    if name in OF_VOTES:
        return "is of votes: name class probabilities by --probs and votes by --counts"
    if name in OF_CLASSES:
        return "is of class probabilities with labels: name them by --probs"
    return "is of a score: leave --probs out"


def meaning(metric: str) -> str:
    """Return what a metric of metrics.json says: ``recall_at_precision:0.9``, ``squared_loss[3]``."""
    return MEANINGS.get(stem(metric), "")


class Settings(Struct, frozen=True, kw_only=True):
    """The options that shape metrics."""

    scale: str = "probability"  # or ``logit``, ``raw``
    bins: int = 15  # of `ece`, `mce` and `ece_debiased`
    strategy: str = "equal-width"  # over [0, 1]; ``range`` over that of the scores; ``equal-mass``
    precisions: tuple[Bound, ...] = ()  # the bounds of ``recall_at_precision:P``
    recalls: tuple[Bound, ...] = ()  # and of ``precision_at_recall:R``
    weighted: bool = False
    weight_kind: str = "frequency"  # a weight 2 is two rows; ``sampling``: one that stands for two
    #: The base rate (its decimal) to which classes are reweighted; the rows' weights are so already.
    prevalence: str | None = None
    threads: int = 1  # that may work; no result depends on it


class Share(Struct, frozen=True):
    """A share of the rows, and how it was typed."""

    text: str
    bound: Bound


def read_shares(texts: Sequence[str]) -> tuple[Share, ...]:
    """Return the shares of ``--top``."""
    found: dict[Bound, Share] = {}
    for text in texts:
        bound = above_zero(text, "--top", "a share above 0, up to 1")
        if bound in found:
            raise UsageError(f"--top has {found[bound].text} and {text}, which are one share.")
        found[bound] = Share(text, bound)
    return tuple(found.values())


def read_bounds(name: str, texts: Sequence[str]) -> list[Bound]:
    """Return the bounds of a metric that takes one, as its option gives them."""
    return [_bound(text, f"--{name.replace('_', '-')}") for text in texts]


def read_metrics(texts: Sequence[str], bounds: Mapping[str, list[Bound]]) -> tuple[str, ...] | None:
    """Return the names of the metrics wanted, None for all.

    A bound that stands in a name, as in ``recall_at_precision:0.9``, is added to `bounds`; those that
    have an option of their own are wanted beside the names.  Measures of decisions may be named as
    `boundary` does, ``balanced-accuracy`` or ``utility:1,-2,0,0``.
    """
    wanted, unknown = [], []
    for text in texts:
        name, _, parameter = text.partition(":")
        if name in bounds:
            own = bounds[name]
            if parameter:
                own.append(_bound(parameter, name))
            if not own:
                raise UsageError(f"--metrics {name} needs a bound, such as {name}:0.9.")
            wanted += [f"{name}:{bound}" for bound in (own[-1:] if parameter else own)]
        elif found := _known(text):
            wanted.append(found)
        else:
            unknown.append(text)
    if unknown:
        known = sorted(map(_shown, MEANINGS))
        hints = "".join(f" {text!r}{nearest(text, known)}" for text in unknown)
        raise UsageError(f"--metrics: not known:{hints}; the metrics are {', '.join(known)}.")
    wanted += [f"{name}:{bound}" for name, own in bounds.items() for bound in own]
    return tuple(dict.fromkeys(wanted)) if texts else None


def _known(text: str) -> str | None:
    """Return the name of a metric without a bound in metrics.json; None where there is none."""
    name, _, parameter = text.partition(":")
    measure = MEASURES.get(name.replace("-", "_"))
    if measure is not None and measure.parameters:
        values = ",".join(map(str, measure.read(name, parameter, "--metrics")))
        return f"{name.replace('-', '_')}:{values}"
    if measure is not None and text == name:
        return name.replace("-", "_")
    if name in OF_CELLS:
        return text if parameter.isdecimal() else None
    of_class = text.partition("[")[0] in {*OF_VOTES, "accuracy"}
    return text if text in MEANINGS or of_class else None


def _shown(name: str) -> str:
    """Return how a metric is written in a list of all."""
    if name in MEASURES and MEASURES[name].parameters:
        return f"{name}:{','.join(MEASURES[name].parameters)}"
    return f"{name}:J" if name in OF_CELLS else name
