"""Fill in arora_criteo.md: tables 1 to 3, 6 and 7 of Arora and others on real score files.

The page holds no timings and is the same bytes each time.
"""

from __future__ import annotations

from statistics import fmean

from arora_criteo_figures import figures
from arora_runs import (
    RESPLITS,
    Case,
    Files,
    judge,
    percent,
    precision,
    read,
    resplits,
    runs,
    t_test,
    values,
)
from pages import arguments, bullets, fill, printed, signed, table

#: Our data set, and the one of the paper that it is beside.
SETS = {"criteo_tau3": "Criteo", "bank_tau5": "Avazu"}

ST = Case("ST", "st")
HR = Case("HR", "staircase")
GMT = Case("GMT", "gmt")
MIST = Case("MIST", "mist")
EW = Case("EW-DPMT", "ew-dpmt")
VW = Case("VW-DPMT", "vw-dpmt")
MONO = Case("EW-DPMT-MONO", "ew-dpmt-mono")
#: What the paper has not: the optimum over every score, and a surface of four numbers.
EXACT = Case("`exact`", "exact", score_bins=None)
LOGISTIC = Case("`logistic`", "logistic", score_bins=None)
SAMPLES = Case("MIST on rows", "mist", score_bins=None)

#: Recall in per cent of the positives of their test rows: mean and standard deviation of five runs.
#: Table 1 is Criteo of tau 3 at precision 90 %, and Avazu of tau 5 at 70 %; table 3 has p-values of a
#: paired t-test, one-sided, against ST (that of GMT on Criteo's equi-span bins cannot be read in the
#: copy at hand); table 7 score first (500 score bins of 3), then uncertainty first (3 levels of 500).
PAPER = printed("arora")

Study = dict[str, Files]


def theirs(figures: list[float] | None) -> str:
    """Return a figure of the paper."""
    return "-" if figures is None else f"{figures[0]:.1f} ± {figures[1]:.1f}"


# ---------------------------------------------------------------- tables


def table_1(files: Files, paper: str) -> str:
    """Return table 1 for one data set."""
    rows = []
    for case in (ST, HR, GMT, MIST, EW, VW, EXACT, LOGISTIC):
        row = [case.name if case is not HR else "HR (`staircase`)"]
        for binning, strategy in (("equi-span", "equal-width"), ("equi-weight", "equal-mass")):
            known = PAPER["table 1"][paper][binning].get(case.name)
            own = case.at(strategy=strategy)
            if case.score_bins is None and strategy == "equal-width":
                row += ["", "", ""]
                continue
            if case is EW and strategy == "equal-width":
                row += ["needs equal bins", "", theirs(known)]
                continue
            found = runs(files, own)
            row += [precision(found), percent(values(found, "recall")), theirs(known)]
        rows.append(row)
    header = ["", "equi-span: precision", "recall", "theirs", "equi-weight: precision", "recall"]
    return table([*header, "theirs"], rows)


def table_2(files: Files) -> str:
    """Return table 2: recall at several precisions on the Criteo sample."""
    rows = []
    for bound in ("0.6", "0.7", "0.8", "0.9"):
        single = 0.0
        for case in (ST, GMT, MIST, EW):
            found = runs(files, case.at(bound=bound))
            own, known = values(found, "recall"), PAPER["table 2"][case.name][bound]
            base = PAPER["table 2"]["ST"][bound][0]
            if case is ST:
                single = fmean(own)
            rows.append(
                [
                    bound,
                    case.name,
                    precision(found),
                    percent(own) + lift(fmean(own), single, case),
                    percent(values(found, "beyond"), signed=True, digits=2)
                    if case is not ST
                    else "",
                    theirs(known) + lift(known[0], base, case),
                ]
            )
    header = "bound|algorithm|precision|recall (over ST)|beyond|their recall (over ST)"
    return table(header.split("|"), rows)


def lift(own: float, single: float, case: Case) -> str:
    """Return by how much a recall is above that of ST, as the paper has it."""
    if case is ST or not single:
        return ""
    return f" ({signed(100 * (own / single - 1), 1)} %)"


def table_3(study: Study) -> str:
    """Return table 3: p-values of recall on test rows against ST, five runs."""
    rows = []
    for case in (GMT, MIST, EW, VW):
        row = [f"ST against {case.name}"]
        for name, paper in SETS.items():
            for binning, strategy in (("equi-span", "equal-width"), ("equi-weight", "equal-mass")):
                known = PAPER["table 3"][paper][binning].get(case.name)
                shown = "-" if known is None else f"{known:.2f}"
                if case is EW and strategy == "equal-width":
                    row.append("-")
                    continue
                pair = [
                    values(runs(study[name], one.at(strategy=strategy)), "recall")
                    for one in (case, ST)
                ]
                row.append(f"{t_test(*pair)} ({shown})")
        rows.append(row)
    header = [f"{name}, {binning}" for name in SETS for binning in ("equi-span", "equi-weight")]
    return table(["", *header], rows)


def resplit_table(study: Study) -> str:
    """Return what is left at equal effort, over runs and over resplits."""
    rows = []
    for name, files in study.items():
        dealt = resplits(files)
        for case in (ST, GMT, MIST, EW, VW, EXACT, LOGISTIC):
            five = values(runs(files, case), "beyond")
            many = [judge(part, case, score) for part, score in dealt]
            gains, nothing = values(many, "beyond"), [0.0] * len(many)
            held = sum((one.precision or 0.0) >= float(case.bound) for one in many)
            figures = [
                percent(five, signed=True, digits=2),
                t_test(five, [0.0] * len(five)),
                percent(gains, signed=True, digits=2),
                t_test(gains, nothing, resplit=True),
            ]
            rows.append([name, case.name, *([""] * 4 if case is ST else figures), f"{held}"])
    header = f"||five runs|p|{RESPLITS} resplits|p, corrected|bound met, of {RESPLITS}"
    return table(header.split("|"), rows)


def table_6(study: Study) -> str:
    """Return table 6: nested levels against free ones."""
    rows = []
    for name, paper in SETS.items():
        for case in (ST, EW, MONO):
            found = runs(study[name], case.at(score_bins=100))
            rows.append(
                [
                    name,
                    case.name,
                    percent(values(found, "fit_recall")),
                    precision(found),
                    percent(values(found, "recall")),
                    theirs(PAPER["table 6"][paper][case.name]),
                ]
            )
    return table(["", "", "recall of the fit", "precision", "recall", "theirs"], rows)


def table_7(study: Study) -> str:
    """Return table 7: scores cut first against uncertainty cut first."""
    rows = []
    for name, paper in SETS.items():
        for case in (ST, MIST, SAMPLES, GMT, EW):
            row = [name, case.name]
            both = PAPER["table 7"][paper].get(case.name, (None, None))
            orders = ("score-uncertainty", "uncertainty-score")
            for order, known in zip(orders, both, strict=True):
                if case is SAMPLES and order == "score-uncertainty":
                    row += ["needs levels first", "", ""]
                    continue
                found = runs(study[name], case.at(order=order))
                row += [precision(found), percent(values(found, "recall")), theirs(known)]
            rows.append(row)
    header = ["", "", "score first: precision", "recall", "theirs"]
    return table([*header, "uncertainty first: precision", "recall", "theirs"], rows)


def findings(study: Study) -> str:
    """Return what the tables show, with the numbers filled in."""
    criteo = study["criteo_tau3"]
    single = runs(criteo, ST)
    lifts, spared, others = [], [], []
    for case in (MIST, EW):
        found = runs(criteo, case)
        own, base = values(found, "recall"), values(single, "recall")
        lifts.append(fmean(own) / fmean(base) - 1)
        least = base.index(min(base))
        kept = [place for place in range(len(base)) if place != least]
        spared.append(fmean([own[i] for i in kept]) / fmean([base[i] for i in kept]) - 1)
        others.append(fmean(values(found, "beyond")))
    down = [fmean(values(runs(criteo, EW.at(levels=levels)), "precision")) for levels in (1, 11)]
    return bullets(
        "**Their result is there, in form.** By recall on test rows, as they judge, levels of "
        f"uncertainty win: at 70 % on the Criteo sample MIST is {100 * lifts[0]:.0f} % and EW-DPMT "
        f"{100 * lifts[1]:.0f} % above ST, like the 22 to 42 % of the paper's tables. But one run of "
        "the five, in which ST can hardly meet the bound, makes most of it: without that run they "
        f"are {100 * spared[0]:.0f} and {100 * spared[1]:.0f} %.",
        "**The rest is bought.** The same boundaries miss the bound by more than ST does. One "
        "threshold that selects as many rows recalls as much: beyond it there are "
        f"{signed(100 * others[0])} and {signed(100 * others[1])} points of recall, and no test of any "
        f"method comes out significant, over the runs or over {RESPLITS} resplits.",
        "**The more there is to choose, the more is overfitted**, with so few rows: with 11 levels "
        f"the precision of EW-DPMT is {down[1]:.3f} on test rows, with one {down[0]:.3f}, where 0.7 "
        "was asked (figure 5). With the paper's eight million fitting rows the loss should be far "
        "smaller; it does not say how large it was.",
    )


def main() -> None:
    """Fit, judge, draw, and fill the page in."""
    folder = arguments(__doc__, needs=list(SETS)).folder
    study = {name: read(folder / name) for name in SETS}
    criteo, bank = study.values()
    fill(
        "arora_criteo",
        findings=findings(study),
        criteo=table_1(criteo, "Criteo"),
        bank=table_1(bank, "Avazu"),
        bounds=table_2(criteo),
        tests=table_3(study),
        resplits=resplit_table(study),
        nested=table_6(study),
        order=table_7(study),
        **figures(folder / "criteo_tau3", criteo),
    )


if __name__ == "__main__":
    main()
