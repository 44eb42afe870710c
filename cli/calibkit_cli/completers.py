"""What a shell completes where an option takes a name."""

from __future__ import annotations


def metrics(incomplete: str) -> list[str]:
    """Complete the last of a list of metrics with commas."""
    from calibkit.report.html_glossary import MEANINGS

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in MEANINGS if name.startswith(last)]
