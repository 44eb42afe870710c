"""Small good inputs for every command, and the command lines that read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tests.conftest import every_role, make

ROWS = 60


@dataclass(frozen=True)
class Case:
    """A command line whose one word ``FILE`` is the input to damage.

    Attributes
    ----------
    name
        What the table of results calls it.
    file
        The good input, a name in the corpus folder.
    words
        The command line; ``OUT`` is where the result goes, other files are named as they stand.
    output
        The suffix of the result, or "" where it goes to standard output.
    """

    name: str
    file: str
    words: tuple[str, ...]
    output: str = ".json"

    @property
    def command(self) -> str:
        """The subcommand."""
        return self.words[0]


#: Fits whose models are inputs too: name of the model, file of rows, options.
FITS = {
    "boundary": ("boundary", "rows", "--precision", "0.5", "--method", "exact"),
    "logistic": ("boundary", "rows", "--precision", "0.5", "--method", "logistic"),
    "random": ("boundary", "rows", "--precision", "0.5", "--method", "stochastic"),
    "segments": (
        *("boundary", "rows", "--precision", "0.4", "--method", "exact", "--by", "g"),
        *("--min-group-positives", "5"),
    ),
    "beta": ("calibrate", "rows", "--method", "beta"),
    "isotonic": ("calibrate", "rows", "--method", "isotonic"),
    "venn": ("calibrate", "rows", "--method", "venn-abers"),
    "classes": (
        *("calibrate", "rows", "--probs", "prob_*", "--counts", "count_*"),
        *("--method", "vector", "--regularization", "0.1"),
    ),
    "vad": ("vad", "rows", "--members", "score_*"),
    "tree": ("hetcal", "rows", "--features", "x,g", "--max-depth", "1", "--min-leaf", "10"),
    "alpha": ("alpha-cal", "rows", "--features", "x"),
}


#: Fits of shards, whose states are inputs of ``merge``.
STATES = {
    "bin": ("--uncertainty-bins", "2", "--score-bins", "5"),
    "boundary": ("--precision", "0.5", "--method", "exact"),
    "calibrate": (),
    "evaluate": ("--no-intervals",),
    "vad": ("--members", "score_*"),
}

#: Fits whose states are the rows.
OF_ROWS = ("classes", "tree", "alpha")


def build(folder: Path) -> list[Case]:
    """Write the good inputs into a folder; return the cases."""
    frame = every_role(ROWS, 7).with_columns(pl.col("score", "uncertainty", "x").round(3))
    for suffix, write in (
        ("csv", frame.write_csv),
        ("parquet", frame.write_parquet),
        ("ndjson", frame.write_ndjson),
        ("arrow", frame.write_ipc),
    ):
        write(folder / f"rows.{suffix}")
    good = str(folder / "rows.parquet")
    for name, (command, _, *options) in FITS.items():
        make(folder / f"{name}.json", command, good, *options)
    parts = [folder / "beta.json", f"act={folder / 'boundary.json'}"]
    make(folder / "bundle.json", "bundle", *parts)
    for command, options in STATES.items():
        make(folder / f"{command}.state", command, good, *options, "--partial")
    for name in OF_ROWS:
        command, _, *options = FITS[name]
        make(folder / f"{name}.state", command, good, *options, "--partial")
    make(folder / "metrics.json", "evaluate", good, "--no-intervals")
    cases = []
    for suffix in ("csv", "parquet", "ndjson", "arrow"):
        file = f"rows.{suffix}"
        for command, _, *options in (*FITS.values(), ("boundary", "", "--capacity", "9")):
            cases.append(
                Case(f"{command} {suffix}", file, (command, "FILE", *options, "-o", "OUT"))
            )
        bins = ("bin", "FILE", "--uncertainty-bins", "2", "--score-bins", "5", "-o", "OUT")
        cases.append(Case(f"bin {suffix}", file, bins, ".csv"))
        for more in (("--by", "g"), ("--score", "score_1", "--score", "score_2", "--top", "0.2")):
            words = ("evaluate", "FILE", "--no-intervals", *more, "-o", "OUT")
            cases.append(Case(f"evaluate {suffix}", file, words))
        votes = ("evaluate", "FILE", "--probs", "prob_*", "--counts", "count_*", "--no-intervals")
        cases.append(Case(f"evaluate {suffix}", file, (*votes, "-o", "OUT")))
        drift = ("drift", str(folder / "boundary.json"), "FILE", "--label", "label", "-o", "OUT")
        cases.append(Case(f"drift, rows {suffix}", file, drift))
        for name in (*FITS, "bundle"):
            key = ("--key", "id") if name == "random" else ()
            words = ("apply", str(folder / f"{name}.json"), "FILE", *key, "-o", "OUT")
            cases.append(Case(f"apply, rows {suffix}", file, words, ".csv"))
    for name in (*FITS, "bundle"):
        key = ("--key", "id") if name == "random" else ()
        apply = ("apply", "FILE", good, *key, "--keep", "id", "-o", "OUT")
        cases.append(Case("apply, model", f"{name}.json", apply, ".csv"))
        cases.append(Case("show", f"{name}.json", ("show", "FILE"), ""))
        for code in ("sql", "python", "polars"):
            words = ("export", "FILE", "--to", code, *key, "-o", "OUT")
            cases.append(Case("export", f"{name}.json", words, ".py" if code != "sql" else ".sql"))
        cases.append(
            Case("diff", f"{name}.json", ("diff", "FILE", str(folder / f"{name}.json")), "")
        )
    for command in STATES:
        suffix = ".csv" if command == "bin" else ".json"
        words = ("merge", "FILE", "-o", "OUT")
        cases.append(Case("merge", f"{command}.state", words, suffix))
    cases += [Case("merge", f"{name}.state", ("merge", "FILE", "-o", "OUT")) for name in OF_ROWS]
    cases.append(Case("gate", "metrics.json", ("gate", "FILE", "--fail-if", "auc<0.1"), ""))
    return cases
