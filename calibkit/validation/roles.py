"""The columns that a validation looks at."""

from __future__ import annotations

from fnmatch import fnmatchcase

from calibkit.columns.patterns import find_features, match_columns, natural_key
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.options.shared import Names
from calibkit.options.validate import ValidateOptions

#: The columns that are looked at without being named, where the inputs have them.
SCORE, LABEL, UNCERTAINTY = "score", "label", "uncertainty"
PROBS, COUNTS, FEATURES, MEMBERS = "prob_*", "count_*", "feature_*", "score_*"


def roles_of(options: ValidateOptions, source: Source) -> dict[str, list[str]]:
    """Return the columns of each role that are looked at.

    Raises
    ------
    UsageError
        A column that was named and is not there, or nothing to look at.
    """
    found: dict[str, list[str]] = {}
    for role, flag, named, default in (
        ("score", "--score", _named(options.score), SCORE),
        ("label", "--label", _named(options.label), LABEL),
        ("uncertainty", "--uncertainty", _named(options.uncertainty), UNCERTAINTY),
        ("weight", "--weight", _named(options.weight), None),
        ("groups", "--groups", _named(options.groups), None),
        ("time", "--time", _named(options.time), None),
        ("by", "--by", _named(options.by), None),
    ):
        source.require(named, flag)
        there = default is not None and default in source.schema
        found[role] = list(named) or ([str(default)] if there else [])
    taken = {name for columns in found.values() for name in columns}
    for role, flag, patterns, default in (
        ("member", "--members", _named(options.members), MEMBERS),
        ("probs", "--probs", _named(options.probs), PROBS),
        ("counts", "--counts", _named(options.counts), COUNTS),
        ("feature", "--features", _named(options.features), FEATURES),
    ):
        wanted = patterns or [default for name in source.schema if fnmatchcase(name, default)][:1]
        if role == "feature":
            columns = find_features(source, wanted, {}) if wanted else []
        else:
            columns = [name for one in wanted for name in match_columns(source, one, flag).columns]
        found[role] = [name for name in dict.fromkeys(columns) if patterns or name not in taken]
    if not any(found[role] for role in ("score", "label", "uncertainty", "member", "probs", "counts",
                                        "feature", "weight")):  # fmt: skip
        known = ", ".join(repr(name) for name in sorted(source.schema, key=natural_key)[:20])
        raise UsageError(
            f"{source.parts[0].path}: no column to look at: none is named and none has a default "
            f"name such as 'score' or 'label'; the columns are {known}",
            file=source.parts[0].path,
        )
    return {role: columns for role, columns in found.items() if columns}


def _named(names: Names | None) -> tuple[str, ...]:
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)
