"""What a fit returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calibkit.models import Model

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Fitted(Generic[M]):
    """A fitted model, and what the user should be told."""

    model: M
    warnings: tuple[str, ...]
