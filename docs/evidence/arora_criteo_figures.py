"""Figures 1 (a), 5 (a), 6 (a) and 8 of Arora and others on the Criteo sample, for arora_criteo.md."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import numpy as np
import polars as pl
from arora_figures import FOLDER
from arora_runs import MEMBERS, Case, Files, Outcome, runs, values
from pages import signed, table

import calibkit as ck
from calibkit.files.sources import Source, open_source
from calibkit.options.plot import EceAtOptions, Look, PositivityOptions, RecallGainOptions
from calibkit.reports import plots
from calibkit.reports.style import Points

LEVELS = (1, 3, 5, 7, 11)
SCORE_BINS = (50, 100, 500, 1000)
ECE_BINS = 20


def picture(shown: Points, file: str, title: str) -> None:
    """Draw points as docs/evidence/figures/FILE."""
    (FOLDER / file).write_bytes(plots.picture(shown, Look(title=title)))


def figure_1(folder: Path) -> None:
    """Draw positivity by score for three levels, on the test rows."""
    options = PositivityOptions(score=MEMBERS[0], uncertainty_bins=3)
    shown = plots.points(open_source([str(folder / "test.parquet")]), options)
    picture(shown, "arora_1a.svg", "Figure 1 (a): Criteo sample")


def figure_6(folder: Path) -> None:
    """Draw the gain in recall by the bound on precision, with the precision on the test rows."""
    options = RecallGainOptions(
        score=MEMBERS[0],
        method=("gmt", "mist", "ew-dpmt"),
        precision=("0.4", "0.5", "0.6", "0.7", "0.8"),
        test=str(folder / "test.parquet"),
        uncertainty_bins=3,
        score_bins=500,
    )
    shown = plots.points(open_source([str(folder / "calib.parquet")]), options)
    picture(shown, "arora_6a.svg", "Figure 6 (a): Criteo sample")


def figure_5(files: Files) -> str:
    """Return recall and precision of EW-DPMT on the test rows by the numbers of bins."""
    case = Case("EW-DPMT", "ew-dpmt")

    def cell(found: list[Outcome]) -> str:
        recall, precision, beyond = (
            fmean(values(found, figure)) for figure in ("recall", "precision", "beyond")
        )
        return f"{100 * recall:.1f} at {precision:.3f} ({signed(100 * beyond)})"

    rows = [
        [
            f"K = {levels}",
            *(cell(runs(files, case.at(levels=levels, score_bins=bins))) for bins in SCORE_BINS),
        ]
        for levels in LEVELS
    ]
    return table(["", *(f"L = {bins}" for bins in SCORE_BINS)], rows)


# ---------------------------------------------------------------- figure 8


def calibrated(files: Files, score: str) -> pl.DataFrame:
    """Return the test rows with isotonic regressions of a score: of all rows, and level by level."""
    edges = np.quantile(files.calib["uncertainty"].to_numpy(), [1 / 3, 2 / 3])

    def with_levels(rows: pl.DataFrame) -> pl.DataFrame:
        level = np.searchsorted(edges, rows["uncertainty"].to_numpy(), side="right")
        return rows.with_columns(pl.Series("level", level))

    calib, test = with_levels(files.calib), with_levels(files.test)
    for column, by in (("IST", None), ("MIST", "level")):
        model = ck.fit_calibrator(calib, method="isotonic", score=score, by=by, provenance="none")
        test = model.apply(test, column=column)
    return test


def ece_points(test: pl.DataFrame, score: str) -> Points:
    """Return ECE@j of both over a grid of the raw score."""
    options = EceAtOptions(
        scores=("IST", "MIST"), grid_score=score, uncertainty_bins=3, score_bins=ECE_BINS
    )
    return plots.points(Source.from_frame(test), options)


def figure_8(files: Files) -> str:
    """Draw ECE@j of the first member; return the cumulative ECE@j of all members."""
    shown = [ece_points(calibrated(files, score), score) for score in MEMBERS]
    picture(shown[0], "arora_8.svg", "Figure 8: Criteo sample, ECE@j of IST and MIST")
    places = (0, 10, 15, 18, 19)

    def errors(name: str, place: int) -> list[float]:
        wanted = (pl.col("score") == name) & (pl.col("score_bin") == place)
        return [points.table.filter(wanted)["cumulative_ece_at"][0] for points in shown]

    rows = [
        [name, *(f"{fmean(errors(name, place)):.4f}" for place in places)]
        for name in ("IST", "MIST")
    ]
    lower = [
        sum(two < one for one, two in zip(errors("IST", j), errors("MIST", j), strict=True))
        for j in places
    ]
    rows.append([f"MIST lower, of {len(MEMBERS)} members", *map(str, lower)])
    return table(["cumulative ECE@j", *(f"j = {place}" for place in places)], rows)


def figures(folder: Path, files: Files) -> dict[str, str]:
    """Draw the figures; return the parts of the page that are tables."""
    figure_1(folder)
    figure_6(folder)
    return {"bins": figure_5(files), "errors": figure_8(files)}
