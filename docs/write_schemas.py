"""Write docs/schemas: a JSON Schema a kind of file, what ``calibkit show --schema KIND`` prints."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "schemas"


def texts() -> dict[str, str]:
    """Return the content of each file, by name."""
    from calibkit.registry.methods import schemas

    return {
        f"{name}.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
        for name, schema in schemas().items()
    }


def main() -> None:
    """Write the files, and none else."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        path.unlink()
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
