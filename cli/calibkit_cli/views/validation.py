"""A report on data, printed."""

from calibkit.views import validation
from calibkit.views.validation import found, said

from . import printed

__all__ = ["found", "said", "view"]

view = printed(validation.view)
