"""What rows are asked for: fits, findings, grids; simulations; results judged.  A function a command.

`fit_alpha`, `fit_boundary`, `fit_calibrator`, `fit_hetcal`, `fit_vad`; `compare`: all boundaries;
`evaluate`, `report`, `validate`, `watch`, `bin`; `gate`, `diff`; `simulate_posterior` and its like.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from calibkit.api.functions import Asked, P, options_function, python_function, tell
from calibkit.models.kinds import doubts_of
from calibkit.options import simulate as kinds
from calibkit.options.alpha_cal import AlphaOptions
from calibkit.options.bin import BinOptions
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.hetcal import HetcalOptions
from calibkit.options.option import Options, names_of
from calibkit.options.vad import VadOptions
from calibkit.options.validate import ValidateOptions
from calibkit.options.watch import WatchOptions
from calibkit.registry.methods import run
from calibkit.words import in_python, python_words

if TYPE_CHECKING:
    import polars as pl

    from calibkit.evaluation.findings import Evaluated
    from calibkit.files.frames import Names
    from calibkit.files.sources import Source
    from calibkit.gates.figures import Outcome, Result
    from calibkit.maps.model import CalibratorModel
    from calibkit.measures.result import Metrics
    from calibkit.methods.boundary.result.model import BoundaryModel
    from calibkit.methods.hetcal.model import HetcalModel
    from calibkit.methods.raters.model import AlphaModel
    from calibkit.methods.vad.model import VadModel
    from calibkit.methods.watch.watch import Watched
    from calibkit.validation.findings import Report


def _model(command: str, source: Source, options: Options) -> Any:
    """Return the model that the fit of a command makes of rows."""
    fitted = run(command).fit(options, source)
    tell((*fitted.warnings, *doubts_of(fitted.model)), options)
    return fitted.model


@python_function(AlphaOptions)
def fit_alpha(source: Source, options: AlphaOptions) -> AlphaModel:
    """See `AlphaOptions`.

    Returns AlphaModel: What ``calibkit alpha-cal`` writes for these rows and options, byte for byte.

    >>> votes = ck.simulate_raters(1_000, raters=3, seed=1)
    >>> model = ck.fit_alpha(votes)
    >>> model.apply(votes.head(2), keep="prob_0").columns[:3]
    ['prob_0', 'alpha0', 'disagreement']
    """
    return _model("alpha-cal", source, options)


@python_function(BoundaryOptions)
def fit_boundary(source: Source, options: BoundaryOptions) -> BoundaryModel:
    """See `BoundaryOptions`.

    The rows have a score, a label 0/1 and, for several levels, an uncertainty (larger = less
    certain); or they are a grid of their counts, as `calibkit.bin` makes it.  The objective is exactly
    one of ``precision``, ``recall``, ``fpr``, ``capacity``, ``maximize`` and ``minimize``.  A float
    stands for its shortest decimal: 0.9 is nine tenths, and the bound is compared in whole numbers.

    Returns BoundaryModel: The model that ``calibkit boundary`` writes for the same rows and options,
    byte for byte.  An `InfeasibleError` says that no boundary selects a row and meets the bound, or
    that nothing can be certified.

    >>> rows = ck.simulate_posterior(5_000, seed=1)
    >>> model = ck.fit_boundary(rows, precision=0.8, method="exact", uncertainty_bins=2)
    >>> model.fit.in_sample.precision >= 0.8, len(model.score_thresholds)
    (True, 2)
    """
    return _model("boundary", source, options)


@python_function(BoundaryOptions)
def compare(source: Source, options: BoundaryOptions) -> pl.DataFrame:
    """Fit a boundary by every method that takes the objective, on the same rows.

    The rows and the options are those of `fit_boundary`; with the method ``auto`` its choice has a
    row of its own.

    Returns polars.DataFrame: One row a method, those that meet the bound first: what it selects,
    precision and recall on these rows, cross-validated and on the rows of ``test``, and a note.

    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> table = ck.compare(rows, precision=0.6, uncertainty_bins=2, score_bins=20, folds=0)
    >>> bool((table["precision"].drop_nulls() >= 0.6).all())
    True
    """
    from calibkit.methods.boundary.compare import compare

    compared = compare(options, source)
    tell(compared.inputs.warnings, options)
    return compared.frame


@python_function(CalibrateOptions)
def fit_calibrator(source: Source, options: CalibrateOptions) -> CalibratorModel:
    """See `CalibrateOptions`.

    The rows have a score and a label 0/1, or class probabilities (`probs`) with a label or votes.

    Returns CalibratorModel: What ``calibkit calibrate`` writes for these rows and options, byte for
    byte.

    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> model = ck.fit_calibrator(rows, method="isotonic")
    >>> model.fit.log_loss < model.fit.log_loss_before
    True
    """
    return _model("calibrate", source, options)


@python_function(HetcalOptions)
def fit_hetcal(source: Source, options: HetcalOptions) -> HetcalModel:
    """See `HetcalOptions`.

    Returns HetcalModel: What ``calibkit hetcal`` writes for these rows and options, byte for byte.

    >>> rows = ck.simulate_partitions(2_000, seed=1)
    >>> model = ck.fit_hetcal(rows, max_depth=1, min_leaf=100, shrinkage=0.0)
    >>> model.tree[0].feature, len(model.maps)
    ('feature_pattern', 2)
    """
    return _model("hetcal", source, options)


@python_function(VadOptions)
def fit_vad(source: Source, options: VadOptions) -> VadModel:
    """See `VadOptions`.

    The rows are of the distribution that the model will be applied to, with the scores of at least
    two replicate predictors.

    Returns VadModel: What ``calibkit vad`` writes for these rows and options, byte for byte.

    >>> rows = ck.simulate_selection(2_000, train_rows=500, seed=1)
    >>> model = ck.fit_vad(rows)
    >>> 0 < model.lambda_ < 1
    True
    """
    return _model("vad", source, options)


@python_function(EvaluateOptions)
def evaluate(source: Source, options: EvaluateOptions) -> Metrics:
    """See `EvaluateOptions`.

    Returns Metrics: The content of metrics.json: ``metrics[score][slice][metric]``, ``intervals``,
    ``differences``; ``to_json()`` are the bytes that ``calibkit evaluate`` writes.

    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> found = ck.evaluate(rows, scores=["score"], metrics=["auc", "log_loss"])
    >>> round(found.metrics["score"]["all"]["auc"], 2)
    0.83
    """
    return _evaluated(source, options).metrics


@python_function(EvaluateOptions)
def report(source: Source, options: EvaluateOptions) -> str:
    """Judge scores by labels, and return the findings as an HTML page for people.

    Figures with their intervals, pictures and the story of the boundary, in one file that needs no
    other; more pictures with the extra ``plot``.

    Returns str: The page that ``calibkit evaluate --report`` writes.

    >>> page = ck.report(ck.simulate_posterior(500, seed=1), metrics=["auc"])
    >>> page.startswith("<!doctype html>")
    True
    """
    from calibkit.reports.evaluated import page_of

    return page_of(options, source, _evaluated(source, options, curves=True)).decode()


def _evaluated(source: Source, options: EvaluateOptions, *, curves: bool = False) -> Evaluated:
    from calibkit.evaluation.evaluate import evaluate

    found = evaluate(options, source, curves=curves)
    tell(found.warnings, options)
    return found


@python_function(ValidateOptions)
def validate(source: Source, options: ValidateOptions) -> Report:
    """Look at rows as the other functions would, and report all that is wrong or odd with them.

    Returns Report: ``ok`` (no errors), ``findings`` (``level``, ``check``, ``message``, ``column``,
    ``rows``, ``first_rows``) and ``columns``, see docs/validate.md.

    >>> report = ck.validate({"score": [0.2, 1.5, None], "label": [0, 1, 1]})
    >>> report.ok, [(one.check, one.column, one.first_rows) for one in report.findings]
    (False, [('missing', 'score', [3]), ('range', 'score', [2])])
    """
    from msgspec.structs import replace

    from calibkit.validation.run import validate

    found, names = validate(options, source), names_of(ValidateOptions)
    found.findings = [
        replace(one, message=python_words(one.message, names)) for one in found.findings
    ]
    return found


@python_function(WatchOptions)
def watch(source: Source, options: WatchOptions) -> Watched:
    """See `WatchOptions`.

    What was counted is read from the file of the state, if it is there, and written to it.

    Returns Watched: ``alarm``, ``tests``, ``period`` and ``advice``, see docs/watch.md; ``to_json()``
    are the bytes that ``calibkit watch`` writes.

    >>> import tempfile
    >>> model = ck.fit_boundary(ck.simulate_posterior(2_000, seed=1), recall=0.5, method="st")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tonight = ck.simulate_posterior(2_000, seed=2)
    ...     found = ck.watch(tonight, model=model, state=f"{folder}/watch.state", recall=0.4)
    >>> found.alarm, found.period, [test.name for test in found.tests]
    (False, 1, ['recall'])
    """
    from calibkit.files.sinks import alone_with, write_bytes
    from calibkit.methods.watch.watch import watch

    with alone_with(options.state):
        found = watch(options, source)
        tell(found.warnings, options)
        write_bytes(found.state.to_json(), options.state)
    return found


@python_function(BinOptions)
def bin(source: Source, options: BinOptions) -> pl.DataFrame:
    """See `BinOptions`.

    The rows have a score, a label 0/1 and perhaps an uncertainty.

    Returns polars.DataFrame: One row a cell: its limits, ``count``, ``positives``, ``positivity``,
    ``mean_score``; with ``add_level`` the rows themselves, with a column ``level``.

    >>> grid = ck.bin(ck.simulate_posterior(1_000, seed=1), uncertainty_bins=2, score_bins=5)
    >>> grid.height, int(grid["count"].sum())
    (10, 1000)
    """
    if options.add_level:
        import polars as pl

        from calibkit.apply.levels import with_levels
        from calibkit.runtime.memory import memory_budget

        plan, placed = with_levels(options, source)
        said = list(placed.warnings)
        rows = pl.concat(plan.frames(memory_budget(None), options.workers, said.append))
        tell(said, options)
        return rows
    binned = run("bin").fit(options, source)
    tell(binned.warnings, options)
    return binned.frame


@in_python()
def gate(result: Result, fail_if: Names) -> list[Outcome]:
    """Judge a result: return an outcome for every place where an expression was tried.

    Parameters
    ----------
    result
        Metrics, a model, what `diff` returned, or the file of one.
    fail_if
        Expressions such as ``"auc<0.75"`` or ``"country:*/precision<0.6"``, see docs/gate.md.

    Returns
    -------
    list of Outcome
        ``failed``, ``expression`` and ``text`` of each; a number that is not defined fails.

    Raises
    ------
    UsageError
        An expression that cannot be read, or that finds nothing.

    Examples
    --------
    >>> import calibkit as ck
    >>> metrics = ck.evaluate(ck.simulate_posterior(1_000, seed=1), metrics=["auc"])
    >>> [outcome.failed for outcome in ck.gate(metrics, "auc<0.6")]
    [False]
    """
    from calibkit.files.frames import names
    from calibkit.gates.figures import check, content_of, parse_all

    return check(content_of(result), parse_all(names(fail_if)))


@in_python()
def diff(first: Result, second: Result) -> dict[str, Any]:
    """Lay two results of one kind side by side: ``{"a": …, "b": …, "delta": …}`` of every number.

    Parameters
    ----------
    first, second
        Metrics or models, before and after; see `gate`.

    Raises
    ------
    UsageError
        Results of different kinds.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(1_000, seed=1)
    >>> metrics = ck.evaluate(rows, metrics=["auc"])
    >>> ck.diff(metrics, metrics)["score"]["all"]["auc"]["delta"]
    0.0
    """
    from calibkit.gates.figures import content_of, side_by_side

    return side_by_side(content_of(first), content_of(second))


def _simulated(options: Callable[P, Asked], name: str) -> Callable[P, pl.DataFrame]:
    """Return the function that simulates the kind of a class of options."""

    def made(own: Any) -> pl.DataFrame:
        from calibkit.simulate import simulate

        return simulate(own)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"""See `options`.

The same seed gives the same rows, and the first rows of a longer simulation are those of a shorter
one (for one version of numpy, which may change how it draws from a distribution).

Returns DataFrame: The rows; `id` counts from 1.

>>> ck.{name}(2, keep="id")["id"].to_list()
[1, 2]"""
    return options_function(options)(made)


simulate_posterior = _simulated(kinds.PosteriorOptions, "simulate_posterior")
simulate_selection = _simulated(kinds.SelectionOptions, "simulate_selection")
simulate_raters = _simulated(kinds.RatersOptions, "simulate_raters")
simulate_partitions = _simulated(kinds.PartitionsOptions, "simulate_partitions")
