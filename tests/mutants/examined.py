"""Changes of kernels that no result can show, each with the reason: looked at one by one."""

from __future__ import annotations

#: (file, function, line before, line after) -> why it changes nothing.
EQUIVALENT: dict[tuple[str, str, str, str], str] = {}
