"""Drift: whether new rows are still like those that a boundary was fitted on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibkit.drift.drift import Drift as Drift
