"""Monitors of other libraries on the nights of watch.md: ``watch_peers.py [STREAMS]``.

Runs wherever one of them is installed, without calibkit: `make evidence-watch-peers` has an environment
for each.  What it finds of a cell goes into watch_peers.json at once, beside what is there of others; a
cell that is there of this version and as many streams or more is not done again.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from watch_streams import ALERTS, ALPHA, BOUND, FALLS, YEARS, fall, year

PAGE = Path(__file__).with_name("watch_peers.json")


def labels(hits: np.ndarray, seed: int) -> np.ndarray:
    """Return the labels of the alerts, a line a night, each night in random order."""
    rows = (np.arange(ALERTS) < hits[:, None]).astype(np.int64)
    return np.random.default_rng([22, seed]).permuted(rows, axis=1)


def mapie(rows: np.ndarray) -> np.ndarray:
    """Return the nights with an alarm of RiskMonitoring, of the risk of a false alert.

    `update` finds its bound anew for all rows so far by bisection, half a minute a year.  A bound lies
    above the threshold where the supermartingale that it inverts has passed its level: that is what is
    computed here, by its own formula on arrays (`mapie_itself` says the same).
    """
    from mapie.exchangeability_testing.bounds import GammaExponentialMixtureBound
    from scipy.special import gammainc, gammaln

    risk = 1.0 - rows.ravel()
    count = np.arange(1.0, risk.size + 1)
    means = np.cumsum(risk) / count
    spent = np.cumsum((risk - np.append(0.5, means[:-1])) ** 2)
    level = ALPHA / 2.0 / 2.0
    own = GammaExponentialMixtureBound(v_opt=1, c=1, alpha_opt=level)
    above = np.cumsum(risk) - (1.0 - BOUND) * count
    shape, x = spent + own.rho, above + spent + own.rho
    with np.errstate(divide="ignore", invalid="ignore"):
        log = own.leading_constant + gammaln(shape) + np.log(gammainc(shape, x))
        log += above + spent - shape * np.log(x)
    # The bound of a row holds from then on.
    passed = np.logical_or.accumulate((above > 0.0) & (log > np.log(1.0 / level)))
    return passed.reshape(rows.shape)[:, -1]


def mapie_itself(rows: np.ndarray) -> np.ndarray:
    """Return the same by its own `update`, night by night."""
    from mapie.exchangeability_testing import RiskMonitoring

    monitor = RiskMonitoring("accuracy", test_level=ALPHA, threshold=1.0 - BOUND, warn=False)
    found = []
    for night in rows:
        monitor.update(night, np.ones_like(night))  # its risk of accuracy is that of an error
        found.append(monitor.harmful_shift_detected)
    return np.array(found)


def probcal(rows: np.ndarray) -> np.ndarray:
    """Return the nights with an alarm of CalibrationMonitor: each alert is positive by .7, it says."""
    from probcal.monitor import CalibrationMonitor

    # The interval that it has beside the test, on 241 values by default, has no part in an alarm.
    monitor = CalibrationMonitor(
        alpha=ALPHA, components=("offset",), plug_in_window=10, delta_ci_grid=(-3.0, 3.0, 3)
    )
    claimed, alarms = np.full(ALERTS, BOUND), np.zeros(len(rows), bool)
    for place, night in enumerate(rows):
        if monitor.update(night, claimed).alarm:
            alarms[place:] = True  # it stays
            break
    return alarms


def glide(rows: np.ndarray) -> np.ndarray:
    """Return the nights with an alarm of AsymptoticClassicalRM, at the confidence of the others."""
    from glide.monitors import AsymptoticClassicalRM

    batches = np.repeat(np.arange(len(rows)), ALERTS)
    found = AsymptoticClassicalRM().detect(
        rows.ravel().astype(float),
        batches,
        higher_is_better=True,
        threshold=BOUND,
        confidence_level=1.0 - ALPHA,
    )
    return np.asarray(found.alarms)


Monitor = Callable[[np.ndarray], np.ndarray]
MONITORS: dict[str, tuple[str, Monitor]] = {
    "MAPIE RiskMonitoring": ("mapie", mapie),
    "probcal CalibrationMonitor": ("probcal", probcal),
    "glide AsymptoticClassicalRM": ("glide-py", glide),
}


def first(monitor: Monitor, hits: np.ndarray, seed: int) -> int | None:
    """Return the night of the first alarm, from 0."""
    alarms = np.flatnonzero(monitor(labels(hits, seed)))
    return int(alarms[0]) if alarms.size else None


def main() -> None:
    """Run the monitors that are there."""
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    warnings.simplefilter("ignore")
    for name, (package, monitor) in MONITORS.items():
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        if monitor is mapie:
            for seed in range(3):
                rows = labels(fall(3, 0.6, seed)[:9], seed)
                assert (mapie(rows) == mapie_itself(rows)).all()
        for precision in YEARS:
            if is_there(name, version, f"year {precision}", streams):
                continue
            nights = [first(monitor, year(precision, seed), seed) for seed in range(streams)]
            alarms = sum(night is not None for night in nights)
            keep(name, version, f"year {precision}", {"streams": streams, "alarms": alarms})
        for before, then in FALLS:
            if is_there(name, version, f"fall {before} {then}", streams):
                continue
            nights = [first(monitor, fall(before, then, seed), seed) for seed in range(streams)]
            early = sum(night is not None and night < before for night in nights)
            delays = [
                night - before + 1 if night is not None else np.inf
                for night in nights
                if night is None or night >= before
            ]
            # Nights of the time after the fall; null: not within it.
            ends = [
                np.quantile(delays, share, method="higher") if delays else np.inf
                for share in (0.5, 0.9)
            ]
            own = [int(end) if np.isfinite(end) else None for end in ends]
            keep(
                name,
                version,
                f"fall {before} {then}",
                {"streams": streams, "early": early, "median": own[0], "nine_tenths": own[1]},
            )


def is_there(name: str, version: str, cell: str, streams: int) -> bool:
    """Return whether a cell has been done."""
    known = json.loads(PAGE.read_bytes()) if PAGE.is_file() else {}
    own = known.get(name, {})
    done: bool = own.get("version") == version and own.get(cell, {}).get("streams", 0) >= streams
    return done


def keep(name: str, version: str, cell: str, found: dict[str, int | None]) -> None:
    """Write what was found of a cell."""
    print(name, cell, found, flush=True)
    known = json.loads(PAGE.read_bytes()) if PAGE.is_file() else {}
    own = known.setdefault(name, {"version": version})
    if own["version"] != version:
        own = known[name] = {"version": version}
    own[cell] = found
    PAGE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
