"""Compile all kernels for any processor of this kind, into the installed package or into a wheel.

``python release/compile_kernels.py`` puts them beside the sources of the calibkit that this Python
imports; with a wheel it writes another one that carries them, for this Python, this version of numba
and this kind of system.  With another numba commands compile what they need, as without.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from calibkit_kernels import _jit

#: Where kernels look first, in the package and in a wheel.
SHIPPED = f"calibkit_kernels/compiled/{_jit.folder_name()}"


def compile_into(folder: Path) -> None:
    """Compile all that commands call into a folder, which is made anew."""
    any_processor = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, **any_processor, "XDG_CACHE_HOME": cache}
        subprocess.run(
            [sys.executable, "-m", "calibkit_cli", "warmup"], env=environment, check=True
        )
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(Path(cache, "calibkit", folder.name), folder)


def platform_tag() -> str:
    """Return what of Python and system machine code is for: the oldest that numba's own is for."""
    said = distribution("numba").read_text("WHEEL") or ""
    tags = [line.removeprefix("Tag: ") for line in said.splitlines() if line.startswith("Tag: ")]
    return min(tags)


def with_kernels(wheel: Path, kernels: Path, tag: str, folder: Path) -> Path:
    """Write the wheel that also carries files of a folder, under another tag, and return its path."""
    name, version, *_ = wheel.name.split("-")
    new = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel) as old:
        files = {one: old.read(one) for one in old.namelist() if one != f"{info}/RECORD"}
    about = files[f"{info}/WHEEL"].decode()
    about = about.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    files[f"{info}/WHEEL"] = about.replace("Tag: py3-none-any", f"Tag: {tag}").encode()
    files |= {f"{SHIPPED}/{one.name}": one.read_bytes() for one in sorted(kernels.iterdir())}
    lines = []
    for one, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
        lines.append(f"{one},sha256={digest.decode()},{len(content)}\n")
    files[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as out:
        for one, content in files.items():
            out.writestr(zipfile.ZipInfo(one, (2020, 2, 2, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return new


def main() -> None:
    """Compile, and put the kernels where they are wanted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", nargs="?", type=Path, help="of the sources that are imported here")
    parser.add_argument("-o", "--output", type=Path, default=Path(), help="folder of the new wheel")
    given = parser.parse_args()
    if given.wheel is None:
        compile_into(Path(_jit.__file__).parent.parent / SHIPPED)
        return
    with tempfile.TemporaryDirectory() as name:
        kernels = Path(name) / _jit.folder_name()
        compile_into(kernels)
        given.output.mkdir(parents=True, exist_ok=True)
        print(with_kernels(given.wheel, kernels, platform_tag(), given.output))


if __name__ == "__main__":
    main()
