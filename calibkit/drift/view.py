"""How drift is shown: one line that says whether there is any, then figure beside figure."""

from __future__ import annotations

from calibkit.drift.drift import ALL, CERTIFICATE, ESTIMATED, FIT, Drift
from calibkit.measures.result import metric_of
from calibkit.models.page import Page

#: Left out of the table: they stand beside the figure they belong to.
_BESIDE = ("_expected", "_p_value")


def headline(found: Drift) -> str:
    """Return in a few words what was found."""
    return f"{', '.join(found.metrics.metrics)}, {found.metrics.rows:,} rows"


def lines(found: Drift) -> list[str]:
    """Return a line a boundary: whether its scores and uncertainties moved beyond chance."""
    lines = []
    for name, slices in found.metrics.metrics.items():
        own, moved = slices[ALL], []
        for role in ("score", "uncertainty"):
            value, expected = own[f"psi_{role}"], own[f"psi_{role}_expected"]
            if value is not None:
                low = found.metrics.interval(name, ALL, f"psi_{role}").low
                more = "more than chance" if low else "no more than chance"
                moved.append(f"{role} PSI {value:.4f} ({more}, which gives {expected:.4f})")
        lines.append(f"{name}: {', '.join(moved) if moved else 'no row has all values'}.")
        lines += _certificate_lines(found, name)
        lines += _estimate_lines(found, name)
    return lines


def view(found: Drift, page: Page) -> None:
    """Print what was found of each boundary."""
    page.say(*lines(found))
    for name, slices in found.metrics.metrics.items():
        own = slices[ALL]
        rows: list[list[object]] = []
        for metric, value in own.items():
            if metric.endswith(_BESIDE):
                continue
            ends = found.metrics.interval(name, ALL, metric)
            at_fit = slices[FIT].get(metric, own.get(f"{metric}_expected"))
            certified = slices.get(CERTIFICATE, {}).get(metric)
            rows.append([metric, value, ends.low, ends.high, at_fit, certified])
        for metric, value in slices.get(ESTIMATED, {}).items():
            ends = found.metrics.interval(name, ESTIMATED, metric)
            rows.append([f"{metric} (estimated)", value, ends.low, ends.high, None, None])
        header = [name, "now", "low", "high", "expected", "certified"]
        kept = 6 if CERTIFICATE in slices else 5
        page.say("")
        page.table(header[:kept], [row[:kept] for row in rows])


#: What is taken not to have changed, in words.
_ASSUMED = {
    "covariate": "if the probabilities (of --calibrator, else the scores themselves) still hold",
    "prior": "if only the share of positives has changed",
}


def _estimate_lines(found: Drift, name: str) -> list[str]:
    """Say what the rates are without labels, and what that rests on."""
    if found.assumes is None:
        return []
    values, ends = found.metrics.metrics[name][ESTIMATED], found.metrics.intervals[name][ESTIMATED]
    told = ", ".join(
        f"{rate} {value:.4f}"
        + ("" if ends[rate].low is None else f" ({ends[rate].low:.4f} to {ends[rate].high:.4f})")
        for rate, value in values.items()
        if value is not None
    )
    basis = f"without labels, {_ASSUMED[found.assumes]}"
    return [f"{name}: {basis}: {told}. Only labels can confirm it."] if told else []


def _certificate_lines(found: Drift, name: str) -> list[str]:
    """Say whether labels are at odds with the certificate."""
    sure = found.certificates.get(name)
    if sure is None:
        return []
    lines = []
    for one in sure.all:
        metric = metric_of(one.quantity)
        ends = found.metrics.interval(name, ALL, metric)
        if ends.low is None or ends.high is None:
            continue
        lower = one.side == "lower"
        refuted = ends.high < one.bound if lower else ends.low > one.bound
        text = f"{metric} {'>=' if lower else '<='} {one.bound:g}"
        verdict = "no longer holds" if refuted else "is not refuted"
        lines.append(
            f"{name}: {text} (certified at {sure.confidence:g}) {verdict}: between {ends.low:.4f} "
            f"and {ends.high:.4f} here."
        )
    return lines
