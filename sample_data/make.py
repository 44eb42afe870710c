"""Simulate the files of this folder again: ``python sample_data/make.py [FOLDER]``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COLUMNS = "--keep id,label,score,uncertainty --dtype float32"

#: What is run, in the folder.
COMMANDS = (
    f"calibkit simulate posterior --rows 15000 --seed 1 --evidence 1,1000 {COLUMNS} -o calib.parquet",
    f"calibkit simulate posterior --rows 15000 --seed 2 --evidence 1,1000 {COLUMNS} -o test.parquet",
    f"calibkit simulate posterior --rows 300 --seed 3 --evidence 1,1000 {COLUMNS} -o scores.csv",
)


def main(folder: Path) -> None:
    """Run the commands in `folder`, with the calibkit of this Python."""
    for command in COMMANDS:
        arguments = command.split()[1:]
        subprocess.run(
            [sys.executable, "-m", "calibkit_cli.main", *arguments], cwd=folder, check=True
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
