"""What commands refuse, each with its reason: pairs of options, columns, models of other kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Invoke


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("drift boundary.json rows.parquet --estimate --calibrator alpha.json",
         2, "'alpha' that reads no score"),
        ("drift boundary.json rows.parquet --estimate --calibrator boundary.json",
         2, "'boundary' that reads no score, or makes no"),
        ("watch boundary.json rows.parquet --state a.state --period day --maturity 9999999",
         2, "at most 100000"),
        ("evaluate rows.parquet --boundary line.json", 3, "decides nothing"),
        ("evaluate rows.parquet --boundary stochastic.json", 2, "apply it with --key"),
        ("evaluate rows.parquet --grid rows.parquet", 2, "is not a table of `calibkit bin`"),
        ("evaluate rows.parquet --grid fine.parquet", 2, "ECE@j takes at most"),
        ("evaluate rows.parquet --label one --prevalence 0.2", 3, "have only one"),
        ("evaluate rows.parquet --by top --top 0.1", 2, "drop one"),
        ("evaluate rows.parquet --probs prob_* --counts count_* --class-disagreement odd_*",
         2, "has the classes 0, 2"),
        ("evaluate rows.parquet --probs prob_* --counts count_* --class-disagreement long",
         2, "one probability a class"),
        ("evaluate rows.parquet --metrics recall_at_precision:0", 2, "more than 0"),
        ("calibrate rows.parquet --time day --date-format %q", 3, "no date of the format"),
        ("calibrate bars.csv --delimiter ab", 2, "is no delimiter"),
        ("calibrate rows.parquet --input-format parquett", 2, "did you mean 'parquet'?"),
        ("calibrate tabs.csv --delimiter ,", 2, "add --input-format tsv"),
        ("calibrate rows.parquet --probs long --counts count_*", 2, "3 classes, but"),
        ("evaluate rows.parquet --probs prob_* --probs long --label label", 2,
         "3 classes, but --probs 'prob_*' has 2"),
        ("apply classes.json rows.parquet --probs *_0 -o out.parquet", 2, "has the classes"),
        ("apply classes.json rows.parquet --probs long -o out.parquet", 2, "has 3 classes"),
        ("boundary rows.parquet --precision 0.5 --method ew-dpmt --score-bins 0", 2, "score bins"),
        ("boundary grid.parquet --precision 0.5 --uncertainty a,b", 2, "several need the rows"),
        ("boundary grid.parquet --precision 0.5 --label other", 2, "made from 'label', not"),
        ("gate metrics.json --fail-if auc<nan", 2, "nan is no number to compare with"),
        ("boundary rows.parquet --recall 0.5 --value huge", 3, "too large or too small"),
        ("boundary rows.parquet --precision 0.5 --compare --frontier -", 2, "mix with the model"),
        ("boundary rows.parquet --precision 0.5 --frontier /dev/stdout", 2, "mix with the model"),
        ("boundary rows.parquet --precision 0.5 --review-capacity 0.2 --frontier f.csv",
         2, "not of three-way decisions"),
        ("plot regions rows.parquet --boundary several.json --uncertainty x -o r.svg",
         2, "takes two columns"),
        ("plot regions rows.parquet --boundary several.json --uncertainty x,y -o r.svg",
         2, "none of the boundary's"),
        ("plot regions rows.parquet --boundary boundary.json -o r.svg", 2, "plot heatmap draws it"),
        ("plot reliability rows.parquet --score score --probs prob_* -o r.svg", 2, "at a time"),
        ("plot threshold rows.parquet --decision label -o r.svg", 2, "no threshold to mark"),
        ("merge watch.state --expect 2 -o all.state", 2, "a watch has nights"),
        ("merge . -o watch.state", 2, "would be written over"),
        ("watch all.json rows.parquet --state new.state", 2, "leaves no room"),
        ("watch of-grid.json rows.parquet --state new.state --precision 0.5 --drift",
         2, "keeps no reference to compare with"),
        ("watch boundary.json rows.parquet --state new.state --period day --maturity 3 "
         "--labelled-at place", 3, "nights are of one kind"),
        ("drift forest.json rows.parquet", 3, "kind 'bundle' without a boundary keeps"),
        ("boundary rows.parquet --label one --precision 0.5 --prevalence 0.2", 3, "one"),
        ("plot bias rows.parquet --top 0.1 -o b.svg "
         "--score score,score_b,x,label,zero,one,prob_0,prob_1,odd_0", 2, "tell apart"),
        ("alpha-cal rows.parquet --features list", 2, "is a column of lists"),
        ("boundary rows.parquet --precision 0.5 --partial --dask local -o a.state",
         2, "--dask makes and merges all states itself"),
        ("calibrate unnamed.csv", 3, "names column '' 2 times"),
        ("calibrate rows.parquet texts.parquet", 3, "Error: texts.parquet: column"),
        ("calibrate texts.parquet rows.parquet", 3, "Error: rows.parquet: column"),
        ("hetcal rows.parquet --features ,", 2, "--features"),
        ("diff - -", 2, "can be read once only"),
        ("boundary rows.parquet --precision 0.5 --compare --uncertainty-bins auto --dry-run",
         2, "one number of levels"),
    ],
)  # fmt: skip
def test_refused_with_the_reason(
    line: str, code: int, said: str, service: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(service)
    before = {path.name for path in service.iterdir()}
    done = invoke(*line.split(" "), "-q")
    assert (done.code, done.stdout) == (code, b""), done.stderr
    assert said in done.stderr
    assert {path.name for path in service.iterdir()} == before


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("calibrate rows.parquet --probs prob_* --method none", "leave scores as they are"),
        ("calibrate rows.parquet --probs prob_* --method vector", "penalties chosen by cross-val"),
        ("alpha-cal rows.parquet", "one alpha0 for all rows"),
        ("alpha-cal rows.parquet --features x", "linear in 1 feature"),
        ("alpha-cal rows.parquet --features x --disagreement-map isotonic", "rising step function"),
        ("hetcal rows.parquet --features x --partition auto", "choose a partition"),
        ("boundary rows.parquet --precision 0.5 --recall 0.2 --review-capacity 0.3", "review"),
        ("boundary rows.parquet --minimize cost:3,9 --review-cost 1", "block, review or pass"),
    ],
)
def test_what_a_fit_would_do(
    line: str, said: str, service: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(service)
    done = invoke(*line.split(" "), "--dry-run", "-o", "model.json")
    assert said in done.stderr + done.stdout.decode()
    assert (done.code, (service / "model.json").exists()) == (0, False), done.stderr
