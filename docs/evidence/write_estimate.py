"""Fill in estimate.md: rates without labels beside those that labels show, where rows have shifted.

``write_estimate.py --nannyml PYTHON``: an interpreter that has NannyML estimates the same draws first,
into estimate_peers.json; without one, what stands there is shown.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pages import DATA, FOLDER, arguments, fill, score_files, table
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score
from studies import monte_carlo

import calibkit as ck

SETS = ("bank", "census", "criteo_tau3", "higgs")
SHIFTS = ("none", "covariate", "prior")
RATES = ("precision", "recall", "auc")
CELLS = [(name, shift) for name in SETS for shift in SHIFTS]
FITTED, NEW = 2_000, 2_000

PEERS = FOLDER / "estimate_peers.json"

Floats = NDArray[np.float64]


@cache
def rows_of(name: str) -> pl.DataFrame:
    """Return all rows of a set."""
    parts = score_files(DATA / name, columns=["score", "uncertainty", "label"])
    return pl.concat(part.cast({"score": pl.Float64}) for part in parts)


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


@dataclass(frozen=True)
class Draw:
    """Fitting rows, new rows, and the boundary that selects some of these."""

    fitted: pl.DataFrame
    new: pl.DataFrame
    boundary: ck.BoundaryModel

    @property
    def selected(self) -> NDArray[np.bool_]:
        """Which new rows the boundary selects."""
        return self.boundary.apply(self.new)["decision"].to_numpy() == 1

    @property
    def truth(self) -> list[float]:
        """What the labels of the new rows show of each of `RATES`."""
        label, selected = self.new["label"].to_numpy().astype(float), self.selected
        hits = label[selected]
        area = roc_auc_score(label, self.new["score"].to_numpy())
        return [hits.mean(), hits.sum() / label.sum(), area]


def drawn(cell: tuple[str, str], seed: int) -> Draw:
    """Draw fitting rows and others, which are shifted."""
    name, shift = cell
    draw = np.random.default_rng([22, seed])
    rows = rows_of(name)
    order = draw.permutation(rows.height)
    fitted, left = rows[order[:FITTED].tolist()], rows[order[FITTED:].tolist()]
    new = shifted(left, shift, draw)
    boundary = ck.fit_boundary(fitted, recall=0.5, method="st", folds=0, threads=1)
    return Draw(fitted, new, boundary)


def errors(cell: tuple[str, str], seed: int) -> Floats:
    """Return by way and rate: how far an estimate is from what labels show, and whether they agree."""
    one = drawn(cell, seed)
    fitted, new, boundary, truth = one.fitted, one.new, one.boundary, one.truth
    calibrator = ck.fit_calibrator(fitted, threads=1)
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
    twin = twin_of(fitted, new["score"].to_numpy(), one.selected)
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


def ask_nannyml(python: str, draws: int) -> None:
    """Let NannyML estimate all draws in an environment of its own, and keep how far it is off."""
    truths: dict[tuple[str, str], list[list[float]]] = {cell: [] for cell in CELLS}
    with tempfile.TemporaryDirectory() as folder:
        for name, shift in CELLS:
            for seed in range(draws):
                one = drawn((name, shift), seed)
                truths[name, shift].append(one.truth)
                pred = one.boundary.apply(one.fitted)["decision"].to_numpy()
                columns = {column: one.fitted[column].to_numpy() for column in ("score", "label")}
                columns |= {"pred": pred, "new_score": one.new["score"].to_numpy()}
                path = Path(folder) / f"{name} {shift} {seed}.npz"
                np.savez(path, new_pred=one.selected.astype(int), **columns)
        line = [python, str(FOLDER / "estimate_peers.py"), folder]
        said = json.loads(
            subprocess.run(line, check=True, capture_output=True).stdout.splitlines()[-1]
        )
    errors_of = {
        f"{name} {shift}": np.abs(
            np.array([said["found"][f"{name} {shift} {seed}"] for seed in range(draws)])
            - np.array(truths[name, shift])
        )
        .mean(axis=0)
        .tolist()
        for name, shift in CELLS
    }
    kept = {"version": said["version"], "draws": draws, "errors": errors_of}
    PEERS.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def beside(found: dict[tuple[str, str], list[Floats]]) -> str:
    """Return errors of `covariate` and the twin beside NannyML's, on the draws that it had."""
    peers = json.loads(PEERS.read_bytes())
    lines = []
    for (name, shift), results in found.items():
        ours = np.mean(results[: peers["draws"]], axis=0)[:, :, 0]
        ways = {"`covariate`": ours[0], "NannyML": peers["errors"][f"{name} {shift}"]}
        if shift == "prior":
            ways["`prior`"] = ours[1]
        for way, own in ways.items():
            lines.append([name, shift, way, *(f"{rate:.4f}" for rate in own)])
    header = "rows|moved|estimate|error of precision|of recall|of AUC"
    return f"{table(header, lines, 'lllr')}\n\n{peers['draws']} draws a cell."


def main() -> None:
    """Draw, estimate, and write the page."""
    given = arguments(__doc__, needs=SETS, draws=40, nannyml="")
    if given.nannyml:
        ask_nannyml(given.nannyml, given.draws)
    found = monte_carlo(errors, CELLS, given.draws)
    ways = ("`covariate`", "`prior`", "twin")
    lines = []
    for (name, shift), results in found.items():
        mean = np.mean(results, axis=0)
        for way, own in zip(ways, mean, strict=True):
            within = ["" if np.isnan(rate[1]) else f"{rate[1]:.0%}" for rate in own]
            lines.append([name, shift, way, *(f"{rate[0]:.4f}" for rate in own), *within])
    header = "rows|moved|estimate|error of precision|of recall|of AUC|held: precision|recall|AUC"
    fill("estimate", errors=table(header, lines, "lllr"), nannyml=beside(found))


if __name__ == "__main__":
    main()
