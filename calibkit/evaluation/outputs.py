"""Metrics as files for other tools: Prometheus text, CSV, Markdown, LaTeX, beside metrics.json.

All but LaTeX have one line a number, with its interval; numbers that are not defined are left out of
Prometheus text, which has no word for them, and empty elsewhere.  LaTeX has tables as papers print
them: a row a score or predictor, a column a metric.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable
from typing import Any

import polars as pl

from calibkit.errors import UsageError
from calibkit.evaluation.findings import ALL
from calibkit.files.formats import SEPARATORS, suffix_format
from calibkit.files.paths import is_stream
from calibkit.measures.result import Metrics, Number, alike

#: A metric's name in pieces: ``recall_at_precision:0.9``, ``class_squared_loss[3]``.
_PIECES = re.compile(r"(?P<name>[^:\[]*)(?::(?P<at>.*)|\[(?P<class>.*)\])?", re.DOTALL)
_MARKUP = re.compile(r"[\\`*|\[\]]")
#: What a spreadsheet takes for the beginning of a formula.
_FORMULA = r"^([=+\-@\t\r])"
#: Characters that LaTeX takes for commands, and those that Prometheus writes with a backslash.
_TEX = {
    **{ord(character): f"\\{character}" for character in "&%$#_{}"},
    ord("\\"): r"\textbackslash{}",
    ord("~"): r"\textasciitilde{}",
    ord("^"): r"\textasciicircum{}",
    ord("<"): r"\textless{}",
    ord(">"): r"\textgreater{}",
    ord("|"): r"\textbar{}",
}
#: An interval in small print.
_SPAN = "{{\\scriptsize[{}, {}]}}"
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")


def prometheus(metrics: Metrics) -> bytes:
    """Return the metrics in the text format of Prometheus, for its node exporter's folder of files.

    ``calibkit_auc{score="s",slice="all"} 0.83``; ``calibkit_auc_low`` and ``calibkit_auc_high`` are
    the interval, ``calibkit_auc_difference`` a difference of two scores.  What follows a metric's
    name becomes a label: ``recall_at_precision:0.9`` has ``at="0.9"``.
    """
    families: dict[str, list[str]] = {"calibkit_rows": [f"calibkit_rows {metrics.rows}"]}
    for line in metrics.lines():
        pieces = _PIECES.fullmatch(line.metric)
        assert pieces is not None  # the pattern takes any text
        labels = {"score": line.score, "slice": line.slice, "at": pieces["at"]}
        labels["class"] = pieces["class"]
        shown = ",".join(
            f'{name}="{text.translate(_ESCAPED)}"'
            for name, text in labels.items()
            if text is not None
        )
        stem = "calibkit_" + _NOT_IN_NAMES.sub("_", pieces["name"])
        stem += "_difference" if line.part else ""
        for end, value in zip(("", "_low", "_high"), line.numbers, strict=True):
            if value is not None:
                families.setdefault(stem + end, []).append(f"{stem}{end}{{{shown}}} {value!r}")
    text = "".join(
        "\n".join([f"# TYPE {family} gauge", *found]) + "\n" for family, found in families.items()
    )
    return text.encode()


def table(metrics: Metrics) -> bytes:
    """Return the metrics as CSV: score, slice, metric, value, low, high.

    A difference has the metric's name with ``.delta``; what is not defined is empty.  Names that a
    spreadsheet would compute have an apostrophe in front.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEADER)
    for line in metrics.lines():
        numbers = ("" if n is None else repr(n) for n in line.numbers)
        names = (re.sub(_FORMULA, r"'\1", text) for text in (line.score, line.slice, line.name))
        writer.writerow([*names, *numbers])
    return out.getvalue().encode()


def for_people(rows: pl.DataFrame, output: str) -> pl.DataFrame:
    """Return a table with names as it is written: in text files none is a formula."""
    if suffix_format(output) not in SEPARATORS:
        return rows
    return rows.with_columns(pl.col(pl.String).str.replace(_FORMULA, "'${1}"))


def markdown(metrics: Metrics) -> bytes:
    """Return the metrics as a Markdown table with six significant digits.

    Where classes have metrics of their own, which make it long, a table of the others by predictor
    comes first.
    """
    rows = [list(_HEADER), ["---", "---", "---", "---:", "---:", "---:"]]
    for line in metrics.lines():
        names = (_cell(text) for text in (line.score, line.slice, line.name))
        rows.append([*names, *map(_number, line.numbers)])
    tables = [*(_by_predictor(metrics, scores) for scores in alike(metrics)), rows]
    texts = ("".join(f"| {' | '.join(row)} |\n" for row in table) for table in tables if table)
    return "\n".join([f"{metrics.rows:,} rows.\n", *texts]).encode()


def _by_predictor(metrics: Metrics, scores: list[str]) -> list[list[str]]:
    """Return a row a metric of all rows, a column a predictor; nothing without metrics of classes.

    The predictors have the same metrics (see `alike`).
    """
    values = [metrics.metrics[score].get(ALL, {}) for score in scores]
    whole = [name for name in values[0] if not name.endswith("]")]
    if len(whole) == len(values[0]):
        return []
    head = [["metric", *map(_cell, scores)], ["---", *["---:"] * len(scores)]]
    return [*head, *([_cell(name), *(_number(own.get(name)) for own in values)] for name in whole)]


def _number(value: Number | None) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.6g}"


def latex(metrics: Metrics) -> bytes:
    """Return the metrics as LaTeX: a table of scores by metrics, one for those with other metrics.

    Numbers have four significant digits, with their interval below them in small print; a dash stands
    for what is not defined.  Slices follow all rows.  Metrics of single classes are left out.  The
    tables need the package booktabs.
    """
    return "\n".join(_tabular(metrics, scores) for scores in alike(metrics)).encode()


def _tabular(metrics: Metrics, scores: list[str]) -> str:
    slices = [(part, score) for score in scores for part in metrics.metrics[score]]
    found = [name for part, score in slices for name in metrics.metrics[score][part]]
    names = [name for name in dict.fromkeys(found) if not name.endswith("]")]
    blocks: dict[str, list[str]] = {}
    for part, score in slices:
        values = metrics.metrics[score][part]
        shown = [_tex_number(values.get(name)) for name in names]
        called = score if part == ALL else f"{score}, {part}"
        block = blocks.setdefault(part, [])
        block.append(f"{' & '.join([_tex(called), *shown])} \\\\")
        spans = [
            "" if own.low is None else _SPAN.format(_tex_number(own.low), _tex_number(own.high))
            for own in (metrics.interval(score, part, name) for name in names)
        ]
        if any(spans):
            block.append(f"{' & '.join(['', *spans])} \\\\")
    head = f"{' & '.join(['', *map(_tex, names)])} \\\\"
    lines = [f"\\begin{{tabular}}{{l{'r' * len(names)}}}", "\\toprule", head]
    for block in blocks.values():
        lines += ["\\midrule", *block]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def content(found: Any, output: str) -> bytes:
    """Return the content of an output file, in the format of its suffix; JSON to pipes and devices.

    `found`: a result that has `metrics`, all its numbers, and JSON of its own by `to_json`.

    Raises `UsageError` for a suffix that none of them has.
    """
    for suffix, write in WRITERS.items():
        if output.endswith(suffix):
            return write(found.metrics)
    if output.endswith(_JSON) or is_stream(output):
        return found.to_json()
    raise UsageError.of(output, f"metrics are written as {', '.join([_JSON, *WRITERS])}.")


_HEADER = ("score", "slice", "metric", "value", "low", "high")

_JSON = ".json"

WRITERS: dict[str, Callable[[Metrics], bytes]] = {
    ".prom": prometheus,
    ".csv": table,
    ".md": markdown,
    ".tex": latex,
}


def _tex(text: str) -> str:
    return " ".join(text.split()).translate(_TEX)


def _tex_number(value: Number) -> str:
    if value is None:
        return "--"
    text = str(value) if isinstance(value, int) else f"{float(f'{value:.4g}'):.6g}"
    mantissa, _, power = text.partition("e")
    shown = mantissa.replace("-", "$-$")
    return f"{shown}$\\cdot10^{{{int(power)}}}$" if power else shown


def _cell(text: str) -> str:
    """Return a name as Markdown shows it: neither markup nor HTML."""
    return html.escape(_MARKUP.sub(r"\\\g<0>", " ".join(text.splitlines())), quote=False)
