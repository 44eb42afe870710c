"""Table 2 of Mimori et al. in form: theirs on cells judged by technologists, ours on CIFAR-10H."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pages import sections, table

Values = Mapping[str, float | int | None]

#: Their names of the maps, and ours.
MAPS = {"raw": "none", "ts": "temperature", "vs": "vector", "ms": "matrix"}

# Predictions, then a line for each map without and with alpha-calibration: accuracy, squared loss,
# epistemic loss (CE, DE), disagreement loss (CE), class disagreement loss (CE).
# fmt: off
THEIRS = {
    "Raw": (
        (.9006, .2515, .0435, .0600, .1998, .1477, .0628, .0153, .0168),
        (.9006, .2515, .0435, .0600, .1998, .1454, .0406, .0151, .0098),
        (.9006, .2509, .0430, .0575, .1992, .1482, .0663, .0153, .0176),
        (.9006, .2509, .0430, .0575, .1992, .1445, .0261, .0151, .0085),
        (.9010, .2515, .0435, .0579, .2005, .1489, .0696, .0154, .0177),
        (.9010, .2515, .0435, .0579, .2005, .1449, .0318, .0151, .0086),
        (.8992, .2532, .0453, .0656, .2024, .1484, .0663, .0154, .0178),
        (.8992, .2532, .0453, .0656, .2024, .1453, .0355, .0151, .0093),
    ),
    "MCDO": (
        (.8983, .2517, .0437, .0586, .2008, .1470, .0562, .0152, .0141),
        (.8996, .2518, .0438, .0610, .2002, .1450, .0346, .0151, .0091),
        (.8986, .2515, .0435, .0579, .2004, .1479, .0635, .0153, .0154),
        (.8991, .2515, .0435, .0586, .2003, .1442, .0186, .0151, .0080),
        (.8997, .2521, .0441, .0589, .2016, .1487, .0664, .0153, .0156),
        (.9009, .2519, .0439, .0575, .2016, .1446, .0244, .0151, .0078),
        (.8970, .2536, .0456, .0678, .2025, .1479, .0612, .0153, .0151),
        (.8986, .2534, .0454, .0667, .2024, .1449, .0279, .0151, .0080),
    ),
    "TTA": (
        (.9013, .2458, .0378, .0642, .1837, .1441, .0488, .0150, .0130),
        (.9025, .2456, .0376, .0684, .1816, .1428, .0334, .0149, .0094),
        (.9012, .2459, .0379, .0646, .1837, .1448, .0553, .0150, .0143),
        (.9011, .2458, .0378, .0632, .1839, .1422, .0197, .0149, .0083),
        (.9031, .2471, .0392, .0671, .1862, .1458, .0598, .0151, .0149),
        (.9025, .2470, .0391, .0657, .1864, .1428, .0247, .0149, .0082),
        (.9001, .2489, .0410, .0756, .1878, .1456, .0561, .0151, .0153),
        (.8991, .2487, .0407, .0750, .1873, .1431, .0268, .0150, .0087),
    ),
}
# fmt: on

METRICS = (
    "accuracy",
    "squared_loss",
    "epistemic_loss",
    "class_calibration_error",
    "dispersion_error",
    "disagreement_loss",
    "disagreement_calibration_error",
    "class_disagreement_loss",
    "class_disagreement_calibration_error",
)
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
