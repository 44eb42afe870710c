"""Every command in the README and the docs prints what they say (``make readme`` rewrites it)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import console_blocks
from tests.conftest import ROOT

#: The page that people read first, and those that take a second or three; all others take a minute and
#: a half, in ``make test-more``.
QUICK = ("bin", "gate", "show")
PAGES = [
    ROOT / "README.md",
    *(
        pytest.param(page, marks=() if page.stem in QUICK else pytest.mark.more)
        for page in sorted((ROOT / "docs").glob("*.md"))
    ),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_console_blocks_show_the_true_output(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    need = console_blocks.missing_need(text)
    if need:
        pytest.skip(f"{page.name} needs {need}")
    fresh = console_blocks.rerun(text)
    assert fresh == text, console_blocks.difference(page, text, fresh)


PAGE = """# A page

```console
$ echo one \\
    two; x=3
one two
$ echo wrong >&2; printf '%s' "$x"
stale
```

Text.

```console
$ echo $x > kept; false
$ echo $?
0
```
"""


def test_the_harness_runs_and_rewrites() -> None:
    fresh = console_blocks.rerun(PAGE)
    assert fresh == PAGE.replace("stale\n", "wrong\n3\n").replace("$?\n0", "$?\n1")
    assert console_blocks.rerun(fresh) == fresh


def test_the_harness_refuses_a_silent_failure() -> None:
    with pytest.raises(RuntimeError, match="exit code 1 from: false"):
        console_blocks.rerun("```console\n$ false\n$ true\n```\n")


def test_the_harness_refuses_output_without_a_command() -> None:
    with pytest.raises(ValueError, match="must begin with"):
        console_blocks.rerun("```console\nhello\n```\n")
