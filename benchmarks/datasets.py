"""Generated score files, kept under build/bench: columns score, uncertainty (float32) and label.

*distinct*: a noisy logit of the true positivity, with noise that varies from row to row and is
reported as the uncertainty.  Nearly every row has a score of its own, which is the hard case for a
tally of distinct scores.

*counts*: what ``calibkit simulate posterior`` writes.  Its scores are ratios of small whole
numbers, so that many rows share one.

*several*: the same with two more uncertainties, a rough copy of the first and one that says nothing.
"""

from __future__ import annotations

from pathlib import Path

from harness import calibkit, made

DRAWS = Path(__file__).with_name("draws.py")
COLUMNS = "score,uncertainty,label"
#: Features of a file of scores, classes of one of histograms.
FEATURES, CLASSES = 20, 10


def distinct(python: str, rows: int) -> str:
    """Return a file of scores that are nearly all distinct."""
    return drawn(python, f"distinct-{rows}.parquet", "distinct", rows)


def several(python: str, rows: int) -> str:
    """Return the file *distinct* with the columns ``spread`` and ``age`` beside its uncertainty."""
    return drawn(python, f"several-{rows}.parquet", "several", rows)


def counts(python: str, rows: int) -> str:
    """Return a file as ``calibkit simulate posterior`` writes it."""
    options = ("--rows", str(rows), "--dtype", "float32", "--keep", COLUMNS, "--seed", "1")
    command = calibkit(python, "simulate", "posterior", *options, "-q", "-o")
    return made(f"counts-{rows}.parquet", command)


def members(python: str, rows: int) -> str:
    """Return a file of three replicate scores, as ``calibkit simulate selection`` writes it."""
    options = ("--rows", str(rows), "--keep", "score_*", "--seed", "1")
    command = calibkit(python, "simulate", "selection", *options, "-q", "-o")
    return made(f"members-{rows}.parquet", command)


def features(python: str, rows: int) -> str:
    """Return a file of scores with features."""
    return drawn(python, f"features-{rows}.parquet", "features", rows)


def histograms(python: str, rows: int, width: int, classes: int = CLASSES) -> str:
    """Return a file of class probabilities, votes and features that say how far raters agree."""
    more = "" if classes == CLASSES else f"-{classes}"
    name = f"histograms-{rows}-{width}{more}.parquet"
    return drawn(python, name, "histograms", rows, width, classes)


def drawn(python: str, name: str, kind: str, *numbers: int) -> str:
    """Return a file of a kind of rows of `draws.py`."""
    return made(name, [python, str(DRAWS), kind, *map(str, numbers)])
