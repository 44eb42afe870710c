"""The figures that Arora and others print in tables 1 to 4, 6 and 7, as they print them.

Recall is in per cent of the positives of their test rows: mean and standard deviation of five runs.
"""

from __future__ import annotations

Printed = tuple[float, float]

#: By data set and binning, then algorithm.  Criteo: tau 3, precision 90 %; Avazu: tau 5, 70 %.
TABLE_1: dict[tuple[str, str], dict[str, Printed]] = {
    ("Criteo", "equi-span"): {
        "ST": (2.3, 0.5),
        "HR": (1.2, 1.1),
        "GMT": (2.4, 0.5),
        "MIST": (2.5, 0.2),
        "VW-DPMT": (2.7, 0.3),
    },
    ("Criteo", "equi-weight"): {
        "ST": (2.2, 0.2),
        "HR": (0.8, 0.7),
        "GMT": (2.6, 0.3),
        "MIST": (2.7, 0.3),
        "EW-DPMT": (2.7, 0.3),
        "VW-DPMT": (2.7, 0.3),
    },
    ("Avazu", "equi-span"): {
        "ST": (1.92, 0.6),
        "HR": (0.4, 0.4),
        "GMT": (2.6, 0.3),
        "MIST": (2.7, 0.3),
        "VW-DPMT": (2.4, 0.3),
    },
    ("Avazu", "equi-weight"): {
        "ST": (1.92, 0.6),
        "HR": (0.4, 0.4),
        "GMT": (2.6, 0.3),
        "MIST": (2.7, 0.3),
        "EW-DPMT": (2.7, 0.3),
        "VW-DPMT": (2.4, 0.3),
    },
}

#: Criteo: by algorithm, then bound on precision.
TABLE_2: dict[str, dict[str, Printed]] = {
    "ST": {"0.6": (46.6, 0.9), "0.7": (27.7, 1.1), "0.8": (12.0, 0.8), "0.9": (2.2, 0.2)},
    "GMT": {"0.6": (46.8, 0.9), "0.7": (28.0, 1.0), "0.8": (12.5, 0.8), "0.9": (2.6, 0.3)},
    "MIST": {"0.6": (46.7, 0.9), "0.7": (27.8, 1.0), "0.8": (12.4, 0.6), "0.9": (2.7, 0.3)},
    "EW-DPMT": {"0.6": (46.9, 0.8), "0.7": (28.2, 1.0), "0.8": (12.6, 0.8), "0.9": (2.7, 0.3)},
}

#: p-values of a paired t-test, one-sided, against ST.  (That of GMT on Criteo's equi-span bins cannot
#: be read in the copy at hand.)
TABLE_3: dict[tuple[str, str], dict[str, float]] = {
    ("Criteo", "equi-span"): {"MIST": 0.05, "VW-DPMT": 0.03},
    ("Criteo", "equi-weight"): {"GMT": 0.08, "MIST": 0.03, "EW-DPMT": 0.03, "VW-DPMT": 0.03},
    ("Avazu", "equi-span"): {"GMT": 0.03, "MIST": 0.02, "VW-DPMT": 0.02},
    ("Avazu", "equi-weight"): {"GMT": 0.03, "MIST": 0.02, "EW-DPMT": 0.02, "VW-DPMT": 0.02},
}

#: Seconds of EW-DPMT and of MIST, by uncertainty bins and score bins.
TABLE_4: dict[tuple[int, int], tuple[int, int]] = {
    (3, 100): (8, 92),
    (3, 500): (98, 99),
    (3, 1000): (530, 80),
    (7, 100): (42, 154),
    (7, 500): (830, 146),
    (7, 1000): (3434, 99),
    (11, 100): (106, 233),
    (11, 500): (1976, 162),
    (11, 1000): (11335, 99),
}

TABLE_6: dict[str, dict[str, Printed]] = {
    "Criteo": {"ST": (2.2, 0.2), "EW-DPMT": (2.6, 0.3), "EW-DPMT-MONO": (2.6, 0.6)},
    "Avazu": {"ST": (1.9, 0.6), "EW-DPMT": (2.6, 0.3), "EW-DPMT-MONO": (1.9, 0.6)},
}

#: Score first (500 score bins of 3), then uncertainty first (3 levels of 500).
TABLE_7: dict[str, dict[str, tuple[Printed, Printed]]] = {
    "Criteo": {
        "ST": ((2.2, 0.2), (2.2, 0.2)),
        "MIST": ((2.6, 0.2), (2.6, 0.3)),
        "GMT": ((2.6, 0.4), (2.7, 0.3)),
        "EW-DPMT": ((2.7, 0.2), (2.7, 0.3)),
    },
    "Avazu": {
        "ST": ((1.9, 0.6), (1.9, 0.6)),
        "MIST": ((2.9, 0.2), (2.6, 0.3)),
        "GMT": ((2.9, 0.2), (2.7, 0.3)),
        "EW-DPMT": ((2.9, 0.2), (2.7, 0.3)),
    },
}
