"""`bundle`: several models as one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from calibkit.api.options import open_model, tagged, tell
from calibkit.bundles import make
from calibkit.bundles.model import BundleModel
from calibkit.models import Model

#: A model, or its file.
Part = Model | str | os.PathLike[str]


def bundle(
    parts: Mapping[str, Part] | Sequence[Part | tuple[str, Part]],
    *,
    tags: dict[str, str] | None = None,
) -> BundleModel:
    """Bundle models into one, applied in order; boundaries with a name make the action of a row.

    Parameters
    ----------
    parts
        Models (or their files), those with a name as pairs: ``[calibrator, ("block", boundary)]``;
        or all of them by name: ``{"block": boundary, "review": other}``.
    tags
        Copied into the model.

    Raises
    ------
    UsageError, DataError
        Parts that cannot be applied one after the other, see docs/bundle.md.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> block = ck.fit_boundary(rows, precision=0.8, method="st")
    >>> review = ck.fit_boundary(rows, recall=0.8, method="st")
    >>> service = ck.bundle({"block": block, "review": review})
    >>> sorted(service.apply(rows)["action"].unique())
    ['block', 'pass', 'review']
    """
    pairs = parts.items() if isinstance(parts, Mapping) else map(_pair, parts)
    model = make.bundle([(name, open_model(one)) for name, one in pairs], tags=tagged(tags))
    tell(make.misread(model))
    return model


def _pair(part: Part | tuple[str, Part]) -> tuple[str | None, Part]:
    return part if isinstance(part, tuple) else (None, part)
