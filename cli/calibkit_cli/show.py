"""``calibkit show``: what a model does and what to expect of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from calibkit.errors import UsageError, nearest

from . import options
from .console import Console, cell_text
from .options import option

if TYPE_CHECKING:
    from calibkit.boundary.model import BoundaryModel

HELP = """Show what a model does and what to expect of it on new data.

Examples:

  calibkit show boundary.json

  calibkit show boundary.json --json | jq .score_thresholds

  calibkit show --schema boundary
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("show", help=HELP)(show)


def show(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="A model file; - for standard input."),
    ] = None,
    schema: Annotated[
        str | None,
        option("--schema", metavar="KIND", help="The JSON schema of a kind of model instead."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Parse, load, print."""
    console = Console(as_json=as_json)
    if (model is None) == (schema is None):
        raise UsageError("give a MODEL file or --schema KIND, one of the two.")
    from calibkit.models import KINDS, kind_class, load

    if schema is not None:
        if schema not in KINDS:
            raise UsageError(
                f"there is no kind {schema!r}{nearest(schema, KINDS)}; "
                f"kinds: {', '.join(sorted(KINDS))}."
            )
        console.json(kind_class(schema).schema())
        return
    assert model is not None
    loaded = load(model)
    if as_json:
        console.content(loaded.to_json())
        return
    from calibkit.boundary.model import BoundaryModel

    assert isinstance(loaded, BoundaryModel)
    boundary_view(loaded, console)


def boundary_lines(model: BoundaryModel) -> list[str]:
    """Return the summary of a boundary: first what to expect of it on new data."""
    fit = model.fit
    ((bounded, bound),) = model.objective.subject_to.items()
    seen, goal = fit.in_sample, model.objective.maximize
    judged = fit.test or fit.cross_validated
    if judged is None:
        expect = (
            f"Expect less than on the fitting rows (precision {_rate(seen.precision)}, recall "
            f"{_rate(seen.recall)}): not judged on other rows."
        )
    else:
        how = "on the test rows" if fit.test else f"cross-validated, {_folds(model)} folds"
        expect = (
            f"Expect precision {_rate(judged.precision)} and recall {_rate(judged.recall)} on new "
            f"data ({how}); {bounded} >= {bound:g} holds on the fitting rows only, without "
            "guarantee on others."
        )
    proof = "the optimum, proven" if fit.optimal_in_sample else f"at most {fit.upper_bound:.6g}"
    lines = [
        expect,
        f"{model.method}: {goal} {_rate(seen.objective_value)} on the fitting rows ({proof}), "
        f"{_amount(seen.selected)} of {_amount(fit.rows)} rows selected, "
        f"{_amount(seen.true_positives)} of {_amount(fit.positives)} positives among them.",
    ]
    single = fit.score_only
    if model.method != "st" and single is not None:
        lines.append(
            f"A single threshold reaches {goal} {_rate(single.objective_value)} there."
            if single.selected
            else "A single threshold selects nothing there."
        )
    if not fit.bound_met:
        lines.append(f"The bound is missed on the fitting rows: precision {_rate(seen.precision)}.")
    return lines


def boundary_view(model: BoundaryModel, console: Console) -> None:
    """Print a boundary: what to expect, its levels and thresholds, its figures."""
    import msgspec

    console.say(*boundary_lines(model))
    reference = model.fit.reference
    rows = reference.rows_per_level if reference else [None] * model.levels
    console.say("")
    if model.take is not msgspec.UNSET:
        bins = len(model.score_edges) + 1 if model.score_edges is not msgspec.UNSET else 0
        console.table(
            ["uncertainty bin", "rows", f"highest of {bins} score bins taken"],
            [[level, rows[level], take] for level, take in enumerate(model.take)],
        )
    else:
        console.table(["level", *_level_header(model), "rows", "positive if"], _levels(model, rows))
    console.say("")
    console.table(
        ["", "rows", "selected", "precision", "recall", "false positive rate"], _figures(model)
    )


def _level_header(model: BoundaryModel) -> list[str]:
    if model.levels == 1:
        return []
    return [f"{model.columns['uncertainty'].name} from", "to below"]


def _levels(model: BoundaryModel, rows: list[int | float] | list[None]) -> list[list[object]]:
    score = model.columns["score"].name
    edges: list[object] = [None, *model.uncertainty_edges, None]
    table = []
    for level, threshold in enumerate(model.score_thresholds):
        rule = f"{score} >= {threshold}"
        if threshold is None:
            rule = "never"
        elif threshold == "-inf":
            rule = "always"
        limits = edges[level : level + 2] if model.levels > 1 else []
        table.append([level, *limits, rows[level], rule])
    return table


def _figures(model: BoundaryModel) -> list[list[object]]:
    fit = model.fit
    table: list[list[object]] = [
        ["fitting rows", fit.rows, *_rates(fit.in_sample)],
    ]
    if fit.score_only:
        table.append(["single threshold", fit.rows, *_rates(fit.score_only)])
    if fit.cross_validated:
        checked = fit.cross_validated
        name = f"cross-validated ({checked.folds} folds)"
        table.append([name, fit.rows, None, checked.precision, checked.recall, None])
    if fit.test:
        table.append(["test rows", fit.test.rows, *_rates(fit.test)])
    return table


def _rates(figures: object) -> list[object]:
    names = ("selected", "precision", "recall", "false_positive_rate")
    return [getattr(figures, name) for name in names]


def _rate(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _amount(value: float) -> str:
    return cell_text(value)


def _folds(model: BoundaryModel) -> int:
    return model.fit.cross_validated.folds if model.fit.cross_validated else 0
