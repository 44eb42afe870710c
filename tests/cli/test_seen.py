"""What commands say and draw, word for word: the texts in tests/cli/seen.

After a change that is meant ``SEEN=write python -m pytest tests/cli/test_seen.py`` writes them anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from calibkit.version import __version__
from tests.cli.conftest import MADE
from tests.conftest import Invoke

TEXTS = Path(__file__).parent / "seen"
MODELS = [
    name.removesuffix(".json")
    for name in MADE
    if name.endswith(".json") and name not in ("watch.json", "metrics.json")
]

#: Commands that print, by the name of their text.
SAID = {
    **{f"show {one}": f"show {one}.json" for one in MODELS},
    "show bounds": "show kappa.json --bounds",
    "evaluate": "evaluate new.parquet --boundary boundary.json --by site --threshold 0.5",
    "evaluate in short": "evaluate new.parquet --boundary three.json --grid grid.parquet",
    "evaluate grid": "evaluate new.parquet --grid first.parquet --metrics ece_at:2,cumulative_ece_at:1",
    "evaluate two scores":
        "evaluate new.parquet --score score,score_b --top 0.2 --no-intervals",
    "evaluate weights":
        "evaluate new.parquet --weight weight --metrics auc,ece,precision --threshold 0.5",
    "evaluate classes": "evaluate rows.parquet --probs prob_*",
    "evaluate votes": "evaluate rows.parquet --probs prob_* --counts count_*",
    "drift": "drift boundary.json new.parquet",
    "drift one threshold": "drift all.json new.parquet",
    "drift labels": "drift bundle.json new.parquet --label label --estimate",
    "drift certified": "drift certified.json new.parquet --label label",
    "drift of no boundary": "drift line.json new.parquet",
    "watch": "watch boundary.json new.parquet --state w.state --period day --drift --calibration",
    "watch chance": "watch certified.json new.parquet --state w.state --precision 0.7",
    "watch unsure": "watch certified.json new.parquet --state w.state --precision 0.6 --fpr 0.7",
    "watch kept": "watch certified.json new.parquet --state w.state --recall 0.5 --fpr 0.9",
    "watch recall": "watch boundary.json new.parquet --state w.state --recall 0.99 --fpr 0.9",
    "validate": "validate rows.parquet",
    "validate no labels": "validate unlabelled.parquet --by site",
    "validate roles": "validate rows.parquet --weight huge --by one --time day",
    "diff models": "diff boundary.json auto.json",
    "diff metrics": "diff metrics.json metrics.json",
    "gate":
        "gate metrics.json --fail-if boundary/precision<0.9 --fail-if recall.low<0.1 --annotate github",
    "boundary": "boundary rows.parquet --precision 0.7 -o m.json",
    "boundary compare": "boundary rows.parquet --precision 0.7 --compare -o m.json",
    "boundary impossible": "boundary rows.parquet --precision 0.999 --confidence 0.99",
    "boundary gap":
        "boundary rows.parquet --recall 0.5 --by site --max-gap fpr:0.05 --folds 3 -o m.json",
    "boundary gap certified":
        "boundary rows.parquet --fpr 0.5 --by site --max-gap fpr:0.4 --confidence 0.8 -o m.json",
    "boundary sampling":
        "boundary rows.parquet --precision 0.6 --weight weight --confidence 0.8 -o m.json",
    "calibrate": "calibrate rows.parquet --by site --min-rows 110 -o m.json",
    "hetcal": "hetcal rows.parquet --features x,site --groups day -o m.json",
    "hetcal alone":
        "hetcal rows.parquet --score uncertainty --features logit --partition boosted --trees 2 "
        "--groups day -o m.json",
    "alpha-cal": "alpha-cal rows.parquet --features x -o m.json",
    "vad": "vad rows.parquet --members score,score_b -o m.json",
    "apply": "apply boundary.json new.parquet --keep score,x --add-level --output-format csv -o -",
    "bin": "bin rows.parquet --score-bins 4 --uncertainty-bins 2 --output-format csv -o -",
    "export sql": "export tree.json --to sql",
    "export python": "export logistic.json --to python",
    "export classes": "export classes.json --to python",
    "export kinds": "export kinds.json --to sql",
    "export boosted": "export boosted.json --to sql",
    "export postgres": "export sites.json --to sql --dialect postgres",
    "export polars": "export bundle.json --to polars",
}  # fmt: skip

#: Pictures, by the options of ``plot``.
DRAWN = {
    "reliability": "rows.parquet --score score,score_b",
    "reliability votes": "rows.parquet --probs prob_* --counts count_*",
    "precision-recall": "rows.parquet --boundary boundary.json",
    "roc": "rows.parquet --score score,score_b --boundary boundary.json",
    "decision-curve": "rows.parquet --score score,score_b --boundary boundary.json",
    "cost-curve": "rows.parquet",
    "risk-coverage": "rows.parquet --score score,score_b",
    "threshold": "rows.parquet --threshold 0.4,0.7",
    "positivity": "rows.parquet",
    "heatmap": "rows.parquet --boundary boundary.json",
    "heatmap logit": "rows.parquet --scale logit --boundary logistic.json",
    "regions": "rows.parquet --boundary several.json",
    "recall-gain": "rows.parquet --test new.parquet",
    "ece-at": "rows.parquet --grid grid.parquet",
    "bias": "rows.parquet --score score,score_b",
    "dispersion": "rows.parquet --probs prob_* --counts count_*",
    "disagreement": "rows.parquet --probs prob_* --counts count_*",
    "auc-lift": "rows.parquet --score score,score_b",
    "watch": "watch.state",
}


def place(name: str) -> Path:
    """Return where a text is kept."""
    return TEXTS / f"{name.replace(' ', '_')}.txt"


def test_each_text_is_compared() -> None:
    known = [*SAID, *(f"plot {name}" for name in DRAWN)]
    assert sorted(TEXTS.iterdir()) == sorted(map(place, known))


def check(name: str, text: str) -> None:
    """Compare a text with the one that was seen."""
    path = place(name)
    if os.environ.get("SEEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(
    name: str, service: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(service)
    words = [re.sub(r"^(w\.state|m\.json)$", rf"{tmp_path}/\1", one) for one in SAID[name].split()]
    done = invoke(*words)
    said = f"{done.stdout.decode()}{done.stderr}".replace(str(tmp_path), "FOLDER")
    said = re.sub(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])", "VERSION", said)
    # The last digits may be another processor's.
    said = re.sub(r"\d+\.\d{7,}(e-?\d+)?", lambda found: f"{float(found[0]):.6g}", said)
    check(name, f"{said}exit {done.code}\n")


def plain(values: Iterable[Any]) -> str:
    """Return numbers and words as they may be compared."""
    return " ".join(one if isinstance(one, str) else f"{float(one):.4g}" for one in values)


def described(figure: Figure) -> list[str]:
    """Return what a picture shows: panels, lines, areas, words."""
    lines = [f"title {text.get_text()!r}" for text in figure.texts]
    lines += [
        f"legend {text.get_text()!r}" for legend in figure.legends for text in legend.get_texts()
    ]
    for panel in figure.axes:
        lines.append(f"panel {panel.get_xlabel()!r} by {panel.get_ylabel()!r}")
        lines.append(f"  {plain((*panel.get_xlim(), *panel.get_ylim()))} {panel.get_xscale()}")
        for line in panel.lines:
            points = np.asarray(line.get_xydata(), np.float64)
            ends = plain((*points[0], *points[-1], *points.mean(axis=0))) if len(points) else ""
            look = f"{line.get_linestyle()} {line.get_marker()} {line.get_drawstyle()}"
            lines.append(f"  line of {len(points)}: {ends} {look} z {line.get_zorder():g}")
        for area in panel.collections:
            paths = [path.vertices for path in area.get_paths()]
            corners = sum(map(len, paths))
            middle = plain(np.nanmean(np.concatenate(paths), axis=0)) if corners else ""
            lines.append(f"  {type(area).__name__} of {corners}: {middle}")
        for patch in panel.patches:
            lines.append(
                f"  patch {plain(patch.get_extents().bounds[2:])}" * bool(patch.get_visible())
            )
        lines += [f"  words {text.get_text()!r}" for text in panel.texts if text.get_text()]
        legend: Any = panel.get_legend()
        lines += [f"  legend {text.get_text()!r}" for text in legend.get_texts()] if legend else []
    return lines


@pytest.mark.few(5)
@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn(
    name: str, service: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(service)
    seen: list[str] = []
    whole = Figure.savefig

    def keep(figure: Figure, *args: Any, **options: Any) -> None:
        figure.draw_without_rendering()
        seen.extend(described(figure))
        whole(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    out = tmp_path / "a.svg"
    done = invoke("plot", name.partition(" ")[0], *DRAWN[name].split(), "-o", out)
    check(f"plot {name}", "\n".join([*seen, re.sub(r"\S+/a\.svg", "a.svg", done.stderr), ""]))
