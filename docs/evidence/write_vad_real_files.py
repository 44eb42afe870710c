"""Fill in vad_real_files.md: the calibration bias of selected rows on real ensembles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from pages import arguments, fill, paragraph, prototype, score_files, sections, table

import calibkit as ck
from calibkit.models.model import Model

SETS = ("criteo_tau3", "census")
SHARES = ("0.02", "0.05", "0.1")
PARTS = (*(f"top:{share}" for share in SHARES), "all")
LINKS = ("logit", "identity")
CALIBRATORS = ("platt", "isotonic")
#: By which score rows are thinned, and the line above the table.
KEEPERS = {
    "score_1": "Test rows kept with probability 1 - `score_1`; mean of {draws} draws ± their standard "
    "deviation.",
    "score_5": "Test rows kept with probability 1 - `score_5`, a model of its own (four members are "
    "left); mean of {draws} draws ± their standard deviation.",
}
#: How often the rows of a shifted file are drawn.
DRAWS = 20

#: What the earlier prototype gave in the top 2, 5 and 10 %.
KNOWN = prototype("vad on files")

Cells = dict[tuple[str, str], float]


def shrunk(rows: pl.DataFrame, link: str, **tandem: Any) -> tuple[pl.Series, float]:
    """Return the shrunk first member of some rows, fitted on them without labels, and lambda.

    All columns `score_<number>` of the rows are members.
    """
    model = ck.fit_vad(rows, members=["score_?"], link=link, **tandem)
    return applied(model, rows), model.lambda_


def applied(model: Model, rows: pl.DataFrame) -> pl.Series:
    """Return what a model adds to rows."""
    return model.apply(rows, score="score_1", keep=["id"], column="added")["added"]


def judged(calib: pl.DataFrame, test: pl.DataFrame) -> Cells:
    """Return the bias of every method in every part of the test rows, and lambdas."""
    found: Cells = {}
    columns = {"score_1": test["score_1"]}
    for link in LINKS:
        columns[f"VAD, {link}"], found["lambda", f"VAD, {link}"] = shrunk(test, link)
    for method in CALIBRATORS:
        model = ck.fit_calibrator(calib, method=method, score="score_1")
        columns[method] = applied(model, test)
        tandem = {"calibrator": model, "train_input": calib}
        for link in LINKS:
            name = f"{method} + VAD+, {link}"
            columns[name], found["lambda", name] = shrunk(test, link, **tandem)
    frame = pl.DataFrame({"label": test["label"], **columns})
    metrics = ck.evaluate(
        frame, scores=list(columns), top=SHARES, intervals=False,
        metrics=["calibration_bias", "log_loss", "positives"],
    ).metrics  # fmt: skip
    for name, parts in metrics.items():
        for part in PARTS:
            for metric, kind in (("calibration_bias", part), ("log_loss", f"log_loss {part}")):
                value = parts[part][metric]
                assert value is not None
                found[kind, name] = value
    for part in PARTS:
        found["positives", part] = float(metrics["score_1"][part]["positives"] or 0)
    return found


def thinned(
    calib: pl.DataFrame, test: pl.DataFrame, keeper: str, draw: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return test rows kept with probability 1 - keeper, without it if it is no longer a member."""
    uniform = np.random.Generator(np.random.Philox(key=draw)).random(test.height)
    kept = test.filter(pl.Series(uniform) < 1 - test[keeper])
    return (calib, kept) if keeper == "score_1" else (calib.drop(keeper), kept.drop(keeper))


def judgement(draws: list[Cells], name: str = "") -> str:
    """Return the table of one file: the mean over draws, and their spread where there are several."""
    known = name in KNOWN
    header = ["scores", "lambda", "top 2 %", "top 5 %", "top 10 %", "all", "log loss, all"]
    header += ["prototype"] if known else []
    rows = []
    for method in [method for kind, method in draws[0] if kind == "all"]:
        shrinkage = [one["lambda", method] for one in draws if ("lambda", method) in one]
        cells = [method, f"{np.mean(shrinkage):.3f}" if shrinkage else ""]
        for part in PARTS:
            values = np.array([one[part, method] for one in draws])
            spread = f" ± {values.std(ddof=1):.3f}" if len(draws) > 1 else ""
            cells.append(f"{values.mean():+.3f}{spread}")
        cells.append(f"{np.mean([one['log_loss all', method] for one in draws]):.4f}")
        if known:
            plain = KNOWN.get(name, {}).get(method)
            cells.append(" / ".join(f"{value:+.3f}" for value in plain) if plain else "")
        rows.append(cells)
    noise = [np.mean([one["positives", part] for one in draws]) ** -0.5 for part in PARTS]
    shown = ", ".join(f"{value:.3f}" for value in noise[:3])
    return sections(
        table(header, rows, "lr"),
        f"Chance alone, by the number of positives in the top 2, 5 and 10 %: about ± {shown}.",
    )


def without_prior_shift(frame: pl.DataFrame) -> pl.DataFrame:
    """Return scores of a model whose training kept a third of the negatives, that taken off."""
    score = pl.col("^score_.$")
    return frame.with_columns(score / (score + 3 * (1 - score)))


def of_set(name: str, calib: pl.DataFrame, test: pl.DataFrame) -> Iterator[str]:
    """Yield the paragraphs of a set."""
    yield from (f"## {name}", f"{test.height:,} test rows, as they are.")
    yield judgement([judged(calib, test)], name)
    if name == "criteo_tau3":
        yield paragraph(
            "The same after every score p has become p / (p + 3 (1 - p)), which takes off that "
            "training kept a third of the negatives:"
        )
        calib, test = without_prior_shift(calib), without_prior_shift(test)
        yield judgement([judged(calib, test)])
    for keeper, words in KEEPERS.items():
        yield paragraph(words.format(draws=DRAWS))
        yield judgement([judged(*thinned(calib, test, keeper, draw)) for draw in range(DRAWS)])


def main() -> None:
    """Fit, judge, and fill the page in."""
    data = arguments(__doc__, needs=SETS).folder
    parts: list[str] = []
    for name in SETS:
        parts += of_set(name, *score_files(data / name))
    fill("vad_real_files", sets=sections(*parts))


if __name__ == "__main__":
    main()
