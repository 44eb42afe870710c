"""Print the versions of Python and of the libraries in this environment, as JSON."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version

NAMES = (
    *("numpy", "numba", "polars", "pyarrow", "scipy", "scikit-learn"),
    *("netcal", "venn-abers", "MCGrad", "lightgbm", "MAPIE"),
)


def versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name in NAMES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


print(json.dumps(versions()))
