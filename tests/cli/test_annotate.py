"""``--annotate github``: what is wrong, as workflow commands that a runner shows beside the files."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.score_files import simulate, write
from tests.conftest import Invoke

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
