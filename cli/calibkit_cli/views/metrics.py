"""Metrics, printed."""

from calibkit.views import metrics

from . import printed

__all__ = ["view"]

view = printed(metrics.view)
