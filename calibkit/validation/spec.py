"""What to look at: the column options of a validation, and the columns they mean."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.hetcal.features import find_features
from calibkit.rows.columns import SCALES
from calibkit.rows.patterns import match_columns, natural_key

#: The columns that are looked at without being named, where the inputs have them.
SCORE, LABEL, UNCERTAINTY = "score", "label", "uncertainty"
PROBS, COUNTS, FEATURES, MEMBERS = "prob_*", "count_*", "feature_*", "score_*"


@dataclass(frozen=True, kw_only=True)
class ValidateSpec:
    """What to look at: the column options of the other commands.

    None stands for the default name (or pattern), which need not be there; a name that is given
    must be.
    """

    scores: tuple[str, ...] = ()
    scale: str = "probability"
    label: str | None = None
    positive: str | None = None
    unlabelled: str = "error"
    uncertainty: str | None = None
    weight: str | None = None
    groups: str | None = None
    time: str | None = None
    by: str | None = None
    members: tuple[str, ...] = ()
    probs: tuple[str, ...] = ()
    counts: str | None = None
    features: tuple[str, ...] = ()
    on_missing: str = "error"

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise UsageError(
                f"--scale {self.scale!r} is not known; use one of {', '.join(SCALES)}."
            )
        for option, value in (("--on-missing", self.on_missing), ("--unlabelled", self.unlabelled)):
            if value not in ("error", "drop"):
                raise UsageError(f"{option} {value!r} is not known; use one of error, drop.")


def roles_of(source: Source, spec: ValidateSpec) -> dict[str, list[str]]:
    """Return the columns of each role that are looked at.

    Raises
    ------
    UsageError
        A column that was named and is not there, or nothing to look at.
    """
    found: dict[str, list[str]] = {}
    for role, option, named, default in (
        ("score", "--score", spec.scores, SCORE),
        ("label", "--label", _one(spec.label), LABEL),
        ("uncertainty", "--uncertainty", _one(spec.uncertainty), UNCERTAINTY),
        ("weight", "--weight", _one(spec.weight), None),
        ("groups", "--groups", _one(spec.groups), None),
        ("time", "--time", _one(spec.time), None),
        ("by", "--by", _one(spec.by), None),
    ):
        source.require(named, option)
        there = default is not None and default in source.schema
        found[role] = list(named) or ([str(default)] if there else [])
    taken = {name for columns in found.values() for name in columns}
    for role, option, patterns, default in (
        ("member", "--members", spec.members, MEMBERS),
        ("probs", "--probs", spec.probs, PROBS),
        ("counts", "--counts", _one(spec.counts), COUNTS),
        ("feature", "--features", spec.features, FEATURES),
    ):
        wanted = patterns or [default for name in source.schema if fnmatchcase(name, default)][:1]
        if role == "feature":
            columns = find_features(source, wanted, {}) if wanted else []
        else:
            columns = [
                name for one in wanted for name in match_columns(source, one, option).columns
            ]
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


def _one(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)
