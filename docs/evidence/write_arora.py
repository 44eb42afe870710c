"""Write arora.md: theory and simulations of Arora and others, figures 3 and 9 among them.

Run as ``python docs/evidence/write_arora.py`` from the project's root.  Needs no data; the page and
its pictures hold no timings and are the same bytes each time (for one version of numpy).
"""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass

import numpy as np
import polars as pl
from arora_figures import Curve, write
from arora_recall import recall_section
from boundary_study import ROOT, Floats, table

import calibkit as ck
from calibkit.numerics.positivity import (
    beta_entropy,
    digamma,
    expected_test_positivity,
    expected_true_positivity,
    model_score,
    score_bias,
)

PAGE = ROOT / "docs" / "evidence" / "arora.md"

#: The paper gives omega = 1/2, xi = 1/4 and tau; the strengths of both priors are ours.
TRUE_PRIOR, MODEL_PRIOR = (2.0, 6.0), (1.0, 1.0)
#: Evidence n by gamma = (p1 + p0) / n.
EVIDENCE = {0.05: 40, 0.2: 10, 0.5: 4}
MEDIUM = 10
TAUS = (1, 2, 3, 5, 10)
ROWS = 400_000
#: Fewer simulated rows say little of a cell.
LEAST_CELL = 200

#: What another implementation has for tau 3: the positivity to expect by gamma and score.
KNOWN = {
    (0.05, 0.5): 0.254,
    (0.05, 0.7): 0.417,
    (0.05, 0.9): 0.645,
    (0.2, 0.5): 0.257,
    (0.2, 0.7): 0.381,
    (0.2, 0.9): 0.527,
    (0.5, 0.5): 0.257,
    (0.5, 0.7): 0.351,
}


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


def figure_3() -> str:
    """Draw both parts of figure 3; return the section."""
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
    shown = [
        write("arora_3a.svg", "Figure 3 (a): τ = 3", axes, by_gamma, diagonal=True),
        write("arora_3b.svg", f"Figure 3 (b): n = {MEDIUM}", axes, by_tau, diagonal=True),
    ]
    z = np.concatenate([cells.z for cells in (*parts.values(), *others.values())])
    beyond = int((np.abs(z) > 1.96).sum())
    fit = (
        f"Lines are theorem E.4, points the shares of positives among {ROWS:,} rows a line of "
        f"`calibkit simulate posterior`. Of {z.size} points with {LEAST_CELL} rows or more, {beyond} "
        f"are more than 1.96 standard errors off the line ({0.05 * z.size:.0f} are to be expected), "
        f"the farthest {np.abs(z).max():.1f}."
    )
    return FIGURE_3 + "\n\n".join([*shown, wrapped(fit), VALUES, known_table(), CLAIMS, claims()])


def known_table() -> str:
    """Return the positivity to expect beside that of another implementation."""
    scores = (0.5, 0.7, 0.9)
    rows = []
    for gamma, evidence in EVIDENCE.items():
        cells = [f"{gamma}"]
        for score in scores:
            if score > reach(evidence)[1]:
                cells.append("no such score")
                continue
            cells.append(f"{float(expected(score, evidence, 3)):.3f} ({KNOWN[gamma, score]:.3f})")
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
    rows = []
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
    rows.append(["positivity rises with the score at any uncertainty", "so" if rises else "not so"])
    least = {
        tau: min(float((grid - expected(grid, n, tau)).min()) for n, grid in grids.items())
        for tau in TAUS
    }
    over = [tau for tau in TAUS if least[tau] > 0]
    rows.append(
        [
            "τ > 1: scores are too high over the whole range, the more so the larger τ",
            f"at these priors from τ = {min(over)} on: the least overstatement is "
            + ", ".join(f"{least[tau]:+.3f} (τ = {tau})" for tau in TAUS)
            + "; with τ barely above 1 low scores are too low still",
        ]
    )
    rows.append(
        [
            "levels lie farther apart at higher scores",
            f"so for τ = 3: γ = 0.05 less γ = 0.5 is {gap(low, 3):+.3f} at score {low:.2f}, "
            f"{gap(high, 3):+.3f} at {high:.2f}; not for τ = 10: {gap(low, 10):+.3f}, "
            f"{gap(high, 10):+.3f}",
        ]
    )
    rows.append(
        [
            "the order of the levels flips within the range (C.7)",
            f"so: they cross at {crossings(strong, weak, 3)} for τ = 3, at "
            f"{crossings(strong, weak, 10)} for τ = 10. The caption has τ = 3, the text 10: what "
            "both say of the figure is true of 3",
        ]
    )
    line = grids[weak]
    bend = expected(line, weak, 1)
    straight = np.interp(line, line[[0, -1]], bend[[0, -1]])
    rows.append(
        ["τ = 1: positivity is linear in the score", f"so, to {np.abs(bend - straight).max():.0e}"]
    )
    same = score_bias(np.linspace(0, 1, 50), 7, true_prior=MODEL_PRIOR, model_prior=MODEL_PRIOR)
    rows.append(
        [
            "τ = 1 and equal priors (ν = 1, ξ = ω): no bias",
            f"so, to {np.abs(same).max():.0e}",
        ]
    )
    shown = expected_true_positivity(0.9, [0.0, 1e9], true_prior=TRUE_PRIOR, tau=3)
    xi, limit = TRUE_PRIOR[0] / sum(TRUE_PRIOR), 0.9 / (0.9 + 3 * 0.1)
    rows.append(
        [
            "little evidence draws positivity towards ξ; much, towards training",
            f"so: of a training share of 0.9, {shown[0]:.3f} without evidence (ξ = {xi:.2f}), "
            f"{shown[1]:.3f} with endless evidence, the share with the lost negatives put back "
            f"({limit:.3f})",
        ]
    )
    rows.append(
        ["the mean has no closed form for τ > 1", "it has: a ratio of two hypergeometric functions"]
    )
    return table(["the paper", "here"], rows)


# ---------------------------------------------------------------- figure 9


def figure_9() -> str:
    """Draw figure 9; return the section."""
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
    picture = write(
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
    return "\n\n".join(
        [FIGURE_9, picture, table(header.split("|"), rows), AFTER_9, wrapped(reachable)]
    )


def direction(entropy: Floats, gamma: Floats) -> str:
    """Return whether the entropy rises with gamma, which falls along the array."""
    steps = np.diff(entropy)
    if (steps < 0).all():
        return "rises"
    if (steps > 0).all():
        return "falls"
    return f"rises, and falls from {gamma[int(np.argmax(entropy))]:.2f} on"


# ---------------------------------------------------------------- words


def wrapped(text: str) -> str:
    """Return a paragraph in lines of at most 100."""
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False)


INTRODUCTION = """# Arora and others: theory, and simulated rows

<!-- Written by `make reproduce-arora`; edit docs/evidence/write_arora.py. -->

Arora, Merugu, Saladi, Rastogi, *Leveraging uncertainty estimates to improve classifier
performance*, as far as it can be had without their data: here figures 3 and 9 and what thresholds
over score and uncertainty recall on simulated rows; [on the Criteo sample](arora_criteo.md) their
tables 1 to 3, 6 and 7 and figures 1, 5, 6 and 8; and [run times](arora_runtimes.md), table 4. Their
table 5 (other models, retrained) and figure 7 (features of single bins) cannot be had. `make
reproduce-arora DATA=FOLDER` writes the three pages in about three minutes.

## What came out

* **The theory holds**, with the misprints below mended: simulated rows lie on its curves.
* **Entropy is no uncertainty to sort by.** Its relation to the evidence turns round at extreme
  scores (figure 9), and on simulated rows it recalls less than the evidence itself.
* **Uncertainty can be worth much, or nothing.** With a weak model prior and evidence of widely
  different strength, levels recall several times what one threshold does, the more the higher the
  bound and τ, as the paper has it; with a prior of strength 2 and evidence from 3 to 300, nothing,
  whatever the fitting rows say.

"""

FIGURE_3 = """## Figure 3: test positivity by score

The paper gives τ (negatives kept at the rate 1/τ in training), the model prior's share ω = 0.5 and,
in section 6.2, the true prior's share ξ = 0.25, but not how strong the priors are; here they are
(1, 1) and (2, 6). γ is the model prior's strength over the evidence n. A line ends where no
training rows can lead to a higher or lower score. The paper's axes cannot be read in the copy at
hand, so what is compared is what it says of the figure.

"""

VALUES = "The line of τ = 3 in numbers; in brackets what another implementation has."
CLAIMS = "What the paper says of it:"

FIGURE_9 = """## Figure 9: uncertainty and γ at a fixed score

The model prior is (5, 10), the evidence 1 to 40; uncertainty u is the differential entropy of the
posterior. The paper: "a monotonic relationship", with an entropy that "becomes unstable" for
extreme scores, which it puts down to the series by which it is computed."""

AFTER_9 = """\
The instability need not come from a series: at extreme scores the entropy itself turns, where the
smaller count of the posterior is below about 1, and at 0.01 and 0.99 more evidence means *more*
entropy over the whole range. Elsewhere the relation is the paper's. Its footnotes 3 and 4 print (α0
+ α1 - 2) ψ(α0 + α1) with the wrong sign; the last column has what comes of it at n = 1 and n = 40.
That rises with γ at every score and would show no instability, so the misprint seems to be in the
footnotes alone."""

MISPRINTS = """## Misprints

What is mended in calibkit, or matters to whoever runs the paper's methods again:

* **Algorithm 1** (EW-DPMT): the inner maximum also needs 0 <= m - j <= (i - 1)L; the test divides
  by m, but m = 0 is feasible. It takes every bin to hold one KL-th of the rows: the boundary has to
  be counted again on the rows.
* **Algorithm 2** (GMT): b(i) = j* must be L - j*, j* being a number of bins.
* **Algorithm 3** (MIST): r never rises, sets of rank 0 are skipped, and the thresholds at the end
  are those of "rank >= r*", nearly everything, where "rank <= r*" is meant. Stopping by calibrated
  counts is right for whole level sets only; calibkit counts positives.
* **Algorithm 4** (VW-DPMT): m runs to the rows of the first i levels and in the end to N (printed:
  KL), and m - ν must not be negative.
* **Lemma F.1** concludes on precision twice; the second is recall, and its proof has "<" for ">=".
  **Theorem 5.1**: the second condition is recall >= η; in the reduction b(1) = 0, and b(i + 1) is 1
  where a_i is *not* in A'.
* **Theorem E.5**: ω is β1^P/(β1^P + β0^P). **Figure 3** (a): τ is 3 in the caption, 10 in the text.
  **Table 6**: 3 uncertainty and 100 score bins. **Table 7**: MIST and GMT seem interchanged. C.5
  means table 5, RQ4 figure 6 (b), E.2 a model prior of (5, 10)."""


def page() -> str:
    """Return the whole page."""
    return INTRODUCTION + "\n\n".join([figure_3(), figure_9(), recall_section(), MISPRINTS]) + "\n"


def main() -> int:
    """Write the page and its pictures."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} written.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
