"""Fill in modes.md: appendix E of Mimori and others, where the features tell why raters differ."""

from __future__ import annotations

import numpy as np
import polars as pl
from arora_figures import Curve, write
from pages import arguments, fill, table
from scipy import stats  # type: ignore[import-untyped]

import calibkit as ck
from calibkit.simulate import beta_parameters

ROWS, VOTES, REGULARIZATIONS = 60_000, (2, 5), (0.005, 0.0005)

#: Two kinds of row with the same mean: raters agree about each row, or about none.
ALIKE = {"epistemic": 3, "aleatoric": 7}


def strengths(votes: int, regularization: float) -> dict[int, float]:
    """Return the alpha0 that each kind of new row gets."""
    fitting, new = (
        ck.simulate_raters(ROWS, raters=votes, design="modes", seed=seed) for seed in (1, 2)
    )
    model = ck.fit_alpha(fitting, features="feature_*", regularization=regularization)
    names = [f"feature_{kind}" for kind in range(10)]
    found = model.apply(new, keep=["mode", *names]).group_by(names).agg(pl.col("alpha0").mean())
    kinds = found.select(names).to_numpy().argmax(axis=1)
    return dict(zip(kinds.tolist(), found["alpha0"].to_list(), strict=True))


def main() -> None:
    """Fit, write the table and the picture."""
    arguments(__doc__)
    found = {(n, r): strengths(n, r) for n in VOTES for r in REGULARIZATIONS}
    rows = []
    for kind in range(10):
        positive, negative = beta_parameters(kind)
        mode = "clear" if kind < 2 else "epistemic" if kind < 6 else "aleatoric"
        share, strength = positive / (positive + negative), positive + negative
        own = [f"{found[one][kind]:.2f}" for one in found]
        rows.append([mode, f"{share:.2f}", f"{strength:.2f}", *own])
    names = [f"{n} votes, ridge {r:g}" for n, r in found]
    fill("modes", strengths=table(["kind", "mean share", "true alpha0", *names], rows, "lr"))
    grid, curves = np.linspace(0.002, 0.998, 250), []
    for mode, kind in ALIKE.items():
        positive, negative = beta_parameters(kind)
        share = positive / (positive + negative)
        strength = found[max(VOTES), min(REGULARIZATIONS)][kind]
        curves += [
            Curve(f"{mode}, true", grid, stats.beta.cdf(grid, positive, negative)),
            Curve(
                f"{mode}, predicted",
                grid,
                stats.beta.cdf(grid, share * strength, (1 - share) * strength),
            ),
        ]
    axes = ("probability that a rater chooses class 1", "share of rows below")
    write("mimori_3.svg", "Two kinds of row with one mean", axes, curves)


if __name__ == "__main__":
    main()
