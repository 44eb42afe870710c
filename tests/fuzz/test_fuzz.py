"""A few damaged inputs through every command; ``make fuzz`` tries many more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.corpus import Case, build
from tests.fuzz.harness import try_one


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Case], Path]:
    folder = tmp_path_factory.mktemp("corpus")
    return build(folder), folder


def test_damage_is_refused_or_does_no_harm(corpus: tuple[list[Case], Path], tmp_path: Path) -> None:
    cases, folder = corpus
    codes = []
    for seed, case in enumerate(cases):
        code, finding = try_one(case, (folder / case.file).read_bytes(), seed, tmp_path)
        assert finding is None, (finding.problem, case.words, finding.data)
        codes.append(code)
        for left in tmp_path.iterdir():
            left.unlink()
    assert {0, 3} <= set(codes)


@pytest.mark.few(2)
@pytest.mark.parametrize("part", range(5))
def test_good_inputs_are_accepted(
    part: int, corpus: tuple[list[Case], Path], tmp_path: Path
) -> None:
    from tests.fuzz.harness import run_quietly

    cases, folder = corpus
    for number, case in enumerate(cases[part::5]):
        given = {"FILE": str(folder / case.file), "OUT": str(tmp_path / f"{number}{case.output}")}
        code, said = run_quietly([given.get(word, word) for word in case.words])
        assert code == 0, (case.words, said)
