"""Fill in drift.md: how often drift is found where there is none, and where there is some.

Real scores and uncertainties: ``criteo_tau3``, and ``creditcard`` with scores rounded to two digits,
nearly all of which are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pages import arguments, fill, paragraph, score_files, sections, table

import calibkit as ck
from calibkit.drift.drift import ALL
from calibkit.drift.figures import Stability, stability
from calibkit.drift.rows import BOUNDARY, Outline
from calibkit.methods.boundary.problem.columns import quantiles_of_rows

FITTED = 12_500
SIZES = (12_500, 2_000, 500, 100)
CONFIDENCE = 0.95

Floats = NDArray[np.float64]
Random = np.random.Generator
#: Draws so many rows of a file, as score and uncertainty.
Draw = Callable[[Random, int], tuple[Floats, Floats]]


def main() -> None:
    """Split, resample, and fill the page in."""
    options = arguments(__doc__, needs=["criteo_tau3", "creditcard"], splits=2_000)
    calib, test = score_files(options.folder / "criteo_tau3")
    (card,) = score_files(options.folder / "creditcard", ["calib"])
    fill(
        "drift",
        files=whole_command(calib, test),
        alarms=false_alarms(calib, card, options.splits),
        power=power(calib, test, max(options.splits // 5, 20)),
    )


def whole_command(calib: pl.DataFrame, test: pl.DataFrame) -> str:
    """Compare files with a fitted boundary: two random halves, test as it is, test shifted."""
    random = np.random.default_rng(0)
    order = random.permutation(calib.height)
    first, second = (calib[order[part].tolist()] for part in (slice(FITTED), slice(FITTED, None)))
    moved = shifted(test, random)
    rows = []
    for name, fitted, new in (
        ("one half of calib, the other half", first, second),
        ("calib, test", calib, test),
        ("calib, test resampled and shifted", calib, moved),
    ):
        model = ck.fit_boundary(
            fitted, precision="0.6", method="exact", uncertainty_bins=3, threads=1
        )
        found = model.drift(new, label="label", confidence=CONFIDENCE).metrics
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
        rows.append(cells)
    return table(
        "fit, new rows|PSI of the score|by chance|PSI of the uncertainty|by chance|selected|outside|"
        "precision|selected at the fit|precision expected",
        rows,
    )


def shifted(test: pl.DataFrame, random: Random) -> pl.DataFrame:
    """Return rows drawn with replacement, positives twice as often, their logits 0.3 higher."""
    weight = 1.0 + test["label"].to_numpy()
    places = random.choice(test.height, test.height, p=weight / weight.sum())
    logit = pl.col("score").log() - (1.0 - pl.col("score")).log()
    return test[places.tolist()].with_columns(score=1.0 / (1.0 + (-(logit + 0.3)).exp()))


def outline_of(values: Floats) -> Outline:
    """Return the outline of a column, as a model has it."""
    spread = quantiles_of_rows(values, None)
    return Outline(np.array(spread.quantiles), tuple(spread.counts), spread.largest)


def compare(fitted: Floats, new: Floats) -> Stability:
    """Return the index between two columns, as a model and `drift` would."""
    outline = outline_of(fitted)
    counts = np.bincount(outline.bins(new), minlength=20)
    pairs = [(float(n), old) for n, old in zip(counts, outline.counts, strict=True) if old > 0.0]
    now, old = zip(*pairs, strict=True)
    return stability(now, old, (float(new.size), float(fitted.size)), CONFIDENCE)


def false_alarms(calib: pl.DataFrame, card: pl.DataFrame, splits: int) -> str:
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
    rows = []
    for name, (values, fitted, sizes) in columns.items():
        for size in sizes:
            found = []
            for _ in range(splits):
                order = random.permutation(values.size)[: fitted + size]
                found.append(compare(values[order[:fitted]], values[order[fitted:]]))
            mean = float(np.mean([one.value for one in found]))
            rows.append(
                [
                    name, f"{fitted:,}", f"{size:,}", f"{mean:.4f}", f"{found[0].expected:.4f}",
                    share([(one.interval.low or 0.0) > 0.0 for one in found]),
                    share([(one.interval.low or 0.0) > 0.1 for one in found]),
                    share([one.p_value < 0.001 for one in found]),
                    share([one.value > 0.1 for one in found]),
                ]
            )  # fmt: skip
    return sections(
        paragraph(
            f"{splits:,} random splits of one file: reference rows against new rows of the same kind, "
            "so every alarm is false. `low>0` should be near 2.5 %, the half of 5 % that lies on "
            "this side."
        ),
        table(
            "column|fitting rows|new rows|mean PSI|expected by chance|`low>0`|`low>0.1`|"
            "`p_value<0.001`|rule of thumb `psi>0.1`",
            rows,
        ),
    )


def power(calib: pl.DataFrame, test: pl.DataFrame, draws: int) -> str:
    """Return the section on shifted rows: how often they are found, and what intervals hold."""
    random = np.random.default_rng(2)
    old, new = calib["score"].to_numpy(), test["score"].to_numpy()
    rows = []
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
            rows.append(
                [
                    f"{shift:g}", f"{truth.value:.4f}", f"{size:,}",
                    f"{np.mean([one.value for one in found]):.4f}",
                    share([(one.interval.low or 0.0) > 0.0 for one in found]),
                    share([(one.interval.low or 0.0) > 0.1 for one in found]),
                    share([one.value > 0.1 for one in found]),
                    share(held),
                ]
            )  # fmt: skip
    return sections(
        paragraph(
            f"Rows drawn with replacement, {draws:,} times: {FITTED:,} of `calib` as the reference, "
            "and new rows of `test` with a number added to the logit of their scores. The true PSI is "
            "that of the two files in the bins of the reference; the last column says how often the "
            "interval holds it. Where whole bins of the reference get no new row, each counts as half "
            "a row: a large index is then understated, and its interval with it. That there is drift "
            "is beyond doubt there."
        ),
        table(
            "added to the logit|PSI of the files|new rows|mean PSI|`low>0`|`low>0.1`|"
            "rule of thumb `psi>0.1`|interval holds the truth",
            rows,
        ),
    )


def population(fitted: Floats, old: Floats, new: Floats) -> float:
    """Return the index between two files in the bins of a reference drawn from the first."""
    outline = outline_of(fitted)
    shares = []
    for values in (new, old):
        counts = np.bincount(outline.bins(values), minlength=20).astype(float)
        shares.append(np.maximum(counts[np.array(outline.counts) > 0.0], 0.5) / values.size)
    a, e = shares
    return float(np.sum((a - e) * np.log(a / e)))


def share(found: Sequence[bool]) -> str:
    """Return a share in percent."""
    return f"{100.0 * float(np.mean(found)):.1f} %"


if __name__ == "__main__":
    main()
