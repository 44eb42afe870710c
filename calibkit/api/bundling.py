"""`bundle`: several models as one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from calibkit.api.functions import tell
from calibkit.api.words import in_python
from calibkit.bundles import make
from calibkit.bundles.model import BundleModel
from calibkit.models.model import Model
from calibkit.options.option import Options, tagged
from calibkit.options.shared import model_of

#: A model, or its file.
Part = Model | str | os.PathLike[str]


@in_python()
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
    pairs = list(parts.items()) if isinstance(parts, Mapping) else [_pair(one) for one in parts]
    named = [(name, model_of(one, "parts")) for name, one in pairs]
    model = make.bundle(named, tags=tagged(tags or {}, "tags"))
    tell(make.misread(model), Options)
    return model


def _pair(part: Part | tuple[str, Part]) -> tuple[str | None, Part]:
    return part if isinstance(part, tuple) else (None, part)
