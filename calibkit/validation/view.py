"""A report on data as a person reads it: the columns, then what was found, worst first."""

from __future__ import annotations

from calibkit.models.page import Page
from calibkit.validation.findings import Finding, Report

#: Columns and findings that are shown; the file has them all.
MOST_COLUMNS, MOST_FINDINGS = 12, 40


def headline(report: Report) -> str:
    """Return in a few words what was found."""
    return _verdict(report).removesuffix(".")


def lines(report: Report) -> list[str]:
    """Return the verdict and the findings in lines."""
    return [_verdict(report), *_findings(report)]


def view(report: Report, page: Page) -> None:
    """Print the verdict, the columns and the findings."""
    page.say(_verdict(report))
    if report.columns:
        page.say("")
        some = report.columns[:MOST_COLUMNS]
        fields = ("role", "column", "dtype", "missing", "distinct", "low", "high")
        header = ("role", "column", "type", "missing", "distinct", "least", "largest")
        page.table(header, [[getattr(column, name) for name in fields] for column in some])
        if len(report.columns) > len(some):
            page.say(f"… {len(report.columns)} columns; -o FILE writes them all.")
    if report.findings:
        page.say("", *_findings(report))


def _findings(report: Report) -> list[str]:
    lines = [shown(one) for one in report.findings[:MOST_FINDINGS]]
    if len(report.findings) > MOST_FINDINGS:
        lines.append(f"… {len(report.findings)} findings; -o FILE writes them all.")
    return lines


def _verdict(report: Report) -> str:
    found = {"error": report.errors, "warning": report.warnings, "note": report.notes}
    counts = [f"{count} {word}{'s' if count > 1 else ''}" for word, count in found.items() if count]
    summed = ", ".join(counts) or "no problems found"
    files = f"{len(report.files)} file{'s' if len(report.files) > 1 else ''}"
    verdict = "usable" if not report.errors else "not usable as it is"
    rows = f"{report.rows:,} rows in " if report.rows else ""  # none were read from a broken file
    return f"{rows}{files}: {verdict}; {summed}."


def shown(finding: Finding) -> str:
    """Return a finding in a line."""
    place = "" if finding.column is None else f" column {finding.column!r}:"
    where = ""
    if finding.rows is not None:
        where = f" [{finding.rows:,} row{'s' if finding.rows > 1 else ''}"
        if finding.first_rows:
            more = ", …" if finding.rows > len(finding.first_rows) else ""
            where += f" of {finding.file}: {', '.join(map(str, finding.first_rows))}{more}"
        where += "]"
    return f"{finding.level} ({finding.check}):{place} {finding.message}{where}"
