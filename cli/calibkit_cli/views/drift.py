"""Drift, printed."""

from calibkit.views import drift
from calibkit.views.drift import lines as drift_lines

from . import printed

__all__ = ["drift_lines", "view"]

view = printed(drift.view)
