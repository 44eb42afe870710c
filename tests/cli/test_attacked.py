"""Streams, names and models as an attacker, or an accident, leaves them."""

from __future__ import annotations

import copy
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from calibkit.errors import ModelError
from calibkit.models.model import decode
from tests.cli.score_files import scores, write
from tests.conftest import Invoke, clean_environment, every_role, make
from tests.warm import program as warm_program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows and a model."""
    made = tmp_path_factory.mktemp("attacked")
    rows = write(scores(), made / "a.csv")
    make(made / "m.json", "boundary", rows, "--precision 0.5 --method exact --folds 0")
    return made


def shell(folder: Path, line: str, *, warm: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell, `calibkit` being the command; not `warm`: as a user starts it."""
    program = str(warm_program()) if warm else f"{sys.executable} -m calibkit_cli"
    return subprocess.run(
        ["sh", "-c", line.replace("calibkit", program)],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "line",
    [
        "boundary a.csv --precision 0.5 --method st --folds 0 -q",
        "boundary a.csv --precision 0.5 --method st --folds 0 -q --json",
        "apply m.json a.csv",
        "apply m.json a.csv -o x.csv --json",
        "show m.json",
        "show --schema boundary",
        "evaluate a.csv --no-intervals",
        "bin a.csv --score-bins 3",
        "export m.json --to sql",
        "validate a.csv",
        "simulate posterior --rows 5",
        "diff m.json m.json",
        "--version",
        "--help",
        "apply --help",
    ],
)
def test_a_standard_output_that_is_full(line: str, folder: Path) -> None:
    ended = shell(folder, f"calibkit {line} > /dev/full")
    assert ended.returncode == 5, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("apply m.json a.csv >&-", "could not be written"),
        ("apply m.json a.csv -q -o x.csv --json >&-", "standard output"),
        ("show m.json >&-", "standard output"),
        ("--help >&-", "standard output"),
        ("apply m.json - <&-", "read error"),
        ("show - <&-", "read error"),
    ],
)
def test_a_standard_stream_that_is_closed(line: str, said: str, folder: Path) -> None:
    ended = shell(folder, f"calibkit {line}", warm=False)
    assert ended.returncode == 5, ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_closed_standard_output_that_is_not_needed(folder: Path) -> None:
    ended = shell(folder, "calibkit apply m.json a.csv -q -o there.csv >&-", warm=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (folder / "there.csv").stat().st_size > 100


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_an_input_whose_name_is_no_utf8(suffix: str, tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / os.fsdecode(b"b\xff." + suffix.encode())
    write(scores(), tmp_path / f"a.{suffix}").rename(path)
    invoke("boundary", path, "--precision", "0.5").refused(2, "not UTF-8")
    assert invoke("boundary", tmp_path, "--precision", "0.5").code == 2


def test_an_output_with_a_name_too_long(folder: Path, invoke: Invoke) -> None:
    line, long = ("apply", folder / "m.json", folder / "a.csv", "-q -o"), "x" * 251 + ".csv"
    assert invoke(*line, Path(long)).code == 0
    invoke(*line, f"y{long}").refused(2, "255 bytes")


def test_names_in_markdown_and_in_csv(invoke: Invoke) -> None:
    nasty = "<img src=x onerror=alert(1)>[a](b)|`*"
    rows = scores().with_columns(
        pl.Series("g", [nasty, "b"] * (scores().height // 2)), pl.lit("k").alias("=1+1")
    )
    path = write(rows, "a.parquet")
    options = ("--no-intervals", "--min-rows", "1", "-q")
    said = invoke("evaluate", path, "--by", "g", *options, "-o m.md")
    assert said.code == 0, said.stderr
    text = Path("m.md").read_text()
    assert "g:&lt;img src=x onerror=alert(1)&gt;\\[a\\](b)\\|\\`\\*" in text
    assert "<img" not in text
    made = ("-o", Path("m.csv"), "--reliability", Path("r.csv"))
    assert invoke("evaluate", path, "--by", "=1+1", *options, *made).code == 0
    for name in ("m.csv", "r.csv"):
        cells = Path(name).read_text().replace("\n", ",").split(",")
        assert not [cell for cell in cells if cell.startswith(("=", "@", "+"))]
    assert "'=1+1:k" in Path("m.csv").read_text()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "csv": bytes,
    "csv.gz": gzip.compress,
    "csv.zst": lambda data: bytes(pa.compress(data, "zstd", asbytes=True)),
}


@pytest.mark.parametrize("suffix", PACKED)
def test_a_line_without_an_end(suffix: str, invoke: Invoke) -> None:
    rows = b"score,label\n" + b"0.5,1\n0.25,0\n" * 100
    path = Path(f"long.{suffix}")
    path.write_bytes(PACKED[suffix](rows + b"0.5," + b"1" * (2**22 + 9) + b"\n" + rows))
    line = ("boundary", path, "--precision", "0.5", "--method", "st", "-q")
    told = invoke(*line, "--memory", "1MB")
    told.refused(5, f"long.{suffix}: the line that begins at byte {len(rows):,} has more")
    assert invoke(*line, "--memory", "1GB").code == 3  # it fits: what it holds is no label
    path.write_bytes(PACKED[suffix](rows + b"0.5," + b"1" * (2**21) + b"\n" + rows))
    assert invoke(*line, "--memory", "1MB").code == 3


@pytest.mark.parametrize("suffix", PACKED)
def test_a_quotation_mark_that_is_not_closed(suffix: str, invoke: Invoke) -> None:
    rows = b'score,label,"a ""name"""\n' + b'0.5,1,"two\nlines"\n0.25,0,x\n' * 2**15
    path = Path(f"open.{suffix}")
    line = ("boundary", path, "--precision", "0.5", "--method", "st", "-q", "--memory", "1MB")
    path.write_bytes(PACKED[suffix](rows))
    assert invoke(*line).code == 0
    rest = b"".join(b"0.%d,1,x\n" % place for place in range(2**19))
    path.write_bytes(PACKED[suffix](rows + b'0.5,1,"never\n' + rest))
    place = f"the row that begins in line {3 * 2**15 + 2:,}, at byte {len(rows):,}, has more than"
    invoke(*line).refused(5, f"open.{suffix}: {place}")


def test_a_file_that_unpacks_to_a_thousand_times_its_size(invoke: Invoke) -> None:
    text = b"score,label\n" + b"0.5,1\n" * 2**20
    Path("a.csv").write_bytes(text)
    Path("a.csv.zst").write_bytes(PACKED["csv.zst"](text))
    line = ("boundary", "--precision", "0.5", "--method", "st", "-q", "--memory", "1MB")
    invoke(*line, "a.csv.zst").refused(5, "unpacks to more than 1,000 times its size")
    assert invoke(*line, "a.csv").code == 0


def test_more_threads_than_processors(folder: Path, invoke: Invoke) -> None:
    line = ("boundary", folder / "a.csv", "--precision", "0.5", "--method", "st", "-q")
    few = invoke(*line, "--threads", "1")
    ended = invoke(*line, "--threads", "100000")
    assert (ended.code, ended.stdout) == (0, few.stdout)
    assert "Warning: --threads 100000 is more than" in ended.stderr
    assert invoke(*line, "--threads", "100000", "--warnings", "error").code == 3


def test_a_key_that_stands_twice(folder: Path, invoke: Invoke) -> None:
    text = (folder / "m.json").read_text().rstrip()
    levels = len(json.loads(text)["score_thresholds"])
    path = Path("twice.json")
    path.write_text(f'{text[:-1]}, "score_thresholds": {json.dumps([None] * levels)}}}')
    twice = invoke("apply", path, folder / "a.csv")
    twice.refused(3, "'score_thresholds' stands in one object twice")


REFUSED, DELETED = 3, object()
VALUES = (DELETED, None, "x", -1, [], {})
#: A map of class probabilities with a weight too few.
SHORT = {"method": "vector", "weights": [1.0], "intercept": [0.0, 0.0]}

#: A tie, which has no second threshold.
OF_TIES = {"randomise": "tie", "random_thresholds": [0.1, None, None]}

#: Several uncertainties whose bins are not apart.
TWICE = {"edges": [[0.5, 0.5], []], "leaves": [0, 0, 0]}

FITS = {
    "boundary": "boundary --precision 0.6 --method exact",
    "boundary by segment": "boundary --precision 0.6 --method exact --by g",
    "line": "calibrate --method platt --by g --min-rows 10",
    "steps": "calibrate --method isotonic",
    "classes": "calibrate --probs prob_* --counts count_* --method vector --regularization 0.1",
    "vad": "vad --replicates bootstrap --train-input ROWS --calibrator line",
    "tree": "hetcal --features x --max-depth 1 --min-leaf 20",
    "boosted": "hetcal --score x --scale raw --features score --partition boosted --trees 2",
    "alpha": "alpha-cal --features x",
    "constant": "alpha-cal",
}


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows and a fitted model of each kind."""
    fitted = tmp_path_factory.mktemp("damaged")
    rows = fitted / "rows.parquet"
    every_role(200, 3).write_parquet(rows)
    plain = make(fitted / "plain.json", "calibrate", rows, "--score score_0")
    given = {"ROWS": rows, "line": plain}
    for name, fit in FITS.items():
        command, *options = (given.get(word, word) for word in fit.split())
        make(fitted / f"{name}.json", command, rows, *options)
    return fitted


def damages(content: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each field of a model and of what was seen at its fit."""
    for key, value in content.items():
        yield *before, key
        if key == "fit":
            yield from damages(value, (*before, key))


def damaged(content: Any, path: tuple[str | int, ...], value: Any) -> bytes:
    whole = copy.deepcopy(content)
    if not path:
        return json.dumps(value(whole)).encode()
    inner = whole
    for key in path[:-1]:
        inner = inner[key]
    if value is DELETED:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value(inner[path[-1]]) if callable(value) else value
    return json.dumps(whole).encode()


def steps(knots: list[float], values: list[float]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what makes steps of the line of a leaf."""
    return lambda own: {
        **{name: one for name, one in own.items() if name not in ("a", "b")},
        "knots": knots,
        "values": values,
    }


@pytest.mark.few(3)
@pytest.mark.parametrize("name", FITS)
def test_damage_is_refused_or_does_no_harm(name: str, fitted: Path, invoke: Invoke) -> None:
    content = json.loads((fitted / f"{name}.json").read_bytes())
    model, refused = Path("model.json"), 0
    for path in damages(content):
        for value in VALUES:
            data = damaged(content, path, value)
            try:
                decode(data)
            except ModelError as error:
                assert error.code == REFUSED
                refused += 1
                continue
            model.write_bytes(data)
            shown = invoke("show", model)
            assert (shown.code, shown.stderr) == (0, ""), (path, value)
            line = ("apply", model, fitted / "rows.parquet", "-q --keep x -o o.csv")
            assert invoke(*line).code == 0, (path, value)
    assert refused > 3 * len(content)


@pytest.mark.parametrize(
    ("name", "path", "value", "words"),
    [
        ("boundary", ("fit", "reference", "rows_per_level"), [], "rows_per_level"),
        ("boundary", ("fit", "in_sample", "true_positives"), 101, "'true_positives' is 101"),
        ("boundary by segment", ("groups", "a", "fit", "positives"), 1e6, "'positives' is 1000000"),
        ("boundary by segment", ("groups",), {}, "at least one"),
        ("line", ("fit", "brier"), None, "'brier'"),
        ("line", ("method",), "x", "unknown method"),
        ("line", ("fit", "positives"), 201, "'positives' is 201"),
        ("classes", ("method",), "x", "unknown map"),
        ("classes", ("regularization",), [], "two penalties"),
        ("vad", ("members",), [], "members"),
        ("vad", ("fit", "lambda_test"), DELETED, "'lambda_test'"),
        ("vad", ("fit", "rows"), -1, "'rows' is -1"),
        ("vad", ("calibrator", "fit", "positives"), 1e9, "'positives'"),
        ("alpha", ("fit", "rows_two_raters"), 201, "rows_two_raters"),
        ("boosted", ("partitions",), [], "at least one"),
        ("alpha", ("features",), [], "features"),
        ("steps", ("knots", 0), 9.0, "knots must rise"),
        ("tree", ("tree", 0, "missing"), DELETED, "where a 'missing' value goes"),
        ("boundary", ("fit", "in_sample", "selected"), 10**9, "selected"),
        ("boundary by segment", ("columns", "by"), DELETED, "by"),
        ("boundary by segment", ("groups", "a", "score_thresholds"), [0.5], "uncertainty_edges"),
        ("classes", ("weights",), [1.0], "weights"),
        ("classes", ("classes",), ["a"], "classes"),
        ("vad", ("columns", "by"), {"name": "g"}, "'groups' and a column 'by' go together"),
        ("tree", ("tree",), lambda own: own[:-1], "children"),
        ("tree", ("tree", 0, "left"), 0, "children"),
        ("tree", ("tree", 0, "right"), 1, "child of one"),
        ("boosted", ("fit", "positives"), 1e9, "'positives'"),
        ("tree", ("tree", 0, "feature"), "no", "no feature 'no'"),
        ("tree", ("tree", 0, "feature"), DELETED, "neither 'feature' nor 'leaf'"),
        ("tree", ("tree", 0, "cut"), DELETED, "'cut' belongs to numbers only"),
        ("tree", ("tree", 0, "left_categories"), ["a"], "belong to text only"),
        ("tree", ("maps",), lambda own: own[:-1], "no map"),
        ("tree", ("maps",), lambda own: [*own, own[0]], "2 leaves, but 3 maps"),
        ("tree", ("maps", 0, "a"), DELETED, "'a' and 'b', or 'knots' and 'values'"),
        ("tree", ("maps", 0, "c"), 1.0, "beta"),
        ("tree", ("maps", 0), steps([0.0], [0.5]), "maps are of one kind"),
        ("tree", ("tree", 2, "leaf"), 0, "1 leaves, but 2 maps"),
        ("tree", ("maps", 0), steps([0.0, 1.0], [0.5]), "as many values as knots"),
        ("tree", ("maps", 0), steps([], []), "as many values as knots"),
        ("tree", ("maps", 0), steps([1.0, 1.0], [0.2, 0.5]), "knots must increase"),
        ("tree", ("maps", 0), steps([0.0, 1.0], [0.2, 1.5]), "are probabilities"),
        ("tree", ("partition",), "forest", "'tree' and 'maps'"),
        ("tree", ("clip",), 0.7, "clip"),
        ("tree", ("columns", "score"), DELETED, "score"),
        ("constant", ("weights",), [1.0], "weights"),
        ("constant", ("classes",), ["0"], "classes"),
        ("constant", ("disagreement_map",), {"knots": [0.5, 0.5], "values": [0.0, 1.0]}, "knots"),
        ("constant", ("logit_map",), {"method": "temperature", "temperature": -1.0}, "temperature"),
        ("constant", ("logit_map",), {"method": "temperature", "temperature": 0.0}, "temperature"),
        ("constant", ("logit_map",), SHORT, "weights"),
        ("logistic", ("cut",), DELETED, "coefficients, uncertainty_ranks, cut"),
        ("logistic", ("coefficients",), {"intercept": 1.0}, "'coefficients' names"),
        ("logistic", ("uncertainty_ranks",), [0.5], "one value per level"),
        ("stochastic", ("randomise",), DELETED, "'random_thresholds'"),
        ("stochastic", (), lambda own: {**own, **OF_TIES}, "null"),
        ("stochastic", ("random_thresholds",), DELETED, "'random_thresholds'"),
        ("stochastic", ("random_thresholds",), [0.1, None], "one value per level"),
        ("stochastic", ("random_thresholds",), [None, "low", None], "'low'"),
        ("stochastic", ("random_thresholds",), [1.0, None, None], "below"),
        ("stochastic", ("tie_probability",), DELETED, "'tie_probability'"),
        ("stochastic", ("tie_probability",), [0.5], "one value per level"),
        ("stochastic", ("tie_probability",), [0.5, 1.5, 0.0], "probabilities"),
        ("stochastic", ("seed",), DELETED, "'seed'"),
        ("stochastic", ("seed",), -1, "'seed'"),
        ("stochastic", ("order",), "score-uncertainty", "uncertainty-score"),
        ("prior", ("negatives_kept",), 1.5, "negatives_kept must be above 0"),
        ("spline", ("logits",), [0.5], "differ in number"),
        ("spline", ("slopes", 0), -0.1, "slopes must be 0 or more"),
        ("spline", ("logit_knots", 0), 9.0, "logit_knots must rise"),
        ("spline", ("logits", 0), 9.0, "logits must rise"),
        ("mist", ("fit", "reference", "selected_share"), 1.5, "is a share"),
        ("mist", ("fit", "reference", "uncertainty_max"), None, "uncertainties goes together"),
        ("mist", ("fit", "reference", "score_max"), None, "'score_max' are numbers"),
        ("mist", ("fit", "reference", "score_quantiles", 0), 2.0, "must not decrease"),
        ("mist", ("fit", "reference", "score_counts", 0), -1, "are numbers of rows"),
        ("mist", ("isotonic", 0, "knots", 0), 9.0, "the knots of 'isotonic' rise"),
        ("mist", ("isotonic", 0, "values", 0), 1.5, "are probabilities"),
        ("mist", ("isotonic", 0, "values"), [], "a value for each knot"),
        ("mist", ("isotonic",), [], "isotonic"),
        ("three", ("review_thresholds",), DELETED, "three-way decisions have"),
        ("three", ("review_thresholds",), [0.1, 0.2], "one value per level"),
        ("three", ("review_thresholds",), [0.99], "not above that of block"),
        ("several", ("partition", "leaves"), [0], "a leaf for each cell"),
        ("several", ("partition", "leaves", 0), 99, "are levels"),
        ("several", ("partition",), TWICE, "edges of 'partition' rise"),
        ("several", ("uncertainty_edges",), [0.5], "goes without edges and groups"),
        ("precalibrated", ("precalibrate", "method"), "x", "unknown method 'x'"),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(
    name: str, path: tuple[str | int, ...], value: Any, words: str, fitted: Path, service: Path
) -> None:
    content = json.loads(((fitted if name in FITS else service) / f"{name}.json").read_bytes())
    with pytest.raises(ModelError, match=words):
        decode(damaged(content, path, value))


def test_a_model_within_another_is_a_calibrator(fitted: Path) -> None:
    vad, other = (json.loads((fitted / f"{name}.json").read_bytes()) for name in ("vad", "tree"))
    with pytest.raises(ModelError, match="of kind 'calibrator'"):
        decode(damaged(vad, ("calibrator",), other))
