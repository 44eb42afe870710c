"""Fill in dropout.md: table 5 and figure 7 of Arora and others, with small networks under dropout.

Networks are trained here on the features of the score files; a minute or two.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import numpy as np
import polars as pl
from arora_runs import Case, Files, judge, percent, precision, values
from durfee_rows import prepared
from numpy.typing import NDArray
from pages import arguments, fill, signed, table
from small_networks import Network, train
from studies import monte_carlo

import calibkit as ck

#: Our data set, the one of the paper that it is beside, and what table 5 prints of that.
SETS = {
    "criteo_tau3": ("Criteo", {"ST": "4.2 ± 0.1", "MIST": "4.3 ± 0.2", "EW-DPMT": "4.3 ± 0.1"}),
    "bank_tau5": ("Avazu", {"ST": "1.28 ± 0.1", "MIST": "1.8 ± 0.2", "EW-DPMT": "1.9 ± 0.2"}),
}
CASES = (
    Case("ST", "st"),
    Case("MIST", "mist"),
    Case("EW-DPMT", "ew-dpmt"),
    Case("`exact`", "exact", score_bins=None),
    Case("`logistic`", "logistic", score_bins=None),
)
HIDDEN, RATE, EPOCHS = (64, 32, 16), 1e-3, 15
SEEDS, PASSES = 5, 20

#: A bin of figure 7 holds so many test rows at least.
FEWEST = 30


def passes(network: Network, x: NDArray[np.float32], seed: int) -> NDArray[np.float64]:
    """Return the probabilities of rows, in each line with other units left out."""
    random = np.random.default_rng([5, seed])
    logits = np.stack([network.logits(x, random) for _ in range(PASSES)])
    return 1 / (1 + np.exp(-logits.astype(np.float64)))


def scored(files: Path, seed: int) -> Files:
    """Return the rows of a set with the mean and the standard deviation of what the passes say."""
    data = prepared(files.parent, files.name)
    label = {part: frame["label"].to_numpy() for part, frame in data.frames.items()}
    network = Network((data.inputs["train"].shape[1], *HIDDEN), "dropout", seed)
    learnt, held = ((data.inputs[part], label[part]) for part in ("train", "validation"))
    train(network, learnt, held, RATE, EPOCHS)
    found = []
    for part in ("calib", "test"):
        said = passes(network, data.inputs[part], seed)
        made = pl.DataFrame({"score": said.mean(0), "uncertainty": said.std(0)})
        found.append(data.frames[part].hstack(made))
    return Files(*found)


def table_5(files: list[Files], printed: dict[str, str]) -> str:
    """Return table 5 for one data set: a row an algorithm, over the networks."""
    rows, single = [], 0.0
    for case in CASES:
        found = [judge(one, case, "score") for one in files]
        recalls = values(found, "recall")
        own = fmean(recalls)
        single = own if case.name == "ST" else single
        over = "" if case.name == "ST" else f" ({signed(100 * (own / single - 1), 1)} %)"
        beyond = percent(values(found, "beyond"), signed=True, digits=2)
        row = [case.name, precision(found), percent(recalls) + over]
        rows.append([*row, "" if case.name == "ST" else beyond, printed.get(case.name, "-")])
    return table("|precision|recall (over ST)|beyond|theirs", rows)


def figure_7(files: Files) -> str:
    """Return where two boundaries differ most, and the feature that tells these rows apart best.

    Bin A lies in a level where the grid's boundary reaches below the single threshold, bin B where it
    stays above: the rows between the two thresholds, beside all rows between them in any level.
    """
    fits = {
        case.name: ck.fit_boundary(
            files.calib, precision="0.7", method=case.method, folds=0,
            uncertainty_bins=None if case.method == "st" else 3, score_bins=500,
        )
        for case in CASES if case.name in ("ST", "EW-DPMT")
    }  # fmt: skip
    cut = float(fits["ST"].score_thresholds[0])
    rows = files.test.with_columns(level=_levels(files.test, fits["EW-DPMT"].uncertainty_edges))
    names = [name for name, kind in rows.schema.items() if kind == pl.String]
    found = []
    for level, threshold in enumerate(fits["EW-DPMT"].score_thresholds):
        if not isinstance(threshold, float) or threshold == cut:
            continue
        low, high = sorted((threshold, cut))
        between = rows.filter(pl.col("score").is_between(low, high, closed="left"))
        own = between.filter(pl.col("level") == level)
        if own.height < FEWEST:
            continue
        apart = {name: _apart(own[name], between[name]) for name in names}
        name = max(apart, key=lambda one: apart[one])
        told = "A: only EW-DPMT selects it" if threshold < cut else "B: only ST selects it"
        rates = [f"{part['label'].mean():.3f}" for part in (own, between)]
        found.append(
            [told, level, f"{low:.3f} to {high:.3f}", own.height, *rates, name, _shares(own[name]),
             _shares(between[name])]
        )  # fmt: skip
    header = "bin|level|scores|rows|positive|any level|feature|its values here|in any level"
    return table(header, found)


def _levels(rows: pl.DataFrame, edges: list[float]) -> NDArray[np.int64]:
    return np.searchsorted(edges, rows["uncertainty"].to_numpy(), side="right")


def _apart(one: pl.Series, other: pl.Series) -> float:
    """Return the total variation distance of the values of two sets of rows."""
    counts = [part.fill_null("none").value_counts(normalize=True) for part in (one, other)]
    both = counts[0].join(counts[1], on=one.name, how="full", coalesce=True).fill_null(0.0)
    return float((both["proportion"] - both["proportion_right"]).abs().sum() / 2)


def _shares(values: pl.Series) -> str:
    """Return the three most frequent values and their shares."""
    counts = values.fill_null("none").value_counts(normalize=True)
    some = counts.sort(["proportion", values.name], descending=[True, False]).head(3)
    return ", ".join(f"{value} {share:.0%}" for value, share in some.iter_rows())


def main() -> None:
    """Train, judge, write."""
    folder = arguments(__doc__, needs=list(SETS)).folder
    files = monte_carlo(scored, [folder / name for name in SETS], SEEDS)
    parts = {name: table_5(files[folder / name], SETS[name][1]) for name in SETS}
    fill("dropout", **parts, bins=figure_7(files[folder / "criteo_tau3"][0]))


if __name__ == "__main__":
    main()
