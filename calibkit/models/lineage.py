"""Which model made a column: the hash that fits record and later runs compare.

`calibkit apply` writes into the footer of a Parquet file which model made each added column.  A fit
on such a column keeps the hash in its model (`made_by` of the column).  From then on columns, and
parts of a bundle, that another model made are refused.  CSV has no footer: there nothing is known,
and nothing refused, unless the user names the model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fnmatch import fnmatchcase

from msgspec.structs import replace

from calibkit.errors import DataError, ModelError
from calibkit.files.sources import Source
from calibkit.files.told import Told
from calibkit.models.model import Model, canonical_text, decode_object

#: The key in a Parquet file's footer: an object with the maker's hash of each column.
KEY = "calibkit.made_by"

#: What says where a model comes from or what it is called, not what it does.
_NOT_THE_RULE = ("fit", "provenance", "tags")


def model_hash(model: Model) -> str:
    """Return a hash of what a model does, as 16 hexadecimal digits.

    The first digits of the SHA-256 of its canonical JSON without `fit`, `provenance` and `tags`:
    the same for the same parameters, wherever and on whatever they were fitted.
    """
    content = {name: own for name, own in model.as_dict().items() if name not in _NOT_THE_RULE}
    return hashlib.sha256(canonical_text(content).encode()).hexdigest()[:16]


def footer(makers: Mapping[str, str]) -> dict[str, str]:
    """Return the entry of a Parquet file's footer that says which model made which column."""
    return {KEY: canonical_text(dict(makers))} if makers else {}


#: Who made the columns of a source: of each of its files the path, and the hash of each column.
Makers = list[tuple[str, dict[str, str]]]


def agreed(makers: Makers) -> dict[str, str]:
    """Return the hash of each column that all files name, and alike."""
    first, *others = (own.items() for _, own in makers)
    return dict(set(first).intersection(*others))


def makers_of(makers: Makers, wanted: str) -> dict[str, str]:
    """Return the hashes of a column, or of the columns that a pattern means, each with a file."""
    exact = any(wanted in own for _, own in makers)
    found: dict[str, str] = {}
    for path, own in makers:
        for column, maker in own.items():
            if column == wanted or (not exact and fnmatchcase(column, wanted)):
                found.setdefault(maker, path)
    return found


def read_makers(source: Source) -> Makers:
    """Return who made the columns of a source, as the footers of its Parquet files say."""
    files: Makers = []
    for part in source.split():
        path, text = part.file, part.metadata().get(KEY, "{}")
        try:
            content = decode_object(text.encode(), path)
        except ModelError as error:
            raise DataError.of(
                path,
                f"{KEY!r} in its footer, which says what model made which column, is damaged "
                f"({error.message}); write the file again",
            ) from None
        own = {name: str(maker) for name, maker in content.items() if name in source.schema}
        files.append((path, own))
    return files


def name_makers(model: Model, makers: Mapping[str, str], text: Told | None) -> None:
    """Write into a model which models made its columns, by their roles, and unusual text."""
    if model.provenance is not None and text is not None:
        model.provenance = replace(model.provenance, text=text.unusual)
    for role, maker in makers.items():
        if role in model.columns:
            model.columns[role] = replace(model.columns[role], made_by=maker)


def makers_in(
    source: Source,
    names: Mapping[str, str],
    said: Mapping[str, str] | None = None,
    by: str = "--calibrator",
) -> dict[str, str]:
    """Return which model made the column of a role, of those named, where that is known.

    Files that do not say who made a column do not count.  `said`: the hash for the column of a role
    that the user names, or what else is called `by`.  A column that different models made is a
    `DataError`.
    """
    makers, said, found = read_makers(source), said or {}, dict[str, str]()
    for role, name in names.items():
        known = {said[role]: by} if role in said else {}
        known |= makers_of(makers, name)
        if len(known) > 1:
            (first, before), (second, file) = list(known.items())[:2]
            raise DataError.of(
                file,
                f"column {name!r} was made by model {second}, not by model {first} as "
                f"{before} says; fit on rows that one model was applied to",
                column=name,
            )
        if known:
            found[role] = next(iter(known))
    return found


def check_makers(model: Model, elsewhere: Mapping[str, str], source: Source) -> None:
    """Refuse columns that another model made than those of the fit.

    `elsewhere`: the columns of roles that are read under another name than the model's.  Files that do
    not say who made a column are taken as they are.
    """
    made = {role: column for role, column in model.columns.items() if column.made_by is not None}
    if not made:
        return
    makers = read_makers(source)
    for role, column in made.items():
        name = elsewhere.get(role, column.name)
        for maker, file in makers_of(makers, name).items():
            if maker != column.made_by:
                raise DataError.of(
                    file,
                    f"column {name!r} was made by model {maker}, but the {model.kind} was "
                    f"fitted on {column.name!r} of model {column.made_by}; apply that model to these "
                    "rows, or fit again on theirs",
                    column=name,
                )
