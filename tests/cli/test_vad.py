"""``calibkit vad``: golden cases, segments, tandem, what is refused, and the same bytes throughout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.cli.score_files import write
from tests.conftest import ROOT, Invoke

GOLDEN = ROOT / "tests" / "golden"


def members(rows: int = 400, seed: int = 1, noise: float = 0.4) -> pl.DataFrame:
    """Return three replicate scores of unlabelled rows, with a segment and a weight."""
    random = np.random.default_rng(seed)
    truth = random.normal(-1.0, 1.0, rows)
    links = truth[:, None] + random.normal(0.0, noise, (rows, 3))
    frame = pl.DataFrame({f"score_{j + 1}": 1.0 / (1.0 + np.exp(-links[:, j])) for j in range(3)})
    country = random.choice(["at", "be", "lu"], rows, p=[0.6, 0.38, 0.02])
    weight = random.integers(0, 4, rows).astype(np.float64)
    return frame.with_columns(country=pl.Series(country), weight=pl.Series(weight))


def fit(invoke: Invoke, path: Path, *more: object) -> dict[str, Any]:
    return invoke("vad", path, "-q", "--json", *more).result()


def refused(invoke: Invoke, path: Path, *more: object, code: int = 3) -> str:
    output = path.parent / "refused.json"
    said = invoke("vad", path, "-o", output, *more)
    assert (said.code, said.stdout) == (code, b""), said
    assert "Traceback" not in said.stderr
    assert not output.exists()
    as_json = invoke("vad", path, "-o", output, "--json", *more)
    error = json.loads(as_json.stdout)["error"]
    assert error["code"] == code
    assert error["message"] in said.stderr
    return str(error["message"])


@pytest.mark.parametrize("link", ["logit", "identity"])
@pytest.mark.parametrize("replicates", ["exchangeable", "bootstrap"])
def test_golden_case_of_three_members(
    link: str, replicates: str, tmp_path: Path, invoke: Invoke
) -> None:
    folder = GOLDEN / "p14_vad_lambda_s3"
    wanted = json.loads((folder / "expected.json").read_text())["expected"][f"{link}/{replicates}"]
    path, out = tmp_path / "vad.json", tmp_path / "out.parquet"
    options = ("--members", "f*", "--link", link, "--replicates", replicates)
    model = invoke("vad", folder / "validation.parquet", *options, "-o", path).result()
    assert model["lambda"] == pytest.approx(wanted["lam"], rel=1e-9)
    assert model["mean"] == pytest.approx(wanted["mean1"], rel=1e-9, abs=1e-9)
    assert model["fit"]["variance"] == pytest.approx(wanted["var_y"], rel=1e-9)
    assert model["fit"]["conditional_variance"] == pytest.approx(wanted["var_f"], rel=1e-9)
    assert invoke("apply", path, folder / "test.parquet", "--score", "pred", "-o", out).code == 0
    found = pl.read_parquet(out)["calibrated"].to_list()
    assert found == pytest.approx(wanted["applied"], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("link", ["logit", "identity"])
def test_golden_case_in_tandem(link: str, tmp_path: Path, invoke: Invoke) -> None:
    folder = GOLDEN / "p15_vad_plus"
    wanted = json.loads((folder / "expected.json").read_text())["expected"][link]
    path, out = tmp_path / "vad.json", tmp_path / "out.parquet"
    model = fit(
        invoke,
        folder / "val_test.parquet",
        *("--members", "f*", "--link", link, "--calibrated", "calibrated"),
        *("--train-input", folder / "val_train.parquet", "-o", path),
    )
    assert model["lambda"] == pytest.approx(wanted["lam"], rel=1e-9)
    assert model["columns"]["score"]["name"] == "calibrated"
    clash = invoke("apply", path, folder / "test.parquet", "-o", out)
    assert clash.code == 2
    for rename in (("--column", "debiased"), ("--overwrite-columns",)):
        assert invoke("apply", path, folder / "test.parquet", *rename, "-o", out).code == 0
        found = pl.read_parquet(out)[:, -1].to_list()
        assert found == pytest.approx(wanted["applied"], rel=1e-9, abs=1e-9)


def test_a_weight_of_two_is_two_rows(tmp_path: Path, invoke: Invoke) -> None:
    frame = members(300)
    written = frame.select(pl.all().repeat_by(pl.col("weight").cast(pl.Int64))).explode(pl.all())
    weighted = fit(invoke, write(frame, tmp_path / "a.parquet"), "--weight", "weight")
    plain = fit(invoke, write(written.drop_nulls(), tmp_path / "b.parquet"))
    for key in ("lambda", "mean", "fit"):
        assert weighted[key] == plain[key]
    assert weighted["fit"]["rows"] == frame["weight"].sum()


def test_segments_have_their_own_shrinkage_and_small_ones_that_of_all(
    tmp_path: Path, invoke: Invoke
) -> None:
    frame = members(2000)
    path = write(frame, tmp_path / "a.parquet")
    said = invoke("vad", path, "--by", "country", "-o", tmp_path / "by.json")
    assert "'lu': fewer than 100 rows; shrunk as all rows together" in said.stderr
    model = json.loads((tmp_path / "by.json").read_text())
    groups = model["groups"]
    assert groups["pooled"] == ["lu"]
    assert list(groups["values"]) == ["at", "be"]
    alone = write(frame.filter(pl.col("country") == "be"), tmp_path / "be.parquet")
    own = fit(invoke, alone)
    for key in ("lambda", "mean", "fit"):
        assert groups["values"]["be"][key] == own[key]
        assert model[key] == fit(invoke, path)[key]
    new = pl.DataFrame({"score_1": [0.7] * 4, "country": ["at", "lu", "xx", None]})
    out = tmp_path / "out.parquet"
    rows = write(new, tmp_path / "new.parquet")
    found = invoke("apply", tmp_path / "by.json", rows, "-o", out).result()["calibrated"].to_list()
    assert found[1] == found[2] == found[3]
    assert found[0] != found[1]
    shown = invoke("show", tmp_path / "by.json").stdout.decode()
    assert "With the fit of all rows: lu, and values not listed." in shown


def test_a_pipe_has_all_segments(tmp_path: Path, invoke: Invoke) -> None:
    sizes = [100] * 22 + [5] * 22
    sites = [f"site-{place}" for place, size in enumerate(sizes) for _ in range(size)]
    rows = members(len(sites)).with_columns(site=pl.Series(sites))
    path, model = write(rows, tmp_path / "rows.parquet"), tmp_path / "by.json"
    invoke("vad", path, "--by", "site", "-o", model, "-q")
    for more in (), ("--all",):
        assert invoke("show", model, *more).stdout.decode().count("site-") == 44


def test_apply_needs_the_first_member_only(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "vad.json"
    fit(invoke, write(members(), tmp_path / "a.parquet"), "-o", path)
    rows = write(pl.DataFrame({"score_1": [0.2, None, 0.9]}), tmp_path / "rows.csv")
    assert invoke("apply", path, rows, "-o", tmp_path / "out.csv").code == 3
    done = invoke("apply", path, rows, "--on-missing", "null", "-o", tmp_path / "out.parquet")
    assert done.code == 0
    found = pl.read_parquet(tmp_path / "out.parquet")["calibrated"]
    assert found.is_null().to_list() == [False, True, False]
    assert 0.2 < found[0] < found[2] < 0.9


def test_clipped_rows_are_counted_and_said(tmp_path: Path, invoke: Invoke) -> None:
    frame = members().with_columns(
        score_2=pl.when(pl.int_range(pl.len()) < 7).then(0.0).otherwise("score_2")
    )
    path = write(frame, tmp_path / "a.parquet")
    said = invoke("vad", path, "-o", tmp_path / "m.json")
    assert "7 rows with a probability nearer to 0 or 1 than 1e-6" in said.stderr
    assert json.loads((tmp_path / "m.json").read_text())["fit"]["clipped"] == 7
    assert fit(invoke, path, "--link", "identity")["fit"]["clipped"] == 0


def test_a_negative_lambda_is_reported_and_applied_as_zero(tmp_path: Path, invoke: Invoke) -> None:
    random = np.random.default_rng(3)
    frame = pl.DataFrame({"score_1": random.uniform(0.49, 0.51, 200)}).with_columns(
        score_2=pl.Series(random.uniform(0.01, 0.99, 200))
    )
    path, model = write(frame, tmp_path / "a.parquet"), tmp_path / "m.json"
    invoke("vad", path, "-o", model).succeeded("below 0", "applied as 0")
    assert json.loads(model.read_text())["lambda"] < 0
    assert invoke("vad", path, "-o", model, "--warnings", "error").code == 3
    invoke("apply", model, path, "-o", tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet")["calibrated"].n_unique() == 1


def test_a_constant_first_member_keeps_its_value(tmp_path: Path, invoke: Invoke) -> None:
    frame = members().with_columns(score_1=pl.lit(0.3))
    path = write(frame, tmp_path / "a.parquet")
    assert fit(invoke, path)["lambda"] == 1.0
    assert "constant" in invoke("vad", path, "-o", tmp_path / "m.json").stderr


def test_logits_are_not_clipped_and_raw_scores_take_the_identity(
    tmp_path: Path, invoke: Invoke
) -> None:
    frame = members().select("score_1", "score_2", "score_3")
    logits = frame.select((pl.all() / (1 - pl.all())).log())
    path = write(logits, tmp_path / "logit.parquet")
    own, model = fit(invoke, write(frame, tmp_path / "p.parquet")), tmp_path / "m.json"
    found = fit(invoke, path, "--scale", "logit", "-o", model)
    assert found["lambda"] == pytest.approx(own["lambda"], rel=1e-9)
    assert invoke("apply", model, path, "-o", tmp_path / "out.parquet").code == 0
    assert pl.read_parquet(tmp_path / "out.parquet")["calibrated"].is_between(0, 1).all()
    message = refused(invoke, path, "--scale", "raw", code=2)
    assert "--link identity" in message
    fit(invoke, path, "--scale", "raw", "--link", "identity", "-o", model)
    assert invoke("apply", model, path, "-o", tmp_path / "out.parquet").code == 0
    assert cast_min(tmp_path / "out.parquet") < 0
    as_probability = fit(invoke, path, "--scale", "logit", "--link", "identity")
    plain = fit(invoke, tmp_path / "p.parquet", "--link", "identity")
    assert as_probability["lambda"] == pytest.approx(plain["lambda"], rel=1e-9)


def cast_min(path: Path) -> float:
    return float(pl.read_parquet(path)["calibrated"].to_numpy().min())


def test_a_member_that_is_named_is_that_column_whatever_its_name_would_match(
    tmp_path: Path, invoke: Invoke
) -> None:
    names = {f"score_{k}": f"score[{k}]" for k in (1, 2, 3)}
    path = write(members().rename(names), tmp_path / "a.parquet")
    found = fit(invoke, path, "--members", "score[1],score[3]")
    assert found["members"] == ["score[1]", "score[3]"]


def test_what_is_wrong_with_members_is_said(tmp_path: Path, invoke: Invoke) -> None:
    path = write(members(), tmp_path / "a.parquet")
    assert "at least two replicates" in refused(invoke, path, "--members", "score_1", code=2)
    two = ("--members", "score_1,score_2", "--replicates", "bootstrap")
    assert "at least two bootstrap refits" in refused(invoke, path, *two, code=2)
    assert "matches no column" in refused(invoke, path, "--members", "p_*", code=2)
    named = ("--members", "score_1,weight", "--weight", "weight")
    assert "both --members and --weight" in refused(invoke, path, *named, code=2)
    twice = ("--weight", "weight", "--by", "weight")
    assert "both --weight and --by" in refused(invoke, path, *twice, code=2)
    nested = write(pl.DataFrame({"score_1": [[0.1, 0.2]]}), tmp_path / "nested.parquet")
    assert "column of lists" in refused(invoke, nested, code=2)
    assert "did you mean 'country'" in refused(invoke, path, "--by", "contry", code=2)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "no value (null)"),
        (float("nan"), "no value (NaN)"),
        (1.5, "not in [0, 1]"),
        (float("inf"), "not in [0, 1]"),
    ],
)
def test_what_is_wrong_with_values_is_said(
    value: float | None, words: str, tmp_path: Path, invoke: Invoke
) -> None:
    column = members()["score_2"].to_list()
    column[4], column[9] = value, value
    frame = members().with_columns(score_2=pl.Series(column))
    path = write(frame, tmp_path / "a.parquet")
    message = refused(invoke, path)
    assert words in message
    assert "column 'score_2'" in message
    assert "2 rows (first: rows 5, 10" in message
    if words.startswith("no value"):
        said = invoke("vad", path, "--on-missing", "drop", "-o", tmp_path / "m.json")
        said.succeeded("2 rows without a value dropped")
        assert json.loads((tmp_path / "m.json").read_text())["fit"]["rows"] == 398


def test_values_beyond_squares_weights_and_text_are_refused(tmp_path: Path, invoke: Invoke) -> None:
    frame = members()
    large = write(frame.with_columns(score_1=pl.lit(1e200)), tmp_path / "large.parquet")
    assert "squares" in refused(invoke, large, "--scale", "logit")
    text = write(frame.with_columns(score_1=pl.lit("a")), tmp_path / "text.csv")
    assert "text instead of numbers" in refused(invoke, text)
    negative = write(frame.with_columns(weight=pl.lit(-1.0)), tmp_path / "weight.parquet")
    assert "weights cannot be negative" in refused(invoke, negative, "--weight", "weight")


def test_members_equal_in_every_row_are_noticed(tmp_path: Path, invoke: Invoke) -> None:
    frame = members().with_columns(score_2=pl.col("score_1"))
    path = write(frame, tmp_path / "a.parquet")
    said = invoke("vad", path, "-o", tmp_path / "m.json")
    assert "'score_1' and 'score_2' are equal in every row" in said.stderr


def test_tandem_options_that_exclude_or_need_each_other(tmp_path: Path, invoke: Invoke) -> None:
    frame = members().with_columns(cal=pl.col("score_1") ** 1.2)
    path, train = write(frame, tmp_path / "a.parquet"), write(frame, tmp_path / "t.parquet")
    assert "--train-input" in refused(invoke, path, "--calibrated", "cal", code=2)
    assert "goes with" in refused(invoke, path, "--train-input", train, code=2)
    vad = tmp_path / "vad.json"
    fit(invoke, path, "-o", vad)
    other = ("--calibrator", vad, "--train-input", train)
    assert "kind 'vad'" in refused(invoke, path, *other, code=3)
    noise = frame.with_columns(
        score_1=pl.lit(0.5) + 1e-9 * pl.int_range(pl.len()), score_2=pl.col("score_3")
    )
    flat = write(noise, tmp_path / "flat.parquet")
    message = refused(invoke, path, "--calibrated", "cal", "--train-input", flat)
    assert "lambda of the training distribution" in message


def test_members_of_training_rows_are_the_columns_that_a_pattern_found(
    tmp_path: Path, invoke: Invoke
) -> None:
    """Their names may hold what is a pattern elsewhere."""
    names = {f"score_{place}": f"m[{place}]" for place in (1, 2, 3)}
    frame = members().rename(names).with_columns(cal=pl.col("m[1]") ** 1.2)
    path, train = write(frame, tmp_path / "a.parquet"), write(frame, tmp_path / "t.parquet")
    model = fit(invoke, path, "--members", "m*", "--calibrated", "cal", "--train-input", train)
    assert model["members"] == list(names.values())
    assert model["lambda"] == 1.0


def test_a_segment_of_just_the_least_rows_has_a_shrinkage(tmp_path: Path, invoke: Invoke) -> None:
    frame = members(120).with_columns(country=pl.lit("at"), cal=pl.col("score_1"))
    few, more = write(frame[:60], tmp_path / "few.parquet"), write(frame, tmp_path / "more.parquet")
    for rows, train in ((few, more), (more, few)):
        tandem = ("--calibrated", "cal", "--train-input", train, "--by", "country")
        for least, own in ((60, ["at"]), (61, [])):
            groups = fit(invoke, rows, *tandem, "--min-rows", least)["groups"]
            assert list(groups["values"]) == own


def test_a_calibrator_becomes_part_of_the_model(tmp_path: Path, invoke: Invoke) -> None:
    random = np.random.default_rng(8)
    frame = members(3000).with_columns(site=pl.Series(random.choice(["x", "y"], 3000)))
    frame = frame.with_columns(label=pl.Series(random.random(3000)) < pl.col("score_1") ** 1.3)
    train = write(frame, tmp_path / "train.parquet")
    rows = write(members(2000, seed=2).with_columns(site=pl.lit("x")), tmp_path / "rows.parquet")
    cal, vad, out = (tmp_path / name for name in ("cal.json", "vad.json", "out.parquet"))
    calibrate = ("calibrate", train, "--score", "score_1", "--method", "isotonic")
    assert invoke(*calibrate, "--by", "site", "-q", "-o", cal).code == 0
    options = ("--train-input", train, "--by", "country")
    model = fit(invoke, rows, "--calibrator", cal, *options, "-o", vad)
    assert model["calibrator"]["kind"] == "calibrator"
    assert model["columns"]["score"]["name"] == "score_1"
    assert "After the calibrator" in invoke("show", vad).stdout.decode()
    new = write(members(50, seed=3).with_columns(site=pl.lit("x")), tmp_path / "new.parquet")
    assert invoke("apply", vad, new, "-o", out).code == 0
    # The same in two steps, by a column of calibrated probabilities.
    for name in ("rows", "new"):
        step = ("apply", cal, tmp_path / f"{name}.parquet", "--score", "score_1", "--column", "c")
        assert invoke(*step, "-o", tmp_path / f"{name}_c.parquet").code == 0
    other = fit(invoke, tmp_path / "rows_c.parquet", "--calibrated", "c", *options, "-o", vad)
    for key in ("lambda", "mean", "groups", "fit"):
        assert model[key] == other[key]
    assert (
        invoke("apply", vad, tmp_path / "new_c.parquet", "-o", tmp_path / "two.parquet")
        .result()["calibrated"]
        .equals(pl.read_parquet(out)["calibrated"])
    )


def test_a_calibrator_of_another_scale_is_refused(tmp_path: Path, invoke: Invoke) -> None:
    frame = members().with_columns(label=pl.int_range(pl.len()) % 2)
    path, cal = write(frame, tmp_path / "a.parquet"), tmp_path / "cal.json"
    score = ("--score", "score_1", "--scale", "logit", "--method", "platt", "-q")
    assert invoke("calibrate", path, *score, "-o", cal).code == 0
    message = refused(invoke, path, "--calibrator", cal, "--train-input", path, code=2)
    assert "--scale logit" in message


def test_the_rest_of_the_command_line(tmp_path: Path, invoke: Invoke) -> None:
    path = write(members(), tmp_path / "in" / "a.parquet")
    write(members(seed=2), tmp_path / "in" / "b.parquet")
    shown = invoke("vad", path, "--dry-run", "--by", "country", "--json").result()
    assert shown["columns"]["member 1"] == "score_1"
    assert shown["columns"]["by"] == "country"
    done = invoke("vad", tmp_path / "in" / "*.parquet", "-o", f"{tmp_path}/out/")
    assert done.code == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["a.json", "b.json"]
    model = fit(invoke, path, "--tag", "run=7", "--provenance", "names")
    assert model["tags"] == {"run": "7"}
    assert model["provenance"]["files"] == [str(path)]
    assert "provenance" not in {
        k for k, v in fit(invoke, path, "--provenance", "none").items() if v
    }
    schema = json.loads(invoke("show", "--schema", "vad").stdout)
    assert "lambda" in json.dumps(schema)
    shown_model = tmp_path / "m.json"
    fit(invoke, path, "-o", shown_model)
    assert b"scores keep" in invoke("show", shown_model).stdout
