"""``calibkit vad``: take the bias of selection off scores, by replicates and without labels."""

from __future__ import annotations

from calibkit.options.vad import VadOptions
from calibkit.registry.methods import vad

from .fitting import fit_command

HELP = """\
Of rows selected for their high scores more have an error that raises the score than one that lowers
it. Replicates of the model (other seeds, bootstrap refits) tell how large such errors are; labels are
not needed, and the rows may be distributed otherwise than the training rows.

Examples:
  calibkit vad unlabelled.parquet -o vad.json
  calibkit vad unlabelled.parquet --members 'p_*' --replicates bootstrap --by country -o vad.json
  calibkit vad unlabelled.csv --calibrator cal.json --train-input like_training.csv -o vad.json
"""


register = fit_command(HELP, VadOptions, vad)
