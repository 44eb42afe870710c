"""What is released: the same bytes twice, with what it holds and needs, by actions that are pinned."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from release.compile_kernels import SHIPPED, platform_tag, with_kernels
from release.write_sbom import FILE, content
from tests.conftest import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


def test_the_demo_of_the_readme_installs_the_pictures() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo: \$\(PICTURED\)", makefile, re.MULTILINE)
    assert re.search(r"^\$\(PICTURED\):.*\n\t\$\(PIP\) .*\[plot\]", makefile, re.MULTILINE)
    assert "make demo" in (ROOT / "README.md").read_text()


def test_the_bill_of_materials_is_that_of_this_version() -> None:
    assert FILE.read_text(encoding="utf-8") == content(), (
        "PYTHONPATH=. python release/write_sbom.py"
    )


@pytest.mark.more
def test_two_builds_have_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    for name in ("one", "two"):
        build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path / name)]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    first = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    second = {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    assert {Path(name).suffix for name in first} == {".whl", ".gz"}
    assert first == second
    (wheel,) = (tmp_path / "one").glob("*.whl")
    with zipfile.ZipFile(wheel) as found:
        (bill,) = (name for name in found.namelist() if "/sboms/" in name)
        assert found.read(bill).decode() == content()
        assert not [name for name in found.namelist() if "tests" in name.split("/")]


def test_a_wheel_may_carry_compiled_kernels(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (plain,) = tmp_path.glob("*.whl")
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "maps.logit-0123.kernel").write_bytes(b"machine code")
    tag = platform_tag()
    assert tag.startswith(f"cp{sys.version_info.major}{sys.version_info.minor}-")
    compiled = with_kernels(plain, kernels, tag, tmp_path)
    assert compiled.name == plain.name.replace("py3-none-any", tag)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(compiled) as new:
        own = f"{SHIPPED}/maps.logit-0123.kernel"
        assert set(new.namelist()) == {*old.namelist(), own}
        assert new.read(own) == b"machine code"
        (about,) = (name for name in new.namelist() if name.endswith(".dist-info/WHEEL"))
        said = new.read(about).decode()
        assert f"Tag: {tag}" in said and "Root-Is-Purelib: false" in said and "py3" not in said
        (record,) = (name for name in new.namelist() if name.endswith("/RECORD"))
        lines = [line.split(",") for line in new.read(record).decode().splitlines()]
        assert [name for name, *_ in lines] == new.namelist()
        assert [int(size) for *_, size in lines[:-1]] == [
            len(new.read(name)) for name in new.namelist()[:-1]
        ]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_to_commits(path: Path) -> None:
    used = re.findall(r"uses: (\S+)(.*)", path.read_text(encoding="utf-8"))
    assert len(used) >= 2
    for action, comment in used:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


def test_the_conda_recipe_asks_for_what_the_project_does() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = (ROOT / "release" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = re.search(r"  run:\n((?:    - .*\n)+)", recipe)
    assert run is not None
    asked = {line.removeprefix("    - ").replace(" ", "") for line in run[1].splitlines()}
    assert asked == {*project["dependencies"], f"python{project['requires-python']}"}
    assert f"calibkit = {project['scripts']['calibkit']}" in recipe
