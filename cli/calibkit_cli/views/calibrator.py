"""A calibrator, printed."""

from calibkit.views import calibrator
from calibkit.views.calibrator import calibrator_lines

from . import printed

__all__ = ["calibrator_lines", "view"]

view = printed(calibrator.view)
