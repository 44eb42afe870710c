"""Store a model and a state of each kind with what they give: ``python -m tests.compat.write``.

They go into a folder named by the version of calibkit.  Folders of earlier versions stay as they
are: later versions must go on reading them (test_stored.py).  Random rows are stored as well, so
that nothing depends on a generator.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import polars as pl

from calibkit import __version__
from tests.compat.fits import rows as rows_of
from tests.conftest import make

HERE = Path(__file__).parent
VOTES = "--probs prob_* --counts count_*"

#: Name of the model: command and options.
MODELS = {
    "boundary_exact": "boundary --precision 0.6 --method exact --folds 2",
    "boundary_logistic": "boundary --recall 0.5 --method logistic --folds 0",
    "boundary_stochastic": "boundary --fpr 0.2 --method stochastic --folds 0",
    "boundary_score_first": (
        "boundary --precision 0.6 --method vw-dpmt --score-bins 8 --order score-uncertainty "
        "--folds 0"
    ),
    "boundary_segments": (
        "boundary --precision 0.6 --method exact --by segment --min-group-positives 5 --folds 0"
    ),
    "boundary_certified": (
        "boundary --precision 0.6 --confidence 0.6 --method st --folds 0 --tag team=trust"
    ),
    "boundary_tie": "boundary --precision 0.6 --method stochastic --randomise tie --folds 0",
    "boundary_value": "boundary --recall 0.5 --method exact --value uncertainty --folds 0",
    "boundary_cost": "boundary --minimize cost:1,5 --method st --scale raw --folds 0",
    **{
        f"calibrator_{name}": f"calibrate --method {name}"
        for name in (
            *("beta", "platt", "isotonic", "histogram", "scaling-binning", "venn-abers"),
            "temperature",
        )
    },
    "boundary_percent": (
        "boundary --score percent --scale percent --precision 0.6 --time day --date-format %d.%m.%Y "
        "--method logistic"
    ),
    "calibrator_percent": "calibrate --score percent --scale percent",
    "calibrator_segments": "calibrate --method beta --by segment --min-rows 20",
    "calibrator_prior-shift": "calibrate --method prior-shift --negatives-kept 0.1",
    "calibrator_vector": f"calibrate {VOTES} --method vector --regularization 0.1",
    "calibrator_matrix": f"calibrate {VOTES} --method matrix --regularization 0.1",
    "calibrator_classes_temperature": f"calibrate {VOTES} --method temperature",
    "vad": "vad --members score_?",
    "vad_bootstrap": "vad --members score_? --replicates bootstrap",
    "vad_segments": "vad --members score_? --by segment --min-rows 20",
    "hetcal_tree": "hetcal --features x,segment --max-depth 2 --min-leaf 20",
    "hetcal_forest": (
        "hetcal --features x,segment --partition forest --trees 2 --max-depth 2 --min-leaf 20"
    ),
    "hetcal_boosted": "hetcal --features x,segment --partition boosted --trees 2 --min-leaf 20",
    "hetcal_isotonic": (
        "hetcal --features x,segment --map isotonic --criterion auc --max-depth 2 "
        "--min-leaf 20 --precalibrate none"
    ),
    "alpha_constant": f"alpha-cal {VOTES}",
    "alpha": f"alpha-cal {VOTES} --features x --map temperature",
    "alpha_isotonic": f"alpha-cal {VOTES} --disagreement-map isotonic",
}

#: Name of the state: command and options.
STATES = {
    "bin": "bin --uncertainty-bins 2 --score-bins 4",
    "boundary": "boundary --precision 0.6 --method exact",
    "calibrate": "calibrate --method isotonic",
    "evaluate": "evaluate --no-intervals",
    "vad": "vad --members score_?",
    "hetcal": "hetcal --features x,segment --max-depth 2 --min-leaf 20",
    "hetcal_percent": (
        "hetcal --features x,segment --max-depth 2 --min-leaf 20 --score percent --scale percent "
        "--time day --date-format %d.%m.%Y"
    ),
    "alpha-cal": f"alpha-cal {VOTES} --features x",
    "calibrate_probs": f"calibrate {VOTES} --method temperature",
    "evaluate_probs": f"evaluate {VOTES} --no-intervals",
}


def key(name: str) -> list[str]:
    """Return what `apply` needs besides the model."""
    return ["--key", "id"] if name in ("boundary_stochastic", "boundary_tie") else []


def suffix_of(name: str) -> str:
    """Return the suffix of what ``merge`` makes of a state."""
    return ".csv" if name == "bin" else ".json"


def main() -> int:
    """Write the folder of this version."""
    folder = HERE / __version__
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rows = folder / "rows.csv"
    rows_of(150).with_columns(pl.col("x").fill_null(0.0)).write_csv(rows)
    for name, line in MODELS.items():
        command, *options = line.split()
        model = make(folder / f"{name}.json", command, rows, *options)
        make(folder / f"{name}.csv", "apply", model, rows, *key(name), "--keep id")
    parts = [folder / "calibrator_beta.json", f"act={folder / 'boundary_exact.json'}"]
    bundle = make(folder / "bundle.json", "bundle", *parts)
    make(folder / "bundle.csv", "apply", bundle, rows, "--keep id")
    for name, line in STATES.items():
        command, *options = line.split()
        state = make(folder / f"{name}.state", command, rows, *options, "--partial")
        make(folder / f"{name}_merged{suffix_of(name)}", "merge", state)
    return 0


if __name__ == "__main__":
    sys.exit(main())
