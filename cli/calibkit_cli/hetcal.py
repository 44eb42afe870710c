"""``calibkit hetcal``: partition the rows by their features, and calibrate each part."""

from __future__ import annotations

from calibkit.options.hetcal import HetcalOptions
from calibkit.registry.methods import hetcal

from .fitting import fit_command

HELP = """\
Scores can be right on average and wrong in parts of the data. A tree finds such parts; calibrating each
of them makes the scores of different parts comparable, so that rows rank better too.

Missing values and values not seen before go to a side of their own at each split.

Examples:
  calibkit hetcal calib.parquet --train train.parquet --features 'age,job,feature_*' -o hetcal.json
  calibkit hetcal calib.csv --features 'x*' --max-depth 3 --min-leaf 500 -o hetcal.json
  calibkit hetcal calib.parquet --features 'x*' --partition auto -o hetcal.json
"""


register = fit_command(HELP, HetcalOptions, hetcal)
