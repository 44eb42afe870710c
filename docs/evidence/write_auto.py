"""Fill in auto.md: the automatic choice against each of its candidates on real score files."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from boundary_study import Floats, bounds, part, recall_beyond
from pages import arguments, fill, paragraph, signed, table

from calibkit.files.sources import open_source
from calibkit.methods.boundary.choice import choose_method
from calibkit.methods.boundary.problem.goals import tally_totals
from calibkit.methods.boundary.solvers.methods import goal_of
from calibkit.methods.boundary.solvers.summary import Summary
from calibkit.options.boundary import AUTO, BoundaryOptions
from calibkit.options.objective import Target
from calibkit.options.shared import ColumnOptions
from calibkit.summaries.score_rows import ScoreRows, read_score_rows

SETS = ("census", "bank", "bank_tau5", "higgs", "criteo_tau3", "creditcard")


def read(folder: Path) -> ScoreRows:
    """Return the rows of both files of a data set."""
    paths = [str(folder / f"{part}.parquet") for part in ("calib", "test")]
    return read_score_rows(open_source(paths), ColumnOptions())


def judge(rows: ScoreRows, bound: str, resplits: int) -> dict[str, Floats]:
    """Return for each candidate, and for the choice, its figures on every resplit.

    One row a resplit: test precision, test recall, and recall beyond that of the single threshold
    which selects as many of the same test rows (between two thresholds: along the line).
    """
    size = rows.score.size
    options = BoundaryOptions(precision=bound)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for split in range(resplits):
        order = np.random.default_rng(split).permutation(size)
        calib, test = part(rows, order[: size // 2]), part(rows, order[size // 2 :])
        choice = choose_method(calib, replace(options, seed=split))
        assert test.label is not None
        positives = float(test.label.sum())
        for place, (candidate, _) in enumerate(choice.ranked):
            summary = candidate.over_own_levels()
            selected, reached = on_test(summary, options.target, test)
            beyond = recall_beyond(test.score, test.label, selected, reached)
            precision = reached / selected if selected else math.nan
            figures = (precision, reached / positives, beyond)
            found.setdefault(label(summary), []).append(figures)
            if place == 0:
                found.setdefault(AUTO, []).append(figures)
                found.setdefault(f"chose {label(summary)}", []).append(figures)
    return {name: np.array(values) for name, values in found.items()}


def label(summary: Summary) -> str:
    """Return what a candidate is called."""
    planned = summary.planned
    return f"exact {planned.levels}" if planned.method.name == "exact" else planned.method.name


def on_test(summary: Summary, target: Target, test: ScoreRows) -> tuple[float, float]:
    """Return rows and positives that a candidate, fitted on all rows of its, selects on others."""
    tally, levels = summary.tally, summary.levels
    found = summary.planned.method.find(tally, goal_of(target, tally_totals(tally)))
    assert levels is not None and test.label is not None
    threshold = found.thresholds[levels.of(test.uncertainty, test.score.size)]
    taken = test.score >= threshold
    return float(taken.sum()), float(test.label[taken].sum())


def main() -> None:
    """Resplit, judge, and fill the page in."""
    given = arguments(__doc__, needs=SETS, resplits=20)
    names = [AUTO, "st", "logistic", *(f"exact {levels}" for levels in (2, 3, 5, 7, 11))]
    beyond, choices = [], []
    behind, level = 0, 0
    for name in SETS:
        rows = read(given.folder / name)
        assert rows.label is not None
        for bound in bounds(rows.score, rows.label):
            found = judge(rows, bound, given.resplits)
            means = {key: float(found[key][:, 2].mean()) for key in names}
            best = max(names[1:], key=lambda key: means[key])
            apart = found[AUTO][:, 2] - found[best][:, 2]
            spread = float(apart.std(ddof=1)) if apart.size > 1 else 0.0
            level += apart.mean() >= -spread
            behind += apart.mean() < -2 * spread
            cells = [f"{100 * means[key]:.2f}" for key in names]
            last = f"{signed(100 * apart.mean())} ± {100 * spread:.2f}"
            beyond.append([name, bound, *cells, best, last])
            choices.append([name, bound, *chosen(found)])
            print(name, bound, flush=True)
    fill(
        "auto",
        setting=paragraph(
            f"Rows of `calib` and `test` together, split in halves {given.resplits} times at random; "
            "every candidate of `--method auto` is fitted on one half, and judged on the other. The "
            "bounds are the precisions at which one threshold recalls 20, 50 and 80 % of all positives."
        ),
        beyond=table(["data", "bound", *names, "best", "auto less best"], beyond),
        standing=paragraph(
            "Within one standard deviation of the best candidate, which is known only afterwards: "
            f"{level} of {len(beyond)}; behind it by more than two: {behind}."
        ),
        chosen=table("data|bound|precision|recall|recall of st|chosen", choices),
    )


def chosen(found: dict[str, Floats]) -> list[str]:
    """Return test precision and recall, the recall of one threshold, and how often what was chosen."""
    counts = ", ".join(
        f"{key.removeprefix('chose ')} {len(values)}"
        for key, values in sorted(found.items())
        if key.startswith("chose ")
    )
    auto, single = np.nanmean(found[AUTO], axis=0), np.nanmean(found["st"], axis=0)
    return [f"{auto[0]:.3f}", f"{auto[1]:.3f}", f"{single[1]:.3f}", counts]


if __name__ == "__main__":
    main()
