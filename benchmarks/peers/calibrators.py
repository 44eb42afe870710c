"""Calibrators by other packages: fit on a file, apply to it, write the result.

    python calibrators.py METHOD FILE OUTPUT

isotonic and platt by scikit-learn, venn-abers by the package of that name; platt-netcal,
beta-netcal and histogram-netcal by netcal.
"""

import sys

import numpy as np
import polars as pl


def main(method: str, path: str, output: str) -> None:
    frame = pl.read_parquet(path)
    score = frame["score"].to_numpy().astype(np.float64)
    label = frame["label"].to_numpy()
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        found = IsotonicRegression(out_of_bounds="clip").fit(score, label).predict(score)
    elif method == "platt":
        from sklearn.linear_model import LogisticRegression

        inside = np.clip(score, 1e-6, 1 - 1e-6)
        x = np.log(inside / (1 - inside))[:, None]
        found = LogisticRegression(C=np.inf).fit(x, label).predict_proba(x)[:, 1]
    elif method == "venn-abers":
        from venn_abers import VennAbers

        pairs = np.column_stack([1 - score, score])
        tables = VennAbers()
        tables.fit(pairs, label)
        found = tables.predict_proba(pairs)[0][:, 1]
    elif method == "beta-netcal":
        from netcal.scaling import BetaCalibration

        found = BetaCalibration().fit(score, label).transform(score)
    elif method == "platt-netcal":
        from netcal.scaling import LogisticCalibration

        found = LogisticCalibration().fit(score, label).transform(score)
    else:
        from netcal.binning import HistogramBinning

        found = HistogramBinning(bins=15).fit(score, label).transform(score)
    frame.with_columns(calibrated=pl.Series(found)).write_parquet(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
