"""Fill in estimate.md: rates without labels beside those that labels show, where rows have shifted."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pages import DATA, arguments, fill, table
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score
from studies import monte_carlo

import calibkit as ck

SETS = ("bank", "census", "criteo_tau3", "higgs")
SHIFTS = ("none", "covariate", "prior")
RATES = ("precision", "recall", "auc")
FITTED, NEW = 2_000, 2_000

Floats = NDArray[np.float64]


@cache
def rows_of(name: str) -> pl.DataFrame:
    """Return all rows of a set."""
    parts = (pl.read_parquet(DATA / name / f"{part}.parquet") for part in ("calib", "test"))
    columns = ["score", "uncertainty", "label"]
    return pl.concat(part.select(columns).cast({"score": pl.Float64}) for part in parts)


def shifted(left: pl.DataFrame, shift: str, draw: np.random.Generator) -> pl.DataFrame:
    """Draw new rows: as they are, low scores and certain rows rarer, or positives twice as often."""
    weight = np.ones(left.height)
    if shift == "covariate":
        place = left["score"].rank().to_numpy() / left.height
        weight = 0.2 + place
    if shift == "prior":
        weight = 1.0 + left["label"].to_numpy()
    places = draw.choice(left.height, NEW, replace=False, p=weight / weight.sum())
    return left[places.tolist()]


def errors(cell: tuple[str, str], seed: int) -> Floats:
    """Return by way and rate: how far an estimate is from what labels show, and whether they agree."""
    name, shift = cell
    draw = np.random.default_rng([22, seed])
    rows = rows_of(name)
    order = draw.permutation(rows.height)
    fitted, left = rows[order[:FITTED].tolist()], rows[order[FITTED:].tolist()]
    new = shifted(left, shift, draw)
    boundary = ck.fit_boundary(fitted, recall=0.5, method="st", folds=0, threads=1)
    calibrator = ck.fit_calibrator(fitted, threads=1)
    selected = boundary.apply(new)["decision"].to_numpy() == 1
    label, score = new["label"].to_numpy().astype(float), new["score"].to_numpy()
    truth = [
        label[selected].mean(),
        label[selected].sum() / label.sum(),
        roc_auc_score(label, score),
    ]
    found = []
    for assume in ("covariate", "prior"):
        drift = boundary.drift(new, estimate=True, calibrator=calibrator, assume=assume)
        own, ends = (
            part["boundary"]["estimated"]
            for part in (drift.metrics.metrics, drift.metrics.intervals)
        )
        found.append(
            [
                (abs(own[rate] - true), ends[rate].low <= true <= ends[rate].high)
                for rate, true in zip(RATES, truth, strict=True)
            ]
        )
    twin = twin_of(fitted, score, selected)
    found.append([(abs(rate - true), np.nan) for rate, true in zip(twin, truth, strict=True)])
    return np.array(found, float)


def twin_of(fitted: pl.DataFrame, score: Floats, selected: NDArray[np.bool_]) -> list[float]:
    """Return the same rates by confidence-based estimation over isotonic regression, written out."""
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(fitted["score"], fitted["label"])
    chance = isotonic.predict(score)
    both = np.repeat(score, 2)
    label, weight = np.tile([0, 1], score.size), np.stack([1.0 - chance, chance], 1).ravel()
    area = roc_auc_score(label, both, sample_weight=weight)
    return [chance[selected].mean(), chance[selected].sum() / chance.sum(), area]


def main() -> None:
    """Draw, estimate, and write the page."""
    draws = arguments(__doc__, needs=SETS, draws=40).draws
    found = monte_carlo(errors, [(name, shift) for name in SETS for shift in SHIFTS], draws)
    ways = ("`covariate`", "`prior`", "twin")
    lines = []
    for (name, shift), results in found.items():
        mean = np.mean(results, axis=0)
        for way, own in zip(ways, mean, strict=True):
            within = ["" if np.isnan(rate[1]) else f"{rate[1]:.0%}" for rate in own]
            lines.append([name, shift, way, *(f"{rate[0]:.4f}" for rate in own), *within])
    header = "rows|moved|estimate|error of precision|of recall|of AUC|held: precision|recall|AUC"
    fill("estimate", errors=table(header, lines, "lllr"))


if __name__ == "__main__":
    main()
