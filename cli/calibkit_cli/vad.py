"""``calibkit vad``: take the bias of selection off scores, by replicates and without labels."""

from __future__ import annotations

import typer

from calibkit.options.vad import VadOptions
from calibkit.registry.methods import vad

from .fitting import add_fit

HELP = """\
Of rows selected for their high scores more have an error that raises the score than one that lowers
it. Replicates of the model (other seeds, bootstrap refits) tell how large such errors are; labels are
not needed, and the rows may be distributed otherwise than the training rows.

Examples:

  calibkit vad unlabelled.parquet -o vad.json

  calibkit vad unlabelled.parquet --members 'p_*' --replicates bootstrap --by country -o vad.json

  calibkit vad unlabelled.csv --calibrator cal.json --train-input like_training.csv -o vad.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_fit(app, "vad", HELP, VadOptions, vad.run)
