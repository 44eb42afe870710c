"""Fill in vad_networks.md: tables 8 to 11, formula (5) and figure 5 of Fan and others, in form.

Small networks are trained here on the Criteo sample, each with others from other starts; minutes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from durfee_rows import prepared
from numpy.polynomial.legendre import leggauss
from pages import arguments, fill, printed, signed, table
from scipy import stats  # type: ignore[import-untyped]
from small_networks import Network, train
from studies import monte_carlo

import calibkit as ck
from calibkit.options.simulate import SelectionOptions
from calibkit.simulate import SPREAD, models_of

SET = "criteo_tau3"
HIDDEN, RATE, EPOCHS = (64, 32, 16), 1e-3, 8
MEMBERS, RUNS, TOPS = 3, 10, ("0.03", "0.09")
METRICS = {"calibration_bias": "calibration error, per cent", "ece": "ECE", "mce": "MCE"}
CALIBRATORS = ("none", "histogram", "platt", "scaling-binning", "isotonic")
#: What is set against a calibrator alone: link, and how many members.
AFTER = {"VAD+": ("logit", 2), "VAD(p)+": ("identity", 2), "VAD+ (S=3)": ("logit", 3)}

# Tables 8 to 10 at 3 and 9 %: the calibrator alone, then `AFTER`.
PAPER = printed("fan, networks")

Found = dict[tuple[str, str, str, str], float]


def learnt(x: np.ndarray, y: np.ndarray, seed: int) -> Network:
    """Return a network trained on some rows, as it is after the last epoch."""
    network = Network((x.shape[1], *HIDDEN), "none", seed)
    train(network, (x, y), (x[:2000], y[:2000]), RATE, EPOCHS, last=True)
    return network


def scored(folder: Path, run: int) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return validation rows like the training rows, shifted ones, and shifted test rows.

    The rows keep the share of positives that the sample has; the shift leaves rows out as the paper
    does, with the probability that another network gives them.
    """
    data = prepared(folder, SET)
    x = np.concatenate([data.inputs[part] for part in ("calib", "test")])
    y = np.concatenate([data.frames[part]["label"].to_numpy() for part in ("calib", "test")])
    random = np.random.default_rng([8, run])
    fitting, like, shifted = np.split(random.permutation(y.size), (15_000, 25_000))
    other = learnt(data.inputs["train"], data.frames["train"]["label"].to_numpy(), 1000 + run)
    left_out = 1 / (1 + np.exp(-other.logits(x[shifted]).astype(np.float64)))
    shifted = shifted[random.random(shifted.size) >= left_out]
    networks = [learnt(x[fitting], y[fitting], 10 * run + place) for place in range(MEMBERS)]
    logits = np.column_stack([one.logits(x).astype(np.float64) for one in networks])
    scores = {f"score_{place}": 1 / (1 + np.exp(-logits[:, place - 1])) for place in (1, 2, 3)}
    rows = pl.DataFrame({"label": y, **scores})
    half = shifted.size // 2
    return rows[like], rows[shifted[:half]], rows[shifted[half:]]


def replicate(folder: Path, run: int) -> Found:
    """Return each metric of the best scores, by calibrator and what comes after it."""
    like, unlabelled, test = scored(folder, run)
    found: Found = {}
    for method in CALIBRATORS:
        columns = {"alone": test["score_1"]}
        calibrator = None
        if method != "none":
            calibrator = ck.fit_calibrator(like, score="score_1", method=method)
            columns["alone"] = calibrator.apply(test, score="score_1")["calibrated"]
        for name, (link, members) in AFTER.items():
            some = [f"score_{place}" for place in range(1, members + 1)]
            tandem = {} if calibrator is None else {"calibrator": calibrator, "train_input": like}
            vad = ck.fit_vad(unlabelled, members=some, link=link, **tandem)
            columns[name] = vad.apply(test)["calibrated"]
        judged = ck.evaluate(
            test.select("label").with_columns(**columns), scores=list(columns), intervals=False,
            top=TOPS, bins=50, bin_strategy="equal-mass", metrics=[*METRICS, "log_loss"],
        ).metrics  # fmt: skip
        for name in columns:
            for top in TOPS:
                for metric, value in judged[name][f"top:{top}"].items():
                    found[metric, method, name, top] = value
    return found


def compared(runs: list[Found], metric: str) -> str:
    """Return a table: the calibrator alone, and how far what comes after it moves the metric."""
    scale, digits = (100, 2) if metric == "calibration_bias" else (1, 4)
    rows = []
    for top, place in zip(TOPS, range(2), strict=True):
        for method, known in zip(CALIBRATORS, PAPER[metric], strict=True):
            alone = scale * np.array([run[metric, method, "alone", top] for run in runs])
            cells = [f"{alone.mean():.{digits}f} ± {_error(alone):.{digits}f}"]
            for name, theirs in zip(AFTER, known[place][1:], strict=True):
                moved = scale * np.array([run[metric, method, name, top] for run in runs]) - alone
                apart = signed(theirs - known[place][0], digits)
                cells.append(
                    f"{signed(moved.mean(), digits)} ± {_error(moved):.{digits}f} ({apart})"
                )
            cells[0] += f" ({known[place][0]:.{digits}f})"
            rows.append([f"{float(top):.0%}", method, *cells])
    return table(["best", "calibrator", "alone", *(f"{name} less it" for name in AFTER)], rows)


def log_loss(runs: list[Found]) -> str:
    """Return by how much VAD lowers the log loss, per cent."""
    rows = []
    for method in CALIBRATORS:
        cells = []
        for top in TOPS:
            pairs = [
                [run["log_loss", method, name, top] for name in ("VAD+", "alone")] for run in runs
            ]
            share = 100 * np.array([after / before - 1 for after, before in pairs])
            cells.append(f"{signed(share.mean())} ± {_error(share):.2f}")
        rows.append([method, *cells])
    return table(["calibrator", *(f"best {float(top):.0%}" for top in TOPS)], rows)


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size))


def theorem() -> str:
    """Return the bias of the best scores by formula (5), beside the exact one, over fitted models.

    Both are integrals over a normal distribution, of 100 models fitted on 3,000 rows.  The formula
    takes the logit of the truth to be the part of it that the scores tell.
    """
    nodes, weights = leggauss(120)
    rest, rest_weights = np.polynomial.hermite_e.hermegauss(40)
    rows = []
    for top in (0.02, 0.05, 0.10):
        chance = 1 - top + top * (nodes + 1) / 2
        z, share = stats.norm.ppf(chance), weights / 2
        bias = {"exact": [], "formula": []}
        for seed in range(1, 101):
            options = SelectionOptions(rows=1, seed=seed, refits=1)
            intercept, *slopes = models_of(options)[0]
            own, truth = np.array(slopes), np.ones(options.inputs)
            size, along = SPREAD * np.sqrt(own @ own), SPREAD * (own @ truth) / np.sqrt(own @ own)
            mean, true_mean = intercept - options.shift * own.sum(), -options.shift * truth.sum()
            across = np.sqrt(max(SPREAD**2 * truth @ truth - along**2, 0.0))
            said = share @ _expit(mean + size * z)
            is_so = share @ (
                _expit(true_mean + along * z[:, None] + across * rest) @ rest_weights
            ) / rest_weights.sum()  # fmt: skip
            bias["exact"].append(said - is_so)
            bias["formula"].append(said - share @ _expit(mean + along * z))
        cells = [f"{np.mean(one):.5f} ± {_error(np.array(one)):.5f}" for one in bias.values()]
        rows.append([f"{top:.0%}", *cells])
    return table("best|bias, exact|formula (5)", rows)


def _expit(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def normality(folder: Path) -> str:
    """Return how far logits of three networks are from a normal distribution (figure 5)."""
    [(_, rows, _)] = monte_carlo(scored, [folder], 1)[folder]
    lines = []
    for name in ("score_1", "score_2", "score_3"):
        logit = np.log(rows[name] / (1 - rows[name])).to_numpy()
        test = stats.kstest((logit - logit.mean()) / logit.std(), "norm")
        moments = f"{stats.skew(logit):.2f}", f"{stats.kurtosis(logit):.2f}"
        lines.append(
            [name, f"{logit.size:,}", f"{test.statistic:.3f}", f"{test.pvalue:.1e}", *moments]
        )
    return table("network|rows|Kolmogorov-Smirnov distance|p|skewness|excess kurtosis", lines)


def main() -> None:
    """Train, judge, write."""
    folder = arguments(__doc__, needs=[SET]).folder
    runs = monte_carlo(replicate, [folder], RUNS)[folder]
    tables = {metric: compared(runs, metric) for metric in METRICS}
    fill(
        "vad_networks", **tables, log_loss=log_loss(runs), theorem=theorem(),
        normality=normality(folder),
    )  # fmt: skip


if __name__ == "__main__":
    main()
