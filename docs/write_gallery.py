"""Run the commands of docs/gallery.md and write its pictures, docs/gallery/*.svg.

python docs/write_gallery.py [PAGE]
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "gallery"

#: What a picture may weigh, in bytes.
MOST_BYTES = 60_000


def commands_of(page: str) -> list[str]:
    """Return the blocks of commands of a page."""
    return re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def pictures_of(page: str) -> list[str]:
    """Return the names of the pictures that a page shows."""
    return re.findall(r"\(gallery/([\w-]+\.svg)\)", page)


def run(blocks: list[str], folder: Path) -> None:
    """Run the blocks in one shell, in a folder with the sample data."""
    shutil.copytree(ROOT / "sample_data", folder / "sample_data")
    tools = folder / "tools"
    tools.mkdir()
    wrapper = tools / "calibkit"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m calibkit_cli.main "$@"\n')
    wrapper.chmod(0o755)
    floors = os.pathsep.join(str(floor) for floor in (ROOT, ROOT / "kernels", ROOT / "cli"))
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": floors,
        "CALIBKIT_QUIET": "1",
    }
    script = "set -e\n" + "\n".join(blocks)
    subprocess.run(["bash", "-c", script], cwd=folder, env=environment, check=True)


def main() -> int:
    """Write the pictures; say which are too heavy."""
    page = PAGE.read_text(encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    heavy = 0
    with tempfile.TemporaryDirectory(prefix="calibkit-gallery-") as folder:
        run(commands_of(page), Path(folder))
        for name in pictures_of(page):
            data = (Path(folder) / name).read_bytes()
            (PICTURES / name).write_bytes(data)
            heavy += len(data) > MOST_BYTES
            print(f"{name}: {len(data):,} bytes{' - too many' * (len(data) > MOST_BYTES)}")
    return 1 if heavy else 0


if __name__ == "__main__":
    sys.exit(main())
