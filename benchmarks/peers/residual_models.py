"""What users would pick instead of hetcal: LightGBM on the residual, MCGrad; and a well-trained base.

    python residual_models.py FOLDER OUT

Writes OUT/test.parquet with the columns `lightgbm` and `mcgrad` (probabilities of the test rows, in
order), and OUT/base-calib.parquet, OUT/base-test.parquet: the files of FOLDER with the score of a
gradient-boosted model that was fitted on the training rows.
"""

import sys
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
from mcgrad import methods
from sklearn.linear_model import LogisticRegression

SETTINGS = {
    "objective": "binary",
    "learning_rate": 0.05,
    "num_leaves": 31,
    "min_data_in_leaf": 20,
    "feature_fraction": 0.5,
    "num_threads": 2,
    "seed": 0,
    "verbose": -1,
}


def logits(frame: pd.DataFrame) -> np.ndarray:
    p = np.clip(frame["score"].to_numpy(float), 1e-6, 1 - 1e-6)
    return np.log(p / (1 - p))


def features_of(frames: list[pd.DataFrame]) -> tuple[list[str], list[str], list[pd.DataFrame]]:
    names = list(frames[0].columns)
    names = names[names.index("uncertainty") + 1 :]
    text = [name for name in names if not pd.api.types.is_numeric_dtype(frames[0][name])]
    coded = [frame[names].copy() for frame in frames]
    for name in text:
        known = pd.CategoricalDtype(sorted(frames[0][name].dropna().unique()))
        for frame in coded:
            frame[name] = frame[name].astype(known)
    return names, text, coded


def boosted(
    x: pd.DataFrame, y: np.ndarray, offset: np.ndarray | None, new: pd.DataFrame
) -> np.ndarray:
    """Return the linear score on new rows, its offset left out; rounds by cross-validation."""
    data = lgb.Dataset(x, y, init_score=offset, free_raw_data=False)
    seen = lgb.cv(
        SETTINGS,
        data,
        2000,
        nfold=5,
        stratified=False,
        callbacks=[lgb.early_stopping(50, verbose=False)],
    )
    rounds = len(seen["valid binary_logloss-mean"])
    data = lgb.Dataset(x, y, init_score=offset)
    return lgb.train(SETTINGS, data, rounds).predict(new, raw_score=True)


def main(folder: Path, out: Path) -> None:
    train, calib, test = (
        pd.read_parquet(folder / f"{name}.parquet") for name in ("train", "calib", "test")
    )
    names, text, (x, new, x_train) = features_of([calib, test, train])
    y = calib["label"].to_numpy()
    platt = LogisticRegression(C=np.inf).fit(logits(calib)[:, None], y)
    offset, ahead = (platt.decision_function(logits(frame)[:, None]) for frame in (calib, test))
    x, new = x.assign(logit=offset), new.assign(logit=ahead)
    lightgbm = 1 / (1 + np.exp(-(ahead + boosted(x, y, offset, new))))
    numbers = [name for name in names if name not in text]
    tables = []
    for frame, linear in ((calib, offset), (test, ahead)):
        table = frame[names].assign(label=frame["label"], start=1 / (1 + np.exp(-linear)))
        table[text] = table[text].astype(object).where(table[text].notna(), "missing")
        tables.append(table)
    model = methods.MCGrad(random_state=0)
    model.fit(
        tables[0],
        "start",
        "label",
        categorical_feature_column_names=text,
        numerical_feature_column_names=numbers,
    )
    mcgrad = model.predict(
        tables[1],
        "start",
        categorical_feature_column_names=text,
        numerical_feature_column_names=numbers,
    )
    out.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"lightgbm": lightgbm, "mcgrad": mcgrad}).to_parquet(out / "test.parquet")
    both = boosted(x_train, train["label"].to_numpy(), None, pd.concat([x[names], new[names]]))
    base = 1 / (1 + np.exp(-both))
    calib.assign(score=base[: len(calib)]).to_parquet(out / "base-calib.parquet")
    test.assign(score=base[len(calib) :]).to_parquet(out / "base-test.parquet")


main(Path(sys.argv[1]), Path(sys.argv[2]))
