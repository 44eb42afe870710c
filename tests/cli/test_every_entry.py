"""Every entry of the registries is fitted, applied, shown, exported and merged.

What is fitted and merged is `tests.compat.fits.FITS`, by `test_one_program.py`; that nothing is missing
there is held here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import polars.selectors as cs
import pytest

from calibkit import simulate_raters
from calibkit.maps.method import Found, Method, Points
from calibkit.maps.methods import METHODS as MAPS
from calibkit.maps.steps import steps_program, write_steps
from calibkit.options.boundary import METHODS
from calibkit.options.calibrate import CLASS_METHODS, SCORE_METHODS, MapOptions, ScoreMethod
from calibkit.options.hetcal import HetcalOptions
from calibkit.options.option import options_of
from calibkit.registry.methods import KINDS, STATES
from tests.cli.score_files import merge_parts, simulate, write
from tests.compat.fits import FITS, rows, words
from tests.conftest import Invoke, make

#: A fit of each method of a boundary, of each partition, and of each other kind.
MODELS = [
    *(name for name in FITS if name in METHODS),
    *("tree", "forest", "boosted", "sequential"),
    *("by", "map by", "vad", "vad by", "alpha", "alpha, vector", "votes, vector", "beta", "bundle"),
]


def test_no_entry_is_left_out() -> None:
    fits = [fit.split() for fit in FITS.values()]
    fitted = {(fit[0], word) for fit in fits for word in fit}
    for command, known in (("boundary", METHODS), ("calibrate", SCORE_METHODS)):
        given = {word for own, word in fitted if own == command}
        assert set(known) - {"auto"} <= given
    (partition,) = (one for one in options_of(HetcalOptions) if one.name == "partition")
    assert {"tree", *(word for _, word in fitted)} >= set(partition.kind.__args__)
    with_states = {name.removesuffix(" --probs") for name in STATES}
    assert with_states - {"bin"} == {fit[0] for fit in fits}  # bin: test_bin.py


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("entries")
    write(rows(300).with_row_index("row"), found / "rows.parquet")
    return found


def test_all_kinds_are_here(folder: Path, invoke: Invoke) -> None:
    for name in ("beta", "exact"):
        fit(name, folder, invoke)
    kinds = {json.loads(fit(name, folder, invoke).read_bytes())["kind"] for name in MODELS}
    assert kinds == set(KINDS)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_goes_round(name: str, folder: Path, invoke: Invoke) -> None:
    model, file, out = fit(name, folder, invoke), folder / "rows.parquet", folder / "out.parquet"
    key = ["--key", "row"] if "tie_probability" in model.read_text() else []
    shown = invoke("show", model)
    assert shown.code == 0 and shown.stdout, shown.stderr
    found = invoke("apply", model, file, *key, "-q -o", out).result()
    assert set(found.columns) > {"row", *rows(300).columns}
    # In turn, as tests of the library translate every kind into every language.
    language = ("sql", "polars", "python")[MODELS.index(name) % 3]
    line = ("export", model, "--to", language, *key, "--check", file, "-q -o", folder / "e.txt")
    invoke(*line).succeeded()


@pytest.mark.few(13)
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("name", MODELS)
def test_a_file_of_one_row_without_values_gets_null(
    name: str, suffix: str, folder: Path, invoke: Invoke
) -> None:
    model, frame = fit(name, folder, invoke), pl.read_parquet(folder / "rows.parquet").head(1)
    key = ["--key", "row"] if "tie_probability" in model.read_text() else []
    nulls = frame.with_columns(pl.when(False).then(cs.float()).name.keep())
    empty = write(nulls, folder / f"empty{suffix}")
    line = ("apply", model, empty, *key, "--on-missing null -q -o", folder / "nulls.parquet")
    found = invoke(*line).result()
    added = set(found.columns) - set(frame.columns)
    assert found.height == 1 and all(found[column][0] is None for column in added), found


def fit(name: str, folder: Path, invoke: Invoke) -> Path:
    """Return the file of a model, which is fitted if it is not there."""
    path = folder / f"{name}.json"
    if path.exists():
        return path
    line = words(FITS[name], folder, folder / "rows.parquet") if name in FITS else []
    if name == "bundle":
        parts = [fit("beta", folder, invoke), f"block={fit('exact', folder, invoke)}"]
        line = ["bundle", *map(str, parts)]
    found = invoke(*line, "-q", "-o", path)
    assert found.code == 0, found.stderr
    return path


NEW = "halves"

#: Options without which a method does nothing.
NEEDED = {"prior-shift": ["--negatives-kept", "0.4"]}


def halves(points: Points, _: MapOptions, __: list[Points]) -> Found:
    """Return the share of positive rows below 1/2, and from there on."""
    low = points.score < 0.5
    shares = [float(points.positive[own].sum() / points.count[own].sum()) for own in (low, ~low)]
    return Found({"knots": [0.0, 0.5], "values": shares})


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add an entry: what CONTRIBUTING says of a new calibrator, and no more."""
    method = Method(halves, write_steps, steps_program)
    new = ScoreMethod(step="fit halves", fields=("knots", "values"))
    monkeypatch.setitem(cast(dict[str, ScoreMethod], SCORE_METHODS), NEW, new)
    monkeypatch.setitem(cast(dict[str, Method], MAPS), NEW, method)


@pytest.fixture
def scored() -> Path:
    frame = simulate(400).with_columns(site=pl.Series(["a", "b"] * 200))
    return write(frame, "rows.parquet")


def goes_round(invoke: Invoke, scored: Path, options: list[str]) -> dict[str, Any]:
    """Return the model of a fit after doing with it all that can be done."""
    folder = scored.parent
    model = make(folder / "cal.json", "calibrate", scored, *options)
    make(folder / "applied.parquet", "apply", model, scored)
    assert invoke("show", model).stdout
    for language in ("sql", "python", "polars"):
        make(folder / f"{language}.txt", "export", model, "--to", language, "--check", scored)
    frame = pl.read_parquet(scored)
    merged = merge_parts("merged.json", (frame[::2], frame[1::2]), "calibrate", *options)
    assert merged.read_bytes() == model.read_bytes()
    return json.loads(model.read_bytes())


def judge(model: dict[str, Any], scored: Path) -> None:
    """See that added columns are where they belong, and that the log loss is that of the rows."""
    frame, applied = pl.read_parquet(scored), pl.read_parquet(scored.parent / "applied.parquet")
    added = ["calibrated"]
    if model["method"] == "venn-abers":
        added += ["calibrated_low", "calibrated_high"]
        low, high = applied["calibrated_low"], applied["calibrated_high"]
        assert ((low <= applied["calibrated"]) & (applied["calibrated"] <= high)).all()
    assert applied.columns == [*frame.columns, *added]
    assert applied.drop(added).equals(frame)
    p, label = applied["calibrated"].to_numpy(), frame["label"].to_numpy()
    if model["method"] != "prior-shift":
        loss = -np.where(label == 1, np.log(p), np.log1p(-p)).mean()
        assert model["fit"]["log_loss"] == pytest.approx(loss, abs=1e-12)
        assert model["clip"] == 1 / (frame.height + 2) or model["method"] == "none"


@pytest.mark.few(20)
@pytest.mark.usefixtures("entries")
@pytest.mark.parametrize("by", [False, True], ids=["all rows", "by"])
@pytest.mark.parametrize("method", [*MAPS, NEW])
def test_every_calibrator_of_scores(method: str, by: bool, scored: Path, invoke: Invoke) -> None:
    if by and not SCORE_METHODS[method].fits:
        return
    segments = ["--by", "site"] if by else []
    model = goes_round(invoke, scored, ["--method", method, *NEEDED.get(method, []), *segments])
    assert (model["method"], "groups" in model) == (method, by)
    assert set(SCORE_METHODS[method].fields) <= model.keys()
    judge(model, scored)


def test_isotonic_in_lines(scored: Path, invoke: Invoke) -> None:
    options = ["--method", "isotonic", "--interpolate"]
    assert goes_round(invoke, scored, options)["interpolate"] is True
    model = goes_round(invoke, scored, [*options, "--by", "site", "--clip", "0"])
    assert all(one["interpolate"] for one in model["groups"].values())
    refused = invoke("calibrate", scored, "--method", "platt", "--interpolate")
    refused.refused(2, "--interpolate goes with --method isotonic")


@pytest.mark.parametrize("method", CLASS_METHODS)
def test_every_map_of_class_probabilities(method: str, invoke: Invoke) -> None:
    scored = write(simulate_raters(300, raters=3, seed=1), "rows.parquet")
    classes = ["--probs", "prob_*", "--counts", "count_*", "--method", method]
    assert goes_round(invoke, scored, classes)["method"] == method
