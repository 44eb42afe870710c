"""``bundle``: several models in one file do what they do one after the other, or are refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibkit.errors import ModelError
from calibkit.models.model import decode, load
from tests.conftest import Invoke, every_role, make

FITS = {
    "cal": ("calibrate", "rows"),
    "platt": ("calibrate", "rows", "--method", "platt"),
    "venn": ("calibrate", "rows", "--method", "venn-abers"),
    "classes": ("calibrate", "rows", "--probs", "prob_*", "--counts", "count_*"),
    "vad": ("vad", "calibrated", "--members", "calibrated,score_*", "--replicates", "bootstrap"),
    "tree": ("hetcal", "rows", "--features", "x", "--max-depth", "1", "--min-leaf", "20"),
    "alpha": ("alpha-cal", "rows"),
    "block": ("boundary", "calibrated", "--score", "calibrated", "--precision", "0.8"),
    "review": ("boundary", "calibrated", "--score", "calibrated", "--recall", "0.8"),
    "raw": ("boundary", "rows", "--precision", "0.7", "--by", "g"),
    "random": ("boundary", "rows", "--precision", "0.7", "--method", "stochastic"),
}
MORE = {
    "classes": ("--method", "vector", "--regularization", "0.1"),
    "block": ("--method", "exact"),
    "review": ("--method", "st"),
    "raw": ("--method", "exact"),
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows and a model of each kind."""
    folder = tmp_path_factory.mktemp("bundles")
    every_role(400, 8).write_parquet(folder / "rows.parquet")
    for name, (command, rows, *options) in FITS.items():
        own = (*options, *MORE.get(name, ()))
        model = make(folder / f"{name}.json", command, folder / f"{rows}.parquet", *own)
        if name == "cal":
            make(folder / "calibrated.parquet", "apply", model, folder / "rows.parquet")
    return folder


@pytest.fixture
def bundle(folder: Path, tmp_path: Path, invoke: Invoke) -> Callable[..., Path]:
    """Make a bundle: ``bundle("cal", block="block")``, in this order."""

    def call(*plain: str, **named: str) -> Path:
        output = tmp_path / "service.json"
        parts = [folder / f"{name}.json" for name in plain]
        done = invoke("bundle", *parts, *parts_of(folder, named), "-o", output)
        assert done.code == 0, done.stderr
        return output

    return call


def parts_of(folder: Path, named: dict[str, str]) -> list[str]:
    return [f"{name}={folder / model}.json" for name, model in named.items()]


def applied(invoke: Invoke, model: Path, rows: Path, *options: object) -> pl.DataFrame:
    output = model.with_suffix(".parquet")
    return invoke("apply", model, rows, *options, "-o", output).result()


def test_parts_are_applied_one_after_the_other(
    folder: Path, bundle: Callable[..., Path], invoke: Invoke
) -> None:
    found = applied(invoke, bundle("cal", block="block", review="review"), folder / "rows.parquet")
    expected = pl.read_parquet(folder / "calibrated.parquet")
    for name in ("block", "review"):
        alone = folder / f"{name}.json"
        own = applied(invoke, alone, folder / "calibrated.parquet", "--keep", "id")
        columns = [pl.col(one).alias(f"{one}_{name}") for one in ("decision", "margin")]
        expected = expected.hstack(own.select(columns))
    action = pl.when(pl.col("decision_review") == 1).then(pl.lit("review"))
    action = pl.when(pl.col("decision_block") == 1).then(pl.lit("block")).otherwise(action)
    expected = expected.with_columns(action=action.fill_null("pass"))
    assert found.equals(expected)
    assert set(found["action"]) == {"block", "review", "pass"}


def test_the_first_that_fires_wins(
    folder: Path, bundle: Callable[..., Path], invoke: Invoke
) -> None:
    model = bundle("cal", review="review", block="block")
    found = applied(invoke, model, folder / "rows.parquet")
    assert set(found["action"]) == {"review", "pass"}
    assert (found.filter(pl.col("decision_block") == 1)["action"] == "review").all()


def test_every_kind_in_one_bundle(
    folder: Path, bundle: Callable[..., Path], invoke: Invoke
) -> None:
    parts = {"shrunk": "vad", "hetero": "tree", "raters": "alpha", "many": "classes", "v": "venn"}
    model = bundle("cal", **parts, segments="raw", block="block")
    found = applied(invoke, model, folder / "rows.parquet", "--keep", "id")
    assert found.columns == [
        *("id", "calibrated", "shrunk", "hetero", "leaf_hetero"),
        *("alpha0_raters", "disagreement_raters", "disagreement_0_raters"),
        *("disagreement_1_raters", "many_0", "many_1", "v", "v_low", "v_high"),
        *("decision_segments", "margin_segments", "decision_block", "margin_block", "action"),
    ]
    for name, column in (("tree", "hetero"), ("venn", "v"), ("alpha", "alpha0_raters")):
        own = applied(invoke, folder / f"{name}.json", folder / "rows.parquet", "--keep", "id")
        assert own[:, 1].equals(found[column])
    shrunk = applied(invoke, folder / "vad.json", folder / "calibrated.parquet", "--keep", "id")
    assert shrunk["calibrated"].equals(found["shrunk"])


def test_selected_rows_are_those_that_do_not_pass(
    folder: Path, bundle: Callable[..., Path], invoke: Invoke
) -> None:
    model = bundle("cal", block="block", review="review")
    whole = applied(invoke, model, folder / "rows.parquet")
    some = applied(invoke, model, folder / "rows.parquet", "--selected")
    assert some.equals(whole.filter(pl.col("action") != "pass"))
    done = invoke("apply", bundle("cal"), folder / "rows.parquet", "--selected")
    done.refused(2, "decides nothing")


def test_missing_values_are_null_in_all_columns(
    folder: Path, bundle: Callable[..., Path], invoke: Invoke, tmp_path: Path
) -> None:
    rows = pl.read_parquet(folder / "rows.parquet").with_columns(
        uncertainty=pl.when(pl.col("id") % 7 > 0).then(pl.col("uncertainty"))
    )
    rows.write_parquet(tmp_path / "holes.parquet")
    model = bundle("cal", block="block", review="review")
    invoke("apply", model, tmp_path / "holes.parquet").refused(3, "'uncertainty'")
    found = applied(invoke, model, tmp_path / "holes.parquet", "--on-missing", "null")
    lost = found.filter(pl.col("id") % 7 == 0)
    assert lost.select("calibrated", "decision_review", "action").null_count().row(0) == (
        *(lost.height, lost.height, lost.height),
    )
    assert found.filter(pl.col("id") % 7 > 0)["action"].null_count() == 0


def test_stochastic_parts_share_the_key(
    folder: Path, bundle: Callable[..., Path], invoke: Invoke
) -> None:
    model = bundle("cal", block="block", maybe="random")
    invoke("apply", model, folder / "rows.parquet").refused(2, "'maybe'", "--key")
    found = applied(invoke, model, folder / "rows.parquet", "--key", "id", "--seed", "9")
    alone = folder / "random.json"
    own = applied(invoke, alone, folder / "rows.parquet", "--key", "id", "--seed", "9")
    for name in ("decision", "decision_probability"):
        assert found[f"{name}_maybe"].equals(own[name])
    needless = invoke("apply", bundle("cal"), folder / "rows.parquet", "--key", "id")
    needless.refused(2, "is not stochastic")


def test_columns_elsewhere_are_those_of_the_input(
    folder: Path, bundle: Callable[..., Path], invoke: Invoke, tmp_path: Path
) -> None:
    rows = pl.read_parquet(folder / "rows.parquet")
    rows.rename({"score": "s", "uncertainty": "u"}).write_parquet(tmp_path / "other.parquet")
    model = bundle("cal", block="block")
    whole = applied(invoke, model, folder / "rows.parquet")
    options = ("--score", "s", "--uncertainty", "u")
    found = applied(invoke, model, tmp_path / "other.parquet", *options)
    assert found["action"].equals(whole["action"])
    two = bundle("cal", shrunk="vad", first="raw", block="block")
    assert json.loads(two.read_bytes())["columns"].keys() == {"score", "uncertainty", "by"}
    unknown = invoke("apply", model, folder / "rows.parquet", "--probs", "prob_*")
    assert unknown.code == 2
    apart = bundle(block="block", raw="raw")  # one reads 'calibrated', the other 'score'
    assert {"score", "score_2"} <= json.loads(apart.read_bytes())["columns"].keys()
    refused = invoke("apply", apart, folder / "calibrated.parquet", "--score", "score")
    refused.refused(2, "different score columns")


def test_a_column_that_no_part_makes_comes_from_the_input(
    folder: Path, bundle: Callable[..., Path], invoke: Invoke
) -> None:
    model = bundle(block="block")
    found = applied(invoke, model, folder / "calibrated.parquet")
    assert "block" in set(found["action"])
    invoke("apply", model, folder / "rows.parquet").refused(2, "'calibrated'")


def test_a_column_may_have_any_name_in_python(
    folder: Path, bundle: Callable[..., Path], invoke: Invoke
) -> None:
    rows = folder / "calibrated.parquet"
    found = applied(invoke, bundle(self="cal", block="block"), rows)
    assert found["self"].equals(found["calibrated"])


def test_what_is_one_part_s_score_may_be_the_uncertainty_of_another(
    tmp_path: Path, invoke: Invoke
) -> None:
    rows = tmp_path / "rows.parquet"
    every_role(400, 8).rename({"score": "p", "score_0": "score"}).write_parquet(rows)
    columns = {"one": ("p", "uncertainty"), "two": ("score_1", "score")}
    models = {name: tmp_path / f"{name}.json" for name in columns}
    for name, (score, spread) in columns.items():
        given = ("--score", score, "--uncertainty", spread, "--precision 0.7 --method exact")
        make(models[name], "boundary", rows, *given)
    service = make(tmp_path / "b.json", "bundle", *(f"{k}={path}" for k, path in models.items()))
    found = applied(invoke, service, rows, "--keep", "id")
    for name, model in models.items():
        alone = applied(invoke, model, rows, "--keep", "id")
        assert found[f"decision_{name}"].equals(alone["decision"])


def test_a_clash_with_the_input_is_told(
    folder: Path, bundle: Callable[..., Path], invoke: Invoke
) -> None:
    model = bundle("cal", block="block")
    invoke("apply", model, folder / "calibrated.parquet").refused(2, "--overwrite-columns")
    whole = applied(invoke, model, folder / "rows.parquet")
    again = applied(invoke, model, folder / "calibrated.parquet", "--overwrite-columns")
    assert again["action"].equals(whole["action"])


IMPOSSIBLE = {
    "a boundary without a name": (("block",), {}, "needs a name"),
    "called pass": (("cal",), {"pass": "block"}, "'pass'"),
    "called Pass": (("cal",), {"Pass": "block"}, "'Pass'"),
    "one name in two cases": (("cal",), {"a": "block", "A": "review"}, "two parts are called"),
    "two calibrators": (("cal", "platt"), {}, "both add a column 'calibrated'"),
    "a name that clashes": (("cal",), {"action": "platt"}, "'action'"),
    "a name that is taken": (("cal",), {"calibrated": "platt"}, "'calibrated'"),
    "the wrong order": ((), {"block": "block", "calibrated": "cal"}, "put the model"),
    "its own column": ((), {"score": "cal"}, "give it another name"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_impossible_bundles(case: str, folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    plain, named, words = IMPOSSIBLE[case]
    parts = [folder / f"{name}.json" for name in plain]
    done = invoke("bundle", *parts, *parts_of(folder, named), "-o", tmp_path / "out.json")
    done.refused(2, words)
    assert list(tmp_path.iterdir()) == []


def test_odd_arguments(folder: Path, bundle: Callable[..., Path], invoke: Invoke) -> None:
    service, cal = bundle("cal", block="block"), folder / "cal.json"
    for words, code, text in (
        ([service], 2, "no bundles"),
        ([cal, "-o", cal], 2, "written over"),
        ([cal, "-o", f"{folder}/"], 2, "is a folder"),
        (["-", "a=-"], 2, "once only"),
        ([f"={cal}"], 2, "NAME=MODEL"),
        (["a="], 2, "NAME=MODEL"),
        ([f"a b={cal}"], 2, "letters, digits"),
        ([folder / "none.json"], 2, "no such file"),
        ([folder / "rows.parquet"], 2, "looks like a table"),
    ):
        done = invoke("bundle", *words)
        assert (done.code, done.stdout) == (code, b""), (words, done)
        assert text in done.stderr
    done = invoke("bundle", cal, "--json", "--tag", "a=b")
    assert json.loads(done.stdout)["tags"] == {"a": "b"}
    done = invoke("bundle", f"x={cal}", f"block={folder / 'block.json'}", "-q")
    assert "leave that name out" in done.stderr
    assert invoke("bundle", f"./{cal.name}", "-q").code == 2


def test_a_bundle_is_judged_by_its_decisions(
    folder: Path, bundle: Callable[..., Path], invoke: Invoke
) -> None:
    model = bundle("cal", block="block")
    done = invoke("evaluate", folder / "rows.parquet", "--boundary", model)
    done.refused(3, "--decision decision_NAME")
    applied(invoke, model, folder / "rows.parquet")
    words = ("--decision", "decision_block", "--metrics", "precision", "-q")
    assert invoke("evaluate", model.with_suffix(".parquet"), *words).code == 0


def test_what_is_shown(bundle: Callable[..., Path], invoke: Invoke) -> None:
    done = invoke("show", bundle("cal", block="block", review="review"))
    assert (done.code, done.stderr) == (0, "")
    text = done.stdout.decode()
    for words in ("block, review", "calibrator", "margin_block", "precision >= 0.8", "else pass"):
        assert words in text
    assert len(text.splitlines()) < 24
    named = "<BundleModel: calibrator, block (boundary), review (boundary)>"
    assert repr(load(str(bundle("cal", block="block", review="review")))) == named
    assert invoke("show", bundle("cal")).code == 0
    schema = json.loads(invoke("show", "--schema", "bundle").stdout)
    assert "parts" in json.dumps(schema)


def test_the_same_parts_are_the_same_bytes(
    folder: Path, bundle: Callable[..., Path], invoke: Invoke, tmp_path: Path
) -> None:
    first = bundle("cal", block="block").read_bytes()
    loose = json.loads((folder / "block.json").read_bytes())
    (tmp_path / "loose.json").write_text(json.dumps(dict(reversed(loose.items()))))
    parts = (folder / "cal.json", f"block={tmp_path / 'loose.json'}")
    assert invoke("bundle", *parts, "-q").stdout == first
    assert decode(first).to_json() == first


def damages(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield what hands may do to a bundle."""

    def changed(change: Callable[[Any], object]) -> Any:
        whole = copy.deepcopy(content)
        change(whole)
        return whole

    yield "at least one part", {**content, "parts": []}
    yield "unknown kind", changed(lambda c: c["parts"][0]["model"].update(kind="other"))
    yield "part 1", changed(lambda c: c["parts"][0]["model"].pop("clip"))
    yield "unknown field", changed(lambda c: c["parts"][0].update(more=1))
    yield "needs a name", changed(lambda c: c["parts"][1].update(name=None))
    yield "'pass'", changed(lambda c: c["parts"][1].update(name="pass"))
    yield "letters", changed(lambda c: c["parts"][1].update(name='a"b'))
    yield "no bundles", changed(lambda c: c["parts"].append({"model": content, "name": None}))
    yield "put the model", {**content, "parts": content["parts"][::-1]}
    yield "'columns'", {**content, "columns": {}}
    yield (
        "model 0000",
        changed(lambda c: c["parts"][1]["model"]["columns"]["score"].update(made_by="0000")),
    )


def test_damaged_bundles_are_refused_by_name(bundle: Callable[..., Path]) -> None:
    content = json.loads(bundle("cal", block="block").read_bytes())
    for words, damaged in damages(content):
        with pytest.raises(ModelError, match=words):
            decode(json.dumps(damaged).encode())


# Which model made a column ---------------------------------------------------------------------


def test_a_fit_records_who_made_its_column(folder: Path) -> None:
    made_by = {
        name: json.loads((folder / f"{name}.json").read_bytes())["columns"]["score"].get("made_by")
        for name in ("block", "review", "vad", "raw")
    }
    assert made_by["raw"] is None
    assert made_by["block"] is not None
    assert made_by["block"] == made_by["review"] == made_by["vad"]
    assert len(made_by["block"]) == 16


def test_another_calibrator_is_refused(
    folder: Path, invoke: Invoke, tmp_path: Path, bundle: Callable[..., Path]
) -> None:
    parts = (folder / "platt.json", f"block={folder / 'block.json'}")
    invoke("bundle", *parts, "-o", tmp_path / "b.json").refused(3, "block")
    other = tmp_path / "other.parquet"
    assert invoke("apply", folder / "platt.json", folder / "rows.parquet", "-o", other).code == 0
    block = folder / "block.json"
    judge = ("evaluate", "--metrics", "precision", "--no-intervals", "--boundary")
    for words in (("apply",), ("drift",), judge):
        invoke(*words, block, other).refused(3, "was made by model")
        assert invoke(*words, block, folder / "calibrated.parquet").code == 0
    # The column of another name, of a bundle, without a note, as text: what is known decides.
    renamed = tmp_path / "renamed.parquet"
    apply = ("apply", folder / "platt.json", folder / "rows.parquet", "--column", "p")
    assert invoke(*apply, "-o", renamed).code == 0
    assert invoke("apply", block, renamed, "--score", "p").code == 3
    bundled = tmp_path / "bundled.parquet"
    service = bundle("cal", raw="raw")
    assert invoke("apply", service, folder / "rows.parquet", "-o", bundled).code == 0
    assert invoke("apply", block, bundled).code == 0
    pl.read_parquet(other).write_parquet(tmp_path / "plain.parquet")
    assert invoke("apply", block, tmp_path / "plain.parquet").code == 0
    fit = ("boundary", folder / "calibrated.parquet", other, "--score", "calibrated")
    invoke(*fit, "--precision", "0.8").refused(3, "one model was applied to")


def test_the_note_survives_apply_and_keeps_to_its_column(
    folder: Path, invoke: Invoke, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.parquet"
    block = folder / "block.json"
    done = invoke("apply", block, folder / "calibrated.parquet", "--keep", "calibrated", "-o", kept)
    assert done.code == 0
    note = json.loads(pl.read_parquet_metadata(kept)["calibkit.made_by"])
    assert note.keys() == {"calibrated", "decision", "margin"}
    platt = (folder / "platt.json", folder / "calibrated.parquet", "--overwrite-columns")
    assert invoke("apply", *platt, "-o", kept).code == 0
    again = json.loads(pl.read_parquet_metadata(kept)["calibkit.made_by"])
    assert again.keys() == {"calibrated"}
    assert again["calibrated"] != note["calibrated"]
    levels = ("bin", folder / "calibrated.parquet", "--score", "calibrated", "--add-level")
    assert invoke(*levels, "-o", kept).code == 0
    same = json.loads(pl.read_parquet_metadata(kept)["calibkit.made_by"])
    assert same == {"calibrated": note["calibrated"]}


def test_the_user_can_say_who_made_a_column(folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    frame = pl.read_parquet(folder / "calibrated.parquet")
    frame.write_csv(tmp_path / "c.csv")
    fit = ("--score", "calibrated", "--precision", "0.8", "--method", "exact", "-q")
    said = ("--calibrator", folder / "cal.json")
    text = invoke("boundary", tmp_path / "c.csv", *fit, *said).stdout
    assert text == invoke("boundary", folder / "calibrated.parquet", *fit, *said).stdout
    assert text == invoke("boundary", folder / "calibrated.parquet", *fit).stdout
    assert b"made_by" in text
    assert b"made_by" not in invoke("boundary", tmp_path / "c.csv", *fit).stdout
    wrong = ("--calibrator", folder / "platt.json")
    invoke("boundary", folder / "calibrated.parquet", *fit, *wrong).refused(3, "--calibrator")


def test_the_hash_is_that_of_what_a_model_does(
    folder: Path, invoke: Invoke, tmp_path: Path
) -> None:
    again = tmp_path / "again.json"
    fit = ("calibrate", folder / "rows.parquet", "--provenance", "none", "--tag", "a=b")
    assert invoke(*fit, "-o", again).code == 0
    parts = (again, f"block={folder / 'block.json'}")
    assert invoke("bundle", *parts, "-o", tmp_path / "b.json").code == 0


def test_a_damaged_note_is_told(folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    frame, rows = pl.read_parquet(folder / "calibrated.parquet"), tmp_path / "rows.parquet"
    for note, code, words in (
        ("{oops", 3, "in its footer"),
        ("[]", 3, "in its footer"),
        ('{"calibrated": "0"}', 3, "made by model 0"),
        ('{"another": "0"}', 0, ""),
    ):
        frame.write_parquet(rows, metadata={"calibkit.made_by": note})
        done = invoke("apply", folder / "block.json", rows, "-o", tmp_path / "out.csv")
        assert done.code == code, (note, done.stderr)
        assert words in done.stderr
