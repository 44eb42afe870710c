"""Every entry of the registry of methods is fitted, applied, shown, exported and merged.

What is fitted and merged is `tests.compat.fits.FITS`, by `test_one_program.py`; that nothing is missing
there is held here.  Calibrators have `test_every_calibrator.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import polars.selectors as cs
import pytest

from calibkit.options.boundary import METHODS
from calibkit.options.calibrate import SCORE_METHODS
from calibkit.options.hetcal import HetcalOptions
from calibkit.options.option import options_of
from calibkit.registry.methods import KINDS, STATES
from tests.cli.score_files import write
from tests.compat.fits import FITS, rows, words
from tests.conftest import Invoke

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
