"""A boundary, printed."""

from calibkit.views import boundary
from calibkit.views.boundary import lines as boundary_lines

from . import printed

__all__ = ["boundary_lines", "bounds_view", "view"]

bounds_view = printed(boundary.bounds_view)
view = printed(boundary.view)
