"""``calibkit plot dispersion``: where the epistemic loss comes from."""

from __future__ import annotations

import typer

from calibkit_cli import evaluate_options as own
from calibkit_cli import options, typed

from . import common

HELP = """Draw the calibration-dispersion map of class probabilities that several raters judge.

Each pattern of `--probs` is a point; calibration and dispersion loss add up to the epistemic loss
(Mimori et al., figure 2a).

Examples:

  calibkit plot dispersion votes.parquet --probs 'prob_*' --counts 'count_*' -o map.svg

  calibkit plot dispersion votes.parquet --probs 'a_*,b_*' --counts 'count_*' -o map.png
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of picture."""
    kinds.command("dispersion", help=HELP)(dispersion)


def dispersion(
    inputs: options.Inputs,
    probs: options.Probs = None,
    counts: options.Counts = None,
    scale: options.Scale = "probability",
    weight: options.Weight = None,
    groups: options.Groups = None,
    ensemble: own.Ensemble = False,
    alpha0: own.Alpha0 = None,
    confidence: own.Confidence = 0.95,
    no_intervals: own.NoIntervals = False,
    on_missing: options.OnMissing = "error",
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    output_format: common.OutputFormat = None,
    data: common.Data = None,
    size: common.Size = None,
    width: common.Width = None,
    height: common.Height = None,
    title: common.Title = None,
    dark: common.Dark = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> None:
    """Parse, compute, draw."""
    delivery = common.Delivery.of(
        output,
        output_format,
        data,
        common.look_of(size, width, height, title, dark),
        as_json=as_json,
        quiet=quiet,
        verbose=verbose,
        warnings=warnings,
    )
    from calibkit.files.sources import open_source
    from calibkit.metrics.rows import columns_used
    from calibkit.metrics.spec import EvaluateSpec
    from calibkit.raters.spec import read_votes
    from calibkit.report import plots
    from calibkit.rows.columns import ColumnOptions

    votes = read_votes(counts or "count_*", ensemble, typed.listed(alpha0), None, None, None)
    spec = EvaluateSpec(
        scores=("score",),
        columns=ColumnOptions(scale=scale, weight=weight, on_missing=on_missing),
        probs=tuple(common.names(probs) or ["prob_*"]),
        votes=votes,
        groups=groups,
        intervals=not no_intervals,
        confidence=confidence,
    )
    source = open_source(inputs, input_format=input_format, dtype=dtype)
    delivery.plot(
        source,
        lambda rows: plots.points("dispersion", rows, spec),
        columns_used(source, spec),
        dry_run=dry_run,
    )
