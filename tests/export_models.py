"""Models of every kind and method, fitted by the command line on a small file, to be exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from tests.conftest import make

#: The kinds that more than one test uses, and how they are fitted; ROWS stands for the file, INNER
#: for the model of that name.
FITS: dict[str, str] = {
    "st": "boundary ROWS --precision 0.8 --uncertainty-bins 1 --method st",
    "exact": "boundary ROWS --precision 0.8 --method exact",
    "levels": "boundary ROWS --precision 0.8 --uncertainty-bins 300 --method gmt",
    "float32": "boundary ROWS --score single --precision 0.8 --method exact",
    "logistic": "boundary ROWS --precision 0.8 --method logistic",
    "block": "boundary ROWS --precision 0.8 --method stochastic",
    "tie": (
        "boundary ROWS --precision 0.8 --uncertainty-bins 1 --method stochastic --randomise tie"
    ),
    "score-first": (
        "boundary ROWS --precision 0.8 --uncertainty-bins 3 --score-bins 40 "
        "--order score-uncertainty --method gmt"
    ),
    "by": "boundary ROWS --precision 0.8 --uncertainty-bins 2 --method exact --by region",
    "by-year": "boundary ROWS --precision 0.8 --uncertainty-bins 1 --method st --by year",
    "raw": (
        "boundary ROWS --score logit --scale raw --precision 0.8 --uncertainty-bins 2 "
        "--method exact"
    ),
    "several": (
        "boundary ROWS --precision 0.8 --uncertainty uncertainty,member_1 --uncertainty-bins 3 "
        "--method exact"
    ),
    "three-way": "boundary ROWS --precision 0.8 --recall 0.7 --uncertainty-bins 3 --method exact",
    "vad": "vad ROWS --members member_*",
    "vad-identity": "vad ROWS --members member_* --link identity",
    "vad-by": "vad ROWS --members member_* --by region",
    "tree": "hetcal ROWS --features x,kind --max-depth 4 --min-leaf 20",
    "tree-steps": "hetcal ROWS --features x,kind --max-depth 2 --min-leaf 50 --map isotonic",
    "tree-beta": "hetcal ROWS --features x,kind --max-depth 2 --min-leaf 50 --map beta",
    "tree-deep": "hetcal ROWS --features x,kind --max-depth 16 --min-leaf 3",
    "forest": (
        "hetcal ROWS --features x,kind --partition forest --trees 3 --max-depth 3 "
        "--min-leaf 30 --shrinkage 10"
    ),
    "boosted": "hetcal ROWS --features x,kind --partition boosted --trees 8",
    "sequential": "hetcal ROWS --features x,kind --partition sequential --min-leaf 40",
    "alpha": "alpha-cal ROWS --probs prob_* --counts count_*",
    "alpha-probs": (
        "alpha-cal ROWS --probs prob_* --counts count_* --features probs --map vector "
        "--disagreement-map isotonic"
    ),
    "alpha-sorted": (
        "alpha-cal ROWS --probs prob_* --counts count_* --features sorted-probs --map matrix"
    ),
    "alpha-features": (
        "alpha-cal ROWS --probs prob_* --counts count_* --features uncertainty "
        "--map temperature --disagreement-map isotonic"
    ),
    "classes-list": "calibrate ROWS --probs listed --label winner",
    **{
        f"classes-{method}": f"calibrate ROWS --probs prob_* --label winner --method {method}"
        for method in ("temperature", "vector", "matrix")
    },
    "isotonic": "calibrate ROWS --method isotonic",
    "venn-abers": "calibrate ROWS --method venn-abers",
    "prior-shift": "calibrate ROWS --method prior-shift --negatives-kept 0.1",
    "prior-shift-raw": "calibrate ROWS --method prior-shift --negatives-kept 0.1 --clip 0",
    "clipped": "calibrate ROWS --method beta --out-of-range clip",
    **{
        f"{method}{suffix}": f"calibrate ROWS --method {method} {more}"
        for method in ("beta", "platt", "histogram", "scaling-binning", "temperature")
        for suffix, more in (("", ""), ("-logit", "--score logit --scale logit"))
    },
    **{
        f"{method}-by": f"calibrate ROWS --method {method} --by region"
        for method in ("beta", "scaling-binning", "venn-abers")
    },
    **{
        f"{method}-falling": f"calibrate ROWS --method {method} --score falling"
        for method in ("platt", "scaling-binning")
    },
    "inner": "calibrate ROWS --method beta --score member_0",
    "tandem": "vad ROWS --members member_* --calibrator INNER --train-input ROWS",
}

#: Bundles: the calibrator that comes first, then boundaries on its column.
BUNDLES = {
    "bundle": "beta",
    "bundle-by": "beta-by",
    "bundle-steps": "isotonic",
    "bundle-trees": "boosted",
}

NAMES = (*(name for name in FITS if name != "inner"), *BUNDLES)

#: Those that need a key.
RANDOM = ("block", "tie")


def rows(size: int, seed: int = 0) -> pl.DataFrame:
    """Return rows whose score means something, features with gaps, members, classes and votes."""
    random = np.random.default_rng(seed)
    score, spread = random.beta(1.2, 2.0, size), random.gamma(2.0, 1.0, size)
    x, kind = random.normal(size=size), random.choice(["a", "b", "it's", 'é"q', "e"], size)
    logit = np.log(score / (1.0 - score))
    rate = 1.0 / (1.0 + np.exp(-(1.3 * logit + 0.4 * x + (kind == "a"))))
    powers = np.exp(random.normal(size=(size, 3)))
    classes = powers / powers.sum(axis=1, keepdims=True)
    votes = random.multinomial(random.integers(1, 5, size), classes)
    members = {
        f"member_{place}": np.clip(score + place * random.normal(0, 0.02, size), 0.001, 0.999)
        for place in range(3)
    }
    frame = pl.DataFrame(
        {
            "id": np.arange(size),
            "score": score,
            "uncertainty": spread,
            "label": (random.random(size) < rate).astype(np.int64),
            "logit": logit,
            "single": score.astype(np.float32),
            "falling": 1.0 - score,
            "x": x,
            "kind": kind,
            "region": random.choice(
                ["north", "south", "o'east", "tiny"], size, p=[0.5, 0.3, 0.19, 0.01]
            ),
            "year": random.integers(2019, 2022, size),
            "winner": votes.argmax(axis=1),
            "listed": pl.Series(classes).arr.to_list(),
            **members,
        }
    )
    return frame.with_columns(
        pl.when(pl.col("id") % 17 > 0).then("x"),
        pl.when(pl.col("id") % 23 > 0).then("kind"),
        *[pl.Series(f"prob_{place}", classes[:, place]) for place in range(3)],
        *[pl.Series(f"count_{place}", votes[:, place]) for place in range(3)],
    )


def fit(name: str, folder: Path, size: int = 800) -> Path:
    """Return the file of a model; it is fitted where it is not there yet."""
    path, data = folder / f"{name}.json", folder / f"rows-{size}.parquet"
    if path.exists():
        return path
    if not data.exists():
        rows(size).write_parquet(data)
    if name in BUNDLES:
        return _bundle(name, folder, size)
    named = {"ROWS": str(data)}
    if name == "tandem":
        named["INNER"] = str(fit("inner", folder, size))
    _run([named.get(word, word) for word in FITS[name].split()], path)
    return path


def _bundle(name: str, folder: Path, size: int) -> Path:
    path, data = folder / f"{name}.json", folder / f"rows-{size}.parquet"
    calibrator = fit(BUNDLES[name], folder, size)
    calibrated = folder / f"{name}.parquet"
    _run(["apply", str(calibrator), str(data)], calibrated)
    parts = [str(calibrator)]
    for action, bound in (("block", "0.9"), ("review", "0.7")):
        boundary = folder / f"{name}-{action}.json"
        fitted = ["boundary", str(calibrated), "--score", "calibrated", "--precision", bound]
        _run([*fitted, "--method", "exact"], boundary)
        parts.append(f"{action}={boundary}")
    _run(["bundle", *parts], path)
    return path


def _run(arguments: list[str], output: Path) -> None:
    make(output, *arguments, *(["--folds 0"] if arguments[0] == "boundary" else []))
