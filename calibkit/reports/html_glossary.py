"""What each metric says, in a sentence for readers who do not know its name."""

from __future__ import annotations

MEANINGS: dict[str, str] = {
    "count": "rows, or the sum of their weights",
    "positives": "rows with label 1",
    "base_rate": "share of rows with label 1",
    "mean_score": "mean of the scores; of a calibrated score it is the base rate",
    "lift": "base rate of the slice over that of all rows",
    "calibration_bias": "sum of scores / sum of labels − 1: above 0 the scores are too high",
    "auc": "chance that a positive row scores above a negative one; 0.5 is a coin, 1 is perfect",
    "average_precision": "precision averaged over recall; the base rate is chance, 1 is perfect",
    "recall_at_precision": "largest recall of one threshold with at least this precision",
    "precision_at_recall": "largest precision of one threshold with at least this recall",
    "log_loss": "mean of −ln of the probability given to what happened; lower is better",
    "log_loss_reduction": "log loss over that of the baseline − 1; below 0 is better",
    "brier": "mean squared distance of score and label; lower is better",
    "ece": "how far scores are from frequencies, in bins; 0 is calibrated",
    "ace": "the same in bins with equally many rows",
    "mce": "the same in the worst bin",
    "ece_debiased": "root of the mean squared distance in bins, less its expected noise",
    "smooth_ece": "calibration error without bins, smoothed at a width it finds itself",
    "miscalibration": "how much isotonic regression lowers the Brier score; 0 is calibrated",
    "discrimination": "how far scores that were calibrated improve on the base rate; higher is better",
    "brier_uncertainty": "Brier score of the base rate itself",
    "ece_at": "calibration error over the uncertainty levels of one score bin of the grid",
    "cumulative_ece_at": "calibration error over the cells of the grid from this score bin up",
    "tp": "positive rows that were selected",
    "fp": "negative rows that were selected",
    "fn": "positive rows that were not selected",
    "tn": "negative rows that were not selected",
    "selected": "rows that were selected",
    "selected_share": "share of rows that were selected",
    "precision": "share of the selected rows that are positive",
    "recall": "share of the positive rows that were selected",
    "specificity": "share of the negative rows that were not selected",
    "fpr": "share of the negative rows that were selected",
    "npv": "share of the rows not selected that are negative",
    "f1": "harmonic mean of precision and recall",
    "mcc": "correlation of decision and label; 0 is chance, 1 is perfect",
    "accuracy": "share of rows, or of votes, that agree with the most probable class",
    "classwise_ece": "calibration error of each class against the rest, averaged",
    "rows_used": "rows with a vote",
    "rows_two_raters": "rows with two votes and more, which tell how far raters disagree",
    "squared_loss": "mean squared distance of the prediction and one rater's vote",
    "epistemic_loss": "mean squared distance of the prediction and what raters say on average",
    "calibration_loss": "part of it that is miscalibration, summed over classes",
    "class_calibration_error": "root of the calibration loss",
    "dispersion_loss": "part of it that equal predictions leave: how far raters' shares differ there",
    "dispersion_error": "root of the dispersion loss",
    "disagreement_loss": "mean squared error of the predicted chance that two raters differ",
    "disagreement_calibration_loss": "part of it that is miscalibration",
    "disagreement_calibration_error": "root of the disagreement calibration loss",
    "class_disagreement_loss": "the disagreement loss about one class at a time, averaged",
    "class_disagreement_calibration_loss": "part of it that is miscalibration",
    "class_disagreement_calibration_error": "the root, averaged over classes",
}

_PLUGIN = "_plugin"


def stem(metric: str) -> str:
    """Return a metric's name without its bound or class."""
    return metric.partition(":")[0].partition("[")[0]


def meaning(metric: str) -> str:
    """Return what a metric of metrics.json says: ``recall_at_precision:0.9``, ``squared_loss[3]``."""
    name = stem(metric)
    if name.endswith(_PLUGIN):
        return "as without _plugin, with observed shares in place of true ones: biased"
    return MEANINGS.get(name, "")
