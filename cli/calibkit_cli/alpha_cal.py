"""``calibkit alpha-cal``: fit distributions over class probabilities to the votes of raters."""

from __future__ import annotations

from calibkit.options.alpha_cal import AlphaOptions
from calibkit.registry.methods import alpha

from .fitting import fit_command

HELP = """\
The class probabilities stay as they are (unless --map calibrates them). What is fitted is alpha0, how
much raters agree on each row, and with it the probability that two raters differ. Votes are the number
of raters who chose each class; only rows with at least two votes carry information.

Examples:
  calibkit alpha-cal votes.parquet -o alpha.json
  calibkit alpha-cal votes.parquet --features sorted-probs --map temperature -o alpha.json
  calibkit alpha-cal votes.csv --probs 'p_*' --counts 'n_*' --features 'embedding_*' -o alpha.json
"""


register = fit_command(HELP, AlphaOptions, alpha)
