"""Fill in bundle.md: block, review or pass card payments, with one deployable file.

Every number of the page comes from the commands that it shows.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
from pages import FOLDER, arguments, fill, table

from calibkit_cli.main import run

ACTIONS = ("block", "review", "pass")


def main() -> None:
    """Run the commands of the page, and fill it in."""
    folder = arguments(__doc__, needs=["creditcard"]).folder.resolve() / "creditcard"
    page = (FOLDER / "bundle.md").read_text(encoding="utf-8")
    commands = page.partition("```sh\n")[2].partition("```")[0]
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        for name in ("calib.parquet", "test.parquet"):
            Path(name).symlink_to(folder / name)
        for line in commands.splitlines():
            shown([*shlex.split(line)[1:], "--quiet"])
        decided = pl.read_parquet("decided.parquet")
        view = shown(["show", "service.json"]).rstrip()
        drift = json.loads(Path("drift.json").read_bytes())
    frauds = int(decided["label"].sum())
    fill(
        "bundle",
        view=f"```\n{view}\n```",
        judged=f"What becomes of the {decided.height:,} payments of `test`, {frauds} of them frauds:",
        actions=actions(decided, frauds),
        decisions=decisions(drift),
    )


def shown(words: list[str]) -> str:
    """Return what a command prints."""
    with (
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()) as out,
    ):
        if run(words):
            raise SystemExit(f"{words} failed")
    return out.getvalue()


def actions(decided: pl.DataFrame, frauds: int) -> str:
    """Return what becomes of the payments."""
    money = decided.filter(pl.col("label") == 1)["Amount"].sum()
    rows = []
    for action in ACTIONS:
        own = decided.filter(pl.col("action") == action)
        caught = own.filter(pl.col("label") == 1)
        rows.append(
            [
                action, f"{own.height:,}", f"{own.height / decided.height:.2%}",
                str(caught.height), f"{caught.height / max(own.height, 1):.4f}",
                f"{caught.height / frauds:.1%}", f"{caught['Amount'].sum() / money:.1%}",
                f"{own['calibrated'].mean():.4f}",
            ]
        )  # fmt: skip
    return table(
        "action|payments|share|frauds|share of frauds among them|of all frauds|"
        "of all money lost to fraud|mean calibrated probability",
        rows,
    )


def decisions(found: dict[str, Any]) -> str:
    """Return what drift says of each decision."""
    rows = []
    for name in ("block", "review"):
        own, fit = found["metrics"][name]["all"], found["metrics"][name]["fit"]
        ends = found["intervals"][name]["all"]
        cells = [name]
        for metric in ("selected_share", "precision", "recall"):
            low, high = (ends[metric][end] for end in ("low", "high"))
            cells += [f"{own[metric]:.4f} [{low:.4f}, {high:.4f}]", f"{fit[metric]:.4f}"]
        rows.append([*cells, f"{own['psi_score']:.4f}", f"{own['psi_score_expected']:.4f}"])
    return table(
        "decision|selected|expected|precision|expected|recall|expected|PSI of the score|by chance",
        rows,
    )


if __name__ == "__main__":
    main()
