"""``calibkit vad``: golden cases, segments, tandem, what is refused, and the same bytes throughout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.methods.vad import moments as vad_rows
from tests.cli.score_files import changed, write
from tests.conftest import ROOT, Invoke, make

GOLDEN = ROOT / "tests" / "golden"


def members(rows: int = 400, seed: int = 1) -> pl.DataFrame:
    """Return three replicate scores of unlabelled rows, with a segment and a weight."""
    random = np.random.default_rng(seed)
    truth = random.normal(-1.0, 1.0, rows)
    links = truth[:, None] + random.normal(0.0, 0.4, (rows, 3))
    frame = pl.DataFrame({f"score_{j + 1}": 1.0 / (1.0 + np.exp(-links[:, j])) for j in range(3)})
    country = random.choice(["at", "be", "lu"], rows, p=[0.6, 0.38, 0.02])
    weight = random.integers(0, 4, rows).astype(np.float64)
    return frame.with_columns(country=pl.Series(country), weight=pl.Series(weight))


def fit(invoke: Invoke, path: Path, *more: object) -> dict[str, Any]:
    return invoke("vad", path, "-q", "--json", *more).result()


def applied(model: Path, rows: Path, *more: object) -> pl.Series:
    """Return the last column of rows that a model was applied to."""
    return pl.read_parquet(make(model.with_name("out.parquet"), "apply", model, rows, *more))[:, -1]


@pytest.mark.parametrize("link", ["logit", "identity"])
@pytest.mark.parametrize("replicates", ["exchangeable", "bootstrap"])
def test_golden_case_of_three_members(link: str, replicates: str, invoke: Invoke) -> None:
    folder, path = GOLDEN / "p14_vad_lambda_s3", Path("vad.json")
    wanted = json.loads((folder / "expected.json").read_text())["expected"][f"{link}/{replicates}"]
    options = ("--members", "f*", "--link", link, "--replicates", replicates)
    model = invoke("vad", folder / "validation.parquet", *options, "-o", path).result()
    assert model["lambda"] == pytest.approx(wanted["lam"], rel=1e-9)
    assert model["mean"] == pytest.approx(wanted["mean1"], rel=1e-9, abs=1e-9)
    assert model["fit"]["variance"] == pytest.approx(wanted["var_y"], rel=1e-9)
    assert model["fit"]["conditional_variance"] == pytest.approx(wanted["var_f"], rel=1e-9)
    found = applied(path, folder / "test.parquet", "--score", "pred").to_list()
    assert found == pytest.approx(wanted["applied"], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("link", ["logit", "identity"])
def test_golden_case_in_tandem(link: str, invoke: Invoke) -> None:
    folder, path = GOLDEN / "p15_vad_plus", Path("vad.json")
    wanted = json.loads((folder / "expected.json").read_text())["expected"][link]
    tandem = ("--calibrated", "calibrated", "--train-input", folder / "val_train.parquet")
    options = ("--members", "f*", "--link", link, *tandem)
    model = fit(invoke, folder / "val_test.parquet", *options, "-o", path)
    assert model["lambda"] == pytest.approx(wanted["lam"], rel=1e-9)
    assert model["columns"]["score"]["name"] == "calibrated"
    assert invoke("apply", path, folder / "test.parquet", "-o o.csv").code == 2
    for rename in (("--column", "debiased"), ("--overwrite-columns",)):
        found = applied(path, folder / "test.parquet", *rename).to_list()
        assert found == pytest.approx(wanted["applied"], rel=1e-9, abs=1e-9)


def test_a_weight_of_two_is_two_rows(invoke: Invoke) -> None:
    frame = members(300)
    written = frame.select(pl.all().repeat_by(pl.col("weight").cast(pl.Int64))).explode(pl.all())
    weighted = fit(invoke, write(frame, "a.parquet"), "--weight", "weight")
    plain = fit(invoke, write(written.drop_nulls(), "b.parquet"))
    for key in ("lambda", "mean", "fit"):
        assert weighted[key] == plain[key]
    assert weighted["fit"]["rows"] == frame["weight"].sum()


def test_segments_have_their_own_shrinkage_and_small_ones_that_of_all(invoke: Invoke) -> None:
    frame = members(2000)
    path = write(frame, "a.parquet")
    said = invoke("vad", path, "--by", "country", "-o by.json")
    said.succeeded("'lu': fewer than 100 rows; shrunk as all rows together")
    model = said.result()
    groups = model["groups"]
    assert (groups["pooled"], list(groups["values"])) == (["lu"], ["at", "be"])
    own = fit(invoke, write(frame.filter(country="be"), "be.parquet"))
    whole = fit(invoke, path)
    for key in ("lambda", "mean", "fit"):
        assert groups["values"]["be"][key] == own[key]
        assert model[key] == whole[key]
    new = pl.DataFrame({"score_1": [0.7] * 4, "country": ["at", "lu", "xx", None]})
    found = applied(Path("by.json"), write(new, "new.parquet"))
    assert found[1] == found[2] == found[3] != found[0]
    shown = invoke("show", "by.json").stdout.decode()
    assert "With the fit of all rows: lu, and values not listed." in shown


def test_a_pipe_has_all_segments(invoke: Invoke) -> None:
    sizes = [100] * 22 + [5] * 22
    sites = [f"site-{place}" for place, size in enumerate(sizes) for _ in range(size)]
    rows = members(len(sites)).with_columns(site=pl.Series(sites))
    path = write(rows, "rows.parquet")
    model = make("by.json", "vad", path, "--by", "site")
    for more in (), ("--all",):
        assert invoke("show", model, *more).stdout.decode().count("site-") == 44


def test_apply_needs_the_first_member_only(invoke: Invoke) -> None:
    path = make("vad.json", "vad", write(members(), "a.parquet"))
    rows = write(pl.DataFrame({"score_1": [0.2, None, 0.9]}), "rows.csv")
    assert invoke("apply", path, rows, "-o out.csv").code == 3
    found = applied(path, rows, "--on-missing null")
    assert found.is_null().to_list() == [False, True, False]
    assert 0.2 < found[0] < found[2] < 0.9


@pytest.mark.parametrize(
    ("columns", "said", "field", "value"),
    [
        ({"score_2": pl.when(pl.int_range(400) < 7).then(0.0).otherwise("score_2")},
         "7 rows with a probability nearer to 0 or 1 than 1e-6", "clipped", 7),
        ({"score_1": pl.lit(0.3)}, "constant", "lambda", 1.0),
        ({"score_2": pl.col("score_1")}, "'score_1' and 'score_2' are equal in every row",
         "rows", 400),
    ],
)  # fmt: skip
def test_what_is_odd_is_said(
    columns: dict[str, pl.Expr], said: str, field: str, value: float, invoke: Invoke
) -> None:
    path = write(members().with_columns(**columns), "a.parquet")
    found = invoke("vad", path, "-o m.json")
    found.succeeded(said)
    assert {**found.result(), **found.result()["fit"]}[field] == value
    assert fit(invoke, path, "--link", "identity")["fit"]["clipped"] == 0


def test_a_negative_lambda_is_reported_and_applied_as_zero(invoke: Invoke) -> None:
    random = np.random.default_rng(3)
    noise = {"score_1": random.uniform(0.49, 0.51, 200), "score_2": random.uniform(0.01, 0.99, 200)}
    path, model = write(pl.DataFrame(noise), "a.parquet"), Path("m.json")
    said = invoke("vad", path, "-o", model)
    said.succeeded("below 0", "applied as 0")
    assert said.result()["lambda"] < 0
    assert applied(model, path).n_unique() == 1
    assert invoke("vad", path, "-o", model, "--warnings", "error").code == 3


def test_logits_are_not_clipped_and_raw_scores_take_the_identity(invoke: Invoke) -> None:
    frame = members().select("score_1", "score_2", "score_3")
    path = write(frame.select((pl.all() / (1 - pl.all())).log()), "logit.parquet")
    probabilities, model = write(frame, "p.parquet"), Path("m.json")
    for link in ("logit", "identity"):
        of_logits = fit(invoke, path, "--scale logit --link", link, "-o", model)["lambda"]
        wanted = fit(invoke, probabilities, "--link", link)["lambda"]
        assert of_logits == pytest.approx(wanted, rel=1e-9)
        assert applied(model, path).is_between(0, 1).all()
    fit(invoke, path, "--scale raw --link identity -o", model)
    assert applied(model, path).to_numpy().min() < 0


@pytest.mark.parametrize("pattern", ["m*", "m[1],m[2],m[3]"])
def test_members_are_columns_whatever_their_names_would_match(pattern: str, invoke: Invoke) -> None:
    names = {f"score_{place}": f"m[{place}]" for place in (1, 2, 3)}
    frame = members().rename(names).with_columns(cal=pl.col("m[1]") ** 1.2)
    path, train = write(frame, "a.parquet"), write(frame, "t.parquet")
    model = fit(invoke, path, "--members", pattern, "--calibrated", "cal", "--train-input", train)
    assert model["members"] == list(names.values())
    assert model["lambda"] == 1.0


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows that have columns of no use, training rows, and models."""
    folder = tmp_path_factory.mktemp("odd")
    frame = members().with_columns(
        cal=pl.col("score_1") ** 1.2,
        label=pl.int_range(pl.len()) % 2,
        large=pl.lit(1e200),
        text=pl.lit("a"),
        zero=pl.lit(0.0),
        negative=pl.lit(-1.0),
        list=pl.concat_list("score_1", "score_2"),
    )
    rows = write(frame, folder / "rows.parquet")
    flat = pl.lit(0.5) + 1e-9 * pl.int_range(pl.len())
    write(frame.with_columns(score_1=flat, score_2="score_3"), folder / "flat.parquet")
    make(folder / "vad.json", "vad", rows)
    score = "--score score_1 --scale logit --method platt"
    make(folder / "logit.json", "calibrate", rows, score)
    return folder


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("--members score_1", 2, "at least two replicates"),
        ("--members score_1,score_2 --replicates bootstrap", 2, "at least two bootstrap refits"),
        ("--members p_*", 2, "matches no column"),
        ("--members score_1,weight --weight weight", 2, "both --members and --weight"),
        ("--weight weight --by weight", 2, "both --weight and --by"),
        ("--members list", 2, "column of lists"),
        ("--by contry", 2, "did you mean 'country'"),
        ("--scale raw", 2, "--link identity"),
        ("--members large,score_2 --scale logit", 3, "squares"),
        ("--members text,score_2", 3, "text instead of numbers"),
        ("--weight negative", 3, "weights cannot be negative"),
        ("--weight zero", 3, "column 'zero': weight 0 in all 400 rows"),
        ("--calibrated cal", 2, "--train-input"),
        ("--train-input rows.parquet", 2, "goes with"),
        ("--calibrator vad.json --train-input rows.parquet", 3, "kind 'vad'"),
        ("--calibrator logit.json --train-input rows.parquet", 2, "--scale logit"),
        ("--calibrated cal --train-input flat.parquet", 3, "lambda of the training distribution"),
    ],
)
def test_what_is_refused(
    options: str, code: int, said: str, odd: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(odd)
    as_text = invoke("vad", "rows.parquet", options, "-o", "m.json")
    as_text.refused(code, said)
    error = invoke("vad", "rows.parquet", options, "-o", "m.json", "--json").refused(code)
    assert error["message"] in as_text.stderr


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "no value (null)"),
        (float("nan"), "no value (NaN)"),
        (1.5, "not in [0, 1]"),
        (float("inf"), "not in [0, 1]"),
    ],
)
def test_what_is_wrong_with_values_is_said(value: float | None, words: str, invoke: Invoke) -> None:
    path = write(changed(members(), score_2={5: value, 10: value}), "a.parquet")
    said = invoke("vad", path, "-o m.json")
    said.refused(3, words, "column 'score_2'", "2 rows (first: rows 5, 10")
    if words.startswith("no value"):
        said = invoke("vad", path, "--on-missing", "drop", "-o m.json")
        said.succeeded("2 rows without a value dropped")
        assert said.result()["fit"]["rows"] == 398


def test_rows_without_a_value_are_counted_over_all_windows(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vad_rows, "_ROWS", 50)
    place = pl.int_range(pl.len())
    holes = members(600).with_columns(
        score_1=pl.when(place.is_between(100, 199)).then(None).otherwise("score_1"),
        score_2=pl.when(place % 9 == 0).then(None).otherwise("score_2"),
    )
    path, kept = write(holes, "rows.parquet"), holes.drop_nulls()
    done = invoke("vad", path, "-o vad.json")
    done.refused(3, "column 'score_1': no value (null) in 100 rows (first: rows 101, 102")
    done = invoke("vad", path, "--on-missing", "drop", "-o vad.json")
    done.succeeded("column 'score_1': 100 rows without a value dropped")
    mine, yours = done.result(), fit(invoke, write(kept, "kept.parquet"))
    assert mine["fit"]["rows"] == kept.height
    assert mine["lambda"] == yours["lambda"]
    assert mine["provenance"]["data_hash"] == yours["provenance"]["data_hash"]


def test_a_segment_of_just_the_least_rows_has_a_shrinkage(invoke: Invoke) -> None:
    frame = members(120).with_columns(country=pl.lit("at"), cal=pl.col("score_1"))
    few, more = write(frame[:60], "few.parquet"), write(frame, "more.parquet")
    for rows, train in ((few, more), (more, few)):
        tandem = ("--calibrated", "cal", "--train-input", train, "--by", "country")
        for least, own in ((60, ["at"]), (61, [])):
            groups = fit(invoke, rows, *tandem, "--min-rows", least)["groups"]
            assert list(groups["values"]) == own


def test_a_calibrator_becomes_part_of_the_model(invoke: Invoke) -> None:
    random = np.random.default_rng(8)
    frame = members(3000).with_columns(site=pl.Series(random.choice(["x", "y"], 3000)))
    frame = frame.with_columns(label=pl.Series(random.random(3000)) < pl.col("score_1") ** 1.3)
    train = write(frame, "train.parquet")
    site = pl.lit("x")
    rows = write(members(2000, seed=2).with_columns(site=site), "rows.parquet")
    new = write(members(50, seed=3).with_columns(site=site), "new.parquet")
    vad, cal = Path("vad.json"), Path("cal.json")
    make(cal, "calibrate", train, "--score score_1 --method isotonic --by site")
    options = ("--train-input", train, "--by", "country", "-o", vad)
    model = fit(invoke, rows, "--calibrator", cal, *options)
    assert model["calibrator"]["kind"] == "calibrator"
    assert model["columns"]["score"]["name"] == "score_1"
    assert "After the calibrator" in invoke("show", vad).stdout.decode()
    at_once = applied(vad, new)
    # The same in two steps, by a column of calibrated probabilities.
    rows_c, new_c = (
        make(path.with_stem("c_" + path.stem), "apply", cal, path, "--score score_1 --column c")
        for path in (rows, new)
    )
    other = fit(invoke, rows_c, "--calibrated", "c", *options)
    for key in ("lambda", "mean", "groups", "fit"):
        assert model[key] == other[key]
    assert applied(vad, new_c).equals(at_once)


def test_a_plan_and_where_the_model_comes_from(invoke: Invoke) -> None:
    path = write(members(), "a.parquet")
    columns = invoke("vad", path, "--dry-run", "--by", "country", "--json").result()["columns"]
    assert (columns["member 1"], columns["by"]) == ("score_1", "country")
    model = fit(invoke, path, "--tag", "run=7", "--provenance", "names")
    assert model["tags"] == {"run": "7"}
    assert model["provenance"]["files"] == [str(path)]
    assert not fit(invoke, path, "--provenance", "none").get("provenance")
