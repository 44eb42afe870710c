"""Chains of commands that Hypothesis thinks of: what one writes, others read."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import polars as pl
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule

from tests.fuzz.harness import run_quietly

FITS = (
    *("boundary --precision 0.6 --method exact", "boundary --recall 0.5 --method st"),
    *("boundary --fpr 0.2 --method stochastic", "boundary --maximize f1 --method exact"),
    *("calibrate --method beta", "calibrate --method isotonic", "vad --members score,other"),
    "hetcal --features x --max-depth 1 --min-leaf 20",
)


class Commands(RuleBasedStateMachine):
    """A folder of files that commands read and write."""

    rows = Bundle("rows")
    states = Bundle("states")
    models = Bundle("models")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="chains-"))
        self.made = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def file(self, suffix: str) -> Path:
        self.made += 1
        return self.folder / f"{self.made}{suffix}"

    def run(self, *words: object, codes: tuple[int, ...] = (0,)) -> bool:
        """Run a command; return whether it did what it should, not refused it."""
        code, said = run_quietly([*map(str, words), "-q"])
        assert code in codes, (words, said)
        assert "Traceback" not in said
        assert code == 0 or "Error: " in said
        return code == 0

    def simulated(self, count: int, seed: int, suffix: str) -> Path:
        path = self.file(suffix)
        self.run("simulate", "posterior", "--rows", count, "--seed", seed, "-o", path)
        frame = pl.read_csv(path) if suffix == ".csv" else pl.read_parquet(path)
        frame = frame.with_columns(
            pl.col("score").round(2).alias("other"), (pl.col("score") * 3 + seed % 5).alias("x")
        )
        frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
        return path

    @initialize(target=rows, seed=st.integers(0, 99))
    def begin(self, seed: int) -> Path:
        return self.simulated(150, seed, ".csv")

    @rule(target=rows, seed=st.integers(0, 99), suffix=st.sampled_from([".csv", ".parquet"]))
    def simulate(self, seed: int, suffix: str) -> Path:
        return self.simulated(150, seed, suffix)

    @rule(target=models, fit=st.sampled_from(FITS), rows=rows)
    def fit(self, fit: str, rows: Path) -> object:
        out = self.file(".json")
        command, *options = fit.split()
        done = self.run(command, rows, *options, "-o", out, codes=(0, 3, 4))
        assert out.exists() is done
        return out if done else multiple()

    @rule(model=models, rows=rows)
    def apply(self, model: Path, rows: Path) -> None:
        chance = "random_thresholds" in model.read_text()
        out, again = self.file(".parquet"), self.file(".parquet")
        options = ("--key", "row-number") if chance else ()
        for path in (out, again):
            self.run("apply", model, rows, *options, "--keep", "score", "-o", path)
        assert out.read_bytes() == again.read_bytes()
        assert pl.read_parquet(out).height == 150

    @rule(model=models, rows=rows)
    def export(self, model: Path, rows: Path) -> None:
        options = ("--to", "polars", "--check", rows, "-o", self.file(".py"))
        self.run("export", model, *options, codes=(0, 2, 3))

    @rule(model=models, rows=rows)
    def judge(self, model: Path, rows: Path) -> None:
        decides = json.loads(model.read_bytes())["kind"] == "boundary"
        out = self.file(".json")
        options = ("--no-intervals", "-o", out)
        boundary = ("--boundary", model) if decides else ()
        if self.run("evaluate", rows, *boundary, *options, codes=(0, 2)):
            self.run("gate", out, "--fail-if", "auc<0", codes=(0,))
            self.run("diff", out, out, "-o", self.file(".json"))

    @rule(model=models, rows=rows)
    def compare(self, model: Path, rows: Path) -> None:
        self.run("drift", model, rows, "-o", self.file(".json"), codes=(0, 3))
        state, again = self.file(".state"), self.file(".json")
        line = ("watch", model, rows, "--state", state, "-o", again)
        if self.run(*line, codes=(0, 2, 3)):
            first = state.read_bytes()
            self.run(*line)  # the same rows change nothing
            assert state.read_bytes() == first

    @rule(first=models, second=models)
    def together(self, first: Path, second: Path) -> None:
        out = self.file(".json")
        if self.run("bundle", f"one={first}", f"two={second}", "-o", out, codes=(0, 2, 3)):
            assert run_quietly(["show", str(out)])[0] == 0

    @rule(target=states, rows=rows)
    def shard(self, rows: Path) -> Path:
        out = self.file(".state")
        self.run("boundary", rows, "--recall", "0.5", "--method", "exact", "--partial", "-o", out)
        return out

    @rule(target=models, first=states, second=states)
    def merge(self, first: Path, second: Path) -> object:
        out = self.file(".json")
        refused = first.read_bytes() == second.read_bytes()
        done = self.run("merge", first, second, "-o", out, codes=(3,) if refused else (0,))
        return out if done else multiple()


Commands.TestCase.settings = settings(
    max_examples=5,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestCommands = Commands.TestCase
