"""Our calibrators by CalArena's protocol, on a made folder of its files."""

from __future__ import annotations

import csv
import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from tests.conftest import ROOT

h5py = pytest.importorskip("h5py")

EXPERIMENTS = (("cards", "forest"), ("cards", "line"), ("loans", "forest"))


@pytest.fixture
def arena(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("calarena")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout with one benchmark, its last experiment with a probability that is none."""
    data = tmp_path / "calibration_benchmarks"
    data.mkdir()
    random = np.random.default_rng(5)
    with (
        (data / "cv-binary-experiments.csv").open("w") as index,
        h5py.File(data / "cv-binary.h5", "w") as file,
    ):
        index.write("dataset,model,cal_size,test_size\n")
        for dataset, model in EXPERIMENTS:
            index.write(f"{dataset},{model},300,400\n")
            for part, rows in (("cal", 300), ("test", 400)):
                p = random.beta(1.0, 2.0, rows)
                label = random.random(rows) < p**2
                if dataset == "loans":
                    p[7] = np.nan
                file[f"{dataset}/{model}/probas_{part}"] = (
                    p if model == "line" else np.stack([1.0 - p, p], axis=1)
                )
                file[f"{dataset}/{model}/labels_{part}"] = label.astype(np.int64)
    return tmp_path


def test_figures_are_those_of_the_protocol(arena: ModuleType) -> None:
    random = np.random.default_rng(2)
    p, label = random.random(500).round(2).clip(0.01, 0.99), random.integers(0, 2, 500)
    p[:2], label[:2] = (0.0, 1.0), (0, 1)
    found = arena.figures(p, label)
    assert found["brier"] == pytest.approx(2.0 * brier_score_loss(label, p))
    assert found["logloss"] == pytest.approx(log_loss(label, p))
    assert found["accuracy"] == accuracy_score(label, p > 0.5)
    ece = 0.0
    for k in range(15):
        own = [i for i in range(500) if min(int(min(p[i], 1 - 1e-7) * 15), 14) == k]
        ece += abs(sum(p[i] - label[i] for i in own)) / 500
    assert found["ece-15"] == pytest.approx(ece, abs=1e-7)
    walk = [sum(label[p <= at] - p[p <= at]) / 500 for at in np.unique(p)]
    assert found["kuiper"] >= max(walk) - min(walk) - 1e-12
    # A certain mistake costs what the least float of 32 bits allows.
    assert arena.figures(np.zeros(1), np.ones(1))["logloss"] == pytest.approx(87.3365, abs=1e-3)


def test_win_rates_count_duels_won(arena: ModuleType) -> None:
    places = [("a", "m"), ("b", "m")]
    results = {
        "one": {place: {"logloss": 0.1} for place in places},
        "two": {places[0]: {"logloss": 0.1}, places[1]: {"logloss": 0.3}},
        "gone": {places[0]: {"logloss": 0.05}},
    }
    # Duels of one: a tie and a win with two, a loss and a win with gone.
    assert arena.win_rates(results, "logloss") == {"one": 0.5, "two": 0.25, "gone": 0.5}


def test_a_folder_gets_results_in_its_columns(
    arena: ModuleType,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ["calibkit-beta", "calibkit-platt"]
    line = [
        "calarena.py",
        str(folder),
        *(word for name in names for word in ("--calibrator", name)),
    ]
    monkeypatch.setattr(sys, "argv", line)
    arena.main()
    said = capsys.readouterr()
    for name in names:
        with (folder / "results" / "cv-binary" / f"{name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        figures = ("brier", "logloss", "kuiper", "ece-15", "accuracy", "time")
        assert list(rows[0]) == [
            *("dataset", "model", "cal_size", "test_size"),
            *(f"{name}_{figure}" for figure in figures),
        ]
        # What cannot be fitted is said, and counts as a loss.
        assert [(row["dataset"], row["model"]) for row in rows] == list(EXPERIMENTS[:2])
        assert f"loans/forest, {name}: " in said.err
        # The scores' squares are the truth: a map beats them.
        with h5py.File(folder / "calibration_benchmarks" / "cv-binary.h5") as data:
            p, label = (data[f"cards/line/{part}_test"][:] for part in ("probas", "labels"))
        assert float(rows[1][f"{name}_logloss"]) < arena.figures(p, label)["logloss"]
    assert "cv-binary, share of duels with the smaller brier" in said.out


def test_its_own_program_can_call_ours(arena: ModuleType) -> None:
    random = np.random.default_rng(3)
    p = random.random(200)
    label = (random.random(200) < p).astype(np.int64)
    assert next(iter(arena.CUSTOM_CALIBRATORS)) == "calibkit-auto"
    calibrator = arena.CUSTOM_CALIBRATORS["calibkit-isotonic"]()
    calibrator.fit(np.stack([1.0 - p, p], axis=1), label)
    new = calibrator.predict_proba(p)
    assert new.shape == (200, 2)
    assert np.allclose(new.sum(axis=1), 1.0)
    assert np.all(np.diff(new[np.argsort(p), 1]) >= 0.0)
