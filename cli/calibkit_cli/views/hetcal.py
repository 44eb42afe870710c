"""A calibration by parts, printed."""

from calibkit.views import hetcal
from calibkit.views.hetcal import hetcal_lines

from . import printed

__all__ = ["hetcal_lines", "view"]

view = printed(hetcal.view)
