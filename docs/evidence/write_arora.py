"""Fill in arora.md: theory and simulations of Arora and others, figures 3 and 9 among them.

Needs no data; page and pictures are the same bytes each time (for one version of numpy).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from arora_figures import Curve, write
from arora_recall import recall_parts
from arora_theory import expected_test_positivity, model_score
from boundary_study import Floats
from pages import fill, paragraph, prototype, table

import calibkit as ck
from calibkit.numerics.positivity import (
    beta_entropy,
    digamma,
    expected_true_positivity,
)

#: The paper gives omega = 1/2, xi = 1/4 and tau; the strengths of both priors are ours.
TRUE_PRIOR, MODEL_PRIOR = (2.0, 6.0), (1.0, 1.0)
#: Evidence n by gamma = (p1 + p0) / n.
EVIDENCE = {0.05: 40, 0.2: 10, 0.5: 4}
MEDIUM = 10
TAUS = (1, 2, 3, 5, 10)
ROWS = 400_000
#: Fewer simulated rows say little of a cell.
LEAST_CELL = 200

#: What the earlier prototype has for tau 3: the positivity to expect by gamma and score.
KNOWN = prototype("positivity")


def reach(evidence: float) -> tuple[float, float]:
    """Return the lowest and the highest score that a model can give with some evidence."""
    low, high = model_score([0.0, 1.0], evidence, model_prior=MODEL_PRIOR)
    return float(low), float(high)


def expected(score: Floats | float, evidence: float, tau: float) -> Floats:
    """Return the positivity of test rows to expect at a score."""
    return expected_test_positivity(
        score, evidence, true_prior=TRUE_PRIOR, model_prior=MODEL_PRIOR, tau=tau
    )


@dataclass(frozen=True)
class Cells:
    """Simulated rows of one evidence by their score, beside what theory expects of them."""

    score: Floats
    share: Floats
    z: Floats


def simulate(evidence: int, tau: float, seed: int) -> Cells:
    """Return the share of positives at each score, and by how many standard errors it is off."""
    rows = ck.simulate_posterior(
        ROWS,
        seed=seed,
        true_prior=TRUE_PRIOR,
        model_prior=MODEL_PRIOR,
        tau=tau,
        evidence=(evidence, evidence),
        keep=["score", "label"],
    )
    cells = rows.group_by("score").agg(
        pl.col("label").cast(pl.Float64).mean().alias("share"), pl.len().alias("rows")
    )
    cells = cells.filter(pl.col("rows") >= LEAST_CELL).sort("score")
    score, share, count = (cells[name].to_numpy() for name in ("score", "share", "rows"))
    true = expected(score, evidence, tau)
    return Cells(score, share, (share - true) / np.sqrt(true * (1 - true) / count))


def curve(name: str, evidence: int, tau: float, cells: Cells) -> Curve:
    """Return the line of theory with its simulated points."""
    score = np.linspace(*reach(evidence), 200)
    return Curve(name, score, expected(score, evidence, tau), cells.score, cells.share)


# ---------------------------------------------------------------- figure 3


def figure_3() -> dict[str, str]:
    """Draw both parts of figure 3; return what is said of it."""
    parts = {
        gamma: simulate(evidence, 3, seed)
        for seed, (gamma, evidence) in enumerate(EVIDENCE.items())
    }
    by_gamma = [
        curve(f"γ = {gamma} (n = {EVIDENCE[gamma]})", EVIDENCE[gamma], 3, cells)
        for gamma, cells in parts.items()
    ]
    others = {tau: simulate(MEDIUM, tau, 10 + tau) for tau in TAUS}
    by_tau = [curve(f"τ = {tau}", MEDIUM, tau, cells) for tau, cells in others.items()]
    axes = ("model score", "expected test positivity; points: simulated")
    write("arora_3a.svg", "Figure 3 (a): τ = 3", axes, by_gamma, diagonal=True)
    write("arora_3b.svg", f"Figure 3 (b): n = {MEDIUM}", axes, by_tau, diagonal=True)
    z = np.concatenate([cells.z for cells in (*parts.values(), *others.values())])
    beyond = int((np.abs(z) > 1.96).sum())
    fit = (
        f"Lines are theorem E.4, points the shares of positives among {ROWS:,} rows a line of "
        f"`calibkit simulate posterior`. Of {z.size} points with {LEAST_CELL} rows or more, {beyond} "
        f"are more than 1.96 standard errors off the line ({0.05 * z.size:.0f} are to be expected), "
        f"the farthest {np.abs(z).max():.1f}."
    )
    return {"fit": paragraph(fit), "known": known_table(), "claims": claims()}


def known_table() -> str:
    """Return the positivity to expect beside that of the earlier prototype."""
    scores = (0.5, 0.7, 0.9)
    rows = []
    for gamma, evidence in EVIDENCE.items():
        cells = [f"{gamma}"]
        for score in scores:
            if score > reach(evidence)[1]:
                cells.append("no such score")
                continue
            cells.append(
                f"{float(expected(score, evidence, 3)):.3f} ({KNOWN[str(gamma)][str(score)]:.3f})"
            )
        rows.append(cells)
    return table(["γ", *(f"score {score}" for score in scores)], rows)


def crossings(first: int, second: int, tau: float) -> str:
    """Return at which scores two curves cross."""
    low, high = reach(second)
    score = np.linspace(low + 1e-9, high - 1e-9, 2001)
    apart = expected(score, first, tau) - expected(score, second, tau)
    places = score[:-1][np.diff(np.sign(apart)) != 0]
    return " and ".join(f"{place:.2f}" for place in places) or "nowhere"


def claims() -> str:
    """Return what the paper says of figure 3, and what we find."""
    strong, weak = EVIDENCE[0.05], EVIDENCE[0.5]
    low, high = (end + nudge for end, nudge in zip(reach(weak), (1e-9, -1e-9), strict=True))

    def gap(score: float, tau: float) -> float:
        return float(expected(score, strong, tau) - expected(score, weak, tau))

    grids = {n: np.linspace(*reach(n), 200)[1:-1] for n in EVIDENCE.values()}
    rises = all(
        bool((np.diff(expected(grid, n, tau)) > 0).all())
        for n, grid in grids.items()
        for tau in TAUS
    )
    least = {
        tau: min(float((grid - expected(grid, n, tau)).min()) for n, grid in grids.items())
        for tau in TAUS
    }
    over = [tau for tau in TAUS if least[tau] > 0]
    line = grids[weak]
    bend = expected(line, weak, 1)
    straight = np.interp(line, line[[0, -1]], bend[[0, -1]])
    shares = np.linspace(0, 1, 50)
    same = model_score(shares, 7, model_prior=MODEL_PRIOR) - expected_true_positivity(
        shares, 7, true_prior=MODEL_PRIOR
    )
    shown = expected_true_positivity(0.9, [0.0, 1e9], true_prior=TRUE_PRIOR, tau=3)
    xi, limit = TRUE_PRIOR[0] / sum(TRUE_PRIOR), 0.9 / (0.9 + 3 * 0.1)
    rows = [
        ["positivity rises with the score at any uncertainty", "so" if rises else "not so"],
        [
            "τ > 1: scores are too high over the whole range, the more so the larger τ",
            f"at these priors from τ = {min(over)} on: the least overstatement is "
            + ", ".join(f"{least[tau]:+.3f} (τ = {tau})" for tau in TAUS)
            + "; with τ barely above 1 low scores are too low still",
        ],
        [
            "levels lie farther apart at higher scores",
            f"so for τ = 3: γ = 0.05 less γ = 0.5 is {gap(low, 3):+.3f} at score {low:.2f}, "
            f"{gap(high, 3):+.3f} at {high:.2f}; not for τ = 10: {gap(low, 10):+.3f}, "
            f"{gap(high, 10):+.3f}",
        ],
        [
            "the order of the levels flips within the range (C.7)",
            f"so: they cross at {crossings(strong, weak, 3)} for τ = 3, at "
            f"{crossings(strong, weak, 10)} for τ = 10. The caption has τ = 3, the text 10: what "
            "both say of the figure is true of 3",
        ],
        ["τ = 1: positivity is linear in the score", f"so, to {np.abs(bend - straight).max():.0e}"],
        ["τ = 1 and equal priors (ν = 1, ξ = ω): no bias", f"so, to {np.abs(same).max():.0e}"],
        [
            "little evidence draws positivity towards ξ; much, towards training",
            f"so: of a training share of 0.9, {shown[0]:.3f} without evidence (ξ = {xi:.2f}), "
            f"{shown[1]:.3f} with endless evidence, the share with the lost negatives put back "
            f"({limit:.3f})",
        ],
        [
            "the mean has no closed form for τ > 1",
            "it has: a ratio of two hypergeometric functions",
        ],
    ]
    return table(["the paper", "here"], rows)


# ---------------------------------------------------------------- figure 9


def figure_9() -> dict[str, str]:
    """Draw figure 9; return what is said of it."""
    prior, evidence = 15.0, np.linspace(1.0, 40.0, 400)
    total, gamma = prior + evidence, prior / evidence
    scores = (0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98, 0.99)
    rows, curves = [], []
    for score in scores:
        one, zero = score * total, (1 - score) * total
        entropy = beta_entropy(one, zero)
        printed = entropy - 2 * (total - 2) * digamma(total)
        rows.append(
            [
                f"{score}",
                f"{entropy[0]:.2f}",
                f"{entropy[-1]:.2f}",
                direction(entropy, gamma),
                f"{min(one.min(), zero.min()):.2f} to {min(one.max(), zero.max()):.2f}",
                f"{printed[0]:.0f}, {printed[-1]:.0f}",
            ]
        )
        if score >= 0.5:
            curves.append(Curve(f"score {score}", gamma, entropy))
    write(
        "arora_9.svg",
        "Figure 9: uncertainty and γ, model prior (5, 10)",
        ("γ = 15 / evidence", "differential entropy of the posterior"),
        curves,
    )
    header = "score|u at n = 1|u at n = 40|with rising γ u|smaller posterior count|as printed"
    lowest, highest = 5 / (15 + 40), (5 + 40) / (15 + 40)
    reachable = (
        f"With this prior and at most 40 rows a model gives scores from {lowest:.2f} to "
        f"{highest:.2f} only: where the entropy turns is beyond what such a model can say. With weak "
        "priors it is not: with the model prior (0.05, 0.05) of the study below a score of 0.99 has "
        "a posterior count of 0.02 to 10."
    )
    return {"entropies": table(header, rows), "reachable": paragraph(reachable)}


def direction(entropy: Floats, gamma: Floats) -> str:
    """Return whether the entropy rises with gamma, which falls along the array."""
    steps = np.diff(entropy)
    if (steps < 0).all():
        return "rises"
    if (steps > 0).all():
        return "falls"
    return f"rises, and falls from {gamma[int(np.argmax(entropy))]:.2f} on"


def main() -> None:
    """Simulate, draw, and fill the page in."""
    fill("arora", **figure_3(), **figure_9(), **recall_parts())


if __name__ == "__main__":
    main()
