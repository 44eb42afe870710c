"""``calibkit plot`` and ``evaluate --plot``: outputs, formats, exit codes."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, make, printed
from tests.library.pictures import voted


@pytest.fixture
def rows() -> Path:
    frame = simulate(500).with_columns(run=pl.col("id") % 7, other=pl.col("score") ** 2)
    return write(frame, "rows.parquet")


@pytest.fixture
def votes() -> Path:
    return write(voted(), "votes.parquet")


def test_a_picture_and_its_points_are_written(rows: Path, invoke: Invoke) -> None:
    output, data, again = (Path(name) for name in ("a.svg", "a.csv", "b.csv"))
    given = ("plot", "auc-lift", rows, "--baseline score --score other --by run --no-intervals")
    said = invoke(*given, "-o", output, "--data", data)
    assert (said.code, said.stdout) == (0, b"")
    assert said.stderr.splitlines()[-1] == f"Picture written to {output}."
    ET.parse(output)
    assert invoke(*given, "-o", again).result().height > 0
    assert again.read_bytes() == data.read_bytes()


def test_votes(votes: Path, invoke: Invoke) -> None:
    output = Path("a.png")
    given = "--probs a_*,b_* --counts count_* --alpha0 alpha0 --size 3x3 -o"
    assert invoke("plot", "dispersion", votes, given, output).code == 0
    assert output.read_bytes().startswith(b"\x89PNG")
    output = Path("curve.csv")
    given = "--probs a_* --counts count_* --alpha0 alpha0 -q --reliability"
    assert invoke("evaluate", votes, given, output).code == 0
    assert set(pl.read_csv(output)["curve"]) == {"disagreement"}


def test_boundaries_are_drawn(rows: Path, invoke: Invoke) -> None:
    model, output = Path("boundary.json"), Path("a.csv")
    make(model, "boundary", rows, "--precision 0.6 --method exact --folds 0")
    for kind, column in (("precision-recall", "curve"), ("roc", "curve"), ("heatmap", "kind")):
        assert invoke("plot", kind, rows, "--boundary", model, "-o", output).code == 0
        frame = pl.read_csv(output, infer_schema_length=None)
        marked = frame.filter(pl.col(column).is_in(["decisions", "boundary"]))
        assert set(marked["name"]) == {str(model)}


def test_pipes(rows: Path, command: Callable[..., object], invoke: Invoke) -> None:
    piped = command("plot", "roc", "-", "-o", "-", "-q", input=rows.read_bytes())
    assert (piped.returncode, piped.stderr) == (0, b"")
    assert piped.stdout == invoke("plot", "roc", rows, "-q").stdout
    assert piped.stdout.startswith(b"<?xml")
    table = invoke("plot", "roc", rows, "-o", "-", "--output-format", "csv").stdout
    assert table.startswith(b"name,curve,threshold,")


def test_one_picture_an_input(rows: Path, invoke: Invoke) -> None:
    write(pl.read_parquet(rows).head(300), "two.parquet")
    single = make("single.svg", "plot", "roc", rows)
    given = [rows, Path("two.parquet"), "-o", "out/", "--output-format", "svg"]
    said = invoke("plot", "roc", *given)
    assert said.stderr.splitlines()[-1] == (
        "2 pictures written to out/: out/rows.svg, out/two.svg."
    )
    assert Path("out/rows.svg").read_bytes() == single.read_bytes()
    assert Path("out/two.svg").exists()


def test_json_and_dry_run(rows: Path, invoke: Invoke) -> None:
    output = Path("a.svg")
    said = invoke("plot", "roc", rows, "-o", output, "--dry-run")
    assert said.code == 0
    assert b"score: column 'score'" in said.stdout
    assert not output.exists()
    found = json.loads(invoke("plot", "roc", rows, "-o", output, "--json").stdout)
    assert (found["output"], found["warnings"]) == (str(output), [])
    assert found["points"] > 100


def test_without_matplotlib_points_can_be_had_but_no_picture(
    rows: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # type: ignore[arg-type]
    for given in (["plot", "roc", rows, "-o"], ["evaluate", rows, "--plot"]):
        invoke(*given, "a.svg").refused(2, "pip install 'calibkit[plot]'")
    assert invoke("plot", "roc", rows, "-o a.csv").code == 0


@pytest.mark.more
def test_plots_load_matplotlib_only_to_draw(rows: Path) -> None:
    line = ["plot", "roc", str(rows.resolve()), "-q", "-o"]
    outputs = str(Path("a.csv").resolve()), str(Path("a.svg").resolve())
    code = (
        "import sys; from calibkit_cli.main import run; "
        f"assert run([*{line}, {outputs[0]!r}]) == 0; "
        "assert 'matplotlib' not in sys.modules; "
        f"assert run([*{line}, {outputs[1]!r}]) == 0; "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    printed(code)


def test_evaluate_draws_what_goes_with_it(rows: Path, votes: Path, invoke: Invoke) -> None:
    for kind, path, same, more in (
        ("reliability", rows, "--bins 8", "--top 0.1 --metrics auc"),
        ("disagreement", votes, "--probs a_* --counts count_*", "-q"),
        ("roc", rows, "--scale raw", "--metrics auc"),
    ):
        a, b, metrics = Path("a.svg"), Path("b.svg"), Path("m.json")
        assert invoke("plot", kind, path, same, "-o", a).code == 0
        assert invoke("evaluate", path, same, more, "--plot", b, "-o", metrics).code == 0
        assert a.read_bytes() == b.read_bytes()
    assert invoke("evaluate", rows, "--plot", "-", "-o", metrics).code == 2
    assert invoke("evaluate", rows, "--plot a.gif", "-o", metrics).code == 2


def test_the_nights_of_a_watch(rows: Path, invoke: Invoke) -> None:
    states = [Path("1.state"), Path("2.state")]
    model = make("boundary.json", "boundary", rows, "--fpr 0.2 --folds 0")
    for place, state in enumerate(states):
        shard = write(pl.read_parquet(rows)[place::2], f"{place}.parquet")
        assert invoke("watch", model, shard, "--state", state, "--recall", "0.3", "-q").code == 0
    picture, table = Path("a.svg"), Path("a.csv")
    said = invoke("plot", "watch", *states, "-o", picture, "--data", table)
    assert (said.code, said.stdout) == (0, b""), said.stderr
    ET.parse(picture)
    frame = pl.read_csv(table)
    assert frame["rows"].to_list() == [int(pl.read_parquet(rows)["label"].sum())]
    again = Path("b.svg")  # from the table of its points
    assert invoke("plot", "watch", table, "-o", again).code == 0
    assert again.read_bytes() == picture.read_bytes()
    invoke("plot", "watch", rows, "-o c.svg").refused(2, "no column 'promise' for plot watch")
    invoke("plot", "watch", states[0], states[0], "-o c.svg").refused(3, "count twice")
