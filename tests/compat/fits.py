"""A fit of every kind on rows few enough to look at: command lines without their inputs.

`tests/compat` holds what 0.1 made of them; ``tests/cli/test_one_program.py`` varies how the rows
are held.  Scores and uncertainties have few distinct values, so that tables of them fit where the
rows do not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

VOTES = "--probs prob_* --counts count_*"
CLASSES = "--probs prob_* --label class_label"
FEATURES = "--features x,amount,segment"
TREE = f"{FEATURES} --max-depth 2 --min-leaf 20 --shrinkage 10"
SEQUENTIAL = f"hetcal {FEATURES} --partition sequential --min-leaf 20"
BOOSTED = f"hetcal {FEATURES} --partition boosted --trees 3 --min-leaf 20"
FOREST = f"hetcal {TREE} --partition forest --trees 3"
PRECISION = "boundary --precision 0.6"

#: Name: command and options.  `MODELS` and `ROWS` are files.
BOUNDARIES: dict[str, str] = {
    "auto": PRECISION,
    "exact": f"{PRECISION} --method exact",
    "st": f"{PRECISION} --method st",
    "logistic": f"{PRECISION} --method logistic --folds 2",
    "mist": f"{PRECISION} --method mist --folds 2",
    "stochastic": "boundary --fpr 0.2 --method stochastic",
    "tie": f"{PRECISION} --method stochastic --randomise tie",
    **{
        name: f"{PRECISION} --method {name} --score-bins 8 --folds 2"
        for name in ("gmt", "ew-dpmt", "ew-dpmt-mono", "vw-dpmt", "vw-dpmt-mono", "staircase")
    },
    "score first": (
        f"{PRECISION} --method vw-dpmt --score-bins 8 --order score-uncertainty --folds 0"
    ),
    "recall": "boundary --recall 0.5 --method exact",
    "capacity": "boundary --capacity 0.2 --method exact",
    **{
        measure: f"boundary --maximize {measure} --method exact --folds 2"
        for measure in ("f1", "mcc", "gmean", "balanced-accuracy", "utility:5,-1,-2,0")
    },
    "cost": "boundary --minimize cost:1,3 --method exact",
    "raw": f"{PRECISION} --method exact --scale raw --folds 0",
    "prevalence": f"{PRECISION} --prevalence 0.3 --method exact",
    "weights": f"{PRECISION} --weight weight --method exact",
    "by": f"{PRECISION} --by segment --method exact --folds 2",
    "by, each": (
        "boundary --recall 0.5 --by segment --bound each --method exact "
        "--min-group-positives 5 --folds 2"
    ),
    "confidence": "boundary --precision 0.4 --confidence 0.8",
    "value": "boundary --recall 0.5 --value value --method exact",
    "groups": "boundary --maximize f1 --groups user --method exact",
    "time": "boundary --minimize cost:1,3 --time time --method exact",
    "costs of rows": "boundary --minimize cost:value,3 --method exact",
    "sampling": f"{PRECISION} --weight tenth --weight-kind sampling --method exact --folds 2",
}
MAPS: dict[str, str] = {
    **{
        name: f"calibrate --method {name}"
        for name in (
            *("beta", "platt", "isotonic", "histogram", "scaling-binning", "venn-abers"),
            "temperature",
        )
    },
    "prior-shift": "calibrate --method prior-shift --negatives-kept 0.1",
    "map by": "calibrate --method beta --by segment --min-rows 20",
    "map of weights": "calibrate --method isotonic --weight weight",
    "vad": "vad --members score_?",
    "vad of bootstrap": "vad --members score_? --replicates bootstrap",
    "vad by": "vad --members score_? --by segment --min-rows 20",
    "tandem": "vad --members score_? --calibrator beta.json --train-input few.csv",
}
CLASS_MAPS: dict[str, str] = {
    "classes, temperature": f"calibrate {CLASSES} --method temperature",
    "votes, vector": f"calibrate {VOTES} --method vector --regularization 0.1",
    "classes, matrix": f"calibrate {CLASSES} --method matrix --regularization 0.1",
    "votes, vector, cv": f"calibrate {VOTES} --method vector --regularization cv",
    "alpha": f"alpha-cal {VOTES}",
    "alpha of features": f"alpha-cal {VOTES} --features x --map temperature --on-missing drop",
    "alpha, vector": (
        f"alpha-cal {VOTES} --features sorted-probs --map vector --map-regularization 0.1"
    ),
    "alpha, cv": f"alpha-cal {VOTES} --features amount --map matrix",
    "alpha, isotonic": f"alpha-cal {VOTES} --features amount --disagreement-map isotonic",
}
PARTITIONS: dict[str, str] = {
    "tree": f"hetcal {TREE}",
    "tree chosen": f"hetcal {FEATURES}",
    "tree, entropy": f"hetcal {TREE} --criterion entropy",
    "tree, auc": f"hetcal {TREE} --criterion auc",
    "tree of isotonic": f"hetcal {TREE} --map isotonic --precalibrate none",
    "tree of beta": f"hetcal {TREE} --map beta",
    "tree of histogram": f"hetcal {TREE} --map histogram",
    "tree of groups": f"hetcal {TREE} --groups user",
    "tree in time": f"hetcal {TREE} --time time",
    "tree of weights": f"hetcal {TREE} --weight weight",
    "tree of sampling": f"hetcal {TREE} --weight tenth --weight-kind sampling",
    "forest": FOREST,
    "forest of groups": f"{FOREST} --groups user",
    "boosted": BOOSTED,
    "boosted of weights": f"{BOOSTED} --weight weight",
    "boosted in time": f"{BOOSTED} --time time",
    "boosted of groups": f"{BOOSTED} --groups user",
}
FIGURES: dict[str, str] = {
    "evaluate": "evaluate --no-intervals --score score,score_1 --top 0.1,0.5",
    "evaluate by": "evaluate --no-intervals --by segment --min-rows 20",
    "evaluate weights": "evaluate --no-intervals --weight weight --prevalence 0.1",
    "evaluate boundary": "evaluate --boundary exact.json --no-intervals",
    "evaluate votes": f"evaluate {VOTES} --no-intervals",
    "evaluate classes": f"evaluate {CLASSES} --no-intervals",
    "intervals": "evaluate --metrics auc,brier,log_loss",
    "intervals of ranks": "evaluate --metrics average_precision,ece",
    "intervals of groups": "evaluate --metrics auc,ece --groups user",
    "drift": "drift exact.json --label label",
}
#: What 0.1 had not: held to the same bytes, but not to its own.
SINCE_0_1: dict[str, str] = {
    "sequential": SEQUENTIAL,
    "partition chosen": f"hetcal {FEATURES} --partition auto --max-depth 1",
    "sequential in time": f"{SEQUENTIAL} --time time",
    "binned": f"hetcal {TREE} --max-bins 6",
    "boosted, binned": f"{BOOSTED} --max-bins 7",
    "raw tree": f"hetcal {TREE} --precalibrate none --scale raw",
    **{
        f"{name}, recall": f"boundary --recall 0.6 --method {name} --folds 2"
        for name in ("gmt", "mist")
    },
    "confidence, several": "boundary --precision 0.3 --recall 0.1 --fpr 0.6 --confidence 0.6",
    "confidence, groups": (
        "boundary --capacity 0.4 --groups user --confidence 0.6 --max-group-rows 60"
    ),
    "confidence, weights": (
        "boundary --fpr 0.5 --weight tenth --weight-kind sampling --confidence 0.6"
    ),
    "confidence, by": (
        "boundary --fpr 0.5 --by segment --bound each --min-group-positives 5 --confidence 0.6"
    ),
    "confidence, gap": (
        "boundary --recall 0.2 --by segment --max-gap recall:0.9 --min-group-positives 5 "
        "--confidence 0.6"
    ),
    "confidence, review": "boundary --recall 0.3 --review-capacity 0.8 --confidence 0.6",
    "confidence, several uncertainties": (
        "boundary --recall 0.2 --uncertainty uncertainty,amount --confidence 0.6"
    ),
    "evaluate weighted votes": f"evaluate {VOTES} --rater-weight tenth",
    **{
        name: f"calibrate --method {name}"
        for name in ("none", "quadratic", "spline", "centred-isotonic")
    },
    "map chosen": "calibrate --method auto",
    "map chosen by": "calibrate --method auto --optimize brier --by segment --min-rows 20",
    "isotonic in lines": "calibrate --method isotonic --interpolate",
    "classes, chosen": f"calibrate {VOTES} --method auto",
    "several uncertainties": f"{PRECISION} --uncertainty uncertainty,amount",
    "several, weights": (
        "boundary --maximize f1 --uncertainty uncertainty,amount --method exact "
        "--weight weight --uncertainty-bins 2 --folds 2"
    ),
    "several, three-way": (
        "boundary --precision 0.7 --recall 0.8 --uncertainty uncertainty,amount --method exact "
        "--uncertainty-bins 3 --folds 0"
    ),
    "three-way": "boundary --precision 0.7 --recall 0.8",
    "three-way of weights": (
        "boundary --precision 0.7 --review-capacity 0.2 --method exact --weight weight"
    ),
    "three-way by recall": "boundary --recall 0.8 --review-capacity 20 --method st --groups user",
    "three-way of costs": "boundary --minimize cost:1,3 --review-cost 0.5",
    "segments alike": (
        "boundary --precision 0.7 --by segment --max-gap recall:0.2 --method exact "
        "--uncertainty-bins 1 --folds 2"
    ),
    "segments alike over levels": (
        "boundary --recall 0.5 --by segment --max-gap fpr:0.1 --method exact "
        "--uncertainty-bins 2 --folds 0"
    ),
    "percentages": (
        "boundary --score percent --scale percent --recall 0.6 --time day --date-format %d.%m.%Y"
    ),
    "map of percentages": "calibrate --score percent --scale percent",
    "tree of percentages": f"hetcal {TREE} --score percent --scale percent",
    "evaluate percentages": "evaluate --no-intervals --score percent --scale percent",
    "tree of dates": f"hetcal {TREE} --time day --date-format %d.%m.%Y",
    "map of dates": "calibrate --time day --date-format text",
    "map chosen in groups": "calibrate --groups user",
    "map chosen in time": "calibrate --time time --weight weight",
    "spline of weights": "calibrate --method spline --weight weight",
}
FITS_OF_0_1 = {**BOUNDARIES, **MAPS, **CLASS_MAPS, **PARTITIONS, **FIGURES}
FITS = {**FITS_OF_0_1, **SINCE_0_1}

#: Models that other fits read: the name of the fit that makes each.
MODELS = {"exact.json": "exact", "beta.json": "beta"}
#: What else they read: the rows.
ROWS = "few.csv"

#: Fits on rows of other files.
SAMPLE = "sample_data/scores.csv"
ELSEWHERE = {
    "sample, exact": f"{SAMPLE} boundary --precision 0.7 --method exact",
    "sample, auto": f"{SAMPLE} boundary --precision 0.7",
    "sample, logistic": f"{SAMPLE} boundary --fpr 0.1 --method logistic",
    "sample, beta": f"{SAMPLE} calibrate --method beta",
    "sample, isotonic": f"{SAMPLE} calibrate --method isotonic",
    "sample, evaluate": f"{SAMPLE} evaluate --metrics auc,average_precision,brier,ece",
    "large sample, exact": "sample_data/calib.parquet boundary --precision 0.7 --method exact",
    "large sample, platt": "sample_data/calib.parquet calibrate --method platt",
    "large sample, evaluate": (
        "sample_data/calib.parquet evaluate --metrics auc,average_precision,brier,ece"
    ),
    "golden, mist": (
        "tests/golden/p06_boundary_600/rows.parquet boundary --precision 0.7 --method mist"
    ),
    "golden, ties": (
        "tests/golden/p07_boundary_ties_empty_bins/rows.parquet boundary --precision 0.6 "
        "--method exact --folds 0"
    ),
}


def rows(count: int = 300) -> pl.DataFrame:
    """Return rows with a column for every fit; of 39 pairs of score and uncertainty."""
    random = np.random.default_rng(7)
    doubt = random.integers(1, 4, count)
    truth = random.normal(0.0, 1.5, count)
    score = 1.0 / (1.0 + np.exp(-(truth + random.normal(0.0, 0.3, count) * doubt)))
    score = (score * 14).round().clip(1, 13) / 14
    segment = random.choice(["a", "b", "é"], count)
    x, amount = random.normal(size=count).round(2), random.gamma(2.0, 10.0, count).round(1)
    label = random.random(count) < 1.0 / (1.0 + np.exp(-truth - 0.5 * x * (segment == "a")))
    shares = random.integers(1, 20, (count, 3)) / 1.0
    shares /= shares.sum(axis=1, keepdims=True)
    votes = random.multinomial(3, [0.2, 0.3, 0.5], count)
    return pl.DataFrame(
        {
            "id": np.arange(count),
            "score": score,
            "uncertainty": doubt / 2,
            "label": label.astype(np.int64),
            "weight": random.integers(0, 3, count),
            "tenth": random.integers(1, 30, count) / 10,
            "value": random.integers(1, 6, count),
            "segment": segment,
            "user": random.integers(0, count // 3, count),
            "time": np.arange(count) // 4,
            "day": [
                f"{1 + place // 4 % 28:02}.{1 + place // 112:02}.2024" for place in range(count)
            ],
            "percent": (100 * score).round(3),
            "class_label": random.integers(0, 3, count),
            "x": pl.Series(np.where(random.random(count) < 0.05, np.nan, x)).fill_nan(None),
            "amount": amount,
            **{f"score_{k}": (score ** (1 + k / 9)).round(6) for k in range(4)},
            **{f"prob_{k}": shares[:, k] for k in range(3)},
            **{f"count_{k}": votes[:, k] for k in range(3)},
        }
    )


def words(fit: str, folder: Path, *inputs: object) -> list[str]:
    """Return the command line of a fit on inputs; models and rows lie in a folder."""
    named = [str(folder / word) if word in (*MODELS, ROWS) else word for word in fit.split()]
    place = 2 if named[0] == "drift" else 1  # after the model
    return [*named[:place], *map(str, inputs), *named[place:]]
