"""Store what 0.1 made of each fit, and what it said of rows: ``python -m tests.compat.frozen``.

Written once, by 0.1.0 itself, before there was one fit of each method.  test_frozen.py holds that
later versions read these models with the same output and fit the same ones again.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any

from tests.compat.fits import ELSEWHERE, FITS_OF_0_1, MODELS, ROWS, rows, words
from tests.conftest import ROOT
from tests.fuzz.harness import run_quietly

FOLDER = Path(__file__).parent / "frozen"
OUTPUTS = "outputs.json"


def path_of(name: str, folder: Path = FOLDER) -> Path:
    """Return where the model of a fit lies."""
    return folder / f"{name.replace(',', '').replace(':', ' ').replace(' ', '_')}.json"


def fitted(name: str, folder: Path) -> Path:
    """Fit on the stored rows; return where the model went."""
    out = path_of(name, folder)
    if name in ELSEWHERE:
        source, fit = ELSEWHERE[name].split(maxsplit=1)
        line = words(fit, FOLDER, ROOT / source)
    else:
        line = words(FITS_OF_0_1[name], FOLDER, FOLDER / ROWS)
    code, said = run_quietly([*line, "-q", "-o", str(out)])
    assert code == 0, said
    return out


def applied(name: str, out: Path) -> str:
    """Apply a stored model to the rows of its fit; return a hash of what came out."""
    source = ROOT / ELSEWHERE[name].split()[0] if name in ELSEWHERE else FOLDER / ROWS
    line = ["apply", str(path_of(name)), str(source), "--keep", "label", "--on-missing", "null"]
    model = json.loads(path_of(name).read_bytes())
    keys = ["--key", "id"] if "tie_probability" in model else []
    code, said = run_quietly([*line, *keys, "-q", "-o", str(out)])
    assert code == 0, said
    return hashlib.sha256(out.read_bytes()).hexdigest()


def models() -> list[str]:
    """Return the fits that write a model."""
    every = {**FITS_OF_0_1, **ELSEWHERE}
    return [name for name, fit in every.items() if not {"evaluate", "drift"} & set(fit.split())]


def close(one: Any, other: Any, rel: float = 1e-9, small: float = 1e-12) -> bool:
    """Return whether two values are equal, their numbers but for a relative error or a small one."""
    if isinstance(one, dict) and isinstance(other, dict):
        same = one.keys() == other.keys()
        return same and all(close(one[name], other[name], rel, small) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(close(*pair, rel, small) for pair in pairs)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=rel, abs_tol=small)
    return bool(one == other)


def main(scratch: str) -> int:
    """Write the folder; a folder for scratch is given."""
    FOLDER.mkdir(exist_ok=True)
    rows().write_csv(FOLDER / ROWS)
    first = list(MODELS.values())  # the others read them
    for name in [*first, *(name for name in (*FITS_OF_0_1, *ELSEWHERE) if name not in first)]:
        fitted(name, FOLDER)
    hashes = {name: applied(name, Path(scratch) / "out.csv") for name in models()}
    (FOLDER / OUTPUTS).write_text(json.dumps(hashes, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
