"""Figures of the papers that are curves of numbers which stand on pages: drawn from these pages."""

from __future__ import annotations

import re

import numpy as np
from arora_figures import Curve, write
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def first(cell: str) -> float:
    """Return the first number of a cell, minus as a sign or as a hyphen, without commas."""
    found = re.search(r"-?\d[\d,]*\.?\d*", cell.replace("−", "-"))
    if found is None:
        raise ValueError(f"no number in {cell!r}")
    return float(found[0].replace(",", ""))


def numbers(cells: list[str]) -> Floats:
    """Return the first number of each cell."""
    return np.array([first(cell) for cell in cells])


def curve(name: str, x: Floats, y: Floats) -> Curve:
    """Return a line through points."""
    return Curve(name, x, y, x, y)


def selections(file: str, title: str, name: str, rows: list[list[str]]) -> None:
    """Draw a table of ours over the share that is selected (Fan, Si and Zhang, figure 3)."""
    head, *lines = rows
    columns = [numbers(list(column)) for column in zip(*lines, strict=True)]
    curves = [curve(*one) for one in zip(head[1:], [columns[0]] * 4, columns[1:], strict=True)]
    write(file, title, ("per cent of the rows that are selected", name), curves)


def estimators(file: str, title: str, name: str, rows: list[list[str]]) -> None:
    """Draw the estimators of a loss over the rows of a file (Mimori and others, figure 1)."""
    head, *lines = rows
    size = numbers(head[2:])
    curves = [
        curve(f"{estimate.split()[1]}, {votes} votes", size, numbers(cells))
        for votes, estimate, *cells in lines
        if estimate.startswith(name)
    ]
    write(file, title, ("rows", f"{name}, truly 0"), curves, log=True)


def thresholds(file: str, title: str, name: str, rows: list[list[str]]) -> None:
    """Draw F1 of thresholds, deterministic or not (Singh and Khim, figures 3 and 4)."""
    places, *columns = ([*column] for column in zip(*rows[1:], strict=True))
    base, *more = (numbers(column) for column in columns[:3])
    names = ("deterministic", "stochastic", "their Algorithm 1")
    x, all_f1 = numbers(places), (base, *(base + one for one in more))
    curves = [curve(*one) for one in zip(names, [x] * 3, all_f1, strict=True)]
    write(file, title, (name, "F1 on the test rows, mean of the splits"), curves, log=True)


#: File, what draws it, title, what an axis says, and the page and part with its numbers.
FIGURES = (
    ("fan_3a.svg", selections, "Figure 3: calibration error", "sum of scores over labels, less 1, %",
     "vad_simulation", "calibration_bias"),
    ("fan_3b.svg", selections, "Figure 3: ECE", "ECE", "vad_simulation", "ece"),
    ("fan_3c.svg", selections, "Figure 3: MCE", "MCE", "vad_simulation", "mce"),
    ("mimori_1a.svg", estimators, "Figure 1 (a): calibration loss", "CL", "raters", "simulated"),
    ("mimori_1b.svg", estimators, "Figure 1 (b): dispersion loss", "DL", "raters", "simulated"),
    ("singh_3.svg", thresholds, "Figure 3: k = 4", "negatives for one fraud", "f1", "few"),
    ("singh_4.svg", thresholds, "Figure 4: 57 : 1", "neighbours", "f1", "many"),
)  # fmt: skip
