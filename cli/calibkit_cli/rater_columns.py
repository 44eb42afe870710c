"""The columns of class probabilities and votes, for a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibkit.files.sources import Source
    from calibkit.raters.rows import RaterOptions


def rater_columns(source: Source, columns: RaterOptions) -> dict[str, str]:
    """Return each role and its column; a pattern has one role for each class."""
    from calibkit.rows.patterns import match_columns

    patterns = [(f"--probs {pattern}", pattern, "--probs") for pattern in columns.probs]
    if columns.counts is not None:
        patterns.append((f"--counts {columns.counts}", columns.counts, "--counts"))
    found: dict[str, str] = {}
    for shown, pattern, name in patterns:
        matched = match_columns(source, pattern, name)
        keys = matched.keys or ("lists",)
        found |= {
            f"{shown} [{key}]": column for key, column in zip(keys, matched.columns, strict=True)
        }
    if columns.counts is None and columns.label is not None:
        source.require([columns.label], "--label")
        found["label"] = columns.label
    return found | {f"feature {place}": name for place, name in enumerate(columns.others)}
