"""A bundle, printed."""

from calibkit.views import bundle
from calibkit.views.bundle import lines as bundle_lines

from . import printed

__all__ = ["bundle_lines", "view"]

view = printed(bundle.view)
