"""Write docs/evidence/bundle.md: block, review or pass card payments, with one deployable file.

    python docs/evidence/write_bundle.py [FOLDER]

FOLDER (default ``../shared/data`` beside the project) holds ``creditcard/``.  Where it is absent,
nothing is written.  Every number of the page comes from the commands that it shows.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shlex
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import polars as pl
from boundary_study import DATA, ROOT, row

from calibkit_cli.main import run

PAGE = ROOT / "docs" / "evidence" / "bundle.md"
ACTIONS = ("block", "review", "pass")
COMMANDS = """\
calibkit calibrate calib.parquet -o cal.json
calibkit apply cal.json calib.parquet -o calibrated.parquet
calibkit boundary calibrated.parquet --score calibrated --precision 0.95 --method st -o block.json
calibkit boundary calibrated.parquet --score calibrated --capacity 0.03 --method st -o review.json
calibkit bundle cal.json block=block.json review=review.json -o service.json
calibkit apply service.json test.parquet -o decided.parquet
calibkit drift service.json test.parquet --label label -o drift.json
"""


def main() -> None:
    """Fit, bundle, apply, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    folder = parser.parse_args().folder.resolve() / "creditcard"
    if not folder.is_dir():
        raise SystemExit(f"{folder} is not there: nothing written")
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        for name in ("calib.parquet", "test.parquet"):
            Path(name).symlink_to(folder / name)
        for line in COMMANDS.splitlines():
            with contextlib.redirect_stderr(io.StringIO()) as said:
                code = run([*shlex.split(line)[1:], "--quiet"])
            if code:
                raise SystemExit(f"{line}: exit code {code}\n{said.getvalue()}")
        lines = page(pl.read_parquet("decided.parquet"), shown(["show", "service.json"]))
        lines += judged(json.loads(Path("drift.json").read_bytes()))
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def shown(words: list[str]) -> str:
    """Return what a command prints."""
    with (
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()) as out,
    ):
        if run(words):
            raise SystemExit(f"{words} failed")
    return out.getvalue()


def page(decided: pl.DataFrame, view: str) -> list[str]:
    """Return the page up to the figures of each action."""
    frauds, money = decided["label"].sum(), decided.filter(pl.col("label") == 1)["Amount"].sum()
    table = []
    for action in ACTIONS:
        own = decided.filter(pl.col("action") == action)
        caught = own.filter(pl.col("label") == 1)
        table.append(
            [
                action, f"{own.height:,}", f"{own.height / decided.height:.2%}",
                str(caught.height), f"{caught.height / max(own.height, 1):.4f}",
                f"{caught.height / frauds:.1%}", f"{caught['Amount'].sum() / money:.1%}",
                f"{own['calibrated'].mean():.4f}",
            ]
        )  # fmt: skip
    return [
        "# Block, review or pass",
        "",
        "<!-- Written by `make evidence-bundle`; edit docs/evidence/write_bundle.py instead. -->",
        "",
        *text(
            "Card payments (`creditcard`, a case-control sample with 1.5 % frauds): block what is "
            "fraud with a precision of 95 %, let people look at what else is among the most suspicious "
            "payments, 3 % at most, pass the rest. A calibrator and two boundaries are fitted on "
            "`calib` and go into one file, which is applied to `test`."
        ),
        "",
        "```sh",
        *COMMANDS.splitlines(),
        "```",
        "",
        "```",
        *view.rstrip().splitlines(),
        "```",
        "",
        f"What becomes of the {decided.height:,} payments of `test`, {frauds} of them frauds:",
        "",
        row(
            [
                "action", "payments", "share", "frauds", "share of frauds among them",
                "of all frauds", "of all money lost to fraud", "mean calibrated probability",
            ]
        ),
        row(["---"] * 8),
        *map(row, table),
        "",
    ]  # fmt: skip


def judged(found: dict[str, Any]) -> list[str]:
    """Return what drift says of each decision."""
    table = []
    for name in ("block", "review"):
        own, fit = found["metrics"][name]["all"], found["metrics"][name]["fit"]
        ends = found["intervals"][name]["all"]
        cells = [name]
        for metric in ("selected_share", "precision", "recall"):
            low, high = (ends[metric][end] for end in ("low", "high"))
            cells += [f"{own[metric]:.4f} [{low:.4f}, {high:.4f}]", f"{fit[metric]:.4f}"]
        table.append([*cells, f"{own['psi_score']:.4f}", f"{own['psi_score_expected']:.4f}"])
    return [
        *text(
            "What `drift.json` says of each decision by itself (a payment that is blocked would have "
            "been reviewed as well, so `review` counts it). Expected: the selected share of the fit, "
            "cross-validated precision and recall."
        ),
        "",
        row(
            [
                "decision", "selected", "expected", "precision", "expected", "recall", "expected",
                "PSI of the score", "by chance",
            ]
        ),
        row(["---"] * 9),
        *map(row, table),
    ]  # fmt: skip


def text(words: str) -> list[str]:
    """Return lines of a paragraph."""
    return textwrap.wrap(words, 99)


if __name__ == "__main__":
    main()
