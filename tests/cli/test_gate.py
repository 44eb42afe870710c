"""``gate`` and ``diff``: exit codes, what failed, models and metrics side by side, pipes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Invoke


def metrics(**auc: float | None) -> dict[str, Any]:
    return {
        "signature": {"auc": "auc|v:1"},
        "rows": 100,
        "metrics": {
            score: {"all": {"auc": value, "count": 100}, "top:0.1": {"auc": value}}
            for score, value in auc.items()
        },
        "intervals": {},
        "differences": {},
    }


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    def call(name: str, content: object) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(content))
        return path

    return call


Save = Callable[[str, object], Path]


def test_a_gate_that_holds(save: Save, invoke: Invoke) -> None:
    path = save("metrics.json", metrics(s=0.8))
    done = invoke("gate", path, "--fail-if", "auc<0.75", "--fail-if", "*/auc>0.9")
    assert (done.code, done.stdout, done.stderr) == (0, b"", "3 checks passed.\n")
    assert invoke("gate", path, "--fail-if", "auc<0.75", "-q").stderr == ""


def test_a_gate_that_fails(save: Save, invoke: Invoke) -> None:
    path = save("metrics.json", metrics(s=0.7, t=0.8))
    for more in ([], ["-q"]):
        done = invoke("gate", path, "--fail-if", "auc<0.75", "--fail-if", "count<1", *more)
        assert (done.code, done.stdout) == (1, b"")
        assert "1 of 4 checks failed." in done.stderr
        assert "s/all/auc = 0.7 < 0.75: failed" in done.stderr
        assert "t/all/auc" not in done.stderr


def test_a_comparison_of_models_can_be_gated(save: Save, tmp_path: Path, invoke: Invoke) -> None:
    same = {"a": "boundary", "b": "boundary", "delta": None}
    recall = {"a": 0.5, "b": 0.4, "delta": -0.1}
    path = save(
        "diff.json", {"kind": same, "version": {"a": 2, "b": 2, "delta": 0}, "recall": recall}
    )
    assert invoke("gate", path, "--fail-if", "recall.delta<-0.05").code == 1
    assert invoke("gate", path, "--fail-if", "recall.delta<-0.5").code == 0


def test_what_is_not_defined_fails(save: Save, invoke: Invoke) -> None:
    path = save("metrics.json", metrics(s=None))
    done = invoke("gate", path, "--fail-if", "auc<0.75")
    assert done.code == 1
    assert "s/all/auc is not defined" in done.stderr
    assert invoke("gate", path, "--fail-if", "count.low<0.75").code == 1


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ([], "--fail-if"),
        (["--fail-if", "acu<0.5"], "auc"),
        (["--fail-if", "auc"], "comparison"),
        (["--fail-if", "auc<"], "to the right"),
        (["--fail-if", "x/all/auc<0.5"], "x/all/auc"),
    ],
)
def test_a_gate_that_asks_for_nothing(
    given: list[str], word: str, save: Save, invoke: Invoke
) -> None:
    path = save("metrics.json", metrics(s=0.8))
    invoke("gate", path, *given).refused(2, word)
    error = json.loads(invoke("gate", path, *given, "--json").stdout)["error"]
    assert error["code"] == 2 and word in error["message"]


def test_files_that_cannot_be_read(tmp_path: Path, save: Save, invoke: Invoke) -> None:
    expected = {"nothing.json": 2}
    for name, content in {
        "text.json": b"auc: 0.8",
        "list.json": b"[0.8]",
        "nan.json": b'{"auc": NaN}',
        "empty.json": b"",
        "kind.json": b'{"kind": "unheard-of", "version": 1}',
        "newer.json": b'{"kind": "boundary", "version": 999}',
        "damaged.json": b'{"signature": {}, "rows": "many", "metrics": {}}',
    }.items():
        (tmp_path / name).write_bytes(content)
        expected[name] = 3
    good = save("good.json", metrics(s=0.8))
    for name, code in expected.items():
        done = invoke("gate", good, tmp_path / name, "--fail-if", "auc<0.5")
        assert done.code == code, (name, done)
        assert done.stderr.startswith("Error: ") and name in done.stderr
        assert invoke("diff", good, tmp_path / name).code == code


def test_json_says_all_outcomes(save: Save, invoke: Invoke) -> None:
    path = save("metrics.json", metrics(s=0.7))
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


def test_several_files(save: Save, invoke: Invoke, model: Path) -> None:
    good, bad = save("good.json", metrics(s=0.8)), save("bad.json", metrics(s=0.6))
    done = invoke("gate", good, bad, "--fail-if", "auc<0.7")
    assert done.code == 1
    assert "bad.json" in done.stderr and "good.json" not in done.stderr
    both = ["--fail-if", "auc<0.7", "--fail-if", "fit/rows<10"]
    assert invoke("gate", good, model, *both).code == 0
    # Of one kind every file must have it: no metric goes missing unseen.
    other = save("other.json", {**metrics(), "metrics": {"s": {"all": {"ece": 0.1}}}})
    done = invoke("gate", good, other, "--fail-if", "auc<0.7")
    assert done.code == 2 and "other.json" in done.stderr
    assert invoke("gate", good, good, "--fail-if", "auc<0.7").code == 2


def test_models_are_gated_by_path(model: Path, invoke: Invoke) -> None:
    recall = json.loads(model.read_text())["fit"]["cross_validated"]["recall"]
    assert invoke("gate", model, "--fail-if", f"fit/cross_validated/recall<{recall}").code == 0
    assert invoke("gate", model, "--fail-if", f"fit/cross_validated/recall<={recall}").code == 1
    assert invoke("gate", model, "--fail-if", "fit/test<0.5").code == 1  # null: no test rows
    assert invoke("gate", model, "--fail-if", "recall<0.5").code == 2


def test_a_pipe(save: Save, command: Callable[..., Any]) -> None:
    text = json.dumps(metrics(s=0.8)).encode()
    assert command("gate", "-", "--fail-if", "auc<0.7", input=text).returncode == 0
    assert command("gate", "-", "--fail-if", "auc<0.9", input=text).returncode == 1
    other = save("other.json", metrics(s=0.7))
    done = command("diff", other, "-", input=text)
    assert done.returncode == 0
    assert json.loads(done.stdout)["s"]["all"]["count"] == {"a": 100, "b": 100, "delta": 0}
    assert command("diff", "-", "-", input=text).returncode == 2


def test_metrics_side_by_side(save: Save, invoke: Invoke, tmp_path: Path) -> None:
    a = save("a.json", metrics(s=0.75, old=0.5))
    b = save("b.json", metrics(s=0.5, new=None))
    said = json.loads(invoke("diff", a, b, "--json").stdout)
    assert said["s"]["all"]["auc"] == {"a": 0.75, "b": 0.5, "delta": -0.25}
    assert said["old"]["all"]["auc"] == {"a": 0.5, "b": None, "delta": None}
    assert said["new"]["top:0.1"]["auc"] == {"a": None, "b": None, "delta": None}
    assert sorted(said) == ["new", "old", "s"]
    output = tmp_path / "diff.json"
    done = invoke("diff", a, b, "-o", output)
    assert (done.code, done.stdout) == (0, b"")
    assert json.loads(output.read_text()) == said
    assert json.loads(invoke("diff", a, b).stdout) == said


def test_a_gate_on_a_comparison(save: Save, invoke: Invoke, tmp_path: Path) -> None:
    a, b = save("a.json", metrics(s=0.75)), save("b.json", metrics(s=0.73))
    output = tmp_path / "diff.json"
    assert invoke("diff", a, b, "--fail-if", "auc.delta<-0.05").code == 0
    done = invoke("diff", a, b, "--fail-if", "auc.delta<-0.01", "-o", output)
    assert done.code == 1
    assert "s/all/auc.delta = -0.02 < -0.01: failed" in done.stderr
    assert output.exists()  # the comparison is the answer, whatever the gate says
    assert invoke("gate", output, "--fail-if", "auc.delta<-0.01").code == 1
    assert invoke("gate", output, "--fail-if", "s/auc<0.7").code == 0
    assert invoke("diff", a, b, "--fail-if", "ece.delta<-0.01").code == 2
    one_sided = save("c.json", metrics(t=0.73))
    assert invoke("diff", a, one_sided, "--fail-if", "auc.delta<-0.01").code == 1


def test_models_side_by_side(model: Path, invoke: Invoke, save: Save) -> None:
    content = json.loads(model.read_text())
    content["fit"]["cross_validated"]["recall"] = 0.25
    other = save("other.json", content)
    said = json.loads(invoke("diff", model, other, "--json").stdout)
    cell = said["fit"]["cross_validated"]["recall"]
    assert cell["b"] == 0.25 and cell["delta"] == pytest.approx(0.25 - cell["a"])
    assert said["method"] == {"a": "exact", "b": "exact", "delta": None}
    gate = "fit/cross_validated/recall.delta > 1"
    assert invoke("diff", model, other, "--fail-if", gate).code == 0
    assert invoke("diff", model, save("m.json", metrics(s=0.5))).code == 3


def test_an_object_stands_beside_nothing(model: Path, invoke: Invoke, save: Save) -> None:
    content = json.loads(model.read_text())
    recall = content["fit"]["cross_validated"]["recall"]
    content["fit"]["cross_validated"] = None
    other = save("other.json", content)
    for pair, a, b in (((model, other), recall, None), ((other, model), None, recall)):
        own = json.loads(invoke("diff", *pair, "--json").stdout)["fit"]["cross_validated"]
        assert own["recall"] == {"a": a, "b": b, "delta": None} and "delta" not in own


def test_where_a_comparison_cannot_go(save: Save, invoke: Invoke, tmp_path: Path) -> None:
    a = save("a.json", metrics(s=0.75))
    for output in (tmp_path / "no" / "d.json", f"{tmp_path}/", tmp_path / "d.csv"):
        assert invoke("diff", a, a, "-o", output).code == 2
    assert invoke("diff", a, a, "-o", "-", "--json").code == 2


def test_a_comparison_on_a_terminal(
    save: Save, invoke: Invoke, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibkit_cli.console._is_terminal", lambda stream: True)
    a, b = save("a.json", metrics(s=0.75)), save("b.json", metrics(s=None))
    text = invoke("diff", a, b).stdout.decode()
    for word in ("score", "slice", "top:0.1", "auc", "0.75", "b - a"):
        assert word in text
    assert "No differences." in invoke("diff", model, model).stdout.decode()
    content = json.loads(model.read_text())
    content["fit"]["rows"] += 1
    text = invoke("diff", model, save("other.json", content)).stdout.decode()
    assert "fit/rows" in text and "recall" not in text


def test_a_result_of_any_program_may_say_its_version(save: Save, invoke: Invoke) -> None:
    path = save("own.json", {"version": 2, "auc": 0.9})
    assert invoke("gate", path, "--fail-if", "auc<0.5").code == 0
    assert invoke("gate", path, "--fail-if", "version<3").code == 1
