"""Run a fit of every kind on small rows: ``python every_fit.py ROWS FOLDER``.

The interpreter takes long for what compiled kernels do at once, so all fits share one process.
"""

from __future__ import annotations

import sys

from calibkit_cli.main import run

VOTES = "--probs prob_* --counts count_*"
FITS = {
    "exact": "boundary --precision 0.6 --method exact --folds 0",
    "weights": "boundary --recall 0.3 --weight weight --method exact --folds 0",
    "logistic": "boundary --recall 0.5 --method logistic --folds 0",
    "stochastic": "boundary --fpr 0.2 --method stochastic --folds 0",
    "mist": "boundary --precision 0.6 --method mist --folds 0",
    "vw-dpmt": "boundary --precision 0.6 --method vw-dpmt --score-bins 6 --folds 0",
    "beta": "calibrate --method beta",
    "isotonic": "calibrate --method isotonic --weight weight",
    "venn": "calibrate --method venn-abers",
    "vector": f"calibrate {VOTES} --method vector --regularization 0.1",
    "vad": "vad --members score_?",
    "tree": "hetcal --features x,segment --max-depth 1 --min-leaf 10",
    "alpha": f"alpha-cal {VOTES}",
    "evaluate": "evaluate --no-intervals",
    "intervals": "evaluate --metrics auc,brier",
    "votes": f"evaluate {VOTES} --no-intervals",
}


def main(rows: str, folder: str) -> int:
    """Run all fits; return the first exit code that is not 0."""
    for name, line in FITS.items():
        command, *options = line.split()
        code = run([command, rows, *options, "-q", "-o", f"{folder}/{name}.json"])
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
