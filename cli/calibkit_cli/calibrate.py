"""``calibkit calibrate``: fit a map from scores to probabilities."""

from __future__ import annotations

from calibkit.options.calibrate import CalibrateOptions
from calibkit.registry.methods import calibrator

from .fitting import fit_command

HELP = """\
The default compares the methods on held-out rows, and fits the first that is as good as the best, up
to noise; scores that no map improves are left as they are. No map gives exactly 0 or 1 unless --clip 0
asks for it: one wrong label there would make the log loss infinite.

Examples:
  calibkit calibrate calib.parquet -o cal.json
  calibkit calibrate calib.parquet --groups user --optimize brier -o cal.json
  calibkit calibrate calib.csv --method platt --scale logit --score logit -o cal.json
  calibkit calibrate calib.parquet --method venn-abers --by country -o cal.json
  calibkit calibrate votes.parquet --probs 'prob_*' --counts 'count_*' --method vector -o cal.json
"""


register = fit_command(HELP, CalibrateOptions, calibrator)
