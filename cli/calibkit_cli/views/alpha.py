"""An alpha-calibration, printed."""

from calibkit.views import alpha
from calibkit.views.alpha import alpha_lines

from . import printed

__all__ = ["alpha_lines", "view"]

view = printed(alpha.view)
