"""Models of every kind, damaged by hand: refused by name, or still shown and applied."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from calibkit.errors import ModelError
from calibkit.models.model import decode
from tests.conftest import Invoke, every_role, make

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
    "boosted": "hetcal --features x --partition boosted --trees 2",
    "alpha": "alpha-cal --features x",
    "constant": "alpha-cal",
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows and a fitted model of each kind."""
    folder = tmp_path_factory.mktemp("damaged")
    rows = folder / "rows.parquet"
    every_role(200, 3).write_parquet(rows)
    plain = make(folder / "plain.json", "calibrate", rows, "--score score_0")
    given = {"ROWS": rows, "line": plain}
    for name, fit in FITS.items():
        command, *options = (given.get(word, word) for word in fit.split())
        make(folder / f"{name}.json", command, rows, *options)
    return folder


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
def test_damage_is_refused_or_does_no_harm(name: str, folder: Path, invoke: Invoke) -> None:
    content = json.loads((folder / f"{name}.json").read_bytes())
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
            line = ("apply", model, folder / "rows.parquet", "-q --keep x -o o.csv")
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
    name: str, path: tuple[str | int, ...], value: Any, words: str, folder: Path, service: Path
) -> None:
    content = json.loads(((folder if name in FITS else service) / f"{name}.json").read_bytes())
    with pytest.raises(ModelError, match=words):
        decode(damaged(content, path, value))


def test_a_model_within_another_is_a_calibrator(folder: Path) -> None:
    vad, other = (json.loads((folder / f"{name}.json").read_bytes()) for name in ("vad", "tree"))
    with pytest.raises(ModelError, match="of kind 'calibrator'"):
        decode(damaged(vad, ("calibrator",), other))
