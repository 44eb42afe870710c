"""Write release/calibkit.cdx.json: what the wheel holds and needs, as CycloneDX 1.6.

The wheel carries the file in ``.dist-info/sboms`` (PEP 770).  It has no date and no serial number: two
builds have the same bytes.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "release" / "calibkit.cdx.json"


def content() -> str:
    """Return what the file should hold."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    from calibkit.version import __version__

    own = f"pkg:pypi/calibkit@{__version__}"
    parts = [_component(wanted, "required") for wanted in project["dependencies"]]
    for extra, several in project["optional-dependencies"].items():
        parts += [_component(wanted, "optional", extra) for wanted in several]
    found = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": "calibkit",
                "version": __version__,
                "purl": own,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": own, "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    return json.dumps(found, indent=2) + "\n"


def _component(wanted: str, scope: str, extra: str | None = None) -> dict[str, Any]:
    name = re.split(r"[<>=!~ ]", wanted, maxsplit=1)[0]
    said = [{"name": "python:requires", "value": wanted}]
    if extra is not None:
        said.append({"name": "python:extra", "value": extra})
    purl = f"pkg:pypi/{name}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "purl": purl,
        "scope": scope,
        "properties": said,
    }


if __name__ == "__main__":
    FILE.write_text(content(), encoding="utf-8")
