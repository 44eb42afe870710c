"""Write raters.md: estimators of label histograms on simulated votes, and maps on real ones.

Run as ``python docs/evidence/write_raters.py [FOLDER]`` from the project's root.  FOLDER (default
``../shared/data`` beside the project) holds cifar10h/calib.parquet and test.parquet; where it is
absent, the second half of the page is left as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from boundary_study import DATA
from numpy.typing import NDArray
from raters_mds import table_2

from calibkit import simulate_raters
from calibkit.files.sources import Source, open_source
from calibkit.maps.class_rows import RaterOptions, RaterRows, read_window
from calibkit.measures.votes import Judged, ensemble, measure
from calibkit.methods.raters import run as alpha
from calibkit.methods.raters.alpha_cal import predict
from calibkit.numerics.votes import (
    bin_sums,
    class_targets,
    disagreement_shares,
    losses,
    predicted_disagreement,
)
from calibkit.options.alpha_cal import AlphaOptions

PAGE = Path(__file__).with_name("raters.md")
REAL = "## Real votes"

#: Rows of a file and how often it is simulated, as many rows in all for each size.
SIZES = ((100, 1000), (300, 1000), (1000, 300), (3000, 300), (10_000, 300))

#: Means over 300 to 1,000 files as worked out before, for the same design.
KNOWN = {
    2: {
        "CL plugin": (0.0248, 0.0084, 0.0025, 0.00085, 0.00025),
        "CL debiased": (-0.0005, 0.0, 0.0, 0.0, 0.0),
        "DL plugin": (0.143, 0.159, 0.164, 0.166, 0.166),
        "DL debiased": (0.0026, 0.0007, -0.0007, 0.0, 0.0001),
    },
    5: {
        "CL plugin": (0.0099, None, None, None, 0.0001),
        "CL debiased": (0.0, 0.0, 0.0, 0.0, 0.0),
        "DL plugin": (0.057, None, None, None, 0.0667),
        "DL debiased": (0.0, 0.0, 0.0, 0.0, 0.0),
    },
}

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
        found["DL plugin"].append(one.dispersion_plugin.sum())
        found["DL debiased"].append(one.dispersion.sum())
    return {name: np.array(values) for name, values in found.items()}


def figure() -> Iterator[str]:
    """Yield the lines of the table behind figure 1."""
    yield "| votes a row | estimate | " + " | ".join(f"N = {rows:,}" for rows, _ in SIZES) + " |"
    yield "| --- | --- |" + " --- |" * len(SIZES)
    for raters, known in KNOWN.items():
        runs = [simulated(raters, rows, times) for rows, times in SIZES]
        for name in known:
            cells = []
            for run, expected in zip(runs, known[name], strict=True):
                mean = run[name].mean()
                error = run[name].std(ddof=1) / np.sqrt(run[name].size)
                before = "" if expected is None else f" ({expected:g})"
                cells.append(f"{mean:.5f} ± {error:.5f}{before}")
            yield f"| {raters} | {name} | " + " | ".join(cells) + " |"


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
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.float64]]:
    """Return probabilities, alpha0 (None: raters draw from them) and disagreements on test."""
    test = read(data, "test", network)
    options = STRENGTHS[strength]
    chosen = replace(options or AlphaOptions(), probs=f"{network}_*", map=logit_map)
    model = alpha.fit(chosen, opened(data, "calib")).model
    prediction = next(iter(test.predictions.values()))
    probabilities, alpha0, phi = predict(model, prediction, test.others, test.where)
    if options is None:
        return probabilities, None, predicted_disagreement(probabilities)
    return probabilities, alpha0, phi


def judged(
    data: Path, networks: tuple[str, ...], logit_map: str, strength: str
) -> dict[str, float | int | None]:
    """Return the metrics on test of what was fitted on calib, by one network or by several."""
    test = read(data, "test", networks[0])
    members = [predicted(data, network, logit_map, strength) for network in networks]
    probabilities, _, phi = members[0]
    if len(members) > 1:
        probabilities, phi = ensemble([own for own, _, _ in members], [a for _, a, _ in members])
    return measure(
        Judged(
            probabilities=probabilities,
            disagreement=phi,
            counts=test.counts,
            classes=test.classes,
        )
    ).values


def paired(
    data: Path, networks: tuple[str, ...], logit_map: str, alpha: bool
) -> dict[str, float | int | None]:
    """Return the metrics with alpha0 or without, as Table 2 compares them."""
    return judged(data, networks, logit_map, "sorted-probs" if alpha else "no alpha")


SHOWN = {
    "accuracy": "accuracy",
    "squared_loss": "squared loss",
    "epistemic_loss": "epistemic loss",
    "class_calibration_error": "CE",
    "dispersion_error": "DE",
    "disagreement_loss": "disagreement loss",
    "disagreement_calibration_error": "its CE",
    "class_disagreement_loss": "class disagreement loss",
    "class_disagreement_calibration_error": "its CE",
}


def real(data: Path) -> Iterator[str]:
    """Yield the lines of the tables on real votes."""
    members = {**{name: (name,) for name in NETWORKS}, " + ".join(NETWORKS[:2]): NETWORKS[:2]}
    yield from table_2(
        {name: partial(paired, data, networks) for name, networks in members.items()}
    )
    for network in NETWORKS:
        calib, test = read(data, "calib", network), read(data, "test", network)
        constant = np.full(len(test.counts), raw_disagreement(calib))
        yield f"### {network}"
        yield ""
        yield "| map | alpha0 | " + " | ".join(SHOWN.values()) + " |"
        yield "| --- | --- |" + " ---: |" * len(SHOWN)
        for logit_map in MAPS:
            for name in STRENGTHS:
                values = judged(data, (network,), logit_map, name)
                shown = " | ".join(f"{values[metric]:.4f}" for metric in SHOWN)
                yield f"| {logit_map} | {name} | {shown} |"
        phi = np.column_stack([constant, np.zeros_like(test.counts, dtype=float)])
        known = measure(
            Judged(
                probabilities=next(iter(test.predictions.values())),
                disagreement=phi,
                counts=test.counts,
                classes=test.classes,
            )
        ).values
        yield ""
        yield (
            "Predicting the same disagreement for all rows, the mean on the fitting rows: "
            f"disagreement loss {known['disagreement_loss']:.4f}."
        )
        yield ""


def raw_disagreement(rows: RaterRows) -> float:
    """Return the mean share of pairs of raters who differ."""
    return float(disagreement_shares(rows.counts)[:, 0].mean())


HEAD = f"""# Votes of several raters: estimators and maps

<!-- Written by `make reproduce-raters`; edit docs/evidence/write_raters.py instead. -->

## Simulated votes: what a perfect predictor is said to lose

Figure 1 of Mimori et al., "Diagnostic uncertainty calibration": each row has a probability of class 1,
uniform on [0, 1], the predictor knows it, and raters vote by it
(`calibkit simulate raters --raters 2`). The truth of every figure is 0. The paper plots what is
printed here, over ten files a size and without numbers: the plugin CL falls as N grows, the plugin DL
stays where it is, and the debiased forms are close to 0, even with two votes. So it is here. Means over
{SIZES[0][1]:,} files (N up to 300) or {SIZES[-1][1]} files, two classes summed,
with their standard errors; in brackets what the same design gave before, where it is known.

"""

WORDS = """
The plugin calibration loss (CL) is too high by what the bins' mean labels scatter, which falls as
1/N; the plugin dispersion loss (DL) by what the raters of one row scatter, which no number of
rows mends: its limit is 1/6 with two votes and 1/15 with five. The debiased forms are within noise
of 0, but for what is left of CL at N = 100, where some bins hold a single row.

"""

REAL_WORDS = """
CIFAR-10H: about 51 votes an image, on the class probabilities of three networks. Fitted on `calib`,
judged on `test`. Penalties of vector and matrix scaling are chosen by cross-validation; `no alpha`
takes raters to draw from the class probabilities.

What to see in it:

* alpha0 leaves accuracy, squared loss, epistemic loss, CE and DE as they are: it changes the spread,
  not the mean.
* Temperature scaling makes the class probabilities better and the predicted disagreement worse:
  softer probabilities say that raters differ on every image, while in truth they differ much on a few.
  alpha0 takes that back.
* alpha0 / (alpha0 + 1) can only lower a predicted disagreement. Over-confident probabilities predict
  too little of it on hard images already, and alpha0, which is fitted to the likelihood of all votes,
  does not mend that: alone it gains little on the raw probabilities of vgg16 and resnet110, and
  after temperature scaling of resnet110 a constant alpha0 still predicts disagreement worse than the
  raw probabilities do. The isotonic step may raise a prediction, and brings every row of the table
  below the constant prediction.

"""


def main(arguments: list[str]) -> None:
    """Write the page."""
    text = HEAD + "\n".join(figure()) + "\n" + WORDS
    folder = Path(arguments[0]) if arguments else DATA
    if (folder / "cifar10h").is_dir():
        text += REAL + "\n" + REAL_WORDS + "\n".join(real(folder))
    elif PAGE.exists() and REAL in PAGE.read_text(encoding="utf-8"):
        text += REAL + PAGE.read_text(encoding="utf-8").split(REAL, 1)[1]
    PAGE.write_text(text.rstrip() + "\n", encoding="utf-8")
    print(f"{PAGE} written")


if __name__ == "__main__":
    main(sys.argv[1:])
