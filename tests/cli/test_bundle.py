"""``bundle``: several models in one file do what they do one after the other, or are refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibkit.errors import ModelError
from calibkit.models.model import decode
from tests.conftest import Invoke, every_role, make

FITS = {
    "cal": ("calibrate", "rows"),
    "platt": ("calibrate", "rows", "--method platt"),
    "venn": ("calibrate", "rows", "--method venn-abers"),
    "classes": (
        *("calibrate", "rows", "--probs prob_* --counts count_*"),
        "--method vector --regularization 0.1",
    ),
    "vad": ("vad", "calibrated", "--members calibrated,score_* --replicates bootstrap"),
    "tree": ("hetcal", "rows", "--features x --max-depth 1 --min-leaf 20"),
    "alpha": ("alpha-cal", "rows", "--features x"),
    "by": ("calibrate", "rows", "--by g --method platt"),
    "block": ("boundary", "calibrated", "--score calibrated --precision 0.8 --method exact"),
    "review": ("boundary", "calibrated", "--score calibrated --recall 0.8 --method st"),
    "raw": ("boundary", "rows", "--precision 0.7 --by g --method exact"),
    "random": ("boundary", "rows", "--precision 0.7 --method stochastic"),
}

#: What the fixtures `bundle` and `applied` are.
Bundle = Callable[..., Path]
Applied = Callable[..., pl.DataFrame]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows and a model of each kind."""
    folder = tmp_path_factory.mktemp("bundles")
    every_role(400, 8).write_parquet(folder / "rows.parquet")
    for name, (command, rows, *options) in FITS.items():
        model = make(folder / f"{name}.json", command, folder / f"{rows}.parquet", *options)
        if name in ("cal", "platt"):
            kept = {"cal": "calibrated", "platt": "other"}[name]
            make(folder / f"{kept}.parquet", "apply", model, folder / "rows.parquet")
    rows, more = folder / "rows.parquet", ("--members score_* --calibrator", folder / "by.json")
    make(folder / "tandem.json", "vad", rows, *more, "--train-input", rows)
    return folder


@pytest.fixture
def bundle(folder: Path, tmp_path: Path) -> Bundle:
    """Make a bundle: ``bundle("cal", block="block")``, in this order."""

    def call(*plain: str, **named: str) -> Path:
        parts = [folder / f"{name}.json" for name in plain]
        return make(tmp_path / "service.json", "bundle", *parts, *parts_of(folder, named))

    return call


@pytest.fixture
def applied(folder: Path, invoke: Invoke) -> Applied:
    """Apply a model to rows, both by a path or the name of a file."""

    def call(model: Path | str, rows: Path | str = "rows", *options: object) -> pl.DataFrame:
        path, output = folder / model, (folder / model).with_suffix(".applied.parquet")
        return invoke("apply", path, folder / f"{rows}.parquet", *options, "-o", output).result()

    return call


def parts_of(folder: Path, named: dict[str, str]) -> list[str]:
    return [f"{name}={folder / model}.json" for name, model in named.items()]


def test_parts_are_applied_one_after_the_other(
    folder: Path, bundle: Bundle, applied: Applied
) -> None:
    whole = applied(bundle("cal", block="block", review="review"))
    expected = pl.read_parquet(folder / "calibrated.parquet")
    for name in ("block", "review"):
        own = applied(f"{name}.json", "calibrated", "--keep id")
        columns = [pl.col(one).alias(f"{one}_{name}") for one in ("decision", "margin")]
        expected = expected.hstack(own.select(columns))
    second = (
        pl.when(pl.col("decision_review") == 1).then(pl.lit("review")).otherwise(pl.lit("pass"))
    )
    action = pl.when(pl.col("decision_block") == 1).then(pl.lit("block")).otherwise(second)
    assert whole.equals(expected.with_columns(action=action))
    assert set(whole["action"]) == {"block", "review", "pass"}
    some = applied(bundle("cal", block="block", review="review"), "rows", "--selected")
    assert some.equals(whole.filter(pl.col("action") != "pass"))
    # The first that fires wins.
    turned = applied(bundle("cal", review="review", block="block"))
    assert set(turned["action"]) == {"review", "pass"}
    assert (turned.filter(pl.col("decision_block") == 1)["action"] == "review").all()


def test_every_kind_in_one_bundle(bundle: Bundle, applied: Applied) -> None:
    parts = {"shrunk": "vad", "hetero": "tree", "raters": "alpha", "many": "classes", "v": "venn"}
    found = applied(bundle("cal", **parts, segments="raw", block="block"), "rows", "--keep id")
    assert found.columns == [
        *("id", "calibrated", "shrunk", "hetero", "leaf_hetero"),
        *("alpha0_raters", "disagreement_raters", "disagreement_0_raters"),
        *("disagreement_1_raters", "many_0", "many_1", "v", "v_low", "v_high"),
        *("decision_segments", "margin_segments", "decision_block", "margin_block", "action"),
    ]
    for name, column in (("tree", "hetero"), ("venn", "v"), ("alpha", "alpha0_raters")):
        assert applied(f"{name}.json", "rows", "--keep id")[:, 1].equals(found[column])
    shrunk = applied("vad.json", "calibrated", "--keep id")
    assert shrunk["calibrated"].equals(found["shrunk"])


def test_a_bundle_reads_what_its_parts_read_of_the_input(bundle: Bundle) -> None:
    for parts, wanted in (
        ({"raters": "alpha"}, {"probs": "prob_*", "feature": "x"}),
        ({"hetero": "tree"}, {"score": "score", "feature": "x"}),
        ({"shrunk": "tandem"}, {"score": "score_0", "by": "g"}),
    ):
        columns = json.loads(bundle(**parts).read_bytes())["columns"]
        assert {role: column["name"] for role, column in columns.items()} == wanted


def test_missing_values_are_null_in_all_columns(
    folder: Path, bundle: Bundle, applied: Applied, invoke: Invoke, tmp_path: Path
) -> None:
    spread = pl.when(pl.col("id") % 7 > 0).then("uncertainty")
    rows = pl.read_parquet(folder / "rows.parquet").with_columns(uncertainty=spread)
    rows.write_parquet(tmp_path / "holes.parquet")
    model = bundle("cal", block="block", review="review")
    invoke("apply", model, tmp_path / "holes.parquet").refused(3, "'uncertainty'")
    found = applied(model, tmp_path / "holes", "--on-missing null")
    lost = found.filter(pl.col("id") % 7 == 0).select("calibrated", "decision_review", "action")
    assert lost.null_count().row(0) == (lost.height,) * 3
    assert found.filter(pl.col("id") % 7 > 0)["action"].null_count() == 0


def test_stochastic_parts_share_the_key(
    folder: Path, bundle: Bundle, applied: Applied, invoke: Invoke
) -> None:
    model = bundle("cal", block="block", maybe="random")
    invoke("apply", model, folder / "rows.parquet").refused(2, "'maybe'", "--key")
    found = applied(model, "rows", "--key id --seed 9")
    own = applied("random.json", "rows", "--key id --seed 9")
    for name in ("decision", "decision_probability"):
        assert found[f"{name}_maybe"].equals(own[name])


def test_columns_elsewhere_are_those_of_the_input(
    folder: Path, bundle: Bundle, applied: Applied, invoke: Invoke, tmp_path: Path
) -> None:
    rows = pl.read_parquet(folder / "rows.parquet")
    rows.rename({"score": "s", "uncertainty": "u"}).write_parquet(tmp_path / "other.parquet")
    model = bundle("cal", block="block")
    found = applied(model, tmp_path / "other", "--score s --uncertainty u")
    assert found["action"].equals(applied(model)["action"])
    two = bundle("cal", shrunk="vad", first="raw", block="block")
    assert json.loads(two.read_bytes())["columns"].keys() == {"score", "uncertainty", "by"}
    apart = bundle(block="block", raw="raw")  # one reads 'calibrated', the other 'score'
    assert {"score", "score_2"} <= json.loads(apart.read_bytes())["columns"].keys()
    refused = invoke("apply", apart, folder / "calibrated.parquet", "--score", "score")
    refused.refused(2, "different score columns")


def test_a_column_of_the_input_and_one_that_a_part_makes(
    folder: Path, bundle: Bundle, applied: Applied, invoke: Invoke
) -> None:
    model = bundle(block="block")  # no part makes what it reads
    assert "block" in set(applied(model, "calibrated")["action"])
    invoke("apply", model, folder / "rows.parquet").refused(2, "'calibrated'")
    model = bundle("cal", block="block")  # a part makes what is there
    invoke("apply", model, folder / "calibrated.parquet").refused(2, "--overwrite-columns")
    again = applied(model, "calibrated", "--overwrite-columns")
    assert again["action"].equals(applied(model)["action"])
    found = applied(bundle(self="cal", block="block"), "calibrated")  # any name in Python
    assert found["self"].equals(found["calibrated"])


@pytest.mark.parametrize("words", ["--selected", "--key id", "--probs prob_*"])
def test_options_that_no_part_has_a_use_for(
    words: str, folder: Path, bundle: Bundle, invoke: Invoke
) -> None:
    said = {"--selected": "decides nothing", "--key id": "is not stochastic"}.get(words, "--probs")
    invoke("apply", bundle("cal"), folder / "rows.parquet", words).refused(2, said)


def test_what_is_one_part_s_score_may_be_the_uncertainty_of_another(
    tmp_path: Path, applied: Applied
) -> None:
    rows = tmp_path / "rows.parquet"
    every_role(400, 8).rename({"score": "p", "score_0": "score"}).write_parquet(rows)
    models = {}
    for name, score, spread in (("one", "p", "uncertainty"), ("two", "score_1", "score")):
        given = f"--score {score} --uncertainty {spread} --precision 0.7 --method exact"
        models[name] = make(tmp_path / f"{name}.json", "boundary", rows, given)
    service = make(tmp_path / "b.json", "bundle", *(f"{k}={path}" for k, path in models.items()))
    found = applied(service, tmp_path / "rows", "--keep id")
    for name, model in models.items():
        alone = applied(model, tmp_path / "rows", "--keep id")
        assert found[f"decision_{name}"].equals(alone["decision"])


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
    "nothing before =": ((), {"": "cal"}, "NAME=MODEL"),
    "an odd name": ((), {"a b": "cal"}, "letters, digits"),
    "no such file": (("none",), {}, "no such file"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_impossible_bundles(case: str, folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    plain, named, words = IMPOSSIBLE[case]
    parts = [folder / f"{name}.json" for name in plain]
    done = invoke("bundle", *parts, *parts_of(folder, named), "-o", tmp_path / "out.json")
    done.refused(2, words)
    assert list(tmp_path.iterdir()) == []


def test_odd_arguments(folder: Path, bundle: Bundle, invoke: Invoke) -> None:
    cal = folder / "cal.json"
    for words, text in (
        ([bundle("cal", block="block")], "no bundles"),
        ([cal, "-o", cal], "written over"),
        ([cal, "-o", f"{folder}/"], "is a folder"),
        (["-", "a=-"], "once only"),
        (["a="], "NAME=MODEL"),
        ([folder / "rows.parquet"], "looks like a table"),
        ([f"./{cal.name}"], "no such file"),
    ):
        invoke("bundle", *words).refused(2, text)
    assert invoke("bundle", cal, "--json --tag a=b").result()["tags"] == {"a": "b"}
    done = invoke("bundle", f"x={cal}", f"block={folder / 'block.json'}", "-q")
    assert "leave that name out" in done.stderr


def test_a_bundle_is_judged_by_its_decisions(
    folder: Path, bundle: Bundle, applied: Applied, invoke: Invoke, tmp_path: Path
) -> None:
    model = bundle("cal", block="block")
    done = invoke("evaluate", folder / "rows.parquet", "--boundary", model)
    done.refused(3, "--decision decision_NAME")
    applied(model).write_parquet(tmp_path / "rows.parquet")
    words = "--decision decision_block --metrics precision -q"
    assert invoke("evaluate", tmp_path / "rows.parquet", words).code == 0


def test_the_same_parts_are_the_same_bytes(
    folder: Path, bundle: Bundle, invoke: Invoke, tmp_path: Path
) -> None:
    first = bundle("cal", block="block").read_bytes()
    loose = json.loads((folder / "block.json").read_bytes())
    (tmp_path / "loose.json").write_text(json.dumps(dict(reversed(loose.items()))))
    parts = (folder / "cal.json", f"block={tmp_path / 'loose.json'}")
    assert invoke("bundle", *parts, "-q").stdout == first
    assert decode(first).to_json() == first
    assert repr(decode(first)) == "<BundleModel: calibrator, block (boundary)>"
    shown = invoke("show", bundle("cal", block="block")).stdout.decode()
    assert "margin_block" in shown and "else pass" in shown
    assert invoke("show", bundle("cal")).code == 0


@pytest.mark.parametrize(
    ("words", "damage"),
    [
        ("at least one part", lambda c: c.update(parts=[])),
        ("unknown kind", lambda c: c["parts"][0]["model"].update(kind="other")),
        ("part 1", lambda c: c["parts"][0]["model"].pop("clip")),
        ("unknown field", lambda c: c["parts"][0].update(more=1)),
        ("needs a name", lambda c: c["parts"][1].update(name=None)),
        ("'pass'", lambda c: c["parts"][1].update(name="pass")),
        ("letters", lambda c: c["parts"][1].update(name='a"b')),
        ("no bundles", lambda c: c["parts"].append({"model": copy.deepcopy(c), "name": None})),
        ("put the model", lambda c: c["parts"].reverse()),
        ("'columns'", lambda c: c.update(columns={})),
        ("model 0000", lambda c: c["parts"][1]["model"]["columns"]["score"].update(made_by="0000")),
    ],
)
def test_damaged_bundles_are_refused_by_name(
    words: str, damage: Callable[[Any], object], bundle: Bundle
) -> None:
    content = json.loads(bundle("cal", block="block").read_bytes())
    damage(content)
    with pytest.raises(ModelError, match=words):
        decode(json.dumps(content).encode())


# Which model made a column ---------------------------------------------------------------------


def notes(path: Path) -> Any:
    return json.loads(pl.read_parquet_metadata(path)["calibkit.made_by"])


def test_a_fit_records_who_made_its_column(
    folder: Path, bundle: Bundle, invoke: Invoke, tmp_path: Path
) -> None:
    made_by = {
        name: json.loads((folder / f"{name}.json").read_bytes())["columns"]["score"].get("made_by")
        for name in ("block", "review", "vad", "raw")
    }
    assert made_by["raw"] is None
    assert made_by["block"] == made_by["review"] == made_by["vad"]
    assert len(made_by["block"]) == 16
    # The hash is that of what a model does.
    fit = ("calibrate", folder / "rows.parquet", "--provenance none --tag a=b")
    again = make(tmp_path / "again.json", *fit)
    assert invoke("bundle", again, f"block={folder / 'block.json'}").code == 0


def test_another_calibrator_is_refused(
    folder: Path, invoke: Invoke, bundle: Bundle, tmp_path: Path
) -> None:
    block, rows, other = (folder / name for name in ("block.json", "rows.parquet", "other.parquet"))
    invoke("bundle", folder / "platt.json", f"block={block}").refused(3, "block")
    judge = ("evaluate", "--metrics", "precision", "--no-intervals", "--boundary")
    for words in (("apply",), ("drift",), judge):
        invoke(*words, block, other).refused(3, "was made by model")
        assert invoke(*words, block, folder / "calibrated.parquet").code == 0
    # The column of another name, of a bundle, without a note: what is known decides.
    make(tmp_path / "p.parquet", "apply", folder / "platt.json", rows, "--column p")
    assert invoke("apply", block, tmp_path / "p.parquet", "--score p").code == 3
    make(tmp_path / "bundled.parquet", "apply", bundle("cal", raw="raw"), rows)
    assert invoke("apply", block, tmp_path / "bundled.parquet").code == 0
    pl.read_parquet(other).write_parquet(tmp_path / "plain.parquet")
    assert invoke("apply", block, tmp_path / "plain.parquet").code == 0
    own, bound = folder / "calibrated.parquet", "--score calibrated --precision 0.8"
    invoke("boundary", own, other, bound).refused(3, "one model was applied to")
    for more in ((), ("--compare",)):
        for test, code in ((other, 3), (own, 0), (tmp_path / "plain.parquet", 0)):
            assert invoke("boundary", own, bound, *more, "--test", test).code == code


def test_the_note_survives_apply_and_keeps_to_its_column(folder: Path, tmp_path: Path) -> None:
    kept, rows = tmp_path / "kept.parquet", folder / "calibrated.parquet"
    note = notes(make(kept, "apply", folder / "block.json", rows, "--keep calibrated"))
    assert note.keys() == {"calibrated", "decision", "margin"}
    again = notes(make(kept, "apply", folder / "platt.json", rows, "--overwrite-columns"))
    assert again.keys() == {"calibrated"}
    assert again["calibrated"] != note["calibrated"]
    same = notes(make(kept, "bin", rows, "--score calibrated --add-level"))
    assert same == {"calibrated": note["calibrated"]}


def test_the_user_can_say_who_made_a_column(folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    noted, text = folder / "calibrated.parquet", tmp_path / "c.csv"
    pl.read_parquet(noted).write_csv(text)
    fit = "--score calibrated --precision 0.8 --method exact -q"
    said = ("--calibrator", folder / "cal.json")
    known = invoke("boundary", noted, fit).stdout
    assert b"made_by" in known
    assert invoke("boundary", text, fit, *said).stdout == known
    assert invoke("boundary", noted, fit, *said).stdout == known
    assert b"made_by" not in invoke("boundary", text, fit).stdout
    wrong = ("--calibrator", folder / "platt.json")
    invoke("boundary", noted, fit, *wrong).refused(3, "--calibrator")


@pytest.mark.parametrize(
    ("note", "code", "words"),
    [
        ("{oops", 3, "in its footer"),
        ("[]", 3, "in its footer"),
        ('{"calibrated": "0"}', 3, "made by model 0"),
        ('{"another": "0"}', 0, ""),
    ],
)
def test_a_damaged_note_is_told(
    note: str, code: int, words: str, folder: Path, invoke: Invoke, tmp_path: Path
) -> None:
    frame, rows = pl.read_parquet(folder / "calibrated.parquet"), tmp_path / "rows.parquet"
    frame.write_parquet(rows, metadata={"calibkit.made_by": note})
    done = invoke("apply", folder / "block.json", rows)
    assert (done.code, words in done.stderr) == (code, True)
