"""Options of ``boundary`` that do not go together: told before a row is read, and nothing written."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.cli.score_files import simulate, write
from tests.conftest import Invoke

PRECISE, SEVERAL = "--precision 0.5", "--precision 0.8 --uncertainty a,b"
TIE, BLOCK = f"{PRECISE} --method stochastic --randomise tie", f"{PRECISE} --method stochastic"
VALUE, BY = "--precision 0.8 --value amount", f"{PRECISE} --by shop"
#: Options, and what is said.
PAIRS = {
    "--fpr 0.1 --method gmt": "--precision, --recall; methods for --fpr: exact, st, logistic",
    "--maximize f1 --method mist": "--maximize: exact, st, logistic, stochastic",
    "--minimize cost:1,1 --method ew-dpmt": "vw-dpmt",
    "--capacity 5 --method ew-dpmt-mono": "--capacity: exact",
    f"{PRECISE} --randomise tie": "--method stochastic",
    f"{TIE} --uncertainty-bins 3": "--randomise block",
    f"{TIE} --score-bins 5": "--score-bins",
    f"{BLOCK} --score-bins 5 --order score-uncertainty": "uncertainty-score",
    "--precision 0.8 --value amont": "did you mean 'amount'",
    "--minimize cost:alarm,mis": "did you mean 'miss'",
    f"{VALUE} --method mist": "exact, st, logistic",
    "--fpr 0.1 --value amount --method stochastic": "methods that do",
    "--minimize cost:alarm,3 --method gmt": "--minimize: exact, st, logistic.",
    "--capacity 40 --value amount --by alarm --method logistic": "do: auto, exact, st. --bound each",
    "--fpr 0.1 --by alarm --max-gap recall:0.2 --score-bins 9": "--score-bins and --order out.",
    f"{VALUE} --score-bins 20": "--score-bins",
    f"{VALUE} --frontier f.csv": "--frontier",
    "--maximize f1 --value amount": "--value goes with --precision",
    f"{PRECISE} --prevalence x": "decimal number",
    f"{PRECISE} --prevalence 0": "above 0 and below 1",
    f"{PRECISE} --prevalence 1": "above 0 and below 1",
    f"{PRECISE} --prevalence 2": "from 0 to 1",
    "--minimize cost:alarm,miss --prevalence 0.5": "numbers",
    "--minimize cost:alarm": "cost:FP,FN",
    f"{PRECISE} --weight-kind sampling": "--weight",
    f"{PRECISE} --by shp": "did you mean 'shop'",
    f"{BY} --method logistic": "auto, exact, st",
    f"{BY} --method vw-dpmt": "auto, exact, st",
    f"{BY} --method exact --score-bins 9": "--score-b",
    "--maximize f1 --by shop --bound each": "needs a bound",
    f"{PRECISE} --bound each": "--by",
    f"{PRECISE} --min-group-positives 9": "--by",
    f"{BY} --compare": "--compare",
    f"{BY} --frontier f.csv": "--frontier",
    f"{SEVERAL} --method mist": "takes one uncertainty",
    f"{SEVERAL} --by shop": "--by",
    f"{SEVERAL} --score-bins 9": "--score-bins",
    f"{SEVERAL} --compare": "--compare takes one uncertainty",
    f"{SEVERAL} --frontier f.csv": "--frontier takes one uncertainty",
    f"{PRECISE} --uncertainty a,a": "each once",
    f"{PRECISE} --uncertainty a,score": "two roles",
    f"{PRECISE} --uncertainty a,nowhere": "nowhere",
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbers = {name: pl.col("id") % 5 for name in ("amount", "alarm", "miss", "a", "b")}
    frame = simulate(200).with_columns(shop=pl.Series(["x", "y"] * 100), **numbers)
    return write(frame, tmp_path_factory.mktemp("pairs") / "rows.parquet")


@pytest.mark.parametrize("options", PAIRS)
def test_pairs_that_do_not_exist(options: str, rows: Path, invoke: Invoke) -> None:
    invoke("boundary", rows, options, "-o b.json").refused(2, PAIRS[options])
