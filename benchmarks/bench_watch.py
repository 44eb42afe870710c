"""A year of nights of 100,000 labelled rows through `calibkit watch`: time a night, size of the state.

All that can be watched is: three promises, calibration and drift.  The first and the last nights are
whole processes, start-up included; the state of those between are copies of the first.  A night takes
longer the more there are before it, so the last ones are the slowest.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import harness
from harness import Run, calibkit, made
from pages import fill, table

#: Nights at either end that are run as whole processes.
ROUNDS = 10

NIGHTS, ROWS, FILES = 365, 100_000, 7
#: What a night and its state may take at most.
SECONDS, BYTES = 2.0, 100_000

PROMISES = {"precision": 0.5, "recall": 0.2, "fpr": 0.5}


def results(options: argparse.Namespace) -> dict[str, Any]:
    """Return the runs of the first and the last nights, and the size of the state."""
    python, folder = options.python, harness.FOLDER
    drawn = calibkit(python, "simulate", "posterior", "--rows", str(ROWS), "-q")
    files = [
        made(f"night-{seed}.parquet", [*drawn, "--seed", str(seed), "-o"]) for seed in range(FILES)
    ]
    model, state = str(folder / "watched.json"), folder / "year.state"
    fit = ("boundary", files[0], "--precision", "0.5", "--method", "exact", "--folds", "0", "-q")
    harness.run(calibkit(python, *fit, "-o", model))
    state.unlink(missing_ok=True)
    words = [word for name, bound in PROMISES.items() for word in (f"--{name}", str(bound))]

    def night(number: int) -> Run:
        more = ("--state", str(state), "--calibration", "--drift", "-q")
        line = ("watch", model, files[number % FILES], *words, *more)
        return harness.run(calibkit(python, *line, "-o", str(folder / "watch.json")))

    some = options.rounds
    first = [night(number) for number in range(some)]
    counted = json.loads(state.read_bytes())
    nights = counted["nights"]
    nights += [[number + 1, *nights[number % some][1:]] for number in range(some, NIGHTS - some)]
    state.write_text(json.dumps(counted, separators=(",", ":")) + "\n", encoding="utf-8")
    last = [night(number) for number in range(NIGHTS - some, NIGHTS)]
    size = state.stat().st_size
    lines = []
    for name, runs in (("first", first), ("last", last)):
        clock, processors = (sorted(map(of, runs)) for of in (harness.wall_of, harness.cpu_of))
        middle = len(runs) // 2
        cells = (clock[middle], clock[-1], processors[middle], processors[-1])
        lines.append([f"{name} {some} of {NIGHTS}", *(f"{seconds:.2f} s" for seconds in cells)])
        print(*lines[-1], flush=True)
    print(f"state: {size:,} bytes", flush=True)
    busy = min(run.wall for run in last) > 2.0 * max(run.cpu for run in last)
    told = " The machine did other work meanwhile: go by the processor time." if busy else ""
    header = "nights|time of a night (median)|longest|processor time (median)|most"
    fill(
        "watch",
        some=True,
        time=f"{table(header, lines, 'lr')}\n\nThe state after them: {size:,} bytes.{told}",
    )
    # A machine that does other work says nothing of the time.
    slow = min(run.wall for run in last) > SECONDS and min(run.cpu for run in last) > SECONDS
    if slow or size > BYTES:
        sys.exit(f"more than {SECONDS:g} s a night, or {BYTES:,} bytes")
    return {"first": first, "last": last, "state": size}
