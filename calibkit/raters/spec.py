"""What to judge by the votes of raters: options checked as far as they can be unread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.rows.patterns import match_columns


@dataclass(frozen=True, kw_only=True)
class Votes:
    """Votes that judge class probabilities.

    Attributes
    ----------
    counts
        The pattern of the votes.
    ensemble
        Whether the patterns of probabilities are members of one predictor.
    alpha0
        Columns of strengths, one for each pattern of probabilities or one for all; none: raters
        are predicted to draw from the class probabilities.
    disagreement, class_disagreement
        A column and a pattern of predicted disagreements, in place of those that follow from the
        class probabilities; for one predictor.
    baseline
        The predictor that the others are compared with; None: the first.
    """

    counts: str
    ensemble: bool = False
    alpha0: tuple[str, ...] = ()
    disagreement: str | None = None
    class_disagreement: str | None = None
    baseline: str | None = None

    def check(self, predictions: int) -> None:
        """Refuse options that do not go with so many patterns of probabilities.

        Raises
        ------
        UsageError
            If they do not.
        """
        if len(self.alpha0) not in (0, 1, predictions):
            raise UsageError(
                f"--alpha0 names {len(self.alpha0)} columns for {predictions} predictors; name one "
                "for all of them, or one for each."
            )
        given = self.disagreement or self.class_disagreement
        if given and predictions > 1 and not self.ensemble:
            raise UsageError(
                "--disagreement goes with one predictor: give --probs once, or add --ensemble."
            )
        if self.ensemble and self.baseline is not None:
            raise UsageError("--baseline: an ensemble is one predictor, with none to compare with.")

    def columns(self, source: Source) -> dict[str, str]:
        """Return the columns that are read beside probabilities and votes, by role.

        Raises
        ------
        UsageError
            For one that is not there.
        """
        named = {f"alpha0 {place}": name for place, name in enumerate(self.alpha0, 1)}
        for name in self.alpha0:
            source.require([name], "--alpha0")
        if self.disagreement:
            source.require([self.disagreement], "--disagreement")
            named["disagreement"] = self.disagreement
        if self.class_disagreement:
            matched = match_columns(source, self.class_disagreement, "--class-disagreement")
            named |= {f"class disagreement ({name})": name for name in matched.columns}
        return named


def read_votes(
    counts: str | None,
    ensemble: bool,
    alpha0: Sequence[str],
    disagreement: str | None,
    class_disagreement: str | None,
    baseline: str | None,
) -> Votes | None:
    """Return what the options say of votes, None where labels judge.

    Raises
    ------
    UsageError
        For options that mean nothing without votes.
    """
    if counts is None:
        if ensemble or alpha0 or disagreement or class_disagreement:
            raise UsageError(
                "--ensemble, --alpha0 and disagreements are judged by votes: name --counts."
            )
        return None
    return Votes(
        counts=counts,
        ensemble=ensemble,
        alpha0=tuple(alpha0),
        disagreement=disagreement,
        class_disagreement=class_disagreement,
        baseline=baseline,
    )
