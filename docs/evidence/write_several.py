"""Fill in several.md: several uncertainties against the best single one on real score files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from boundary_study import bounds, recall_beyond
from pages import arguments, fill, paragraph, score_files, signed, table

import calibkit as ck

#: Files, and the text columns whose common values count as evidence.
SETS = {
    "bank": ("job", "education", "poutcome", "contact"),
    "census": ("education", "occupation", "relationship", "workclass"),
    "criteo_tau3": ("C2", "C14", "C17", "C20"),
}
#: What the files tell of a score beside it.
COLUMNS = ("spread", "shift", "entropy", "evidence")


def read(folder: Path) -> pl.DataFrame:
    """Return the rows of a data set with what can be known of their uncertainty without labels."""
    names = SETS[folder.name]
    frame = pl.concat(score_files(folder))
    train = pl.read_parquet(folder / "train.parquet").group_by(names).len("evidence")
    frame = frame.join(train, on=names, how="left", nulls_equal=True, maintain_order="left")
    members = frame.select(f"score_{k}" for k in range(1, 6)).to_numpy().astype(np.float64)
    chances = members.clip(1e-6, 1 - 1e-6)
    logits = np.log(chances / (1.0 - chances))
    mean = chances.mean(axis=1)
    return frame.select("score", "label").with_columns(
        spread=pl.Series(logits.std(axis=1, ddof=1)),
        shift=pl.Series(logits[:, 0] - logits.mean(axis=1)),
        entropy=pl.Series(-mean * np.log(mean) - (1.0 - mean) * np.log(1.0 - mean)),
        evidence=-frame["evidence"].fill_null(0).cast(pl.Float64),
    )


def judge(calib: pl.DataFrame, test: pl.DataFrame, bound: str, names: str | list[str]) -> float:
    """Return recall on test rows beyond the single threshold that selects as many of them."""
    model = ck.fit_boundary(calib, precision=bound, uncertainty=names)
    chosen = model.apply(test)["decision"].to_numpy() == 1
    label = test["label"].to_numpy()
    return recall_beyond(test["score"].to_numpy(), label, chosen.sum(), label[chosen].sum())


def main() -> None:
    """Resplit, judge, and fill the page in."""
    given = arguments(__doc__, needs=tuple(SETS), resplits=6)
    kinds: dict[str, str | list[str]] = {name: name for name in COLUMNS}
    kinds |= {"spread, evidence": ["spread", "evidence"], "all four": list(COLUMNS)}
    lines, level, above = [], 0, 0
    for name in SETS:
        rows = read(given.folder / name)
        for bound in bounds(rows["score"].to_numpy(), rows["label"].to_numpy()):
            found: dict[str, list[float]] = {kind: [] for kind in kinds}
            for split in range(given.resplits):
                order = np.random.default_rng(split).permutation(rows.height)
                half = rows.height // 2
                calib, test = rows[order[:half]], rows[order[half:]]
                for kind, names in kinds.items():
                    found[kind].append(judge(calib, test, bound, names))
            means = {kind: float(np.mean(own)) for kind, own in found.items()}
            best = max(COLUMNS, key=lambda kind: means[kind])
            several = max(list(kinds)[len(COLUMNS) :], key=lambda kind: means[kind])
            apart = np.array(found["all four"]) - np.array(found[best])
            spread = float(apart.std(ddof=1)) if apart.size > 1 else 0.0
            level += apart.mean() >= -spread
            above += apart.mean() > spread
            cells = [f"{100 * own:.2f}" for own in means.values()]
            last = f"{signed(100 * apart.mean())} ± {100 * spread:.2f}"
            lines.append([name, bound, *cells, best, several, last])
            print(name, bound, flush=True)
    fill(
        "several",
        setting=paragraph(
            f"Rows of `calib` and `test` together, split in halves {given.resplits} times at random; "
            "`--method auto` is fitted on one half with each column alone, with two and with all, and "
            "judged on the other. The bounds are the precisions at which one threshold recalls 20, 50 "
            "and 80 % of all positives."
        ),
        beyond=table(
            [
                "data",
                "bound",
                *kinds,
                "best column",
                "best of several",
                "all four less best column",
            ],
            lines,
        ),
        standing=paragraph(
            f"Of {len(lines)} pairs of data and bound, all four columns together are at most one "
            "standard deviation behind the best single column, which is known only afterwards, in "
            f"{level}, and ahead of it by more than one in {above}."
        ),
    )


if __name__ == "__main__":
    main()
