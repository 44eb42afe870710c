"""The functions of ``import calibkit as ck``: one module a command, on frames instead of files.

`calibkit` itself names them and loads each when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibkit.drift.drift import Drift as Drift
