"""``gate`` and ``diff``: exit codes, what failed, models and metrics side by side; ``--annotate``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.score_files import simulate, write
from tests.conftest import Invoke

#: What the fixture `save` is.
Save = Callable[..., Path]


@pytest.fixture
def save() -> Save:
    """Save metrics, the area of each score, or any other content: ``save("a.json", s=0.8)``."""

    def call(name: str, content: object = None, **auc: float | None) -> Path:
        metrics = {
            score: {"all": {"auc": value, "count": 100}, "top:0.1": {"auc": value}}
            for score, value in auc.items()
        }
        given = {"signature": {"auc": "auc|v:1"}, "rows": 100, "metrics": metrics}
        path = Path(name)
        path.write_text(json.dumps(content or {**given, "intervals": {}, "differences": {}}))
        return path

    return call


@pytest.fixture
def other(model: Path, save: Save) -> Path:
    """Return the model with another recall, and a row more."""
    content = json.loads(model.read_text())
    content["fit"]["cross_validated"]["recall"] = 0.25
    content["fit"]["rows"] += 1
    return save("other.json", content)


def recall_of(model: Path) -> Any:
    return json.loads(model.read_text())["fit"]["cross_validated"]["recall"]


def test_a_gate_that_holds(save: Save, invoke: Invoke) -> None:
    path = save("metrics.json", s=0.8)
    done = invoke("gate", path, "--fail-if auc<0.75 --fail-if */auc>0.9")
    assert (done.code, done.stdout, done.stderr) == (0, b"", "3 checks passed.\n")
    assert invoke("gate", path, "--fail-if auc<0.75 -q").stderr == ""


@pytest.mark.parametrize("more", ["--fail-if count<2", "-q"])
def test_a_gate_that_fails(more: str, save: Save, invoke: Invoke) -> None:
    path = save("metrics.json", s=0.7, t=0.8)
    done = invoke("gate", path, "--fail-if auc<0.75 --fail-if count<1", more)
    assert (done.code, done.stdout) == (1, b"")
    assert f"1 of {4 if more == '-q' else 6} checks failed." in done.stderr
    assert "s/all/auc = 0.7 < 0.75: failed" in done.stderr
    assert "t/all/auc" not in done.stderr


def test_what_is_not_defined_fails(save: Save, invoke: Invoke) -> None:
    path = save("metrics.json", s=None)
    done = invoke("gate", path, "--fail-if auc<0.75")
    assert (done.code, "s/all/auc is not defined" in done.stderr) == (1, True)
    assert invoke("gate", path, "--fail-if count.low<0.75").code == 1


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ("-q", "--fail-if"),
        ("--fail-if acu<0.5", "auc"),
        ("--fail-if auc", "comparison"),
        ("--fail-if auc<", "to the right"),
        ("--fail-if x/all/auc<0.5", "x/all/auc"),
    ],
)
def test_a_gate_that_asks_for_nothing(given: str, word: str, save: Save, invoke: Invoke) -> None:
    path = save("metrics.json", s=0.8)
    invoke("gate", path, given).refused(2, word)
    assert word in invoke("gate", path, given, "--json").refused(2)["message"]


def test_files_that_cannot_be_read(save: Save, invoke: Invoke) -> None:
    good, bad = save("good.json", s=0.8), Path("bad.json")
    for content in (
        *(None, b"auc: 0.8", b"[0.8]", b'{"auc": NaN}', b""),
        b'{"kind": "unheard-of", "version": 1}',
        b'{"kind": "boundary", "version": 999}',
        b'{"signature": {}, "rows": "many", "metrics": {}}',
    ):
        code = 2 if content is None else 3
        if content is not None:
            bad.write_bytes(content)
        invoke("gate", good, bad, "--fail-if auc<0.5").refused(code, "Error: ", "bad.json")
        invoke("diff", good, bad).refused(code)


def test_json_says_all_outcomes(save: Save, invoke: Invoke) -> None:
    path = save("metrics.json", s=0.7)
    done = invoke("gate", path, "--fail-if", "auc < 0.75", "--fail-if", "auc>auc", "--json")
    assert done.code == 1
    said = json.loads(done.stdout)
    assert (said["passed"], said["failed"]) == (False, 1)
    assert said["outcomes"][0] == {
        "file": str(path),
        "expression": "auc<0.75",
        "address": "s/all/auc",
        "value": 0.7,
        "comparison": "<",
        "bound_address": None,
        "bound": 0.75,
        "failed": True,
    }
    assert said["outcomes"][1]["bound_address"] == "s/all/auc"
    done = invoke("gate", path, "--fail-if", "count>0", "--json")
    assert json.loads(done.stdout)["outcomes"][0]["expression"] == "count>0"
    invoke("gate", path, "--fail-if acu<1").refused(2, "acu<1:")


def test_several_files(save: Save, invoke: Invoke, model: Path) -> None:
    good, bad = save("good.json", s=0.8), save("bad.json", s=0.6)
    done = invoke("gate", good, bad, "--fail-if auc<0.7")
    assert done.code == 1
    assert "bad.json" in done.stderr and "good.json" not in done.stderr
    assert invoke("gate", good, model, "--fail-if auc<0.7 --fail-if fit/rows<10").code == 0
    # Of one kind every file must have it: no metric goes missing unseen.
    fewer = save(
        "fewer.json", {"signature": {}, "rows": 1, "metrics": {"s": {"all": {"ece": 0.1}}}}
    )
    invoke("gate", good, fewer, "--fail-if auc<0.7").refused(2, "fewer.json")
    assert invoke("gate", good, good, "--fail-if auc<0.7").code == 2


def test_models_and_results_of_any_program_are_gated_by_path(
    model: Path, save: Save, invoke: Invoke
) -> None:
    same = {"a": "boundary", "b": "boundary", "delta": None}
    compared = {"kind": same, "recall": {"a": 0.5, "b": 0.4, "delta": -0.1}}
    diff, own = save("diff.json", compared), save("own.json", {"version": 2, "auc": 0.9})
    for path, expression, code in (
        (model, f"fit/cross_validated/recall<{recall_of(model)}", 0),
        (model, f"fit/cross_validated/recall<={recall_of(model)}", 1),
        (model, "fit/test<0.5", 1),  # null: no test rows
        (model, "recall<0.5", 2),
        (diff, "recall.delta<-0.05", 1),
        (diff, "recall.delta<-0.5", 0),
        (own, "auc<0.5", 0),
        (own, "version<3", 1),
    ):
        assert invoke("gate", path, "--fail-if", expression).code == code, expression


def test_a_pipe(save: Save, command: Callable[..., Any]) -> None:
    path = save("metrics.json", s=0.8)
    for words, code in (
        ("gate - --fail-if auc<0.7", 0),
        ("gate - --fail-if auc<0.9", 1),
        (f"diff {path} -", 0),
        ("diff - -", 2),
    ):
        assert command(*words.split(), input=path.read_bytes()).returncode == code


def test_metrics_side_by_side(save: Save, invoke: Invoke) -> None:
    a, b = save("a.json", s=0.75, old=0.5), save("b.json", s=0.5, new=None)
    said = invoke("diff", a, b, "--json").result()
    assert said["s"]["all"]["auc"] == {"a": 0.75, "b": 0.5, "delta": -0.25}
    assert said["s"]["all"]["count"] == {"a": 100, "b": 100, "delta": 0}
    assert said["old"]["all"]["auc"] == {"a": 0.5, "b": None, "delta": None}
    assert said["new"]["top:0.1"]["auc"] == {"a": None, "b": None, "delta": None}
    assert sorted(said) == ["new", "old", "s"]
    done = invoke("diff", a, b, "-o diff.json")
    assert (done.result(), done.stdout) == (said, b"")
    assert invoke("diff", a, b).result() == said


def test_a_gate_on_a_comparison(save: Save, invoke: Invoke) -> None:
    a, b, output = save("a.json", s=0.75), save("b.json", s=0.73), Path("diff.json")
    done = invoke("diff", a, b, "--fail-if auc.delta<-0.01", "-o", output)
    assert done.code == 1
    assert "s/all/auc.delta = -0.02 < -0.01: failed" in done.stderr
    assert output.exists()  # the comparison is the answer, whatever the gate says
    for line, expression, code in (
        (("diff", a, b), "auc.delta<-0.05", 0),
        (("diff", a, b), "ece.delta<-0.01", 2),
        (("diff", a, save("c.json", t=0.73)), "auc.delta<-0.01", 1),  # of one side only
        (("gate", output), "auc.delta<-0.01", 1),
        (("gate", output), "s/auc<0.7", 0),
    ):
        assert invoke(*line, "--fail-if", expression).code == code, expression


def test_models_side_by_side(model: Path, other: Path, invoke: Invoke, save: Save) -> None:
    said = invoke("diff", model, other, "--json").result()
    recall = recall_of(model)
    delta = pytest.approx(0.25 - recall)
    assert said["fit"]["cross_validated"]["recall"] == {"a": recall, "b": 0.25, "delta": delta}
    assert said["method"] == {"a": "exact", "b": "exact", "delta": None}
    gate = "fit/cross_validated/recall.delta > 1"
    assert invoke("diff", model, other, "--fail-if", gate).code == 0
    assert invoke("diff", model, save("m.json", s=0.5)).code == 3
    # An object stands beside nothing.
    content = json.loads(model.read_text())
    content["fit"]["cross_validated"] = None
    none = save("none.json", content)
    for pair, a, b in (((model, none), recall, None), ((none, model), None, recall)):
        own = invoke("diff", *pair, "--json").result()["fit"]["cross_validated"]
        assert own["recall"] == {"a": a, "b": b, "delta": None} and "delta" not in own


def test_where_a_comparison_cannot_go(save: Save, invoke: Invoke) -> None:
    a = save("a.json", s=0.75)
    for output in (Path("no/d.json"), "./", Path("d.csv"), "- --json"):
        assert invoke("diff", a, a, *f"-o {output}".split()).code == 2
    a.write_text('{"y": 1, "x": {"a": 1}}')
    Path("b.json").write_text('{"y": 1, "x": 2}')
    for pair in ((a, "b.json"), ("b.json", a)):
        found = invoke("diff", *pair)
        assert (
            found.code == 3
            and "x is a value in one file and in the other an object" in found.stderr
        )
    Path("b.json").write_text('{"y": 1, "x": null}')
    assert invoke("diff", a, "b.json").code == 0


def test_a_comparison_on_a_terminal(
    save: Save, invoke: Invoke, model: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibkit_cli.console._is_terminal", lambda stream: True)
    text = invoke("diff", save("a.json", s=0.75), save("b.json", s=None)).stdout.decode()
    for word in ("score", "slice", "top:0.1", "auc", "0.75", "b - a"):
        assert word in text
    assert "No differences." in invoke("diff", model, model).stdout.decode()
    text = invoke("diff", model, other).stdout.decode()
    assert "fit/rows" in text and "precision" not in text


COMMAND = re.compile(r"^::(error|warning|notice) (?:([^:]*))::(.+)$", re.MULTILINE)


def test_a_gate_annotates_what_failed(invoke: Invoke) -> None:
    path = Path("odd, 100%:name.json")
    path.write_text(json.dumps({"a": {"x": 0.5}, "b": {"x": 1.0}}))
    line = ["gate", path, "--fail-if", "a/x<0.9", "--fail-if", "b/x<0.9", "--annotate", "github"]
    done = invoke(*line)
    assert (done.code, done.stdout) == (1, b"")
    ((level, where, said),) = COMMAND.findall(done.stderr)
    assert level == "error"
    assert where == "title=calibkit gate,file=odd%2C 100%25%3Aname.json"
    assert said.startswith("a/x<0.9: a/x = 0.5 < 0.9: failed")
    as_json = invoke(*line, "--json")
    assert json.loads(as_json.stdout)["failed"] == 1
    assert len(COMMAND.findall(as_json.stderr)) == 1
    passed = invoke("gate", path, "--fail-if", "b/x<0.9", "--annotate", "github")
    assert passed.code == 0
    assert not COMMAND.findall(passed.stderr)
    assert not COMMAND.findall(invoke(*line[:-2]).stderr)
    invoke(*line[:-1], "gitlab").refused(2, "github")


def test_findings_are_annotated_by_their_level(invoke: Invoke) -> None:
    frame = simulate(300)
    path = write(frame.with_columns(score=1 - frame["label"] * 0.9), "rows.csv")
    done = invoke("validate", path, "--annotate", "github")
    found = json.loads(done.stdout)["findings"]
    told = COMMAND.findall(done.stderr)
    levels = {"error": "error", "warning": "warning", "note": "notice"}
    assert [level for level, _, _ in told] == [levels[one["level"]] for one in found]
    assert "warning" in {level for level, _, _ in told}
    for (_, where, said), one in zip(told, found, strict=True):
        assert f"file={path}" in where
        assert f"title=calibkit validate%3A {one['check']}" in where
        assert one["message"].replace("%", "%25").replace("\n", "%0A") in said
    broken = Path("broken.parquet")
    broken.write_bytes(b"PAR1 no")
    refused = invoke("validate", broken, "--annotate", "github")
    assert refused.code == 3
    assert any(level == "error" for level, _, _ in COMMAND.findall(refused.stderr))
