"""Table 2 of Mimori et al. in form: theirs on cells judged by technologists, ours on CIFAR-10H."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pages import printed, sections, table

Values = Mapping[str, float | int | None]

#: Their names of the maps, and ours.
MAPS = {"raw": "none", "ts": "temperature", "vs": "vector", "ms": "matrix"}

# Predictions, then a line for each map without and with alpha-calibration: accuracy, squared loss,
# epistemic loss (CE, DE), disagreement loss (CE), class disagreement loss (CE).
THEIRS = printed("mimori")

#: The metrics, as in the heads of tables.
METRICS = {
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
#: The columns of the paper's table: a metric, and those in brackets after it.
COLUMNS = {
    "Accuracy": (0,),
    "Squared loss": (1,),
    "Epistemic loss (CE, DE)": (2, 3, 4),
    "Disagreement loss (its CE)": (5, 6),
    "Class disagreement loss (its CE)": (7, 8),
}


def cell(values: tuple[float, ...], columns: tuple[int, ...]) -> str:
    """Return a metric with those that belong to it in brackets."""
    first, *more = (f"{values[column]:.4f}" for column in columns)
    return f"{first} ({', '.join(more)})" if more else first


def table_2(ours: Mapping[str, Callable[[str, bool], Values]]) -> dict[str, str]:
    """Return the tables; `ours` gives the metrics of each prediction by map, with alpha0 or not."""
    lines = [(name, alpha) for name in MAPS for alpha in (False, True)]
    found = dict(THEIRS)
    for name, values in ours.items():
        seen = [values(MAPS[map_name], alpha) for map_name, alpha in lines]
        found[name] = tuple(tuple(float(one[m] or 0.0) for m in METRICS) for one in seen)
    header = ["", *(f"paper: {name}" if name in THEIRS else name for name in found)]
    parts = []
    for title, columns in COLUMNS.items():
        rows = [
            [name + (" + α" if alpha else "")]
            + [cell(values[place], columns) for values in found.values()]
            for place, (name, alpha) in enumerate(lines)
        ]
        parts += [f"{title}:", table(header, rows)]
    return {"table_2": sections(*parts), "verdict": verdict(found)}


def verdict(found: Mapping[str, tuple[tuple[float, ...], ...]]) -> str:
    """Return what the paper reads in its table, and whether ours says the same."""
    claims = {
        "`+ α` lowers the disagreement loss": (5, [(k, k + 1) for k in range(0, 8, 2)]),
        "`+ α` lowers its calibration error": (6, [(k, k + 1) for k in range(0, 8, 2)]),
        "`+ α` lowers the class disagreement loss": (7, [(k, k + 1) for k in range(0, 8, 2)]),
        "`+ α` lowers its calibration error (classes)": (8, [(k, k + 1) for k in range(0, 8, 2)]),
        "ts, vs lower CE": (3, [(0, 2), (0, 4)]),
        "ts raises the disagreement loss": (5, [(2, 0)]),
    }
    rows = []
    for claim, (column, pairs) in claims.items():
        row = [claim]
        for theirs in (True, False):
            members = [values for name, values in found.items() if (name in THEIRS) == theirs]
            held = sum(v[b][column] < v[a][column] for v in members for a, b in pairs)
            row.append(f"{held} of {len(members) * len(pairs)}")
        rows.append(row)
    return table("|paper|ours", rows)
