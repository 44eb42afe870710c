"""alpha-calibration on features by scipy's L-BFGS-B: the same objective in numpy.

python scipy_alpha.py FILE OUTPUT
"""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
from scipy.optimize import minimize
from scipy.special import digamma, gammaln


def main(path: str, output: str) -> None:
    frame = pl.read_parquet(path)
    z = np.maximum(frame.select("^prob_.*$").to_numpy(), 1e-12)
    z /= z.sum(axis=1, keepdims=True)
    y = frame.select("^count_.*$").to_numpy()
    u = frame.select("^feature_.*$").to_numpy()
    n = y.sum(axis=1)
    mean, scale = u.mean(axis=0), u.std(axis=0)
    u = (u - mean) / scale

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        eta = u @ point[:-1] + point[-1]
        a0 = np.exp(eta)
        a = a0[:, None] * z
        cost = gammaln(a0 + n) - gammaln(a0) - (gammaln(a + y) - gammaln(a)).sum(axis=1)
        slope = a0 * (digamma(a0 + n) - digamma(a0)) - (a * (digamma(a + y) - digamma(a))).sum(
            axis=1
        )
        slope += 0.01 * eta
        gradient = np.append(u.T @ slope, slope.sum()) / n.size
        return float((cost + 0.005 * eta**2).mean()), gradient

    found = minimize(
        objective,
        np.zeros(u.shape[1] + 1),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-8},
    )
    text = json.dumps({"objective": found.fun, "iterations": int(found.nit)})
    Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
