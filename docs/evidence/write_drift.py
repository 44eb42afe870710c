"""Write docs/evidence/drift.md: how often drift is found where there is none, and where there is some.

    python docs/evidence/write_drift.py [FOLDER] [--splits N]

Real scores and uncertainties: ``criteo_tau3``, and ``creditcard`` with scores rounded to two digits,
nearly all of which are 0.  FOLDER (default ``../shared/data`` beside the project) holds them.  Where
it is absent, nothing is written.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from boundary_study import DATA, ROOT, row
from numpy.typing import NDArray

from calibkit.columns.columns import read_score_rows
from calibkit.drift.counts import Outline
from calibkit.drift.drift import ALL, drift
from calibkit.drift.psi import Stability, stability
from calibkit.drift.rows import BOUNDARY
from calibkit.files.sources import Source
from calibkit.methods.boundary.fit import fit_boundary
from calibkit.methods.boundary.problem.spreads import spread_of_rows
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_json
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.drift import DriftOptions
from calibkit.options.shared import ColumnOptions

PAGE = ROOT / "docs" / "evidence" / "drift.md"
FITTED = 12_500
SIZES = (12_500, 2_000, 500, 100)
CONFIDENCE = 0.95

Floats = NDArray[np.float64]
Random = np.random.Generator
#: Draws so many rows of a file, as score and uncertainty.
Draw = Callable[[Random, int], tuple[Floats, Floats]]


def main() -> None:
    """Split, resample, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--splits", type=int, default=2_000)
    options = parser.parse_args()
    folder = options.folder / "criteo_tau3"
    if not folder.is_dir():
        raise SystemExit(f"{folder} is not there: nothing written")
    calib, test = (pl.read_parquet(folder / f"{part}.parquet") for part in ("calib", "test"))
    card = pl.read_parquet(options.folder / "creditcard" / "calib.parquet")
    lines = [
        "# Drift: false alarms and power",
        "",
        "<!-- Written by `make evidence-drift`; edit docs/evidence/write_drift.py instead. -->",
        "",
        *text(
            "Scores and uncertainties of a real model on the rows of `criteo_tau3`. Does `calibkit "
            "drift` keep silent where nothing changed, and speak where something did? Alarms are "
            "`psi_score.low>0` (beyond chance, at 95 %), `psi_score.low>0.1` (beyond chance and large) "
            "and, for comparison, the rule of thumb `psi_score>0.1`, which ignores how many rows there "
            "are."
        ),
        "",
        *whole_command(calib, test),
        *false_alarms(calib, card, options.splits),
        *power(calib, test, max(options.splits // 5, 20)),
    ]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def whole_command(calib: pl.DataFrame, test: pl.DataFrame) -> list[str]:
    """Compare files with a fitted boundary: two random halves, test as it is, test shifted."""
    random = np.random.default_rng(0)
    order = random.permutation(calib.height)
    first, second = (calib[order[part].tolist()] for part in (slice(FITTED), slice(FITTED, None)))
    moved = shifted(test, random)
    table = []
    for name, fitted, new in (
        ("one half of calib, the other half", first, second),
        ("calib, test", calib, test),
        ("calib, test resampled and shifted", calib, moved),
    ):
        model = boundary_of(fitted)
        options = DriftOptions(model=model, label="label", confidence=CONFIDENCE)
        found = drift(options, Source.from_frame(new)).metrics
        own, bounds = found.metrics[BOUNDARY][ALL], found.intervals[BOUNDARY][ALL]
        cells = [name]
        for role in ("score", "uncertainty"):
            ends = bounds[f"psi_{role}"]
            cells += [
                f"{own[f'psi_{role}']:.4f} [{ends.low:.4f}, {ends.high:.4f}]",
                f"{own[f'psi_{role}_expected']:.4f}",
            ]
        cells += [f"{own[key]:.4f}" for key in ("selected_share", "outside_range", "precision")]
        fit = found.metrics[BOUNDARY]["fit"]
        cells += [f"{fit['selected_share']:.4f}", f"{fit['precision']:.4f}"]
        table.append(cells)
    return [
        "## Whole files",
        "",
        *text(
            "A boundary (precision at least 0.6, three levels) fitted on the first file, compared with "
            "the second. The shifted file draws 25,000 rows of `test` with replacement, those of label "
            "1 twice as often, and adds 0.3 to the logit of each score."
        ),
        "",
        row(
            [
                "fit, new rows", "PSI of the score", "by chance", "PSI of the uncertainty",
                "by chance", "selected", "outside", "precision", "selected at the fit",
                "precision expected",
            ]
        ),
        row(["---"] * 10),
        *map(row, table),
        "",
    ]  # fmt: skip


def boundary_of(frame: pl.DataFrame) -> BoundaryModel:
    """Return a boundary fitted on rows."""
    rows = read_score_rows(Source.from_frame(frame), ColumnOptions())
    options = BoundaryOptions(precision="0.6", method="exact", uncertainty_bins=3, threads=1)
    return fit_boundary(rows, options).model


def shifted(test: pl.DataFrame, random: Random) -> pl.DataFrame:
    """Return rows drawn with replacement, positives twice as often, their logits 0.3 higher."""
    weight = 1.0 + test["label"].to_numpy()
    places = random.choice(test.height, test.height, p=weight / weight.sum())
    logit = pl.col("score").log() - (1.0 - pl.col("score")).log()
    return test[places.tolist()].with_columns(score=1.0 / (1.0 + (-(logit + 0.3)).exp()))


def compare(fitted: Floats, new: Floats) -> Stability:
    """Return the index between two columns, as a model and `drift` would."""
    spread = spread_of_rows(fitted, None, 20)
    largest = threshold_json(spread.largest)
    outline = Outline.of([threshold_json(q) for q in spread.quantiles], spread.counts, largest)
    counts = np.bincount(outline.bins(new), minlength=20)
    pairs = [(float(n), old) for n, old in zip(counts, outline.counts, strict=True) if old > 0.0]
    now, old = zip(*pairs, strict=True)
    return stability(now, old, (float(new.size), float(fitted.size)), CONFIDENCE)


def false_alarms(calib: pl.DataFrame, card: pl.DataFrame, splits: int) -> list[str]:
    """Return the section on splits of one file."""
    random = np.random.default_rng(1)
    columns = {
        "criteo score": (calib["score"].to_numpy(), FITTED, SIZES),
        "criteo score, one digit": (calib["score"].round(1).to_numpy(), FITTED, SIZES),
        "criteo uncertainty": (calib["uncertainty"].to_numpy(), FITTED, SIZES),
        "creditcard score, two digits": (
            card["score"].round(2).to_numpy(), 4_500, (4_500, 2_000, 500, 100),
        ),
    }  # fmt: skip
    table = []
    for name, (values, fitted, sizes) in columns.items():
        for size in sizes:
            found = []
            for _ in range(splits):
                order = random.permutation(values.size)[: fitted + size]
                found.append(compare(values[order[:fitted]], values[order[fitted:]]))
            mean = float(np.mean([one.value for one in found]))
            table.append(
                [
                    name, f"{fitted:,}", f"{size:,}", f"{mean:.4f}", f"{found[0].expected:.4f}",
                    share([(one.interval.low or 0.0) > 0.0 for one in found]),
                    share([(one.interval.low or 0.0) > 0.1 for one in found]),
                    share([one.p_value < 0.001 for one in found]),
                    share([one.value > 0.1 for one in found]),
                ]
            )  # fmt: skip
    return [
        "## False alarms",
        "",
        *text(
            f"{splits:,} random splits of one file: reference rows against new rows of the same kind, "
            "so every alarm is false. `low>0` should be near 2.5 %, the half of 5 % that lies on "
            "this side."
        ),
        "",
        row(
            [
                "column", "fitting rows", "new rows", "mean PSI", "expected by chance", "`low>0`",
                "`low>0.1`", "`p_value<0.001`", "rule of thumb `psi>0.1`",
            ]
        ),
        row(["---"] * 9),
        *map(row, table),
        "",
    ]  # fmt: skip


def power(calib: pl.DataFrame, test: pl.DataFrame, draws: int) -> list[str]:
    """Return the section on shifted rows: how often they are found, and what intervals hold."""
    random = np.random.default_rng(2)
    old, new = calib["score"].to_numpy(), test["score"].to_numpy()
    table = []
    for shift in (0.0, 0.1, 0.2, 0.3, 0.6):
        moved = 1.0 / (1.0 + np.exp(-(np.log(new / (1.0 - new)) + shift)))
        truth = compare(old, moved)
        for size in SIZES:
            found, held = [], []
            for _ in range(draws):
                fitted = random.choice(old, FITTED)
                one = compare(fitted, random.choice(moved, size))
                found.append(one)
                low, high = one.interval.low or 0.0, one.interval.high or 0.0
                held.append(low <= population(fitted, old, moved) <= high)
            table.append(
                [
                    f"{shift:g}", f"{truth.value:.4f}", f"{size:,}",
                    f"{np.mean([one.value for one in found]):.4f}",
                    share([(one.interval.low or 0.0) > 0.0 for one in found]),
                    share([(one.interval.low or 0.0) > 0.1 for one in found]),
                    share([one.value > 0.1 for one in found]),
                    share(held),
                ]
            )  # fmt: skip
    return [
        "## Power, and what the intervals hold",
        "",
        *text(
            f"Rows drawn with replacement, {draws:,} times: {FITTED:,} of `calib` as the reference, "
            "and new rows of `test` with a number added to the logit of their scores. The true PSI is "
            "that of the two files in the bins of the reference; the last column says how often the "
            "interval holds it. Where whole bins of the reference get no new row, each counts as half "
            "a row: a large index is then understated, and its interval with it. That there is drift "
            "is beyond doubt there."
        ),
        "",
        row(
            [
                "added to the logit", "PSI of the files", "new rows", "mean PSI", "`low>0`",
                "`low>0.1`", "rule of thumb `psi>0.1`", "interval holds the truth",
            ]
        ),
        row(["---"] * 8),
        *map(row, table),
    ]  # fmt: skip


def population(fitted: Floats, old: Floats, new: Floats) -> float:
    """Return the index between two files in the bins of a reference drawn from the first."""
    spread = spread_of_rows(fitted, None, 20)
    outline = Outline.of(list(spread.quantiles), spread.counts, spread.largest)
    shares = []
    for values in (new, old):
        counts = np.bincount(outline.bins(values), minlength=20).astype(float)
        shares.append(np.maximum(counts[np.array(outline.counts) > 0.0], 0.5) / values.size)
    a, e = shares
    return float(np.sum((a - e) * np.log(a / e)))


def share(found: Sequence[bool]) -> str:
    """Return a share in percent."""
    return f"{100.0 * float(np.mean(found)):.1f} %"


def text(words: str) -> list[str]:
    """Return lines of a paragraph."""
    return textwrap.wrap(words, 99)


if __name__ == "__main__":
    main()
