"""``calibkit vad``: take the bias of selection off scores, by replicates and without labels."""

from __future__ import annotations

from calibkit.options.vad import VadOptions
from calibkit.registry.methods import vad

from .fitting import fit_command

HELP = """\
Rows selected for their high scores are over-scored: errors that raise a score are selected more often.
Replicates of the model (other seeds, bootstrap refits) show how large such errors are. No labels are
needed, and the rows may be distributed differently from the training rows.

Examples:
  calibkit vad unlabelled.parquet -o vad.json
  calibkit vad unlabelled.parquet --members 'p_*' --replicates bootstrap --by country -o vad.json
  calibkit vad unlabelled.csv --calibrator cal.json --train-input like_training.csv -o vad.json
"""


register = fit_command(HELP, VadOptions, vad)
