"""An export from its options to its text, checked on rows where there are some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from calibkit.errors import CheckError
from calibkit.exports.check import Agreement, check_export, with_classes
from calibkit.exports.request import Request
from calibkit.exports.writing import export_model
from calibkit.files.sources import Source
from calibkit.models.model import Model
from calibkit.options.export import ExportOptions


@dataclass(frozen=True)
class Exported:
    """The text of an export, and what a check found."""

    text: str
    agreement: Agreement | None


def export(options: ExportOptions, source: Source | None) -> Exported:
    """Return a model as code.

    Parameters
    ----------
    options
        Which model, in which language.
    source
        Rows on which the export and the model have to agree; None: it is not checked.

    Raises
    ------
    UsageError
        Options that do not fit the model, or names that the language cannot hold.
    CheckError
        Where the export differs from the model.
    ResourceError
        Where DuckDB is needed and not installed.
    """
    model, found = cast(Model, options.model), None
    request = Request(columns=options.elsewhere, key=options.key, seed=options.seed)
    dialect = (options.dialect or "duckdb") if options.to == "sql" else options.to
    if source is not None:
        request = with_classes(model, request, source)
        found = check_export(model, dialect, request, source)
    text = export_model(model, dialect, request, options.table or "scores")
    if found is not None and not found.holds:
        assert source is not None
        raise CheckError(
            f"{source.parts[0].path}: the export is not the model: {found}. Nothing was written."
        )
    return Exported(text, found)
