"""What to fit: the options of ``vad``, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calibkit.errors import ModelError, UsageError
from calibkit.models import Model
from calibkit.vad.links import check_link
from calibkit.vad.model import REPLICATES
from calibkit.vad.rows import MemberOptions


@dataclass(frozen=True, kw_only=True)
class VadSpec:
    """What to fit.

    Attributes
    ----------
    link
        ``logit`` or ``identity``.
    replicates
        ``exchangeable``: members that differ as retrained models do; ``bootstrap``: the first is
        fitted on all rows, the others on bootstrap samples of them.
    min_rows
        Segments with fewer rows (less weight) share the shrinkage of all rows.
    calibrator
        A model of kind ``calibrator`` that comes first (with `read_vad_rows`), or None.
    threads
        Used for speed; the result does not depend on it.
    """

    link: str = "logit"
    replicates: str = "exchangeable"
    min_rows: int = 100
    calibrator: Model | None = None
    threads: int = 1

    def check(self, options: MemberOptions) -> None:
        """Refuse choices that are unknown or exclude each other, and a model of another kind."""
        check_link(self.link, options.scale)
        if self.replicates not in REPLICATES:
            known = ", ".join(REPLICATES)
            raise UsageError(f"--replicates {self.replicates!r} is not known; use one of {known}")
        if self.calibrator is None:
            return
        if self.calibrator.kind != "calibrator":
            raise ModelError(
                f"--calibrator holds a model of kind {self.calibrator.kind!r}; expected one that "
                "calibrate wrote"
            )
        if options.calibrated is not None:
            raise UsageError("--calibrator and --calibrated say the same; keep one.")
        score = self.calibrator.columns.get("score")
        if score is None:
            raise UsageError(
                "--calibrator holds a map of class probabilities; expected one of scores."
            )
        if score.scale not in (None, options.scale):
            raise UsageError(
                f"--calibrator was fitted on scores of --scale {score.scale}, but the members are "
                f"of --scale {options.scale}."
            )

    def steps(self, members: int) -> list[str]:
        """Return what a run does, in words."""
        how = "all" if self.replicates == "exchangeable" else "the others, bootstrap refits"
        return [
            f"compare {members} members on the {self.link} scale (replicates: {how})",
            "shrink the first one towards its mean by lambda",
        ]


def need_members(names: Sequence[str], spec: VadSpec) -> None:
    """Raise a `UsageError` for fewer replicates than the kind of replicates needs."""
    least = 3 if spec.replicates == "bootstrap" else 2
    if len(names) < least:
        found = ", ".join(map(repr, names)) or "none"
        what = (
            "the fit on all rows and at least two bootstrap refits (one says too little of a variance)"
            if least == 3
            else "at least two replicates of the predictor"
        )
        raise UsageError(f"--members matches {found}; vad needs {what}.")
