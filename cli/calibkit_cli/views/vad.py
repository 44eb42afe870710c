"""A shrinkage, printed."""

from calibkit.views import vad
from calibkit.views.vad import vad_lines

from . import printed

__all__ = ["vad_lines", "view"]

view = printed(vad.view)
