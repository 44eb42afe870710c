"""Fill in raters.md: estimators of label histograms on simulated votes, and maps on real ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pages import arguments, fill, prototype, score_files, sections, table
from raters_mds import METRICS, table_2

from calibkit import simulate_raters
from calibkit.files.sources import Source, open_source
from calibkit.maps.class_rows import RaterOptions, RaterRows, read_window
from calibkit.measures.classes import Judged, ensemble, measure
from calibkit.methods.raters import run as alpha
from calibkit.numerics.votes import (
    bin_sums,
    class_targets,
    disagreement_shares,
    losses,
    predicted_disagreement,
)
from calibkit.options.alpha_cal import AlphaOptions

Floats = NDArray[np.float64]
Figures = dict[str, float | int | None]

#: Rows of a file and how often it is simulated, as many rows in all for each size.
SIZES = ((100, 1000), (300, 1000), (1000, 300), (3000, 300), (10_000, 300))

#: What the earlier prototype gave: means over 300 to 1,000 files of the same design.
KNOWN = {int(raters): known for raters, known in prototype("votes").items()}

NETWORKS = ("vgg16", "resnet110", "lenet5")
MAPS = ("none", "temperature", "vector", "matrix")
STRENGTHS = {
    "no alpha": None,
    "constant": AlphaOptions(),
    "probs": AlphaOptions(features="probs"),
    "sorted-probs": AlphaOptions(features="sorted-probs"),
    "sorted-probs, isotonic": AlphaOptions(features="sorted-probs", disagreement_map="isotonic"),
}


def simulated(raters: int, rows: int, times: int) -> dict[str, np.ndarray]:
    """Return each estimate of every simulated file."""
    found: dict[str, list[float]] = {name: [] for name in KNOWN[raters]}
    frame = simulate_raters(rows * times, seed=raters * 100_000 + rows, raters=raters)
    z = frame.select("prob_0", "prob_1").to_numpy()
    y = frame.select("count_0", "count_1").to_numpy()
    for start in range(0, rows * times, rows):
        part = slice(start, start + rows)
        one = losses(bin_sums(class_targets(z[part], y[part])))
        found["CL plugin"].append(one.calibration_plugin.sum())
        found["CL debiased"].append(one.calibration.sum())
        found["DL plugin"].append((one.epistemic_plugin - one.calibration_plugin).sum())
        found["DL debiased"].append((one.epistemic - one.calibration).sum())
    return {name: np.array(values) for name, values in found.items()}


def figure() -> str:
    """Return the table behind figure 1."""
    rows = []
    for raters, known in KNOWN.items():
        runs = [simulated(raters, rows, times) for rows, times in SIZES]
        for name in known:
            cells = []
            for run, expected in zip(runs, known[name], strict=True):
                mean = run[name].mean()
                error = run[name].std(ddof=1) / np.sqrt(run[name].size)
                before = "" if expected is None else f" ({expected:g})"
                cells.append(f"{mean:.5f} ± {error:.5f}{before}")
            rows.append([raters, name, *cells])
    return table(["votes a row", "estimate", *(f"N = {rows:,}" for rows, _ in SIZES)], rows)


def opened(data: Path, part: str) -> Source:
    """Return the rows of all networks."""
    return open_source([str(data / "cifar10h" / f"{part}.parquet")])


@cache
def read(data: Path, part: str, network: str) -> RaterRows:
    """Return the rows of one network."""
    return read_window(opened(data, part), RaterOptions(probs=(f"{network}_*",), counts="count_*"))


@cache
def predicted(
    data: Path, network: str, logit_map: str, strength: str
) -> tuple[Floats, Floats | None, Floats]:
    """Return probabilities, alpha0 (None: raters draw from them) and disagreements on test."""
    test = read(data, "test", network)
    options = STRENGTHS[strength]
    chosen = replace(options or AlphaOptions(), probs=f"{network}_*", map=logit_map)
    model = alpha.fit(chosen, opened(data, "calib")).model
    found = model.apply(*score_files(data / "cifar10h", ["test"]))
    probabilities = next(iter(test.predictions.values()))
    if model.calibrates:
        probabilities = found.select(f"calibrated_{name}" for name in model.classes).to_numpy()
    if options is None:
        return probabilities, None, predicted_disagreement(probabilities)
    about = (f"disagreement_{name}" for name in model.classes)
    return (
        probabilities,
        found["alpha0"].to_numpy(),
        found.select("disagreement", *about).to_numpy(),
    )


def figures(rows: RaterRows, probabilities: Floats, disagreement: Floats) -> Figures:
    """Return the metrics of what is said of some rows."""
    return measure(
        Judged(
            probabilities=probabilities,
            disagreement=disagreement,
            counts=rows.counts,
            classes=rows.classes,
        )
    ).values


def judged(data: Path, networks: tuple[str, ...], logit_map: str, strength: str) -> Figures:
    """Return the metrics on test of what was fitted on calib, by one network or by several."""
    test = read(data, "test", networks[0])
    members = [predicted(data, network, logit_map, strength) for network in networks]
    probabilities, _, phi = members[0]
    if len(members) > 1:
        probabilities, phi = ensemble([own for own, _, _ in members], [a for _, a, _ in members])
    return figures(test, probabilities, phi)


def paired(data: Path, networks: tuple[str, ...], logit_map: str, alpha: bool) -> Figures:
    """Return the metrics with alpha0 or without, as Table 2 compares them."""
    return judged(data, networks, logit_map, "sorted-probs" if alpha else "no alpha")


def real(data: Path) -> dict[str, str]:
    """Return the tables on real votes."""
    members = {**{name: (name,) for name in NETWORKS}, " + ".join(NETWORKS[:2]): NETWORKS[:2]}
    parts = []
    for network in NETWORKS:
        calib, test = read(data, "calib", network), read(data, "test", network)
        rows = []
        for logit_map in MAPS:
            for name in STRENGTHS:
                values = judged(data, (network,), logit_map, name)
                rows.append([logit_map, name, *(f"{values[metric]:.4f}" for metric in METRICS)])
        constant = np.full(len(test.counts), raw_disagreement(calib))
        phi = np.column_stack([constant, np.zeros_like(test.counts, dtype=float)])
        known = figures(test, next(iter(test.predictions.values())), phi)
        parts += [
            f"### {network}",
            table(["map", "alpha0", *METRICS.values()], rows, "llr"),
            "Predicting the same disagreement for all rows, the mean on the fitting rows: "
            f"disagreement loss {known['disagreement_loss']:.4f}.",
        ]
    theirs = {name: partial(paired, data, networks) for name, networks in members.items()}
    return {**table_2(theirs), "networks": sections(*parts)}


def raw_disagreement(rows: RaterRows) -> float:
    """Return the mean share of pairs of raters who differ."""
    return float(disagreement_shares(rows.counts)[:, 0].mean())


def main() -> None:
    """Simulate, fit, judge, and fill the page in."""
    folder = arguments(__doc__, needs=["cifar10h"]).folder
    fill("raters", simulated=figure(), **real(folder))


if __name__ == "__main__":
    main()
